//! A futex-based lock that is handed off in order of arrival. In shared memory it works between
//! processes.
//!
//! *Why not the C library's mutex:* that one goes to the first thread that arrives after a release,
//! which is another kind of hang (`starve`).

use std::cell::UnsafeCell;
use std::hint::black_box;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Maximum number of threads that may own or wait for the lock at the same time.
const MAX_THREADS: usize = 128;

/// A mutex that is handed off to its waiters in order of arrival. Each waiter sleeps on its own
/// futex.
///
/// Each thread draws a number. The lock belongs to number n once `places[n % MAX_THREADS]` is n +
/// 1.
pub struct FairMutex<T> {
    next_number: AtomicU32,
    places: [AtomicU32; MAX_THREADS],
    value: UnsafeCell<T>,
}

// SAFETY: `value` is only accessed through a `FairGuard`, so by one thread at a time.
unsafe impl<T: Send> Sync for FairMutex<T> {}

impl<T> FairMutex<T> {
    /// An unlocked mutex around `value`.
    pub fn new(value: T) -> Self {
        let places = std::array::from_fn(|place| AtomicU32::new(u32::from(place == 0)));
        Self { next_number: AtomicU32::new(0), places, value: UnsafeCell::new(value) }
    }

    /// Waits for the mutex.
    #[inline(never)]
    pub fn lock(&self) -> FairGuard<'_, T> {
        let number = self.next_number.fetch_add(1, Ordering::SeqCst);
        let (place, mine) = (self.place(number), number.wrapping_add(1));
        loop {
            let seen = place.load(Ordering::SeqCst);
            if seen == mine {
                return FairGuard { mutex: self, number };
            }
            // This returns at once if the place has changed meanwhile, and may return spuriously.
            black_box(call_futex_wait(place, seen));
        }
    }

    fn place(&self, number: u32) -> &AtomicU32 {
        &self.places[number as usize % MAX_THREADS]
    }
}

/// The held [`FairMutex`]; dropping it hands the lock off.
pub struct FairGuard<'a, T> {
    mutex: &'a FairMutex<T>,
    number: u32,
}

impl<T> Deref for FairGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the mutex is held as long as the guard lives.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for FairGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the mutex is held as long as the guard lives, and `self` is borrowed mutably.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for FairGuard<'_, T> {
    #[inline(never)]
    fn drop(&mut self) {
        let next = self.number.wrapping_add(1);
        let place = self.mutex.place(next);
        place.store(next.wrapping_add(1), Ordering::SeqCst);
        // A thread that draws this number after this check finds the place already set.
        if self.mutex.next_number.load(Ordering::SeqCst) != next {
            black_box(call_futex_wake(place));
        }
    }
}

#[inline(never)]
fn call_futex_wait(word: &AtomicU32, expected: u32) -> libc::c_long {
    // SAFETY: the word is valid and aligned; no timeout. Not "private", so that it works between
    // processes.
    black_box(unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            expected,
            ptr::null::<libc::timespec>(),
        )
    })
}

#[inline(never)]
fn call_futex_wake(word: &AtomicU32) -> libc::c_long {
    // SAFETY: the word is valid and aligned.
    black_box(unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_increment_is_lost() {
        let mutex = FairMutex::new(0_u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1_000).for_each(|_| *mutex.lock() += 1));
            }
        });
        assert_eq!(*mutex.lock(), 4_000);
    }
}
