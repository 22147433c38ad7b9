//! A writer against a stream of readers: four threads hold the lock for reading, 1 ms at a time
//! with no gap, so there is always a reader.
//!
//! *Why the readers sleep while they hold it:* if they computed, they would also keep the writer
//! off its CPU, which has nothing to do with the lock.

use super::waits::Waits;
use crate::sys;
use parking_lot::lock_api::{self, RawRwLock};
use serde::Serialize;
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use unhitch_lock::NO_BOUND;

const READERS: usize = 4;
const HOLD: Duration = Duration::from_millis(1);
const REQUEST_INTERVAL: Duration = Duration::from_millis(20);

/// A reader-writer lock, and how to measure it.
pub struct RwLock {
    /// Its name in the tables.
    pub name: &'static str,
    /// What it is, in a few words.
    pub what: &'static str,
    pub(super) against_readers: fn(Duration) -> io::Result<Run>,
}

/// All locks, ours first.
pub const RW_LOCKS: &[RwLock] = &[
    lock::<unhitch_lock::RwLock<()>>(
        "unhitch",
        "closed to readers once in 100 wake-ups, and after 5 ms",
    ),
    lock::<unhitch_lock::RwLock<(), 100, NO_BOUND>>(
        "unhitch 1 %",
        "closed to readers once in 100 wake-ups, no bound",
    ),
    lock::<std::sync::RwLock<()>>(
        "std",
        "the standard library's: a waiting writer blocks new readers",
    ),
    lock::<parking_lot::RwLock<()>>("parking_lot", "a waiting writer blocks new readers"),
];

const fn lock<L: Shareable>(name: &'static str, what: &'static str) -> RwLock {
    RwLock { name, what, against_readers: against_readers::<L> }
}

/// The results for one reader-writer lock.
#[derive(Clone, Debug, Serialize)]
pub struct RwFigures {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a few words.
    pub what: &'static str,
    /// How long the writer waited, fifty times a second. A wait cut off by the end of a run counts
    /// with its length so far.
    pub waits: Waits,
    /// Reads of all readers together. They are blocked while the writer holds the lock.
    pub reads: u64,
    /// How long the readers ran, in nanoseconds.
    pub reading_ns: u64,
}

impl RwFigures {
    pub(super) fn new(lock: &RwLock) -> Self {
        Self { name: lock.name, what: lock.what, waits: Waits::default(), reads: 0, reading_ns: 0 }
    }

    /// Adds a run.
    pub(super) fn add(&mut self, run: &Run) {
        self.waits.add(&run.waits);
        self.reads += run.reads;
        self.reading_ns += run.reading_ns;
    }

    /// Reads per second, summed over all readers.
    pub fn reads_per_second(&self) -> f64 {
        self.reads as f64 / (self.reading_ns.max(1) as f64 / 1e9)
    }
}

/// The results of one run.
pub(super) struct Run {
    waits: Waits,
    reads: u64,
    reading_ns: u64,
}

trait Shareable: Default + Sync {
    fn read(&self, section: impl FnOnce());
    fn write(&self);
}

/// Ours and `parking_lot`'s.
impl<R: RawRwLock + Sync> Shareable for lock_api::RwLock<R, ()> {
    fn read(&self, section: impl FnOnce()) {
        let _held = self.read();
        section();
    }

    fn write(&self) {
        drop(self.write());
    }
}

impl Shareable for std::sync::RwLock<()> {
    fn read(&self, section: impl FnOnce()) {
        let _held = self.read().unwrap_or_else(PoisonError::into_inner);
        section();
    }

    fn write(&self) {
        drop(self.write().unwrap_or_else(PoisonError::into_inner));
    }
}

fn against_readers<L: Shareable>(length: Duration) -> io::Result<Run> {
    let (lock, stop) = (L::default(), AtomicBool::new(false));
    let read = || {
        let mut reads = 0_u64;
        while !stop.load(Ordering::Relaxed) {
            Shareable::read(&lock, || thread::sleep(HOLD));
            reads += 1;
        }
        reads
    };
    let write = || {
        let mut waits = Waits::default();
        // Do this at least once, even if a busy machine starts the thread late.
        while waits.count() == 0 || !stop.load(Ordering::Relaxed) {
            thread::sleep(REQUEST_INTERVAL);
            let from_ns = sys::monotonic_ns();
            Shareable::write(&lock);
            waits.note(sys::monotonic_ns() - from_ns);
        }
        waits
    };
    let start_ns = sys::monotonic_ns();
    thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(read)).collect();
        let writer = scope.spawn(write);
        thread::sleep(length);
        stop.store(true, Ordering::Relaxed);
        let panicked = |_| io::Error::other("a reader or the writer panicked");
        let mut reads = 0;
        for reader in readers {
            reads += reader.join().map_err(panicked)?;
        }
        let reading_ns = sys::monotonic_ns() - start_ns;
        Ok(Run { waits: writer.join().map_err(panicked)?, reads, reading_ns })
    })
}
