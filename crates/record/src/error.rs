//! Errors of recording, each with its remedy.

use std::io;
use std::path::PathBuf;
use unhitch_model::{visible, visible_path};

/// Why recording, saving or talking to a recorder failed. The text says what to do about it; the
/// system's own error is the source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel does not let us record.
    #[error("{what}\n{remedy}")]
    NotPermitted {
        /// What was refused.
        what: String,
        /// Commands that fix it, one per line.
        remedy: String,
    },
    /// The kernel lacks something that recording requires.
    #[error("{what}\n{remedy}")]
    Missing {
        /// What is missing.
        what: String,
        /// How to get it.
        remedy: String,
    },
    /// A performance event could not be opened.
    #[error("cannot open the event {event} on CPU {cpu}")]
    Event {
        /// The event's name.
        event: String,
        /// The CPU.
        cpu: u16,
        /// The kernel's error.
        source: io::Error,
    },
    /// A file, folder or socket could not be used.
    #[error("cannot {action} {}", visible_path(path))]
    File {
        /// The attempted operation, as an infinitive.
        action: &'static str,
        /// The file, folder or socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The trace could not be encoded or written.
    #[error(transparent)]
    Formats(#[from] unhitch_formats::Error),
    /// The trace could not be written anywhere.
    #[error("the trace could not be written anywhere:{}", as_lines(reasons))]
    Nowhere {
        /// Why each place failed, in the order in which they were tried.
        reasons: Vec<String>,
    },
    /// The command to record could not be started.
    #[error("cannot start {}", visible(command))]
    Command {
        /// The program.
        command: String,
        /// The system's error.
        source: io::Error,
    },
    /// Another recorder of this user is already running.
    #[error(
        "a recorder is already watching (on {}): stop it first, or save its buffers with `unhitch \
         save`",
        visible_path(socket)
    )]
    AlreadyWatching {
        /// Its socket.
        socket: PathBuf,
    },
    /// No recorder of this user is running.
    #[error(
        "no recorder is watching (no answer on {}): start one with `unhitch watch`",
        visible_path(socket)
    )]
    NotWatching {
        /// The socket on which it would answer.
        socket: PathBuf,
    },
    /// A recorder is running, and this user may not ask it.
    #[error(
        "the machine's recorder (on {}) answers only members of the group `unhitch`: `sudo usermod \
         -aG unhitch \"$USER\"`, then log in again",
        visible_path(socket)
    )]
    NotMember {
        /// Its socket.
        socket: PathBuf,
    },
    /// The note does not fit into a request.
    #[error("the note is too long: at most {max_kib} KiB can be sent")]
    NoteTooLong {
        /// Maximum length of a request, KiB.
        max_kib: usize,
    },
    /// The recorder closed the connection after it had got the request.
    #[error("the recorder exited during the save, without answering")]
    Unanswered,
    /// The recorder refused the request.
    #[error("the recorder answered: {0}")]
    Refused(String),
    /// The system refused something that should not fail.
    #[error("cannot {action}")]
    System {
        /// The attempted operation, as an infinitive.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// Each reason on an indented line of its own.
fn as_lines(reasons: &[String]) -> String {
    reasons.iter().map(|reason| format!("\n  {reason}")).collect()
}

impl Error {
    /// The error and its causes, on one line.
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
    fn with_causes_includes_the_source() {
        let source = io::Error::from_raw_os_error(libc::ENOSPC);
        let error = Error::File { action: "write", path: "/a/b".into(), source };
        assert_eq!(error.with_causes(), "cannot write /a/b: No space left on device (os error 28)");
    }
}
