//! Opens a file that a trace names, and tells whether it is still the one that was read before.
//!
//! *Why so careful*: the names come from other programs' memory maps and from `/tmp`. Opening a pipe or a device that somebody put there
//! would block the recorder or have side effects, so only regular files are opened, and without waiting.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::time::SystemTime;

/// What tells one state of a file from another without reading it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    len_bytes: u64,
    pub(crate) modified: Option<SystemTime>,
    inode: u64,
}

impl Identity {
    fn of(metadata: &std::fs::Metadata) -> Self {
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Self { len_bytes: metadata.len(), modified: metadata.modified().ok(), inode }
    }

    /// The state of the file at `path`, none when it is not a readable regular file.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|metadata| Self::of(&metadata))
    }
}

/// Opens the regular file at `path` for reading.
pub(crate) fn open_regular(path: &Path) -> io::Result<(File, Identity)> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(target_os = "linux")]
    {
        /// `O_NONBLOCK` of `asm-generic/fcntl.h`: a pipe put here after the check above must not hold us up.
        const O_NONBLOCK: i32 = 0o4000;
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, O_NONBLOCK);
    }
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok((file, Identity::of(&metadata)))
}
