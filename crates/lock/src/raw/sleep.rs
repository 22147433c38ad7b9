//! What the lock wants from the system: to sleep on a word, to wake a sleeper, a clock. One of
//! three, by the system; `--cfg unhitch_lock_fallback` chooses on Linux what other systems get, so
//! that it can be tested there (`tools/test-lock-models`).
//!
//! `wait` may return for no reason. `wake` takes an address and not a reference: the waiter that it
//! means may by then be gone, with the stack that the word was on; then it wakes nobody, or
//! somebody for no reason.

pub use system::{now_ns, wait, wake};

/// Linux: futex(2).
#[cfg(all(not(any(loom, unhitch_lock_fallback)), any(target_os = "linux", target_os = "android")))]
mod system {
    use core::ptr;
    use core::sync::atomic::AtomicU32;

    /// Sleeps while `word` is `expected`.
    pub fn wait(word: &AtomicU32, expected: u32) {
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word is valid and aligned; a null timeout is none.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                operation,
                expected,
                ptr::null::<libc::timespec>(),
            )
        };
    }

    /// Wakes one who sleeps on the word at this address.
    pub fn wake(word: *const AtomicU32) {
        // SAFETY: the kernel uses a private futex's address as a key, and does not read it to wake.
        unsafe {
            libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1)
        };
    }

    /// CLOCK_MONOTONIC.
    pub fn now_ns() -> u64 {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a valid timespec to write to; every Linux has this clock.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
        (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
    }
}

/// Elsewhere: the parking lot.
#[cfg(all(
    not(loom),
    any(unhitch_lock_fallback, not(any(target_os = "linux", target_os = "android")))
))]
mod system {
    use core::sync::atomic::{AtomicU32, Ordering};
    use parking_lot_core::{DEFAULT_PARK_TOKEN, DEFAULT_UNPARK_TOKEN, park, unpark_one};
    use std::sync::OnceLock;
    use std::time::Instant;

    /// Sleeps while `word` is `expected`.
    pub fn wait(word: &AtomicU32, expected: u32) {
        let key = word as *const AtomicU32 as usize;
        let still = || word.load(Ordering::Relaxed) == expected;
        // SAFETY: the closures neither panic nor call into the parking lot; nobody else parks at an
        // address of ours.
        unsafe { park(key, still, || (), |_, _| (), DEFAULT_PARK_TOKEN, None) };
    }

    /// Wakes one who sleeps on the word at this address.
    pub fn wake(word: *const AtomicU32) {
        // SAFETY: as above.
        unsafe { unpark_one(word as usize, |_| DEFAULT_UNPARK_TOKEN) };
    }

    /// Nanoseconds since the first call.
    pub fn now_ns() -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// The model checker: one condition variable for all addresses, and a clock that only goes on when
/// somebody looks.
#[cfg(loom)]
mod system {
    use loom::sync::atomic::{AtomicU32, Ordering};
    use loom::sync::{Condvar, Mutex};

    loom::lazy_static! {
        static ref SLEEPERS: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    /// Sleeps while `word` is `expected`.
    pub fn wait(word: &AtomicU32, expected: u32) {
        let guard = SLEEPERS.0.lock().unwrap();
        if word.load(Ordering::Relaxed) == expected {
            drop(SLEEPERS.1.wait(guard));
        }
    }

    /// Wakes all; those who were not meant see it by their word.
    pub fn wake(_: *const AtomicU32) {
        let _guard = SLEEPERS.0.lock().unwrap();
        SLEEPERS.1.notify_all();
    }

    /// Later than at every look before, by so little that no bound but that of zero is ever passed.
    /// Not the model checker's, or it would try every order of the looks.
    pub fn now_ns() -> u64 {
        static NOW_NS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        NOW_NS.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
    }
}
