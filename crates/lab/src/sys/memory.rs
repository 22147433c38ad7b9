//! Memory: a value that several processes share, and large mappings that are there to be mapped.

use super::check;
use std::hint::black_box;
use std::io;
use std::ops::Deref;
use std::ptr::{self, NonNull};

const PRIVATE: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
/// As compilers at run time have it while they write.
const CODE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;

/// A mapping of zeroes in pages of the smallest size; unmapped when dropped.
pub struct Mapping {
    start: NonNull<libc::c_void>,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; what it holds is not reached through
// this type.
unsafe impl Send for Mapping {}
// SAFETY: as above; the calls on it are system calls that the kernel orders.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Memory of this process alone.
    #[inline(never)]
    pub fn private(bytes: usize) -> io::Result<Self> {
        Self::new(bytes, libc::MAP_PRIVATE)
    }

    /// Memory that is shared with the processes that this one starts.
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

    /// Memory for code, somewhere.
    pub fn executable(bytes: usize) -> io::Result<Self> {
        // SAFETY: the kernel chooses an address that is not in use.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, CODE, PRIVATE, -1, 0) };
        Self::of(start, bytes)
    }

    /// Memory for code at that address (avma, a whole page's); `None` when something is there
    /// already.
    pub fn executable_at(start: usize, bytes: usize) -> io::Result<Option<Self>> {
        let wanted = ptr::without_provenance_mut(start);
        // SAFETY: with MAP_FIXED_NOREPLACE what is mapped already stays as it is.
        let start =
            unsafe { libc::mmap(wanted, bytes, CODE, PRIVATE | libc::MAP_FIXED_NOREPLACE, -1, 0) };
        match Self::of(start, bytes) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(None),
            // A kernel before 4.17 takes the address for a wish only.
            Ok(other) if other.start.as_ptr() != wanted => Ok(None),
            other => other.map(Some),
        }
    }

    /// Makes a part of it readable and writable, and gives it memory. Offsets in bytes, of whole
    /// pages.
    pub fn commit(&self, offset: usize, bytes: usize) -> io::Result<()> {
        let end = offset.checked_add(bytes).filter(|end| *end <= self.bytes);
        end.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: a part of a mapping that is ours and that nobody borrows from; no page of it
        // loses what is in it.
        unsafe {
            let part = self.start.as_ptr().byte_add(offset);
            check(libc::mprotect(part, bytes, libc::PROT_READ | libc::PROT_WRITE))?;
            check(libc::madvise(part, bytes, libc::MADV_POPULATE_WRITE)).map(drop)
        }
    }

    /// What `mmap` returned.
    fn of(start: *mut libc::c_void, bytes: usize) -> io::Result<Self> {
        match NonNull::new(start) {
            Some(start) if start.as_ptr() != libc::MAP_FAILED => Ok(Self { start, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// No huge pages, whatever the system's default: the work is to be the same everywhere.
    pub fn in_small_pages(self) -> Self {
        // Fails where the kernel knows no huge pages, and then there is nothing to do.
        let _ = self.advise(libc::MADV_NOHUGEPAGE);
        self
    }

    /// Fills the page tables, with the kernel holding the process's `mmap_lock` for reading; pages
    /// to be written get memory of their own.
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
    // SAFETY: private function; called with one whole mapping of ours and advice that keeps what is
    // in it.
    black_box(unsafe { libc::madvise(start.as_ptr(), bytes, advice) })
}

#[inline(never)]
fn call_munmap(start: NonNull<libc::c_void>, bytes: usize) -> libc::c_int {
    // SAFETY: private function; called with one whole mapping of ours, by its only owner, when
    // nobody borrows it.
    black_box(unsafe { libc::munmap(start.as_ptr(), bytes) })
}

/// Keeps the pages that this process has now, its code among them, from being reclaimed.
pub fn keep_in_memory() -> io::Result<()> {
    // SAFETY: takes no pointer.
    check(unsafe { libc::mlockall(libc::MCL_CURRENT) }).map(drop)
}

/// A value in memory that the processes forked later have in common.
///
/// It should hold atomics and plain numbers only: memory that it owned elsewhere would not be
/// shared.
pub struct Shared<T> {
    value: NonNull<T>,
    _memory: Mapping,
}

// SAFETY: it is a box: owns the value, and gives out shared references only.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// Moves `value` there.
    pub fn new(value: T) -> io::Result<Self> {
        let memory = Mapping::shared(size_of::<T>().max(1))?;
        let place = memory.start.cast::<T>();
        // SAFETY: the mapping is large enough, and a page is aligned for any T that is smaller than
        // it.
        unsafe { place.write(value) };
        Ok(Self { value: place, _memory: memory })
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: it was initialised by `new`, lives as long as `self`, and is never borrowed
        // mutably.
        unsafe { self.value.as_ref() }
    }
}
