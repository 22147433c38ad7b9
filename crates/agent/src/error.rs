//! What can go wrong, in words for the user.

use std::io;
use std::path::PathBuf;

/// An error of the agent.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum Error {
    /// There is no session to work for.
    #[error("neither an X display nor a message bus of a session can be reached")]
    NoSession,
    /// Another agent works for this session.
    #[error("another agent is running ({0} is locked)")]
    AlreadyRunning(PathBuf),
    /// The configuration is wrong.
    #[error("{path}: {message}")]
    Configuration {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        message: String,
    },
    /// The hot key is not understood.
    #[error("hot key {text:?}: {reason}")]
    HotKey {
        /// What was given.
        text: String,
        /// Why it cannot be used.
        reason: String,
    },
    /// Full marks without a yes.
    #[error(
        "input marks in full hold every key that you press, passwords too, and traces with them may \
         be read by others: say yes with --yes-keep-every-key, or yes_keep_every_key = true"
    )]
    NoYes,
    /// The X server.
    #[error("X server: {0}")]
    Display(String),
    /// The session's message bus.
    #[error("message bus: {0}")]
    Bus(String),
    /// The machine's recorder is not for this user.
    #[error(
        "recorder: only members of the group unhitch may ask it: sudo usermod -aG unhitch \"$USER\", \
         then log in again"
    )]
    NotMember,
    /// The recorder.
    #[error("recorder: {0}")]
    Recorder(String),
    /// The system.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

/// Errors of x11rb are of several types, none of which a user can do anything about.
macro_rules! display_errors {
    ($($name:ty),*) => {
        $(impl From<$name> for Error {
            fn from(error: $name) -> Self {
                Self::Display(error.to_string())
            }
        })*
    };
}
display_errors!(
    x11rb::errors::ConnectionError,
    x11rb::errors::ReplyError,
    x11rb::errors::ReplyOrIdError,
    x11rb::errors::ConnectError
);
