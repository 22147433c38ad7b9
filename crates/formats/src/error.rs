//! The one error type of this crate.

use std::path::PathBuf;
use unhitch_model::visible_path;

/// Why a trace could not be read or written at all. Partial damage and loss go to the trace's
/// warnings instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("cannot read or write {}", visible_path(path))]
    Io {
        /// Which file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The target of a save exists already; nothing was changed.
    #[error("{}: exists already, and traces are never overwritten", visible_path(.0))]
    Exists(PathBuf),
    /// The content is not a trace that Unhitch knows.
    #[error("not a trace: expected {expected} at offset {offset}, found {found}")]
    Unknown {
        /// What a trace has at this offset.
        expected: &'static str,
        /// What the file has there.
        found: String,
        /// Byte offset in the file.
        offset: u64,
    },
    /// A trace of a kind that cannot be read.
    #[error("{0}")]
    Unsupported(String),
    /// A file that cannot be read together with the others that were given.
    #[error("{}: {why}", visible_path(path))]
    Together {
        /// Which file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// A part of the file that everything else depends on is damaged.
    #[error("damaged: expected {expected}, found {found} (at offset {offset})")]
    Damaged {
        /// What should be at this offset.
        expected: &'static str,
        /// What the file has there.
        found: String,
        /// Byte offset in the file, or in the part that `expected` names.
        offset: u64,
    },
    /// The zip around the trace cannot be read or written.
    #[error("cannot read or write the zip archive")]
    Container(#[from] zip::result::ZipError),
    /// A member of the container differs from what was written.
    #[error("{name} in the trace file is damaged: {why}")]
    Member {
        /// Which member.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// A JSON entry of the container cannot be read or written.
    #[error("cannot read or write {entry} in the trace file")]
    Json {
        /// Which entry.
        entry: &'static str,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

impl Error {
    /// For `map_err`: turns an I/O error into one that names `path`.
    pub(crate) fn at(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Io { path, source }
    }

    /// For `map_err`: turns an I/O error into one that names a member of the container.
    pub(crate) fn member(name: &str) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::Member { name: name.to_owned(), why: error.to_string().to_lowercase() }
    }

    /// An error for a part that ends too early.
    pub(crate) fn truncated(expected: &'static str, offset: usize) -> Self {
        Self::Damaged { expected, found: "the end".to_owned(), offset: offset as u64 }
    }
}
