//! What can go wrong, each with what to do about it.

use std::io;
use std::path::PathBuf;
use unhitch_model::{visible, visible_path};

/// Why recording, saving or talking to a recorder failed. The text says how to mend it; the
/// system's own words are its source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel does not let us record.
    #[error("{what}\n{mend}")]
    NotPermitted {
        /// What was refused.
        what: String,
        /// The commands that mend it, one a line.
        mend: String,
    },
    /// The kernel lacks something that recording cannot do without.
    #[error("{what}\n{mend}")]
    Missing {
        /// What is missing.
        what: String,
        /// How to get it.
        mend: String,
    },
    /// A performance event could not be opened.
    #[error("cannot open the event {event} on CPU {cpu}")]
    Event {
        /// Its name.
        event: String,
        /// Where.
        cpu: u16,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A file, folder or socket could not be used.
    #[error("cannot {action} {}", visible_path(path))]
    File {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The trace could not be put together or written.
    #[error(transparent)]
    Formats(#[from] unhitch_formats::Error),
    /// The trace could not be written anywhere.
    #[error("the trace could not be written anywhere:{}", reasons.iter().map(|reason| format!("\n  {reason}")).collect::<String>())]
    Nowhere {
        /// Each place that was tried, with what was wrong with it, in the order of trying.
        reasons: Vec<String>,
    },
    /// The command to be recorded could not be started.
    #[error("cannot start {}", visible(command))]
    Command {
        /// The program.
        command: String,
        /// The system's answer.
        source: io::Error,
    },
    /// Another recorder of this user is already on.
    #[error(
        "a recorder is already watching (it answers on {}): stop it first, or save what it holds with `unhitch save`",
        visible_path(socket)
    )]
    AlreadyWatching {
        /// Its socket.
        socket: PathBuf,
    },
    /// No recorder of this user is on.
    #[error(
        "no recorder is watching (nobody answers on {}): start one with `unhitch watch`",
        visible_path(socket)
    )]
    NotWatching {
        /// Where one would answer.
        socket: PathBuf,
    },
    /// The recorder could not do what it was asked.
    #[error("the recorder answered: {0}")]
    Refused(String),
    /// The system refused something that should not fail.
    #[error("cannot {action}")]
    System {
        /// What was tried.
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

impl Error {
    /// What went wrong and what caused it, on one line.
    pub fn with_causes(&self) -> String {
        let causes = std::iter::successors(std::error::Error::source(self), |cause| cause.source());
        std::iter::once(self.to_string())
            .chain(causes.map(ToString::to_string))
            .collect::<Vec<_>>()
            .join(": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told() {
        let source = io::Error::from_raw_os_error(libc::ENOSPC);
        let error = Error::File { action: "write", path: "/a/b".into(), source };
        assert_eq!(error.with_causes(), "cannot write /a/b: No space left on device (os error 28)");
    }
}
