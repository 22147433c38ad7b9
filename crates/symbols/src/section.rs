//! The bytes of one section, mapped or copied: the only `unsafe` module of this crate.
//!
//! *Why mapped where it is safe*: the debug information of one program can be longer than all that
//! a recorder may keep, and a mapping shares the kernel's page cache. Truncating a mapped file kills
//! its reader, so only files that nobody but root can write are mapped, and only where
//! [`Files::may_map`](crate::Files::may_map) permits it.

#![allow(unsafe_code, reason = "mapping a file cannot be expressed in safe Rust")]

use gimli::{CloneStableDeref, StableDeref};
use memmap2::Mmap;
use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Bytes that stay where they are until the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct SectionBytes {
    storage: Arc<Storage>,
    range: Range<usize>,
}

#[derive(Debug)]
enum Storage {
    Mapped(Mmap),
    Copied(Vec<u8>),
}

/// A whole file, mapped.
pub(crate) struct MappedFile(Arc<Storage>);

impl MappedFile {
    /// Maps the file; `None` if it is empty or cannot be mapped.
    pub(crate) fn new(file: &File) -> Option<Self> {
        // SAFETY: the mapping is read-only. If root writes to the file meanwhile, which nobody else
        // can, the decoder sees other bytes, and it checks all of them. If root truncates the file,
        // the process ends with SIGBUS, and another process replaces it.
        let map = unsafe { Mmap::map(file) }.ok().filter(|map| !map.is_empty())?;
        Some(Self(Arc::new(Storage::Mapped(map))))
    }

    /// A part of the file.
    ///
    /// # Errors
    /// If the file ends before the part does.
    pub(crate) fn part(&self, offset: u64, len: u64) -> io::Result<SectionBytes> {
        let ends = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let start = usize::try_from(offset).map_err(|_| ends())?;
        let len = usize::try_from(len).map_err(|_| ends())?;
        let end = start.checked_add(len).ok_or_else(ends)?;
        self.0.bytes().get(start..end).ok_or_else(ends)?;
        Ok(SectionBytes { storage: Arc::clone(&self.0), range: start..end })
    }
}

impl SectionBytes {
    /// Memory that belongs to these bytes alone.
    pub(crate) fn memory(&self) -> usize {
        match &*self.storage {
            Storage::Mapped(_) => 0,
            Storage::Copied(bytes) => bytes.capacity(),
        }
    }
}

impl From<Vec<u8>> for SectionBytes {
    fn from(bytes: Vec<u8>) -> Self {
        let range = 0..bytes.len();
        Self { storage: Arc::new(Storage::Copied(bytes)), range }
    }
}

impl Storage {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Copied(bytes) => bytes,
        }
    }
}

impl Deref for SectionBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.storage.bytes().get(self.range.clone()).unwrap_or_default()
    }
}

// SAFETY: the bytes are in a mapping or a vector behind an `Arc`. Neither is changed or moved while
// the `Arc` lives, and moving this value moves only the `Arc`.
unsafe impl StableDeref for SectionBytes {}

// SAFETY: a clone has the same `Arc` and the same range, hence the same bytes.
unsafe impl CloneStableDeref for SectionBytes {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn parts_of_a_mapped_file_are_its_bytes() {
        let mut file = tempfile::tempfile().unwrap();
        assert!(MappedFile::new(&file).is_none());
        file.write_all(b"0123456789").unwrap();
        let mapped = MappedFile::new(&file).unwrap();
        let part = mapped.part(3, 4).unwrap();
        drop(mapped);
        assert_eq!((&*part, part.memory()), (&b"3456"[..], 0));
        assert_eq!(part.as_ptr(), part.clone().as_ptr());
        let mapped = MappedFile::new(&file).unwrap();
        assert_eq!(&*mapped.part(10, 0).unwrap(), b"");
        for (offset, len) in [(3, 8), (11, 0), (u64::MAX, 1), (1, u64::MAX)] {
            assert!(mapped.part(offset, len).is_err(), "{offset} {len}");
        }
        let copied = SectionBytes::from(vec![1, 2]);
        assert_eq!((&*copied, copied.memory() >= 2), (&[1, 2][..], true));
    }
}
