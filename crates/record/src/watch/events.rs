//! How the always-on recorder is told what to do, and what it reports.

use super::config::Config;
use crate::error::Error;
use crate::recorder::Status;
use crate::save::Saved;
use serde_json::Value;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What a watching recorder reports.
#[derive(Debug)]
#[non_exhaustive]
pub enum WatchEvent<'a> {
    /// Recording has started, and requests are accepted.
    Started {
        /// The socket for requests.
        socket: &'a Path,
        /// Optional features that are missing, and triggers that could not be armed.
        warnings: &'a [String],
    },
    /// The status, at the interval that was asked for.
    Status(&'a Status),
    /// A trace was saved, with its function names.
    Saved(&'a Saved),
    /// A trace was judged, and the verdict stored beside it.
    Judged {
        /// The trace.
        path: &'a Path,
        /// The verdict.
        verdict: &'a Value,
    },
    /// A save failed; recording continues.
    SaveFailed {
        /// Why.
        error: &'a Error,
        /// True when the trace is kept in memory and the save will be retried.
        kept: bool,
    },
    /// Something else that the log should have.
    Note(&'a str),
}

/// What comes from outside while the recorder runs. Each flag is cleared when it was seen.
#[derive(Clone, Copy, Debug)]
pub struct Signals<'a> {
    /// Save now.
    pub save: &'a AtomicBool,
    /// Read the configuration again.
    pub reload: &'a AtomicBool,
    /// End.
    pub stop: &'a AtomicBool,
    /// Readable when a flag was set.
    pub wake: Option<&'a UnixStream>,
}

/// How to watch.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct WatchOptions {
    /// The configuration.
    pub config: Config,
    /// The file that it came from, which is read again when asked for.
    pub file: Option<PathBuf>,
    /// How often the status is wanted.
    pub status_interval: Option<Duration>,
}
