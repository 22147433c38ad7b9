//! The locks to compare.

use super::contest::{self, Cell, Contestant};
use super::figures::{Contended, Starved};
use crate::sys::{FairMutex, Pthread};
use parking_lot::lock_api::{self, RawMutex};
use std::hint::spin_loop;
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use unhitch_lock::NO_BOUND;

/// A lock, and how to measure it.
pub struct Lock {
    /// Its name in the tables.
    pub name: &'static str,
    /// What it is, in a few words.
    pub what: &'static str,
    pub(super) uncontended_ns: fn() -> io::Result<f64>,
    pub(super) contended: fn(&Cell) -> io::Result<Contended>,
    pub(super) starved: fn([usize; 2], Duration) -> io::Result<Starved>,
}

/// All locks, ours first.
pub const LOCKS: &[Lock] = &[
    lock::<unhitch_lock::Mutex<()>>("unhitch", "handed off once in 100 wake-ups, and after 5 ms"),
    lock::<unhitch_lock::Mutex<(), 100, NO_BOUND>>(
        "unhitch 1 %",
        "handed off once in 100 wake-ups, no bound",
    ),
    lock::<std::sync::Mutex<()>>("std", "the standard library's, using futexes"),
    lock::<parking_lot::Mutex<()>>("parking_lot", "handed off after 0.5 ms on average"),
    lock::<Pthread>("pthread", "the C library's default"),
    lock::<Inheriting>("pthread PI", "the C library's with priority inheritance"),
    lock::<FairMutex<()>>("fifo", "in order of arrival; waiters sleep"),
    lock::<Ticket>("ticket", "in order of arrival; waiters spin"),
];

const fn lock<L: Contestant>(name: &'static str, what: &'static str) -> Lock {
    Lock {
        name,
        what,
        uncontended_ns: contest::uncontended_ns::<L>,
        contended: contest::contended::<L>,
        starved: contest::starved::<L>,
    }
}

/// Ours and `parking_lot`'s.
impl<R: RawMutex + Sync> Contestant for lock_api::Mutex<R, ()> {
    fn make() -> io::Result<Self> {
        Ok(Self::new(()))
    }

    #[inline]
    fn locked<T>(&self, section: impl FnOnce() -> T) -> T {
        let _held = self.lock();
        section()
    }
}

impl Contestant for std::sync::Mutex<()> {
    fn make() -> io::Result<Self> {
        Ok(Self::new(()))
    }

    #[inline]
    fn locked<R>(&self, section: impl FnOnce() -> R) -> R {
        let _held = self.lock().unwrap_or_else(PoisonError::into_inner);
        section()
    }
}

impl Contestant for Pthread {
    fn make() -> io::Result<Self> {
        Self::new(false)
    }

    #[inline]
    fn locked<R>(&self, section: impl FnOnce() -> R) -> R {
        Pthread::locked(self, section)
    }
}

struct Inheriting(Pthread);

impl Contestant for Inheriting {
    fn make() -> io::Result<Self> {
        Pthread::new(true).map(Self)
    }

    #[inline]
    fn locked<R>(&self, section: impl FnOnce() -> R) -> R {
        self.0.locked(section)
    }
}

impl Contestant for FairMutex<()> {
    fn make() -> io::Result<Self> {
        Ok(Self::new(()))
    }

    #[inline]
    fn locked<R>(&self, section: impl FnOnce() -> R) -> R {
        let _held = self.lock();
        section()
    }
}

/// Each thread draws a number and spins until its number is called.
struct Ticket {
    next: AtomicU32,
    called: AtomicU32,
}

impl Contestant for Ticket {
    fn make() -> io::Result<Self> {
        Ok(Self { next: AtomicU32::new(0), called: AtomicU32::new(0) })
    }

    #[inline]
    fn locked<R>(&self, section: impl FnOnce() -> R) -> R {
        let own = self.next.fetch_add(1, Ordering::Relaxed);
        while self.called.load(Ordering::Acquire) != own {
            spin_loop();
        }
        let result = section();
        self.called.store(own.wrapping_add(1), Ordering::Release);
        result
    }
}
