//! All calls into the C library: clocks, CPU affinity and policy, locks, polling, signals, memory,
//! processes. The only module with `unsafe`.
//!
//! Calls that may appear on a stack are in separate functions that are never inlined (`call_…`,
//! [`clock_ns`]). *Why:* the C library has no frame pointers, so a recorded stack skips the
//! function that called the library. That should not be a function of the story.

mod fair_mutex;
mod lanes;
mod memory;
mod process;
mod pthread;

pub use fair_mutex::{FairGuard, FairMutex};
pub use lanes::{Lanes, alike as words_alike, halves, has as has_lanes};
pub use memory::{Mapping, Shared, keep_in_memory};
pub use process::{Child, bound_this_process, send_signal, set_name, start_process};
pub use pthread::Pthread;

use std::cell::UnsafeCell;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::mem::{self, MaybeUninit};
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

/// The error of a libc call that returned `code`, if it failed.
fn check(code: libc::c_int) -> io::Result<libc::c_int> {
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(code) }
}

#[inline(never)]
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec to write to. Both clocks used here exist on every Linux, so
    // this cannot fail.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// CLOCK_MONOTONIC, the clock of our recordings, in nanoseconds.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Number of voluntary context switches of the calling thread.
pub fn voluntary_switches() -> u64 {
    usage(libc::RUSAGE_THREAD).ru_nvcsw as u64
}

/// CPU time in nanoseconds of all children of this process that have been waited for, including
/// their exits.
pub fn ended_children_cpu_ns() -> u64 {
    let usage = usage(libc::RUSAGE_CHILDREN);
    [usage.ru_utime, usage.ru_stime]
        .iter()
        .map(|time| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000)
        .sum()
}

fn usage(who: libc::c_int) -> libc::rusage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is a valid rusage to write to, and all zeroes is a valid one should the call
    // fail.
    unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    }
}

/// The tid of the calling thread.
pub fn thread_id() -> i32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::gettid() }
}

/// A CPU mask wide enough for any kernel (8192 CPUs).
type CpuMask = [u64; 128];

/// The CPUs that the calling thread may use, ascending.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let mut mask: CpuMask = [0; 128];
    // SAFETY: the kernel writes at most `size_of_val(&mask)` bytes, of plain bits.
    check(unsafe { libc::sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr().cast()) })?;
    Ok((0..mask.len() * 64).filter(|cpu| mask[cpu / 64] >> (cpu % 64) & 1 == 1).collect())
}

/// Pins the thread `tid` (0 for the calling one) to `cpus`.
pub fn pin(tid: i32, cpus: &[usize]) -> io::Result<()> {
    let mut mask: CpuMask = [0; 128];
    for cpu in cpus {
        mask[cpu / 64] |= 1 << (cpu % 64);
    }
    // SAFETY: the kernel reads `size_of_val(&mask)` bytes.
    check(unsafe { libc::sched_setaffinity(tid, size_of_val(&mask), mask.as_ptr().cast()) })
        .map(drop)
}

/// Sets the policy of the thread `tid` (0 for the calling one) to SCHED_IDLE, or back to
/// SCHED_OTHER, which needs a privilege.
pub fn set_idle_policy(tid: i32, idle: bool) -> io::Result<()> {
    let policy = if idle { libc::SCHED_IDLE } else { libc::SCHED_OTHER };
    // The kernel's `sched_param`. musl has no sched_setscheduler(), which sets a thread, not a
    // process as POSIX wants.
    let priority: libc::c_int = 0;
    // SAFETY: the kernel reads the int that is passed.
    let set =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, tid, policy, &raw const priority) };
    check(set as libc::c_int).map(drop)
}

/// Sets the nice value of the calling thread, which new threads inherit. Below 0 needs a privilege.
pub fn set_nice(nice: i32) -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) }).map(drop)
}

/// A default pthread mutex: unfair and without priority inheritance, on purpose.
pub struct Mutex<T> {
    // Boxed because a pthread mutex in use must not move.
    raw: Box<UnsafeCell<libc::pthread_mutex_t>>,
    value: UnsafeCell<T>,
}

// SAFETY: `value` is only accessed through a `Guard`, so by one thread at a time; the raw mutex is
// made for use by many threads.
unsafe impl<T: Send> Sync for Mutex<T> {}
// SAFETY: nothing in it belongs to a thread: without a guard (which borrows it) the raw mutex is
// not locked.
unsafe impl<T: Send> Send for Mutex<T> {}

impl<T> Mutex<T> {
    /// An unlocked mutex around `value`.
    pub fn new(value: T) -> Self {
        Self {
            raw: Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the mutex.
    #[inline(never)]
    pub fn lock(&self) -> Guard<'_, T> {
        // SAFETY: `raw` is an initialised mutex that lives, at one address, as long as `self`.
        let code = black_box(unsafe { call_mutex_lock(self.raw.get()) });
        assert_eq!(code, 0, "pthread_mutex_lock");
        Guard { mutex: self, not_send: std::marker::PhantomData }
    }
}

impl<T> Drop for Mutex<T> {
    fn drop(&mut self) {
        // SAFETY: `raw` is initialised, and unlocked because guards borrow `self`.
        unsafe { libc::pthread_mutex_destroy(self.raw.get()) };
    }
}

/// The held [`Mutex`]; dropping it releases the lock. It stays in its thread, as POSIX requires.
pub struct Guard<'a, T> {
    mutex: &'a Mutex<T>,
    not_send: std::marker::PhantomData<*const ()>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread holds the mutex as long as the guard lives.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread holds the mutex as long as the guard lives, and `self` is borrowed
        // mutably.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: `lock` succeeded in this thread (a guard is not `Send`), and nobody has unlocked
        // since.
        black_box(unsafe { call_mutex_unlock(self.mutex.raw.get()) });
    }
}

/// # Safety
/// `mutex` must be initialised and stay where it is.
#[inline(never)]
unsafe fn call_mutex_lock(mutex: *mut libc::pthread_mutex_t) -> libc::c_int {
    // SAFETY: the caller guarantees it.
    black_box(unsafe { libc::pthread_mutex_lock(mutex) })
}

/// # Safety
/// The calling thread must hold `mutex`.
#[inline(never)]
unsafe fn call_mutex_unlock(mutex: *mut libc::pthread_mutex_t) -> libc::c_int {
    // SAFETY: the caller guarantees it.
    black_box(unsafe { libc::pthread_mutex_unlock(mutex) })
}

/// A counter (`eventfd`) that one thread increments and another polls.
pub struct EventFd(File);

impl EventFd {
    /// A counter at zero.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the result is a new descriptor that nothing else owns.
        let fd = unsafe {
            OwnedFd::from_raw_fd(check(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?)
        };
        Ok(Self(File::from(fd)))
    }

    /// Adds one, which wakes the polling thread.
    #[inline(never)]
    pub fn set(&self) {
        // It can fail only after 2^64 additions.
        let _ = black_box((&self.0).write(&1_u64.to_ne_bytes()));
    }

    /// Returns the count and resets it to zero.
    pub fn take(&self) -> u64 {
        let mut count = [0; 8];
        match (&self.0).read(&mut count) {
            Ok(8) => u64::from_ne_bytes(count),
            _ => 0,
        }
    }

    /// The descriptor to poll.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Polls until one of `fds` is readable or CLOCK_MONOTONIC reaches `until_ns`; may return early
/// with none readable.
#[inline(never)]
pub fn wait_readable<const N: usize>(fds: [BorrowedFd; N], until_ns: u64) -> io::Result<[bool; N]> {
    let mut entries =
        fds.map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    let left_ns = until_ns.saturating_sub(monotonic_ns());
    let timeout = libc::timespec {
        tv_sec: (left_ns / 1_000_000_000) as _,
        tv_nsec: (left_ns % 1_000_000_000) as libc::c_long,
    };
    match check(black_box(call_ppoll(&mut entries, &timeout))) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(entries.map(|entry| entry.revents != 0)),
    }
}

#[inline(never)]
fn call_ppoll(entries: &mut [libc::pollfd], timeout: &libc::timespec) -> libc::c_int {
    // SAFETY: pointer and length are of one slice, the timeout is a valid timespec, a null mask
    // leaves the signal mask alone.
    black_box(unsafe {
        libc::ppoll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, timeout, ptr::null())
    })
}

/// Waits for a byte from a pipe or socket; `None` at the end of the stream.
#[inline(never)]
pub fn read_byte(from: BorrowedFd) -> io::Result<Option<u8>> {
    let mut byte = 0;
    match black_box(call_read(from, &mut byte)) {
        0 => Ok(None),
        1 => Ok(Some(byte)),
        _ => Err(io::Error::last_os_error()),
    }
}

// With several threads, the C library's own `read`, `recv`, `fsync` and `waitpid` use the frame
// pointer for other things, and the recorded stack would end there. `syscall` does not touch it.

#[inline(never)]
fn call_read(from: BorrowedFd, byte: &mut u8) -> libc::c_long {
    // SAFETY: room for one byte.
    black_box(unsafe { libc::syscall(libc::SYS_read, from.as_raw_fd(), ptr::from_mut(byte), 1) })
}

/// Waits until the file is on disk.
#[inline(never)]
pub fn sync_file(file: &File) -> io::Result<()> {
    check(black_box(call_fsync(file))).map(drop)
}

#[inline(never)]
fn call_fsync(file: &File) -> libc::c_int {
    // SAFETY: no pointers.
    black_box(unsafe { libc::syscall(libc::SYS_fsync, file.as_raw_fd()) }) as libc::c_int
}

/// An `epoll` set.
pub struct Epoll(OwnedFd);

impl Epoll {
    /// A set that reports when one of `fds` is readable. A descriptor that is closed is no longer
    /// reported.
    pub fn new(fds: &[BorrowedFd]) -> io::Result<Self> {
        // SAFETY: no pointers; the result is a new descriptor that nothing else owns.
        let set = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        for (index, fd) in fds.iter().enumerate() {
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: index as u64 };
            // SAFETY: both descriptors are open, `event` is valid.
            check(unsafe {
                libc::epoll_ctl(set.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &mut event)
            })?;
        }
        Ok(Self(set))
    }

    /// Waits indefinitely until a descriptor is readable and returns its index in `fds`; `None` if
    /// interrupted by a signal.
    #[inline(never)]
    pub fn wait(&self) -> io::Result<Option<usize>> {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        match check(black_box(call_epoll_wait(&self.0, &mut event))) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            Ok(1) => Ok(Some(event.u64 as usize)),
            _ => Ok(None),
        }
    }
}

#[inline(never)]
fn call_epoll_wait(set: &OwnedFd, event: &mut libc::epoll_event) -> libc::c_int {
    // SAFETY: room for one event, as promised to the kernel.
    black_box(unsafe { libc::epoll_wait(set.as_raw_fd(), event, 1, -1) })
}

/// Blocks SIGINT and SIGTERM in the calling thread and those it starts, and makes them readable
/// from a descriptor instead, until dropped.
pub struct StopSignals {
    fd: File,
    mask_before: libc::sigset_t,
}

impl StopSignals {
    /// Blocks the signals.
    pub fn block() -> io::Result<Self> {
        // SAFETY: a sigset_t is plain bits, so all zeroes is valid; `sigemptyset` then gives it its
        // proper value. The pointers are to live locals. The descriptor is new and nobody else owns
        // it.
        unsafe {
            let mut mask: libc::sigset_t = mem::zeroed();
            let mut mask_before: libc::sigset_t = mem::zeroed();
            libc::sigemptyset(&mut mask);
            libc::sigaddset(&mut mask, libc::SIGINT);
            libc::sigaddset(&mut mask, libc::SIGTERM);
            let fd = OwnedFd::from_raw_fd(check(libc::signalfd(
                -1,
                &mask,
                libc::SFD_CLOEXEC | libc::SFD_NONBLOCK,
            ))?);
            // This only fails if the first argument is invalid.
            libc::pthread_sigmask(libc::SIG_BLOCK, &mask, &mut mask_before);
            Ok(Self { fd: File::from(fd), mask_before })
        }
    }

    /// The number of a pending signal, if any.
    pub fn take(&self) -> Option<i32> {
        let mut info = [0; size_of::<libc::signalfd_siginfo>()];
        let length = (&self.fd).read(&mut info).ok()?;
        // `ssi_signo` is the first field.
        let number = info[..length].first_chunk::<4>()?;
        Some(i32::from_ne_bytes(*number))
    }

    /// The descriptor to poll.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for StopSignals {
    fn drop(&mut self) {
        // SAFETY: the mask was filled in by `pthread_sigmask`; a null pointer declines the old one.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.mask_before, ptr::null_mut()) };
    }
}
