//! What the sources tell the agent.

use crate::bus::Message;
use crate::mark::InputMode;
use crate::ping::Hang;
use std::path::PathBuf;

/// A trace that was saved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Saved {
    pub path: PathBuf,
    /// The answer in one line, if it is known by now.
    pub verdict: Option<String>,
}

/// Why to save.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Why {
    HotKey,
    Hang(Hang),
}

/// What a source tells.
#[derive(Debug)]
pub enum Event {
    /// The X session is served.
    Session {
        hot_key: Option<String>,
        input: InputMode,
        pings: bool,
    },
    /// It is over.
    SessionEnded(String),
    /// Something cannot be had; the rest goes on.
    Missing(String),
    HotKey,
    Hang(Hang),
    Saved {
        why: Why,
        saved: Saved,
    },
    SaveFailed {
        why: Why,
        error: String,
    },
    Judged(Saved),
    /// The user's note is in this trace.
    Noted(PathBuf),
    /// A notification could not be shown.
    NotShown(String),
    Signal(Message),
    /// No more signals will come.
    BusEnded,
}
