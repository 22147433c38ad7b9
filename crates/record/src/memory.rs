//! The memory of other processes.
//!
//! A page of another process's memory may belong to a file on a FUSE file system whose server never
//! answers. Reading it would put us into an unkillable sleep. So we only read private memory that
//! is present, according to `/proc/P/pagemap`; and files on this machine's own disks, if asked to.

use crate::naming::mounts;
use crate::procfs;
use rustc_hash::FxHashMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// The memory of a process, as far as it can be read without waiting for anybody.
pub(crate) struct Memory {
    bytes: fs::File,
    pages: fs::File,
    /// Where files are mapped that can be read.
    files: Vec<Range<u64>>,
}

impl Memory {
    pub(crate) fn open(pid: u32) -> io::Result<Self> {
        let open = |name| fs::File::open(format!("/proc/{pid}/{name}"));
        Ok(Self { bytes: open("mem")?, pages: open("pagemap")?, files: Vec::new() })
    }

    /// As [`open`](Self::open); files on this machine's own disks are read, too.
    pub(crate) fn with_local_files(pid: u32) -> io::Result<Self> {
        Ok(Self { files: procfs::mapped_files(pid, &mounts::local_devices()), ..Self::open(pid)? })
    }

    /// Reads at most a page.
    pub(crate) fn read(&self, bytes: &mut [u8], avma: u64) -> io::Result<()> {
        let last = avma.checked_add(bytes.len() as u64 - 1).ok_or(io::ErrorKind::InvalidInput)?;
        for page_avma in [avma, last] {
            self.check_page(page_avma)?;
        }
        self.bytes.read_exact_at(bytes, avma)
    }

    /// Fails unless the page is present, and private or of a file that can be read
    /// (Documentation/admin-guide/mm/pagemap.rst).
    fn check_page(&self, avma: u64) -> io::Result<()> {
        const PRESENT: u64 = 1 << 63;
        const OF_FILE_OR_SHARED: u64 = 1 << 61;
        let mut entry = [0; 8];
        self.pages.read_exact_at(&mut entry, avma / crate::sys::page_size() as u64 * 8)?;
        match u64::from_ne_bytes(entry) & (PRESENT | OF_FILE_OR_SHARED) {
            PRESENT => Ok(()),
            entry if entry & PRESENT != 0 && self.is_of_local_file(avma) => Ok(()),
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn is_of_local_file(&self, avma: u64) -> bool {
        self.files.iter().any(|file| file.contains(&avma))
    }
}

/// Maximum number of pages that are remembered.
const MAX_PAGES: usize = 4096;

/// Words of a process's memory, read page by page.
pub(crate) struct Words<'a> {
    memory: &'a Memory,
    /// Pages by number; `None` for one that cannot be read.
    pages: FxHashMap<u64, Option<Vec<u8>>>,
}

impl<'a> Words<'a> {
    pub(crate) fn new(memory: &'a Memory) -> Self {
        Self { memory, pages: FxHashMap::default() }
    }

    /// The word at `avma`; `None` if it is not aligned or cannot be read.
    pub(crate) fn at(&mut self, avma: u64) -> Option<u64> {
        if !avma.is_multiple_of(8) {
            return None;
        }
        let len = crate::sys::page_size();
        if self.pages.len() >= MAX_PAGES {
            self.pages.clear();
        }
        let page = self.pages.entry(avma / len as u64).or_insert_with(|| {
            let mut bytes = vec![0; len];
            self.memory.read(&mut bytes, avma / len as u64 * len as u64).ok().map(|()| bytes)
        });
        let offset = (avma % len as u64) as usize;
        let bytes = page.as_ref()?.get(offset..offset + 8)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_private_memory_that_is_present_is_read() {
        let memory = Memory::open(std::process::id()).unwrap();
        let here = Box::new([7_u8; 20]);
        let mut bytes = [0; 20];
        memory.read(&mut bytes, here.as_ptr() as u64).unwrap();
        assert_eq!(bytes, *here);
        // Code belongs to a file, and the first page is not mapped.
        let code = procfs::address_space(std::process::id())
            .maps
            .into_iter()
            .find(|map| map.path.starts_with(b"/"))
            .unwrap();
        for avma in [code.start_avma, 0x1000, u64::MAX] {
            assert!(memory.read(&mut bytes, avma).is_err(), "{avma:#x}");
        }
        // This program's file is on this machine's disk, unless the machine has none.
        let local = Memory::with_local_files(std::process::id()).unwrap();
        let is_local = mounts::local_devices().contains(&code.device);
        assert_eq!(local.read(&mut bytes, code.start_avma).is_ok(), is_local);
        assert!(local.read(&mut bytes, 0x1000).is_err());
    }

    #[test]
    fn words_of_our_own() {
        let memory = Memory::open(std::process::id()).unwrap();
        let mut words = Words::new(&memory);
        let here = Box::new([1_u64, 2, 3]);
        let avma = here.as_ptr() as u64;
        assert_eq!([0, 8, 16].map(|at| words.at(avma + at)), [Some(1), Some(2), Some(3)]);
        assert_eq!(
            (words.at(avma + 1), words.at(0x1000), words.at(u64::MAX - 7)),
            (None, None, None)
        );
    }
}
