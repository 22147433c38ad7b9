//! An occasionally fair mutex and reader-writer lock: as fast as an unfair lock, and nobody
//! starves.
//!
//! A lock that whoever comes first may take after a release (nearly every lock of today) is fast,
//! and can starve: a thread that holds it for a millisecond, releases it and takes it again at once
//! wakes the waiter each time, and has the lock again before the waiter, on another CPU, has come
//! to its senses. Hundreds of wake-ups in vain have been seen, and programs that hung for seconds.
//! A lock that is handed on in the order of arrival starves nobody, but every hand-over costs a
//! context switch during which nobody has the lock.
//!
//! This one is unfair nearly always, and fair now and then. A release with somebody queued hands
//! the lock over to the one who has waited longest
//!
//! * with probability 1/`ONE_IN` (1/100) when it would wake somebody, and
//! * always when that one has waited longer than `BOUND_US` (5 ms).
//!
//! ```
//! use unhitch_lock::Mutex;
//!
//! static TOTAL: Mutex<u64> = Mutex::new(0);
//! *TOTAL.lock() += 1;
//! assert_eq!(*TOTAL.lock(), 1);
//! ```
//!
//! # What it promises
//!
//! Let *h* be the longest time that the lock is held, and *s* the time from a wake-up to the first
//! instruction of the woken thread (some µs on an idle CPU, as long as the scheduler likes on a
//! busy one).
//!
//! * **With the bound**, the longest waiter has the lock after at most `BOUND_US` + 2 *h* + *s*.
//!   After the bound any release hands over unless the waiter is awake already, on its way from the
//!   wake-up before; then it comes, in vain or not, and the release after that hands over. Whoever
//!   has *k* waiters before itself waits for at most *k* (*h* + *s*) more: once they are over the
//!   bound the lock goes from one to the next in the order of arrival.
//! * **By the lottery alone** ([`NO_BOUND`]), a waiter at the head of the queue is woken in vain
//!   `ONE_IN` − 1 times on average, and more than *n* times with probability (1 − 1/`ONE_IN`)ⁿ at
//!   most. With 1/100 and holds of 1 ms: 100 ms on average, one wait in a hundred longer than 460
//!   ms, one in a million longer than 1.4 s. That is the reason for the bound.
//! * A release is never made to wait for anybody. The lock is not poisoned by a panic.
//!
//! # What it costs
//!
//! * One word (`u32`). A lock that is free costs one compare-and-swap to take and one to release,
//!   as everywhere.
//! * The clock is read, and the queue looked at, only when a thread lies down and when one is about
//!   to be woken. Either costs a system call anyway. (Of an [`RwLock`], also when one of several
//!   readers leaves while somebody is queued.)
//! * A release wakes nobody while another waiter is already on its way. So short sections under
//!   contention cost fewer wake-ups than with a lock that wakes at every release.
//! * A hand-over leaves the lock unused for the time *s*. One in a hundred wake-ups is a hand-over,
//!   so this cannot cost more than about one per cent as long as the bound is not at work. Where
//!   the queue is so long that everybody in it is over the bound, the lock is first come, first
//!   served, with the throughput of such a lock.
//!
//! # When not to use it
//!
//! * Where the order of arrival matters: take a queue. (`ONE_IN` = 1 makes this a
//!   first-come-first-served lock for those who sleep.)
//! * Where a thread of low priority may hold it: it inherits no priority. Take a
//!   priority-inheriting pthread mutex.
//! * Between processes: the queue is in this one's memory.
//! * To hold it across an `await`: take the lock of your runtime.
//!
//! # Elsewhere
//!
//! On Linux and Android the crate is `no_std` and sleeps on futexes; on other systems it sleeps by
//! means of `parking_lot_core`, with the same queues and the same policy. Guards may be sent to
//! another thread. With the feature `arc_lock` they may own an `Arc` of their lock.

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

/// `BOUND_US` of a lock that is fair by the lottery alone.
pub const NO_BOUND: u32 = u32::MAX;

#[cfg(not(loom))]
mod locks {
    pub use crate::raw::{RawMutex, RawRwLock};

    /// A mutual exclusion lock, handed over to the longest waiter once in `ONE_IN` releases that
    /// find one asleep (0: never by chance), and always once that one has waited `BOUND_US`
    /// microseconds ([`NO_BOUND`](crate::NO_BOUND): no such bound).
    pub type Mutex<T, const ONE_IN: u32 = 100, const BOUND_US: u32 = 5_000> =
        lock_api::Mutex<RawMutex<ONE_IN, BOUND_US>, T>;

    /// The held [`Mutex`]; dropping it releases.
    pub type MutexGuard<'a, T, const ONE_IN: u32 = 100, const BOUND_US: u32 = 5_000> =
        lock_api::MutexGuard<'a, RawMutex<ONE_IN, BOUND_US>, T>;

    /// A lock for one writer or many readers, with the policy of [`Mutex`] for both. Readers pass
    /// waiting writers, as long as the policy allows; then newcomers queue, the readers that are in
    /// finish, and the last one hands over.
    ///
    /// A thread that holds it must not take it again, not even for reading: a writer may come to be
    /// waited for in between.
    pub type RwLock<T, const ONE_IN: u32 = 100, const BOUND_US: u32 = 5_000> =
        lock_api::RwLock<RawRwLock<ONE_IN, BOUND_US>, T>;

    /// The [`RwLock`], held for reading; dropping it releases.
    pub type RwLockReadGuard<'a, T, const ONE_IN: u32 = 100, const BOUND_US: u32 = 5_000> =
        lock_api::RwLockReadGuard<'a, RawRwLock<ONE_IN, BOUND_US>, T>;

    /// The [`RwLock`], held for writing; dropping it releases.
    pub type RwLockWriteGuard<'a, T, const ONE_IN: u32 = 100, const BOUND_US: u32 = 5_000> =
        lock_api::RwLockWriteGuard<'a, RawRwLock<ONE_IN, BOUND_US>, T>;
}
