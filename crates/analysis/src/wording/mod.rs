//! How answers are worded: sentences as data, names, numbers, what a recording lacks.

pub mod recording;
pub mod sentence;
mod thread_group;
pub mod units;
pub(crate) mod wait_words;

pub use sentence::{Event, Reference, Sentence, Span, Subject};
pub use thread_group::ThreadGroup;
pub(crate) use thread_group::thread_groups;
