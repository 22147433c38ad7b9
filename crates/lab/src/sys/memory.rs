//! Memory: values shared by several processes, and large mappings.

use super::check;
use std::hint::black_box;
use std::io;
use std::ops::Deref;
use std::ptr::{self, NonNull};

const PRIVATE: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
/// Protection of code while a JIT compiler writes it.
const CODE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;

/// An anonymous mapping; unmapped when dropped.
pub struct Mapping {
    start: NonNull<libc::c_void>,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; its content is not accessed through
// this type.
unsafe impl Send for Mapping {}
// SAFETY: as above; the calls on it are system calls that the kernel orders.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Private memory of this process.
    #[inline(never)]
    pub fn private(bytes: usize) -> io::Result<Self> {
        Self::new(bytes, libc::MAP_PRIVATE)
    }

    /// Memory that is shared with processes forked later.
    pub fn shared(bytes: usize) -> io::Result<Self> {
        Self::new(bytes, libc::MAP_SHARED)
    }

    #[inline(always)]
    fn new(bytes: usize, kind: libc::c_int) -> io::Result<Self> {
        let start = black_box(call_mmap(bytes, kind | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE));
        Self::of(start, bytes)
    }

    /// Address space that cannot be used until it is committed.
    pub fn reserved(bytes: usize) -> io::Result<Self> {
        // SAFETY: the kernel chooses an address that is not in use.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_NONE, PRIVATE, -1, 0) };
        Self::of(start, bytes)
    }

    /// Memory for code, at any address.
    pub fn executable(bytes: usize) -> io::Result<Self> {
        // SAFETY: the kernel chooses an address that is not in use.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, CODE, PRIVATE, -1, 0) };
        Self::of(start, bytes)
    }

    /// Memory for code at that page-aligned address (avma); `None` if the address is in use.
    pub fn executable_at(start: usize, bytes: usize) -> io::Result<Option<Self>> {
        let wanted = ptr::without_provenance_mut(start);
        // SAFETY: MAP_FIXED_NOREPLACE does not replace existing mappings.
        let start =
            unsafe { libc::mmap(wanted, bytes, CODE, PRIVATE | libc::MAP_FIXED_NOREPLACE, -1, 0) };
        match Self::of(start, bytes) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(None),
            // Kernels before 4.17 take the address only as a hint.
            Ok(other) if other.start.as_ptr() != wanted => Ok(None),
            other => other.map(Some),
        }
    }

    /// Makes a part of it readable and writable, and populates it. `offset` and `bytes` must be
    /// multiples of the page size.
    pub fn commit(&self, offset: usize, bytes: usize) -> io::Result<()> {
        let end = offset.checked_add(bytes).filter(|end| *end <= self.bytes);
        end.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: this is a part of a mapping that we own and that is not borrowed; no page loses
        // its content.
        unsafe {
            let part = self.start.as_ptr().byte_add(offset);
            check(libc::mprotect(part, bytes, libc::PROT_READ | libc::PROT_WRITE))?;
            check(libc::madvise(part, bytes, libc::MADV_POPULATE_WRITE)).map(drop)
        }
    }

    /// The mapping from the result of `mmap`.
    fn of(start: *mut libc::c_void, bytes: usize) -> io::Result<Self> {
        match NonNull::new(start) {
            Some(start) if start.as_ptr() != libc::MAP_FAILED => Ok(Self { start, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Turns off huge pages, whatever the system's default, so that the work is the same
    /// everywhere.
    pub fn in_small_pages(self) -> Self {
        // This fails if the kernel has no huge pages, and then there is nothing to do.
        let _ = self.advise(libc::MADV_NOHUGEPAGE);
        self
    }

    /// Populates the page tables, for writing or only for reading. Meanwhile, the kernel holds the
    /// process's `mmap_lock` for reading.
    #[inline(never)]
    pub fn populate(&self, to_write: bool) -> io::Result<()> {
        self.advise(if to_write { libc::MADV_POPULATE_WRITE } else { libc::MADV_POPULATE_READ })
    }

    #[inline(always)]
    fn advise(&self, advice: libc::c_int) -> io::Result<()> {
        check(black_box(call_madvise(self.start, self.bytes, advice))).map(drop)
    }
}

impl Drop for Mapping {
    #[inline(never)]
    fn drop(&mut self) {
        black_box(call_munmap(self.start, self.bytes));
    }
}

#[inline(never)]
fn call_mmap(bytes: usize, flags: libc::c_int) -> *mut libc::c_void {
    // SAFETY: the kernel chooses an address that is not in use.
    black_box(unsafe {
        libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
    })
}

#[inline(never)]
fn call_madvise(start: NonNull<libc::c_void>, bytes: usize, advice: libc::c_int) -> libc::c_int {
    // SAFETY: private function; called with a whole mapping of ours and advice that keeps its
    // content.
    black_box(unsafe { libc::madvise(start.as_ptr(), bytes, advice) })
}

#[inline(never)]
fn call_munmap(start: NonNull<libc::c_void>, bytes: usize) -> libc::c_int {
    // SAFETY: private function; called with a whole mapping of ours, by its only owner, while it
    // is not borrowed.
    black_box(unsafe { libc::munmap(start.as_ptr(), bytes) })
}

/// Locks the current pages of this process in memory, including its code.
pub fn keep_in_memory() -> io::Result<()> {
    // SAFETY: takes no pointer.
    check(unsafe { libc::mlockall(libc::MCL_CURRENT) }).map(drop)
}

/// A value in memory that is shared with processes forked later.
///
/// It should only contain atomics and plain numbers: memory that it owns elsewhere is not shared.
pub struct Shared<T> {
    value: NonNull<T>,
    _memory: Mapping,
}

// SAFETY: like a box, it owns the value, and it only gives out shared references.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// Moves `value` into shared memory.
    pub fn new(value: T) -> io::Result<Self> {
        let memory = Mapping::shared(size_of::<T>().max(1))?;
        let place = memory.start.cast::<T>();
        // SAFETY: the mapping is large enough, and a page is sufficiently aligned for any T that is
        // smaller than a page.
        unsafe { place.write(value) };
        Ok(Self { value: place, _memory: memory })
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `new` has initialised it; it lives as long as `self`, and is never borrowed
        // mutably.
        unsafe { self.value.as_ref() }
    }
}
