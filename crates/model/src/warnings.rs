//! [`Warnings`]: the only way to report damage, loss and guesses.

/// Messages to the user about what went wrong or is missing, each once with a count. They reach the
/// text, the JSON and the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Warnings {
    messages: Vec<(String, u64)>,
    /// How many more there were.
    more: u64,
}

/// Maximum number of different messages.
const MAX_MESSAGES: usize = 1_000;

impl Warnings {
    /// Adds a message, or counts it once more.
    pub fn add(&mut self, message: impl Into<String>) {
        self.add_times(message.into(), 1);
    }

    fn add_times(&mut self, message: String, times: u64) {
        let has_place = self.messages.len() < MAX_MESSAGES;
        match self.messages.iter_mut().find(|(known, _)| *known == message) {
            Some((_, count)) => *count += times,
            None if has_place => self.messages.push((message, times)),
            None => self.more += times,
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: Self) {
        for (message, count) in other.messages {
            self.add_times(message, count);
        }
        self.more += other.more;
    }

    /// The messages in the order of their first appearance, with the count of repeated ones.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let lines = self.messages.iter().map(|(message, count)| match count {
            1 => message.clone(),
            n => format!("{message} (×{n})"),
        });
        let more = (self.more > 0).then(|| format!("{} more warnings", self.more));
        lines.chain(more)
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
