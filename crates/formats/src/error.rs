//! The one error type of this crate.

use std::path::PathBuf;
use unhitch_model::visible_path;

/// Why a trace could not be read or written at all. What is only damaged or lost goes to the
/// trace's warnings instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("cannot read or write {}", visible_path(path))]
    Io {
        /// Which file.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// The target of a save is taken; nothing was changed.
    #[error("{}: exists already, and is never overwritten", visible_path(.0))]
    Exists(PathBuf),
    /// The content is no trace that Unhitch knows.
    #[error("not a trace: expected {expected} at offset {offset}, found {found}")]
    Unknown {
        /// What a trace has there.
        expected: &'static str,
        /// What was there.
        found: String,
        /// Byte offset in the file.
        offset: u64,
    },
    /// A trace, but of a kind that cannot be read.
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
    /// The part of a file that everything else depends on is damaged.
    #[error("damaged: expected {expected} at offset {offset}, found {found}")]
    Damaged {
        /// What should be there.
        expected: &'static str,
        /// What was there.
        found: String,
        /// Byte offset in the file, or in the part that `expected` names.
        offset: u64,
    },
    /// The zip around the trace cannot be read or written.
    #[error("the zip around the trace")]
    Container(#[from] zip::result::ZipError),
    /// A member of the container is not what was written.
    #[error("{name} in the container is damaged: {why}")]
    Member {
        /// Which member.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// A JSON entry of the container cannot be read or written.
    #[error("container entry {entry}")]
    Json {
        /// Which entry.
        entry: &'static str,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

impl Error {
    /// For `map_err`: an I/O error at `path`.
    pub(crate) fn at(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Io { path, source }
    }

    /// For `map_err`: a member of the container that cannot be unpacked.
    pub(crate) fn member(name: &str) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::Member { name: name.to_owned(), why: error.to_string().to_lowercase() }
    }

    /// A part that ends too early.
    pub(crate) fn truncated(expected: &'static str, offset: usize) -> Self {
        Self::Damaged { expected, found: "the end".to_owned(), offset: offset as u64 }
    }
}
