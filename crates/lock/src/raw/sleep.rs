//! What the lock needs from the system: sleeping on a word, waking a sleeper, and a clock. There
//! are three implementations; `--cfg unhitch_lock_fallback` selects on Linux the one for other
//! systems, so that it can be tested there (`tools/test-lock-models`).
//!
//! `wait` may return spuriously. `wake` takes an address instead of a reference: the waiter may no
//! longer exist by then, nor the stack that the word was on. Then it wakes nobody, or somebody
//! spuriously.

pub use system::{now_ns, wait, wake};

/// Linux: futex(2).
#[cfg(all(not(any(loom, unhitch_lock_fallback)), any(target_os = "linux", target_os = "android")))]
mod system {
    use core::ptr;
    use core::sync::atomic::AtomicU32;

    /// Sleeps while `word` is `expected`.
    pub fn wait(word: &AtomicU32, expected: u32) {
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word is valid and aligned; a null pointer means no timeout.
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

    /// Wakes one thread that sleeps on the word at this address.
    pub fn wake(word: *const AtomicU32) {
        // SAFETY: the kernel uses the address of a private futex as a key, and does not read it to
        // wake.
        unsafe {
            libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1)
        };
    }

    /// CLOCK_MONOTONIC, in nanoseconds.
    pub fn now_ns() -> u64 {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a valid timespec to write to; every Linux has this clock.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
        (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
    }
}

/// Other systems: the parking lot.
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
        // SAFETY: the closures neither panic nor call into the parking lot; nothing else parks at
        // our addresses.
        unsafe { park(key, still, || (), |_, _| (), DEFAULT_PARK_TOKEN, None) };
    }

    /// Wakes one thread that sleeps on the word at this address.
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

/// The model checker: one condition variable for all addresses, and a clock that only advances when
/// it is read.
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

    /// Wakes all threads; the others notice by their word that they were not meant.
    pub fn wake(_: *const AtomicU32) {
        let _guard = SLEEPERS.0.lock().unwrap();
        SLEEPERS.1.notify_all();
    }

    /// Later than in every earlier call, by so little that only a bound of zero is ever exceeded.
    /// This is not loom's atomic, or loom would try every order of the calls.
    pub fn now_ns() -> u64 {
        static NOW_NS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        NOW_NS.fetch_add(1, Ordering::Relaxed)
    }
}
