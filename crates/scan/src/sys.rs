//! System calls that the standard library lacks. The only module with `unsafe`.
//!
//! Structures and numbers are those of `include/uapi/linux/fs.h`: `PROCMAP_QUERY` (Linux 6.11) on
//! `/proc/PID/maps`, `PAGEMAP_SCAN` (Linux 6.7) on `/proc/PID/pagemap`. *Why not from a
//! library:* the headers of the C library are often older than the kernel.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

const PROCMAP_QUERY: libc::c_ulong = 0xc068_6611;
const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;

/// Query flag: return the mapping that covers the address, or else the next one.
const COVERING_OR_NEXT: u64 = 0x10;

pub const READABLE: u64 = 1;
pub const WRITABLE: u64 = 2;
pub const EXECUTABLE: u64 = 4;
pub const SHARED: u64 = 8;

/// Kind of a page: its memory belongs to a file, or is shared.
pub const FILE: u64 = 1 << 2;
pub const PRESENT: u64 = 1 << 3;
pub const SWAPPED: u64 = 1 << 4;
/// Kind of a page: the zero page, which is shared until written.
pub const ZERO: u64 = 1 << 5;
/// Kind of a page: part of a huge page, mapped as such.
pub const HUGE: u64 = 1 << 6;
/// Kind of a page: a guard marker, which the kernel also reports as swapped. Linux 6.15.
pub const GUARD: u64 = 1 << 8;

/// `struct procmap_query`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    access: u64,
    page_bytes: u64,
    offset: u64,
    inode: u64,
    device_major: u32,
    device_minor: u32,
    name_bytes: u32,
    build_id_bytes: u32,
    name: u64,
    build_id: u64,
}

/// What the kernel reports about a mapping.
#[derive(Clone, Copy, Debug)]
pub struct Queried {
    /// First address.
    pub start: u64,
    /// Address just after the last byte.
    pub end: u64,
    /// [`READABLE`] and so on.
    pub access: u64,
    /// Size of its pages in bytes: larger than usual only for hugetlb.
    pub page_bytes: u64,
    /// Inode of the file; zero if there is none.
    pub inode: u64,
    /// Length of the name in the buffer.
    pub name_bytes: usize,
}

/// Queries the mapping that covers `address`, or else the next one; `None` if there is none. Its
/// name is written to `name`.
///
/// # Errors
/// `ENOTTY` before Linux 6.11, `ESRCH` if the process has exited, `ENAMETOOLONG` if `name` is too
/// short.
pub fn query_mapping(
    maps: BorrowedFd,
    address: u64,
    name: &mut [u8],
) -> io::Result<Option<Queried>> {
    let mut query = Query {
        size: size_of::<Query>() as u64,
        flags: COVERING_OR_NEXT,
        address,
        name: name.as_mut_ptr() as u64,
        name_bytes: u32::try_from(name.len()).unwrap_or(u32::MAX),
        ..Query::default()
    };
    // SAFETY: `query` is a valid structure of the size that the request number implies; the kernel
    // writes it and at most `name_bytes` bytes to `name`, both of which are borrowed mutably until
    // it returns.
    if unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY as _, &raw mut query) } < 0 {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::ENOENT) { Ok(None) } else { Err(error) };
    }
    Ok(Some(Queried {
        start: query.start,
        end: query.end,
        access: query.access,
        page_bytes: query.page_bytes,
        inode: query.inode,
        // The length includes the terminating zero.
        name_bytes: (query.name_bytes as usize).saturating_sub(1).min(name.len()),
    }))
}

/// A run of pages of the same kind: `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// First address.
    pub start: u64,
    /// Address just after the last byte.
    pub end: u64,
    /// [`PRESENT`] and so on.
    pub kinds: u64,
}

/// `struct pm_scan_arg`.
#[repr(C)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_len: u64,
    max_pages: u64,
    inverted: u64,
    all_of: u64,
    any_of: u64,
    reported: u64,
}

/// Finds pages from `start` to `end` that have any of the kinds `any_of`, and reports those of
/// their kinds that are in `reported`.
///
/// Returns how many regions were filled in, and the address up to which it has searched: less than
/// `end` if the regions were full or `max_pages` was reached. Meanwhile, the kernel holds the
/// process's `mmap_lock`, at least for a part of the range.
pub fn scan_pages(
    pagemap: BorrowedFd,
    (start, end): (u64, u64),
    any_of: u64,
    reported: u64,
    max_pages: u64,
    regions: &mut [Region],
) -> io::Result<(usize, u64)> {
    let mut scan = Scan {
        size: size_of::<Scan>() as u64,
        flags: 0,
        start,
        end,
        walk_end: 0,
        regions: regions.as_mut_ptr() as u64,
        regions_len: regions.len() as u64,
        max_pages,
        inverted: 0,
        all_of: 0,
        any_of,
        reported,
    };
    // SAFETY: `scan` is a valid structure of the size that the request number implies; the kernel
    // writes it and at most `regions_len` regions, both of which are borrowed mutably until it
    // returns. Any bits are a valid `Region`.
    let filled = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN as _, &raw mut scan) };
    match usize::try_from(filled) {
        Ok(filled) => Ok((filled.min(regions.len()), scan.walk_end)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// True if the calling thread only gets an otherwise idle CPU: SCHED_IDLE, or nice 19.
pub fn is_idle_priority() -> bool {
    // SAFETY: no pointers; 0 is the calling thread. A result of -1 from getpriority is a valid nice
    // value.
    let (policy, nice) =
        unsafe { (libc::sched_getscheduler(0), libc::getpriority(libc::PRIO_PROCESS, 0)) };
    policy & !libc::SCHED_RESET_ON_FORK == libc::SCHED_IDLE || nice >= 19
}

/// Size of a normal page in bytes.
pub fn page_bytes() -> u64 {
    // SAFETY: no pointers.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Clock ticks per second in `/proc/PID/stat`.
pub fn ticks_per_second() -> u64 {
    // SAFETY: no pointers.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).unwrap_or(100).max(1)
}
