//! Memory that a test maps at a chosen address, touches and frees. The only part of these tests
//! with `unsafe`.

use std::io;
use std::ptr;

pub const PAGE: usize = 4096;

/// A mapping, which stays until the process exits.
#[derive(Clone, Copy)]
pub struct Region {
    start: *mut u8,
    bytes: usize,
}

fn check(code: i32) -> io::Result<()> {
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

impl Region {
    /// Anonymous memory in small pages at `start`, which must be free.
    pub fn new(start: usize, bytes: usize, access: i32, shared: bool) -> io::Result<Self> {
        let kind = if shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
        let flags = kind | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: MAP_FIXED_NOREPLACE does not replace existing mappings.
        let mapped =
            unsafe { libc::mmap(ptr::without_provenance_mut(start), bytes, access, flags, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let region = Self { start: mapped.cast(), bytes };
        // This fails if the kernel has no huge pages, and then there is nothing to do.
        let _ = region.advise(0, bytes, libc::MADV_NOHUGEPAGE);
        Ok(region)
    }

    fn at(self, offset: usize, bytes: usize) -> *mut u8 {
        assert!(
            offset.checked_add(bytes).is_some_and(|end| end <= self.bytes),
            "outside of the mapping"
        );
        // SAFETY: inside the mapping.
        unsafe { self.start.add(offset) }
    }

    /// Writes a byte, which allocates the page.
    pub fn write(self, offset: usize) {
        // SAFETY: it is mapped, and there is no reference to it.
        unsafe { self.at(offset, 1).write_volatile(1) }
    }

    /// Reads a byte, which maps the zero page if there is no other.
    pub fn read(self, offset: usize) -> u8 {
        // SAFETY: it is mapped, and there is no reference to it.
        unsafe { self.at(offset, 1).read_volatile() }
    }

    pub fn advise(self, offset: usize, bytes: usize, advice: i32) -> io::Result<()> {
        // SAFETY: a part of the mapping; nothing relies on its content.
        check(unsafe { libc::madvise(self.at(offset, bytes).cast(), bytes, advice) })
    }

    pub fn protect(self, offset: usize, bytes: usize, access: i32) -> io::Result<()> {
        // SAFETY: a part of the mapping, without references to it.
        check(unsafe { libc::mprotect(self.at(offset, bytes).cast(), bytes, access) })
    }
}
