//! Why a trace cannot be read, and what to do about it.

use serde_json::{Map, Value};

/// Why a trace cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unreadable {
    /// It is empty.
    Empty,
    /// It is cut or damaged.
    Damaged(String),
    /// It cannot be read as it is, but nothing is wrong with the file: the message says what would
    /// help.
    Refused(String),
    /// A bug met while reading it.
    Bug,
}

impl Unreadable {
    /// What `error` means; `why` is its message.
    pub fn of(error: &unhitch_formats::Error, why: String) -> Self {
        use unhitch_formats::Error::{Exists, Io, Together, Unsupported};
        match error {
            Io { .. } | Exists(_) | Together { .. } | Unsupported(_) => Self::Refused(why),
            _ => Self::Damaged(why),
        }
    }

    /// Why, for the user.
    pub fn why(&self) -> &str {
        match self {
            Self::Empty => "the file is empty",
            Self::Damaged(why) | Self::Refused(why) => why,
            Self::Bug => "reading the trace failed unexpectedly",
        }
    }

    /// What to do about it; empty if the message says so.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Empty => {
                "A recording that was stopped before it was saved leaves an empty file. Delete it."
            }
            Self::Damaged(_) => {
                "The file is cut or damaged. Copy it again from where it was recorded, or delete \
                 it here."
            }
            Self::Refused(_) => "",
            Self::Bug => "Please report this bug, with what `unhitch view` printed.",
        }
    }

    /// Both, as the list of traces has them.
    pub(crate) fn entry(&self) -> Map<String, Value> {
        let both = [("error", self.why()), ("hint", self.hint())];
        both.into_iter().map(|(key, text)| (key.to_owned(), text.into())).collect()
    }

    /// With a message that `clean` has changed.
    pub(crate) fn cleaned(self, clean: impl Fn(&str) -> String) -> Self {
        match self {
            Self::Damaged(why) => Self::Damaged(clean(&why)),
            Self::Refused(why) => Self::Refused(clean(&why)),
            other => other,
        }
    }
}
