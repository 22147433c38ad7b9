//! An occasionally fair mutex and reader-writer lock: as fast as an unfair lock, but without
//! starvation.
//!
//! After a release, most of today's locks go to the first thread that tries. That is fast, but a
//! waiter can starve. Consider an owner that holds the lock for a millisecond, releases it and
//! reacquires it at once. Each release wakes the waiter, but before the waiter runs on its CPU, the
//! lock is taken again. Hundreds of futile wake-ups have been seen, and programs that hung for
//! seconds. A lock that is handed off in order of arrival starves nobody, but every hand-off costs
//! a context switch during which the lock is unused.
//!
//! This lock is almost always unfair, and occasionally fair. If there is a queue, a release hands
//! the lock off to the longest waiter
//!
//! * with probability 1/`ONE_IN` (1/100) if it would wake somebody, and
//! * always if that waiter has waited longer than `BOUND_US` (5 ms).
//!
//! ```
//! use unhitch_lock::Mutex;
//!
//! static TOTAL: Mutex<u64> = Mutex::new(0);
//! *TOTAL.lock() += 1;
//! assert_eq!(*TOTAL.lock(), 1);
//! ```
//!
//! # Guarantees
//!
//! Let *h* be the maximum time that the lock is held, and *s* the time from a wake-up to the first
//! instruction of the woken thread (some µs on an idle CPU, any time on a busy one).
//!
//! * **With the bound**, the longest waiter gets the lock after at most `BOUND_US` + 2 *h* + *s*.
//!   Once it is over the bound, any release hands the lock off, unless the waiter is already awake
//!   from an earlier wake-up; then it tries, and if that fails, the next release hands the lock
//!   off. A waiter with *k* waiters in front of it waits at most *k* (*h* + *s*) longer: once they
//!   are over the bound, the lock is handed off in order of arrival.
//! * **By the lottery alone** ([`NO_BOUND`]), the waiter at the head of the queue has `ONE_IN` − 1
//!   futile wake-ups on average, and more than *n* with a probability of at most (1 − 1/`ONE_IN`)ⁿ.
//!   With 1/100 and holds of 1 ms, the average is 100 ms, one wait in a hundred is longer than 460
//!   ms, and one in a million longer than 1.4 s. That is the reason for the bound.
//! * A release never waits for another thread. A panic does not poison the lock.
//!
//! # Costs
//!
//! * One word (`u32`). An uncontended lock costs one compare-and-swap to acquire and one to
//!   release, as usual.
//! * The clock is read and the queue accessed only when a thread goes to sleep, and when one is
//!   about to be woken. Both cost a system call anyway. (With an [`RwLock`], also when one of
//!   several readers releases while somebody is queued.)
//! * A release wakes nobody while another waiter is already awake. So with short critical sections
//!   under contention, there are fewer wake-ups than with a lock that wakes at every release.
//! * A hand-off leaves the lock unused for the time *s*. One in a hundred wake-ups is a hand-off,
//!   so this costs at most about one percent while the bound is not exceeded. If the queue is so
//!   long that everybody in it is over the bound, the lock becomes first come, first served, with
//!   the throughput of such a lock.
//!
//! # When not to use it
//!
//! * When the order of arrival matters: use a queue. (`ONE_IN` = 1 makes this a
//!   first-come-first-served lock for sleeping waiters.)
//! * When a low-priority thread may hold it: there is no priority inheritance. Use a
//!   priority-inheriting pthread mutex.
//! * Between processes: the queue is in the memory of one process.
//! * Across an `await`: use the lock of your runtime.
//!
//! # Platforms
//!
//! On Linux and Android, the crate is `no_std` and sleeps on futexes. On other systems it sleeps
//! with `parking_lot_core`, with the same queues and the same policy. Guards may be sent to another
//! thread. With the feature `arc_lock` they may own an `Arc` of their lock.

#![cfg_attr(
    all(not(any(loom, unhitch_lock_fallback)), any(target_os = "linux", target_os = "android")),
    no_std
)]

#[cfg(test)]
extern crate std;

#[allow(unsafe_code)]
mod raw;

#[cfg(not(loom))]
pub use locks::*;

/// `BOUND_US` for a lock that is only fair by the lottery.
pub const NO_BOUND: u32 = u32::MAX;

#[cfg(not(loom))]
mod locks {
    pub use crate::raw::{RawMutex, RawRwLock};

    /// A mutex that is handed off to the longest waiter in one of `ONE_IN` releases that find it
    /// asleep (0 for never by chance), and always once that waiter has waited for `BOUND_US`
    /// microseconds ([`NO_BOUND`](crate::NO_BOUND) for no bound).
    pub type Mutex<T, const ONE_IN: u32 = 100, const BOUND_US: u32 = 5_000> =
        lock_api::Mutex<RawMutex<ONE_IN, BOUND_US>, T>;

    /// The held [`Mutex`]; dropping it releases the lock.
    pub type MutexGuard<'a, T, const ONE_IN: u32 = 100, const BOUND_US: u32 = 5_000> =
        lock_api::MutexGuard<'a, RawMutex<ONE_IN, BOUND_US>, T>;

    /// A lock for one writer or many readers, with the policy of [`Mutex`] for both. Readers
    /// overtake waiting writers for as long as the policy allows. Then new readers queue, the
    /// current readers finish, and the last one hands the lock off.
    ///
    /// A thread that holds the lock must not acquire it again, not even for reading: a writer may
    /// have queued in between, which would be a deadlock.
    pub type RwLock<T, const ONE_IN: u32 = 100, const BOUND_US: u32 = 5_000> =
        lock_api::RwLock<RawRwLock<ONE_IN, BOUND_US>, T>;

    /// The [`RwLock`], held for reading; dropping it releases the lock.
    pub type RwLockReadGuard<'a, T, const ONE_IN: u32 = 100, const BOUND_US: u32 = 5_000> =
        lock_api::RwLockReadGuard<'a, RawRwLock<ONE_IN, BOUND_US>, T>;

    /// The [`RwLock`], held for writing; dropping it releases the lock.
    pub type RwLockWriteGuard<'a, T, const ONE_IN: u32 = 100, const BOUND_US: u32 = 5_000> =
        lock_api::RwLockWriteGuard<'a, RawRwLock<ONE_IN, BOUND_US>, T>;
}
