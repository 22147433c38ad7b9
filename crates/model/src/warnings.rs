//! [`Warnings`]: the only way to report damage, loss and guesses.

/// Messages to the user about what went wrong or is missing, each once with a count. They reach the
/// text, the JSON and the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Warnings {
    messages: Vec<(String, u64)>,
}

impl Warnings {
    /// Adds a message, or counts it once more.
    pub fn add(&mut self, message: impl Into<String>) {
        let message = message.into();
        match self.messages.iter_mut().find(|(known, _)| *known == message) {
            Some((_, count)) => *count += 1,
            None => self.messages.push((message, 1)),
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: Self) {
        for (message, count) in other.messages {
            match self.messages.iter_mut().find(|(known, _)| *known == message) {
                Some((_, known)) => *known += count,
                None => self.messages.push((message, count)),
            }
        }
    }

    /// The messages in the order of their first appearance, with the count of repeated ones.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.messages.iter().map(|(message, count)| match count {
            1 => message.clone(),
            n => format!("{message} (×{n})"),
        })
    }

    /// Changes each message.
    pub(crate) fn rewrite(&mut self, rewrite: impl Fn(&mut String)) {
        self.messages.iter_mut().for_each(|(message, _)| rewrite(message));
    }

    /// True when there is nothing to report.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}
