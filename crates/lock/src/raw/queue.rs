//! The waiters of all locks in order of arrival: a table of queues, keyed by the address of the
//! lock.
//!
//! *Why a table:* the lock is one word. A waiter's queue entry is on its own stack, but the head of
//! the queue must be somewhere that exists even when nobody waits. Locks whose addresses fall into
//! the same bucket share its list; each only sees its own waiters.

use super::sleep;
use super::sync::{AtomicU32, Ordering, SPINS, spin_loop};
use core::cell::{Cell, UnsafeCell};
use core::ops::{Deref, DerefMut};
use core::ptr;

/// How a lock is held or requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Together with other readers.
    Shared,
    /// Alone.
    Exclusive,
}

/// [`Waiter::state`]: asleep, or about to be.
pub const WAITING: u32 = 0;
/// [`Waiter::state`]: awake, and free to try for the lock.
pub const AWAKE: u32 = 1;
/// [`Waiter::state`]: it owns the lock, and is out of the queue.
pub const GRANTED: u32 = 2;

/// A waiting thread. It keeps its place in the queue until it has the lock.
pub struct Waiter {
    pub state: AtomicU32,
    pub mode: Mode,
    /// When it arrived, in nanoseconds of [`sleep::now_ns`]; 0 if that does not matter.
    pub since_ns: u64,
    key: usize,
    /// May only be accessed by the owner of the bucket; once the waiter is out of the queue, by
    /// whoever removed it.
    next: Cell<*const Waiter>,
}

impl Waiter {
    pub fn new(key: usize, mode: Mode, since_ns: u64) -> Self {
        Self { state: AtomicU32::new(WAITING), mode, since_ns, key, next: Cell::new(ptr::null()) }
    }
}

/// The waiters of one bucket, and its lottery.
pub struct Queue {
    first: *const Waiter,
    last: *const Waiter,
    /// The state of xorshift32, so never 0. It is per bucket, because the lock is one word and has
    /// no room for it. All locks of a bucket draw from one sequence, with the same chance in every
    /// draw.
    noise: u32,
}

impl Queue {
    const EMPTY: Self = Self { first: ptr::null(), last: ptr::null(), noise: 0x9e37_79b9 };

    /// Adds a waiter at the end.
    ///
    /// # Safety
    /// It must live, and not move, until it is out of the queue again.
    pub unsafe fn push(&mut self, waiter: &Waiter) {
        // SAFETY: `last` is in the queue, so it is alive.
        match unsafe { self.last.as_ref() } {
            Some(last) => last.next.set(waiter),
            None => self.first = waiter,
        }
        self.last = waiter;
    }

    /// The waiters for the lock `key`, the longest waiting first.
    pub fn of(&self, key: usize) -> impl Iterator<Item = &Waiter> {
        // SAFETY: waiters in the queue are alive, and none leaves it while `self` is borrowed.
        let link = |waiter: *const Waiter| unsafe { waiter.as_ref() };
        core::iter::successors(link(self.first), move |waiter| link(waiter.next.get()))
            .filter(move |waiter| waiter.key == key)
    }

    /// The waiters for `key` that can acquire the lock after one release: a writer, or the readers
    /// up to the first writer.
    pub fn leading(&self, key: usize) -> impl Iterator<Item = &Waiter> {
        let writer = self.of(key).next().filter(|waiter| waiter.mode == Mode::Exclusive);
        writer.into_iter().chain(self.of(key).take_while(|waiter| waiter.mode == Mode::Shared))
    }

    /// Removes a waiter; false if it is not in the queue.
    pub fn remove(&mut self, waiter: &Waiter) -> bool {
        let mut before: *const Waiter = ptr::null();
        let mut at = self.first;
        // SAFETY: waiters in the queue are alive.
        while let Some(found) = unsafe { at.as_ref() } {
            if ptr::eq(found, waiter) {
                // SAFETY: as above.
                match unsafe { before.as_ref() } {
                    Some(before) => before.next.set(found.next.get()),
                    None => self.first = found.next.get(),
                }
                if ptr::eq(self.last, found) {
                    self.last = before;
                }
                found.next.set(ptr::null());
                return true;
            }
            before = at;
            at = found.next.get();
        }
        false
    }

    /// Removes the [leading](Self::leading) waiters for `key`, which will get the lock.
    pub fn take_new_owners(&mut self, key: usize) -> NewOwners {
        let count = self.leading(key).count();
        let mut owners = NewOwners { first: ptr::null() };
        let mut last: *const Waiter = ptr::null();
        for _ in 0..count {
            let Some(owner) = self.of(key).next().map(ptr::from_ref) else { break };
            // SAFETY: it is in the queue, so it is alive; once removed, it lives until it is
            // granted the lock.
            let (owner, before) = unsafe { (&*owner, last.as_ref()) };
            self.remove(owner);
            match before {
                Some(before) => before.next.set(owner),
                None => owners.first = owner,
            }
            last = owner;
        }
        owners
    }

    /// Wakes the [leading](Self::leading) waiters for `key` without granting them the lock. All but
    /// the last are woken immediately.
    pub fn wake_leading(&self, key: usize) -> Wake {
        let mut last = Wake(ptr::null());
        for waiter in self.leading(key) {
            // Swap even if it is awake: if it goes to sleep again, it must see the current word.
            if waiter.state.swap(AWAKE, Ordering::AcqRel) == WAITING {
                core::mem::replace(&mut last, Wake(&waiter.state)).send();
            }
        }
        last
    }

    /// True once in `one_in` draws; never for 0.
    pub fn draw(&mut self, one_in: u32) -> bool {
        self.noise ^= self.noise << 13;
        self.noise ^= self.noise >> 17;
        self.noise ^= self.noise << 5;
        one_in != 0 && self.noise.is_multiple_of(one_in)
    }
}

/// A waiter that must still be woken, or none.
#[must_use]
pub struct Wake(*const AtomicU32);

impl Wake {
    pub fn send(self) {
        if !self.0.is_null() {
            sleep::wake(self.0);
        }
    }
}

/// Waiters that are out of the queue and own the lock, but have not been notified yet.
#[must_use]
pub struct NewOwners {
    first: *const Waiter,
}

impl NewOwners {
    /// Notifies them.
    pub fn grant(self) {
        let mut at = self.first;
        // SAFETY: a waiter lives until it is granted the lock, which only happens below.
        while let Some(owner) = unsafe { at.as_ref() } {
            // After the swap, it may no longer exist.
            at = owner.next.get();
            let address = ptr::from_ref(&owner.state);
            // This is a swap, so that it is ordered after what the waiter itself has just stored.
            owner.state.swap(GRANTED, Ordering::AcqRel);
            sleep::wake(address);
        }
    }
}

/// A queue with its own small lock, which is held for some tens of nanoseconds.
///
/// *Why not a spinlock:* if the owner is preempted, waiters must not burn the CPU that it needs.
#[repr(align(64))]
pub struct Bucket {
    /// 0 free, 1 held, 2 held and a thread may be asleep.
    lock: AtomicU32,
    queue: UnsafeCell<Queue>,
}

// SAFETY: the queue is only accessed with the lock held, and what its pointers refer to may be used
// from any thread.
unsafe impl Sync for Bucket {}
// SAFETY: as above.
unsafe impl Send for Bucket {}

#[cfg(not(loom))]
mod table {
    use super::*;

    const BITS: u32 = 8;

    static TABLE: [Bucket; 1 << BITS] =
        [const { Bucket { lock: AtomicU32::new(0), queue: UnsafeCell::new(Queue::EMPTY) } };
            1 << BITS];

    pub fn bucket(key: usize) -> &'static Bucket {
        let hash = (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BITS);
        &TABLE[hash as usize]
    }
}

#[cfg(loom)]
mod table {
    use super::*;

    loom::lazy_static! {
        static ref TABLE: Bucket = Bucket { lock: AtomicU32::new(0), queue: UnsafeCell::new(Queue::EMPTY) };
    }

    pub fn bucket(_: usize) -> &'static Bucket {
        &TABLE
    }
}

pub use table::bucket;

impl Bucket {
    /// Waits for the lock of the bucket.
    pub fn lock(&self) -> Locked<'_> {
        if self.lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.lock_slow();
        }
        Locked { bucket: self }
    }

    #[cold]
    fn lock_slow(&self) {
        for _ in 0..SPINS {
            if self.lock.load(Ordering::Relaxed) == 0
                && self.lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return;
            }
            spin_loop();
        }
        while self.lock.swap(2, Ordering::Acquire) != 0 {
            sleep::wait(&self.lock, 2);
        }
    }
}

/// The queue of a locked bucket.
pub struct Locked<'a> {
    bucket: &'a Bucket,
}

impl Deref for Locked<'_> {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        // SAFETY: the bucket's lock is held as long as `self` lives.
        unsafe { &*self.bucket.queue.get() }
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Queue {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { &mut *self.bucket.queue.get() }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if self.bucket.lock.swap(0, Ordering::Release) == 2 {
            sleep::wake(&self.bucket.lock);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn waiters_of_one_lock_keep_their_order_among_those_of_others() {
        let mut queue = Queue::EMPTY;
        let modes = [
            Mode::Shared,
            Mode::Exclusive,
            Mode::Shared,
            Mode::Shared,
            Mode::Exclusive,
            Mode::Shared,
        ];
        let waiters: Vec<Waiter> =
            (0..12).map(|index| Waiter::new(index % 2, modes[index / 2], index as u64)).collect();
        // SAFETY: they live until the end of the test.
        waiters.iter().for_each(|waiter| unsafe { queue.push(waiter) });
        let of =
            |queue: &Queue, key| queue.of(key).map(|waiter| waiter.since_ns).collect::<Vec<_>>();
        assert_eq!(of(&queue, 0), [0, 2, 4, 6, 8, 10]);
        assert_eq!(queue.leading(0).count(), 1);
        assert!(queue.remove(&waiters[2]) && !queue.remove(&waiters[2]));
        assert_eq!(queue.leading(0).map(|waiter| waiter.since_ns).collect::<Vec<_>>(), [0, 4, 6]);
        let owners = queue.take_new_owners(0);
        assert_eq!(
            (of(&queue, 0), of(&queue, 1)),
            (Vec::from([8, 10]), Vec::from([1, 3, 5, 7, 9, 11]))
        );
        owners.grant();
        let granted =
            waiters.iter().filter(|waiter| waiter.state.load(Ordering::Relaxed) == GRANTED);
        assert_eq!(granted.map(|waiter| waiter.since_ns).collect::<Vec<_>>(), [0, 4, 6]);
        for index in [11, 1, 8, 10, 3, 5, 7, 9] {
            assert!(queue.remove(&waiters[index]));
        }
        assert!(queue.first.is_null() && queue.last.is_null());
    }

    #[test]
    fn the_lottery_is_won_once_in_n_draws() {
        let mut queue = Queue::EMPTY;
        for one_in in [1, 2, 10, 100] {
            let won = (0..100_000).filter(|_| queue.draw(one_in)).count() as f64
                * f64::from(one_in)
                / 100_000.0;
            assert!((0.9..1.1).contains(&won), "1 in {one_in}: {won}");
        }
        assert!((0..1_000).all(|_| !queue.draw(0)));
    }
}
