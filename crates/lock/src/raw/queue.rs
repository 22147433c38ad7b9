//! Who waits for which lock, in the order of arrival: a table of queues, keyed by the address of
//! the lock.
//!
//! *Why a table:* the lock is one word. A waiter's place in the queue is on its own stack, and the
//! queue's head must be somewhere that exists also when nobody waits. Locks whose addresses fall
//! into the same bucket share its list; each sees its own waiters only.

use super::sleep;
use super::sync::{AtomicU32, Ordering, spin_loop};
use core::cell::{Cell, UnsafeCell};
use core::ops::{Deref, DerefMut};
use core::ptr;

/// How a lock is held, or wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Beside other readers.
    Shared,
    /// Alone.
    Exclusive,
}

/// [`Waiter::state`]: asleep, or about to be.
pub const WAITING: u32 = 0;
/// [`Waiter::state`]: awake, and free to try for the lock.
pub const AWAKE: u32 = 1;
/// [`Waiter::state`]: the lock is its own, and it is out of the queue.
pub const GRANTED: u32 = 2;

/// One who waits. It stays in the queue, in its place, until it has the lock.
pub struct Waiter {
    pub state: AtomicU32,
    pub mode: Mode,
    /// When it came, nanoseconds of [`sleep::now_ns`]; 0 where nobody wants to know.
    pub since_ns: u64,
    key: usize,
    /// Belongs to whoever holds the bucket; once the waiter is out of the queue, to whoever took it
    /// out.
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
    /// xorshift32, so never 0. The bucket's and not the lock's, which is one word and has no room
    /// for it: locks of one bucket draw from one sequence, each with the same chance at every draw.
    noise: u32,
}

impl Queue {
    const EMPTY: Self = Self { first: ptr::null(), last: ptr::null(), noise: 0x9e37_79b9 };

    /// Puts a waiter at the end.
    ///
    /// # Safety
    /// It must live, and stay where it is, until it is out of the queue again.
    pub unsafe fn push(&mut self, waiter: &Waiter) {
        // SAFETY: `last` is in the queue, so it lives.
        match unsafe { self.last.as_ref() } {
            Some(last) => last.next.set(waiter),
            None => self.first = waiter,
        }
        self.last = waiter;
    }

    /// The waiters for the lock `key`, the longest waiting first.
    pub fn of(&self, key: usize) -> impl Iterator<Item = &Waiter> {
        // SAFETY: what is in the queue lives, and nothing leaves it while `self` is borrowed.
        let link = |waiter: *const Waiter| unsafe { waiter.as_ref() };
        core::iter::successors(link(self.first), move |waiter| link(waiter.next.get()))
            .filter(move |waiter| waiter.key == key)
    }

    /// The waiters for `key` that one release can let in: a writer, or the readers up to the first
    /// writer.
    pub fn leading(&self, key: usize) -> impl Iterator<Item = &Waiter> {
        let writer = self.of(key).next().filter(|waiter| waiter.mode == Mode::Exclusive);
        writer.into_iter().chain(self.of(key).take_while(|waiter| waiter.mode == Mode::Shared))
    }

    /// Takes a waiter out; false when it is not in the queue.
    pub fn remove(&mut self, waiter: &Waiter) -> bool {
        let mut before: *const Waiter = ptr::null();
        let mut at = self.first;
        // SAFETY: what is in the queue lives.
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

    /// Takes out the [leading](Self::leading) waiters for `key`, to give them the lock.
    pub fn take_heirs(&mut self, key: usize) -> Heirs {
        let count = self.leading(key).count();
        let mut heirs = Heirs { first: ptr::null() };
        let mut last: *const Waiter = ptr::null();
        for _ in 0..count {
            let Some(heir) = self.of(key).next().map(ptr::from_ref) else { break };
            // SAFETY: it is in the queue, so it lives; once out of it, until it is granted the
            // lock.
            let (heir, before) = unsafe { (&*heir, last.as_ref()) };
            self.remove(heir);
            match before {
                Some(before) => before.next.set(heir),
                None => heirs.first = heir,
            }
            last = heir;
        }
        heirs
    }

    /// Wakes the [leading](Self::leading) waiters for `key` without a promise. All but the last are
    /// woken here and now.
    pub fn wake_leading(&self, key: usize) -> Wake {
        let mut last = Wake(ptr::null());
        for waiter in self.leading(key) {
            // A swap also where it is awake: whoever lies down again must see the word as it is
            // now.
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

/// A waiter that is still to be woken, or none.
#[must_use]
pub struct Wake(*const AtomicU32);

impl Wake {
    pub fn send(self) {
        if !self.0.is_null() {
            sleep::wake(self.0);
        }
    }
}

/// Waiters that are out of the queue and own the lock, but do not know it yet.
#[must_use]
pub struct Heirs {
    first: *const Waiter,
}

impl Heirs {
    /// Tells them.
    pub fn grant(self) {
        let mut at = self.first;
        // SAFETY: a waiter lives until it is granted the lock, which only happens below.
        while let Some(heir) = unsafe { at.as_ref() } {
            // After the swap it may be gone.
            at = heir.next.get();
            let address = ptr::from_ref(&heir.state);
            // A swap, so that it comes after what the heir itself has just put there.
            heir.state.swap(GRANTED, Ordering::AcqRel);
            sleep::wake(address);
        }
    }
}

/// A queue with a small lock of its own, which is held for some tens of nanoseconds.
///
/// *Why not a spinning one:* a holder that is preempted must not burn the CPU that it waits for.
#[repr(align(64))]
pub struct Bucket {
    /// 0 free, 1 held, 2 held and somebody may sleep.
    lock: AtomicU32,
    queue: UnsafeCell<Queue>,
}

// SAFETY: the queue is reached with the lock held only, and its pointers are to what may be used
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
    /// Waits for the queue.
    pub fn lock(&self) -> Locked<'_> {
        if self.lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.lock_slow();
        }
        Locked { bucket: self }
    }

    #[cold]
    fn lock_slow(&self) {
        for _ in 0..super::SPINS {
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

/// A bucket's queue, held.
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
        // SAFETY: they live to the end of the test.
        waiters.iter().for_each(|waiter| unsafe { queue.push(waiter) });
        let of =
            |queue: &Queue, key| queue.of(key).map(|waiter| waiter.since_ns).collect::<Vec<_>>();
        assert_eq!(of(&queue, 0), [0, 2, 4, 6, 8, 10]);
        assert_eq!(queue.leading(0).count(), 1);
        assert!(queue.remove(&waiters[2]) && !queue.remove(&waiters[2]));
        assert_eq!(queue.leading(0).map(|waiter| waiter.since_ns).collect::<Vec<_>>(), [0, 4, 6]);
        let heirs = queue.take_heirs(0);
        assert_eq!(
            (of(&queue, 0), of(&queue, 1)),
            (Vec::from([8, 10]), Vec::from([1, 3, 5, 7, 9, 11]))
        );
        heirs.grant();
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
