//! The only `unsafe` code of this crate: system calls and shared memory that the standard library
//! does not wrap.
//!
//! Specified in `include/uapi/linux/perf_event.h` (`perf_event_mmap_page`, the ioctls) and
//! perf_event_open(2). Each function is a thin, safe wrapper of one call, so that the rest of the
//! crate can be read without thinking about memory safety.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use unhitch_model::Time;

/// `PERF_FLAG_FD_CLOEXEC`
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
const IOC_ENABLE: libc::Ioctl = 0x2400;
const IOC_SET_OUTPUT: libc::Ioctl = 0x2405;
const IOC_SET_FILTER: libc::Ioctl = 0x4008_2406;
const IOC_ID: libc::Ioctl = 0x8008_2407u32 as libc::Ioctl;
/// Bytes for a bit of each code of an input event (`KEY_MAX`).
const INPUT_CODE_BYTES: usize = 96;
/// `EVIOCGBIT(0, INPUT_CODE_BYTES)`, `EVIOCSCLOCKID`, `EVIOCSMASK` (`include/uapi/linux/input.h`)
const IOC_INPUT_CODES: libc::Ioctl = 0x8060_4520u32 as libc::Ioctl;
const IOC_INPUT_CLOCK: libc::Ioctl = 0x4004_45a0;
const IOC_INPUT_MASK: libc::Ioctl = 0x4010_4593;
/// Offsets of `data_head` and `data_tail` in `perf_event_mmap_page`.
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

/// Opens a performance event on `cpu`, for all tasks. `attr` is an encoded `perf_event_attr`.
pub fn perf_event_open(attr: &[u8], cpu: u16) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads `attr.size` bytes, which the encoder sets to the length of `attr`;
    // on E2BIG it writes the expected size there, hence the private copy.
    let fd = unsafe {
        let mut attr = attr.to_vec();
        libc::syscall(
            libc::SYS_perf_event_open,
            attr.as_mut_ptr(),
            -1,
            libc::c_int::from(cpu),
            -1,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    check(fd)?;
    // SAFETY: the call succeeded, so `fd` is a new descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Starts an event.
pub fn enable(fd: BorrowedFd) -> io::Result<()> {
    // SAFETY: no memory is passed.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), IOC_ENABLE, 0) }).map(drop)
}

/// Pins the calling thread to `cpu`.
pub fn pin(cpu: u16) -> io::Result<()> {
    // This is wide enough for any CPU number.
    let mut mask = [0u64; 1024];
    mask[usize::from(cpu) / 64] = 1 << (cpu % 64);
    // SAFETY: the kernel reads `size_of_val(&mask)` bytes.
    check(unsafe { libc::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr().cast()) }).map(drop)
}

/// Sends the records of `fd` to the ring of `target`.
pub fn set_output(fd: BorrowedFd, target: BorrowedFd) -> io::Result<()> {
    // SAFETY: no memory is passed.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), IOC_SET_OUTPUT, target.as_raw_fd()) }).map(drop)
}

/// Sets the filter of a tracepoint event, in the syntax of `Documentation/trace/events.rst`.
pub fn set_filter(fd: BorrowedFd, filter: &str) -> io::Result<()> {
    let filter = CString::new(filter)?;
    // SAFETY: the kernel reads a NUL-terminated string, which outlives the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), IOC_SET_FILTER, filter.as_ptr()) }).map(drop)
}

/// The id that the records of an event carry.
pub fn event_id(fd: BorrowedFd) -> io::Result<u64> {
    let mut id = 0u64;
    // SAFETY: the kernel writes one u64.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), IOC_ID, &raw mut id) })?;
    Ok(id)
}

/// The codes that an input device has of a type of events: a bit for each.
pub fn input_codes(fd: BorrowedFd, kind: u16) -> io::Result<[u8; INPUT_CODE_BYTES]> {
    let mut bits = [0u8; INPUT_CODE_BYTES];
    let request = IOC_INPUT_CODES + libc::Ioctl::from(kind);
    // SAFETY: the kernel writes at most the number of bytes that is a part of the request.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request, bits.as_mut_ptr()) })?;
    Ok(bits)
}

/// Sets the clock of an input device's times, for this reader.
pub fn set_input_clock(fd: BorrowedFd, clock: libc::clockid_t) -> io::Result<()> {
    // SAFETY: the kernel reads one int.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), IOC_INPUT_CLOCK, &raw const clock) }).map(drop)
}

/// Lets through only these codes of a type of an input device's events, for this reader: a bit for
/// each. Of type 0: only these types.
pub fn set_input_mask(fd: BorrowedFd, kind: u16, bits: &[u8]) -> io::Result<()> {
    /// `struct input_mask`
    #[repr(C)]
    struct Mask {
        kind: u32,
        len: u32,
        bits: u64,
    }
    let mask = Mask { kind: kind.into(), len: bits.len() as u32, bits: bits.as_ptr() as u64 };
    // SAFETY: the kernel reads the struct, and `len` bytes at `bits`, which outlive the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), IOC_INPUT_MASK, &raw const mask) }).map(drop)
}

/// The mapped ring of a performance event: a control page and 2^n pages of data.
pub struct Mapping {
    base: NonNull<u8>,
    data_len: usize,
    writable: bool,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is accessed only through the
// atomics and copies below.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a ring of `data_len` bytes (2^n pages). A read-only mapping makes it an overwriting
    /// ring: the kernel never waits for a reader.
    pub fn new(fd: BorrowedFd, data_len: usize, writable: bool) -> io::Result<Self> {
        let protection =
            if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                page_size() + data_len,
                protection,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(base.cast::<u8>()) {
            Some(pointer) if base != libc::MAP_FAILED => {
                Ok(Self { base: pointer, data_len, writable })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Size of the data area in bytes, a power of two.
    pub fn data_len(&self) -> usize {
        self.data_len
    }

    /// The kernel's write position. Everything written before it may be read after this call.
    pub fn head(&self) -> u64 {
        self.control(DATA_HEAD).load(Ordering::Acquire)
    }

    /// Tells the kernel that everything before `tail` has been read. Only for a writable ring.
    pub fn set_tail(&self, tail: u64) {
        assert!(self.writable, "an overwriting ring has no tail");
        self.control(DATA_TAIL).store(tail, Ordering::Release);
    }

    fn control(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the control page is mapped as long as `self`, `offset` is one of the two aligned
        // constants, and the kernel accesses these words atomically. A read-only mapping is only
        // loaded from: `set_tail` asserts.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// Copies ring bytes from position `from` (modulo the length) into `out`, at most once around.
    ///
    /// The kernel may write while we copy. The caller must look at how far the head has moved, and
    /// discard what may have been overwritten.
    pub fn copy(&self, from: u64, out: &mut [u8]) {
        assert!(out.len() <= self.data_len, "more than the ring holds");
        let start = (from % self.data_len as u64) as usize;
        let first = out.len().min(self.data_len - start);
        // SAFETY: both ranges lie inside the mapping by the arithmetic above, and `out` is ours.
        // The bytes are plain memory; a concurrent write by the kernel can only yield old or new
        // bytes, which the caller discards.
        unsafe {
            let data = self.base.as_ptr().add(page_size());
            std::ptr::copy_nonoverlapping(data.add(start), out.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(data, out.as_mut_ptr().add(first), out.len() - first);
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length, and no reference into it outlives
        // `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), page_size() + self.data_len) };
    }
}

/// A BPF array that both this process and programs in the kernel access.
pub struct SharedArray {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is accessed only through the
// atomic loads and copies below.
unsafe impl Send for SharedArray {}
// SAFETY: as above.
unsafe impl Sync for SharedArray {}

impl SharedArray {
    /// Maps the first `len` bytes of the array.
    pub fn new(fd: BorrowedFd, len: usize) -> io::Result<Self> {
        let len = len.next_multiple_of(page_size());
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(base.cast::<u8>()) {
            Some(base_of_array) if base != libc::MAP_FAILED => {
                Ok(Self { base: base_of_array, len })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The aligned word at `offset`. Everything that was written before it may be read afterwards.
    pub fn load(&self, offset: usize) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    /// Sets the aligned word at `offset`, which the kernel may be reading.
    pub fn set(&self, offset: usize, word: u64) {
        self.word(offset).store(word, Ordering::Release);
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.len, "a word of the array");
        // SAFETY: the word is aligned and inside the mapping, which is writable and lives as long.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// Copies the bytes from `offset` on. The kernel may write while we copy, so the caller must
    /// discard what may have been overwritten.
    pub fn copy(&self, offset: usize, out: &mut [u8]) {
        assert!(offset + out.len() <= self.len, "more than the array holds");
        // SAFETY: the range is inside the mapping, `out` is ours, and a concurrent write can only
        // yield old or new bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.base.as_ptr().add(offset),
                out.as_mut_ptr(),
                out.len(),
            );
        }
    }
}

impl SharedArray {
    /// Writes the bytes from `offset` on. The kernel may read meanwhile, so this must be a part
    /// that it has not been told of yet.
    pub fn store(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.len, "more than the array holds");
        // SAFETY: the range is inside the mapping, which is writable, and `bytes` is ours.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.base.as_ptr().add(offset),
                bytes.len(),
            );
        }
    }
}

impl Drop for SharedArray {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length, and no reference into it outlives
        // `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// What `poll` reported for one descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ready {
    /// There is something to read.
    pub readable: bool,
    /// The other end, or the event's CPU, is gone.
    pub hung_up: bool,
}

/// Sleeps until one of `fds` is ready or `timeout_ms` has passed. A signal counts as a timeout.
pub fn poll(fds: &[BorrowedFd], timeout_ms: i32) -> io::Result<Vec<Ready>> {
    let mut polled: Vec<libc::pollfd> = fds
        .iter()
        .map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    // SAFETY: the array and its length belong together.
    let result =
        check(unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout_ms) });
    match result {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
        _ => {}
    }
    let ready = |poll: &libc::pollfd| Ready {
        readable: poll.revents & libc::POLLIN != 0,
        hung_up: poll.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0,
    };
    Ok(polled.iter().map(ready).collect())
}

/// The current time on `CLOCK_MONOTONIC`, the clock of all our records.
pub fn monotonic_now() -> Time {
    Time::from_nanos(clock_ns(libc::CLOCK_MONOTONIC))
}

/// For how long the machine has been suspended since it was booted, in nanoseconds: time that our
/// clock does not count.
pub fn suspended_ns() -> u64 {
    clock_ns(libc::CLOCK_BOOTTIME).saturating_sub(clock_ns(libc::CLOCK_MONOTONIC))
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    // SAFETY: an all-zero timespec is valid, and the kernel writes one.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(clock, &raw mut time);
        time
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Year, month, day, hour, minute and second of a Unix time, in the local time zone.
pub fn local_time(unix_seconds: i64) -> [i32; 6] {
    // SAFETY: an all-zero tm is valid, and localtime_r writes one; it touches no other state but
    // the time zone, which it locks.
    let tm = unsafe {
        let mut tm: libc::tm = std::mem::zeroed();
        libc::localtime_r(&raw const unix_seconds, &raw mut tm);
        tm
    };
    [tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec]
}

/// The space of a file system, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct DiskSpace {
    /// How many we may still write.
    pub free: u64,
    /// How many all users may still write: without what is reserved for root.
    pub free_for_all: u64,
    /// How many there are for all users, used or not.
    pub total: u64,
}

/// The space of the file system of `folder`; `None` if it does not count it.
pub fn disk_space(folder: &Path) -> io::Result<Option<DiskSpace>> {
    let path = CString::new(folder.as_os_str().as_encoded_bytes())?;
    // SAFETY: the path is NUL-terminated and outlives the call; an all-zero statvfs is valid, and
    // the kernel writes one.
    let stat = unsafe {
        let mut stat: libc::statvfs = std::mem::zeroed();
        check(libc::statvfs(path.as_ptr(), &raw mut stat))?;
        stat
    };
    // Reserved blocks are reserved for root.
    let free = if effective_uid() == 0 { stat.f_bfree } else { stat.f_bavail };
    let reserved = stat.f_bfree.saturating_sub(stat.f_bavail);
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize as u64);
    let space = DiskSpace {
        free: bytes(free as u64),
        free_for_all: bytes(stat.f_bavail as u64),
        total: bytes(stat.f_blocks.saturating_sub(reserved) as u64),
    };
    Ok((stat.f_blocks > 0).then_some(space))
}

/// The size of a page in bytes.
pub fn page_size() -> usize {
    // SAFETY: no memory is passed.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// Our effective user id.
pub fn effective_uid() -> u32 {
    // SAFETY: no memory is passed; it cannot fail.
    unsafe { libc::geteuid() }
}

/// The process at the other end of a Unix socket, when it connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerProcess {
    /// Its process id.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// The process at the other end of a Unix socket.
pub fn peer(socket: BorrowedFd) -> io::Result<PeerProcess> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `peer`.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut len,
        )
    })?;
    Ok(PeerProcess { pid: peer.pid as u32, uid: peer.uid, gid: peer.gid })
}

/// The further groups of the process at the other end of a Unix socket.
pub fn peer_groups(socket: BorrowedFd) -> io::Result<Vec<u32>> {
    /// NGROUPS_MAX (limits.h).
    const MAX_GROUPS: usize = 65_536;
    let mut groups: Vec<libc::gid_t> = vec![0; 64];
    loop {
        let mut len = size_of_val(groups.as_slice()) as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes into `groups`.
        let result = check(unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut len,
            )
        });
        match result {
            Err(error)
                if error.raw_os_error() == Some(libc::ERANGE) && groups.len() < MAX_GROUPS =>
            {
                groups.resize(MAX_GROUPS, 0);
            }
            Err(error) => return Err(error),
            Ok(_) => {
                groups.truncate(len as usize / size_of::<libc::gid_t>());
                return Ok(groups);
            }
        }
    }
}

/// Mounts tracefs on `directory`.
pub fn mount_tracefs(directory: &Path) -> io::Result<()> {
    let target = CString::new(directory.as_os_str().as_encoded_bytes())?;
    // SAFETY: all strings are NUL-terminated and outlive the call; tracefs needs no data.
    check(unsafe {
        libc::mount(c"nodev".as_ptr(), target.as_ptr(), c"tracefs".as_ptr(), 0, std::ptr::null())
    })
    .map(drop)
}

/// Raises the soft limit on open files to the hard limit: recording needs a dozen events per CPU,
/// and a large machine has many CPUs.
pub fn raise_open_files() {
    // SAFETY: an all-zero rlimit is valid, read by the one call and written by the other.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0
            && limit.rlim_cur < limit.rlim_max
        {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Reads the count of an event.
pub fn read_count(fd: BorrowedFd) -> io::Result<u64> {
    read_counters(fd).map(|[count]| count)
}

/// For how long an event with `TOTAL_TIME_ENABLED` has been enabled, in nanoseconds.
pub fn read_enabled_ns(fd: BorrowedFd) -> io::Result<u64> {
    read_counters(fd).map(|[_count, enabled]| enabled)
}

fn read_counters<const N: usize>(fd: BorrowedFd) -> io::Result<[u64; N]> {
    let (mut counters, len) = ([0u64; N], N * 8);
    // SAFETY: the kernel writes at most the bytes that it is given.
    let read =
        check(unsafe { libc::read(fd.as_raw_fd(), counters.as_mut_ptr().cast(), len) } as i64)?;
    if read == len as i64 { Ok(counters) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Turns the C convention (-1 and errno) into a `Result`.
fn check<T: Copy + Into<i64>>(result: T) -> io::Result<T> {
    if result.into() < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
