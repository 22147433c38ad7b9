//! Many threads on one lock: no update is lost, readers and writers exclude each other, every
//! thread gets the lock, and guards work as documented.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{self, ScopedJoinHandle};
use unhitch_lock::{Mutex, NO_BOUND, RwLock};

/// Joins each thread: a race detector does not understand how the standard library waits for all
/// threads of a scope.
fn join<'a>(threads: impl IntoIterator<Item = ScopedJoinHandle<'a, ()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn count_with<const ONE_IN: u32, const BOUND_US: u32>(threads: u64, rounds: u64) {
    let total = Mutex::<u64, ONE_IN, BOUND_US>::new(0);
    thread::scope(|scope| {
        let count = || {
            for round in 0..rounds {
                let mut total = total.lock();
                let before = *total;
                if round % 64 == 0 {
                    // Now and then the holder is preempted, so that there is a queue on any
                    // machine.
                    thread::yield_now();
                }
                *total = before + 1;
            }
        };
        join((0..threads).map(|_| scope.spawn(count)).collect::<Vec<_>>());
    });
    assert!(!total.is_locked());
    assert_eq!(total.into_inner(), threads * rounds);
}

#[test]
fn no_increment_is_lost_under_any_policy() {
    count_with::<100, 5_000>(8, 20_000);
    count_with::<100, NO_BOUND>(8, 20_000);
    count_with::<0, NO_BOUND>(8, 20_000);
    count_with::<1, NO_BOUND>(4, 4_000);
    count_with::<0, 0>(4, 4_000);
    count_with::<2, 100>(8, 10_000);
}

fn read_and_write_with<const ONE_IN: u32, const BOUND_US: u32>(
    readers: usize,
    writers: usize,
    rounds: u32,
) {
    let pair = RwLock::<(u64, u64), ONE_IN, BOUND_US>::new((0, 0));
    let inside = AtomicU32::new(0);
    thread::scope(|scope| {
        let read = || {
            for round in 0..rounds {
                let pair = pair.read();
                inside.fetch_add(1, Ordering::Relaxed);
                if round % 32 == 0 {
                    thread::yield_now();
                }
                assert_eq!(pair.0, pair.1, "a reader saw half of a write");
                inside.fetch_sub(1, Ordering::Relaxed);
            }
        };
        let write = || {
            for round in 0..rounds {
                let mut pair = pair.write();
                assert_eq!(inside.load(Ordering::Relaxed), 0, "a writer beside a reader");
                pair.0 += 1;
                if round % 32 == 0 {
                    thread::yield_now();
                }
                pair.1 += 1;
            }
        };
        let threads: Vec<_> = (0..readers).map(|_| scope.spawn(read)).collect();
        join(
            threads.into_iter().chain((0..writers).map(|_| scope.spawn(write)).collect::<Vec<_>>()),
        );
    });
    assert!(!pair.is_locked());
    assert_eq!(pair.into_inner().0, writers as u64 * u64::from(rounds));
}

#[test]
fn readers_and_writers_exclude_each_other_under_any_policy() {
    read_and_write_with::<100, 5_000>(4, 2, 10_000);
    read_and_write_with::<100, NO_BOUND>(2, 4, 10_000);
    read_and_write_with::<1, NO_BOUND>(4, 2, 2_000);
    read_and_write_with::<0, 0>(4, 2, 2_000);
    read_and_write_with::<0, NO_BOUND>(6, 1, 10_000);
    read_and_write_with::<3, 50>(3, 3, 5_000);
}

/// Two readers take turns so that one of them always reads. A writer must get in all the same, by
/// either half of the policy.
fn writer_gets_past_overlapping_readers<const ONE_IN: u32, const BOUND_US: u32>() {
    let lock = RwLock::<u32, ONE_IN, BOUND_US>::new(0);
    let done = AtomicBool::new(false);
    let reads = [AtomicU64::new(0), AtomicU64::new(0)];
    let start = Barrier::new(3);
    thread::scope(|scope| {
        let readers = [0, 1].map(|own| {
            let (lock, done, reads, start) = (&lock, &done, &reads, &start);
            scope.spawn(move || {
                start.wait();
                while !done.load(Ordering::Relaxed) {
                    let guard = lock.read();
                    let seen = reads[1 - own].load(Ordering::Relaxed);
                    reads[own].fetch_add(1, Ordering::Relaxed);
                    // Stays until the other one is in as well; a writer that shuts it out ends
                    // that, after a while.
                    for _ in 0..1_000 {
                        if reads[1 - own].load(Ordering::Relaxed) != seen
                            || done.load(Ordering::Relaxed)
                        {
                            break;
                        }
                        thread::yield_now();
                    }
                    drop(guard);
                }
            })
        });
        start.wait();
        for _ in 0..10 {
            *lock.write() += 1;
        }
        done.store(true, Ordering::Relaxed);
        join(readers);
    });
    assert_eq!(lock.into_inner(), 10);
}

#[test]
fn readers_that_overlap_for_ever_do_not_starve_a_writer() {
    writer_gets_past_overlapping_readers::<100, NO_BOUND>();
    writer_gets_past_overlapping_readers::<0, 1_000>();
}

#[test]
fn try_lock_neither_waits_nor_passes_a_holder() {
    let mutex: Mutex<u32> = Mutex::new(1);
    let held = mutex.try_lock();
    assert!(held.is_some() && mutex.try_lock().is_none() && mutex.is_locked());
    drop(held);
    assert_eq!(mutex.try_lock().map(|value| *value), Some(1));

    let lock: RwLock<u32> = RwLock::new(1);
    let (first, second) = (lock.try_read(), lock.try_read());
    assert!(first.is_some() && second.is_some() && lock.try_write().is_none());
    drop((first, second));
    let writer = lock.try_write();
    assert!(writer.is_some() && lock.try_read().is_none() && lock.is_locked_exclusive());
}

#[test]
fn a_panic_does_not_poison() {
    let mutex: Arc<Mutex<u32>> = Arc::new(Mutex::new(1));
    let own = Arc::clone(&mutex);
    let panicked = thread::spawn(move || {
        let _held = own.lock();
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    assert!(panicked.join().is_err());
    assert_eq!(*mutex.lock(), 1);
}

#[test]
fn a_guard_may_be_dropped_by_another_thread() {
    let mutex: Mutex<u32> = Mutex::new(1);
    let held = mutex.lock();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| *mutex.lock());
        join([scope.spawn(move || drop(held))]);
        assert_eq!(waiter.join().unwrap(), 1);
    });
}

#[test]
fn a_fair_release_goes_to_the_waiter() {
    let mutex: Mutex<u32, 0, NO_BOUND> = Mutex::new(0);
    let held = mutex.lock();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| *mutex.lock() = 7);
        let mut held = Some(held);
        // Released fairly and taken again until the waiter was queued when we released: from then
        // on it comes first.
        while held.as_deref() != Some(&7) {
            lock_api::MutexGuard::bump(held.as_mut().expect("held"));
            thread::yield_now();
        }
        join([waiter]);
    });
}

#[test]
fn a_lock_is_one_word() {
    assert_eq!(size_of::<unhitch_lock::RawMutex>(), 4);
    assert_eq!(size_of::<unhitch_lock::RawRwLock>(), 4);
}
