//! A trace file's bytes, mapped into memory: the one `unsafe` module of this crate.
//!
//! Mapping spares a copy of the file, and lets pages go as soon as they are decoded: they are the kernel's page cache, not ours.

#![allow(unsafe_code, reason = "mapping a file cannot be expressed in safe Rust")]

use crate::Error;
use memmap2::Mmap;
use std::{fs::File, io::Read, path::Path};

/// The content of a file, or of a pipe that was read to its end.
pub(crate) enum Content {
    Mapped(Mmap),
    Read(Vec<u8>),
}

impl Content {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        Self::of(File::open(path).map_err(Error::at(path))?, path)
    }

    /// Of a file that is open; `path` is for errors.
    pub(crate) fn of(mut file: File, path: &Path) -> Result<Self, Error> {
        let about = file.metadata().map_err(Error::at(path))?;
        if about.is_dir() {
            let directory = "a directory: a perf.data directory (perf record --threads) cannot be read; record without --threads";
            return Err(Error::Unsupported(directory.to_owned()));
        }
        if !about.is_file() || about.len() == 0 {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map_err(Error::at(path))?;
            return Ok(Self::Read(bytes));
        }
        // SAFETY: the mapping is read-only and private to this value. Should another process change the file meanwhile, the decoder sees
        // other bytes, which it checks like all bytes: it never reads a length twice to trust the second reading. Should the file be
        // truncated meanwhile, the process ends with SIGBUS, as it does with every program that maps its input.
        let map = unsafe { Mmap::map(&file) }.map_err(Error::at(path))?;
        // Only a hint; a kernel without it is as correct.
        #[cfg(unix)]
        let _ = map.advise(memmap2::Advice::Sequential);
        Ok(Self::Mapped(map))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Read(bytes) => bytes,
        }
    }

    /// Lets the pages that lie wholly inside `part` go; they come back when they are read again. `part` must be a part of `bytes`,
    /// anything else is ignored.
    #[cfg(unix)]
    pub(crate) fn release(&self, part: &[u8]) {
        const PAGE: usize = 64 << 10;
        let Self::Mapped(map) = self else { return };
        let Some(start) = (part.as_ptr() as usize).checked_sub(map.as_ptr() as usize) else { return };
        let (start, end) = (start.next_multiple_of(PAGE), (start + part.len()) / PAGE * PAGE);
        if start < end && end <= map.len() {
            // SAFETY: the range lies inside the mapping, which is shared and read-only: no page holds anything but the file's content,
            // and reading a dropped page brings the same content back, so no reference into the mapping becomes invalid.
            let _ = unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, end - start) };
        }
    }

    /// Here pages cannot be let go: they stay.
    #[cfg(not(unix))]
    pub(crate) fn release(&self, _part: &[u8]) {}
}
