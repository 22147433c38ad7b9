//! Sentences as data: a sentence is a list of spans, and a span knows what it is about.
//!
//! *Why not plain text:* the page links names, stacks and times to the records that prove them, and
//! programs want the numbers. Searching prose for names finds the wrong ones.

use super::units;
use std::fmt;
use unhitch_model::{NameId, StackId, ThreadId, Window};

/// An event, by its index in its column of the trace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// A context switch.
    Switch(usize),
    /// A wake-up.
    Waking(usize),
    /// An event of any provider.
    Provider(usize),
}

/// Where in the trace something can be seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reference {
    /// The thread; none for the whole machine.
    pub thread: Option<ThreadId>,
    /// The stretch of time.
    pub window: Window,
    /// The event that proves it, where there is one.
    pub event: Option<Event>,
}

/// What a span is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Subject {
    /// Nothing but its text.
    #[default]
    Text,
    /// A thread, by name.
    Thread(ThreadId),
    /// Several threads of one name; the one that counts most.
    ThreadGroup(ThreadId),
    /// A stack, on one line, root first.
    Stack(StackId),
    /// A function, by name.
    Function,
    /// The instructions of a function.
    Instructions(NameId),
    /// What a command shows: for the terminal alone.
    Command,
    /// A duration, nanoseconds.
    Duration(u64),
    /// A number of things.
    Count(u64),
}

/// One part of a sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    /// The text as printed.
    pub text: String,
    /// What it is about.
    pub subject: Subject,
    /// Where it can be seen, where the writer of the sentence knows better than "wherever this
    /// thread mattered most".
    pub reference: Option<Reference>,
}

impl Span {
    /// Text with a subject.
    pub fn new(text: impl Into<String>, subject: Subject) -> Self {
        Self { text: text.into(), subject, reference: None }
    }

    /// The same, seen at `reference`.
    #[must_use]
    pub fn seen_at(self, reference: Reference) -> Self {
        Self { reference: Some(reference), ..self }
    }
}

/// A sentence, or several lines about one thing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sentence {
    /// Its parts, in order.
    pub spans: Vec<Span>,
}

impl Sentence {
    /// Appends spans; text joins the text before it.
    pub fn push(&mut self, more: impl Into<Self>) {
        for span in more.into().spans {
            match self.spans.last_mut() {
                Some(last) if is_plain(last) && is_plain(&span) => last.text.push_str(&span.text),
                _ if span.text.is_empty() => {}
                _ => self.spans.push(span),
            }
        }
    }

    /// The same, by value.
    #[must_use]
    pub fn with(mut self, more: impl Into<Self>) -> Self {
        self.push(more);
        self
    }

    /// True without any text.
    pub fn is_empty(&self) -> bool {
        self.spans.iter().all(|span| span.text.is_empty())
    }

    /// `format` with each `{}` replaced by a part. The macro [`sentence!`] checks their number.
    pub(crate) fn from_parts(format: &str, parts: Vec<Self>) -> Self {
        let mut texts = format.split("{}");
        let mut sentence = Self::from(texts.next().unwrap_or_default());
        for (part, text) in parts.into_iter().zip(texts) {
            sentence.push(part);
            sentence.push(text);
        }
        sentence
    }

    /// All of `parts`, with `separator` between them.
    pub fn join(parts: impl IntoIterator<Item = impl Into<Self>>, separator: &str) -> Self {
        let mut joined = Self::default();
        for (index, part) in parts.into_iter().enumerate() {
            if index > 0 {
                joined.push(separator);
            }
            joined.push(part);
        }
        joined
    }
}

fn is_plain(span: &Span) -> bool {
    span.subject == Subject::Text && span.reference.is_none()
}

impl From<&str> for Sentence {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl From<String> for Sentence {
    fn from(text: String) -> Self {
        if text.is_empty() { Self::default() } else { Self::from(Span::new(text, Subject::Text)) }
    }
}

impl From<Span> for Sentence {
    fn from(span: Span) -> Self {
        Self { spans: vec![span] }
    }
}

impl From<Option<Sentence>> for Sentence {
    fn from(sentence: Option<Sentence>) -> Self {
        sentence.unwrap_or_default()
    }
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spans.iter().try_for_each(|span| f.write_str(&span.text))
    }
}

/// A duration in the unit that suits it.
pub fn duration(ns: u64) -> Span {
    Span::new(units::duration(ns), Subject::Duration(ns))
}

/// A number with separators between thousands.
pub fn count(n: u64) -> Span {
    Span::new(units::count(n), Subject::Count(n))
}

/// `1 thread`, `2 threads`.
pub fn plural(n: u64, noun: &str) -> Span {
    Span::new(units::plural(n, noun), Subject::Count(n))
}

/// The verb for that many of something.
pub fn are(n: u64) -> &'static str {
    if n == 1 { "is" } else { "are" }
}

/// A function by name; empty where it has none.
pub fn function(name: &str) -> Span {
    Span::new(name, Subject::Function)
}

/// The number of `{}` in a format.
pub(crate) const fn placeholders(format: &str) -> usize {
    let bytes = format.as_bytes();
    let (mut found, mut at) = (0, 0);
    while at + 1 < bytes.len() {
        if bytes[at] == b'{' && bytes[at + 1] == b'}' {
            found += 1;
        }
        at += 1;
    }
    found
}

/// A [`Sentence`] written as `format!` is, with `{}` alone: each argument becomes its spans. A
/// wrong number of arguments does not compile.
macro_rules! sentence {
    ($format:literal $(, $part:expr)* $(,)?) => {{
        const PARTS: usize = <[&str]>::len(&[$(stringify!($part)),*]);
        const { assert!($crate::wording::sentence::placeholders($format) == PARTS) };
        $crate::wording::Sentence::from_parts(
            $format,
            vec![$($crate::wording::Sentence::from($part)),*],
        )
    }};
}
pub(crate) use sentence;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_prints_its_parts_and_keeps_what_they_are_about() {
        let waited =
            sentence!("It waited {} for {}{}.", duration(1_500_000), plural(2, "thread"), "");
        assert_eq!(waited.to_string(), "It waited 1.5 ms for 2 threads.");
        let subjects: Vec<Subject> = waited.spans.iter().map(|span| span.subject).collect();
        let text = Subject::Text;
        assert_eq!(subjects, [text, Subject::Duration(1_500_000), text, Subject::Count(2), text]);
    }

    #[test]
    fn text_joins_text() {
        let sentence = Sentence::join(["a", "b"], ", ").with(".");
        assert_eq!(sentence.spans.len(), 1);
        assert_eq!(sentence.to_string(), "a, b.");
    }
}
