//! The lock itself: one word and its transitions. A mutex is the same lock without shared mode. The
//! only module with `unsafe`.
//!
//! The word contains who holds the lock (one writer, or a number of readers), whether a release
//! must check the queue, and whether new threads must queue. A waiter keeps its place in the queue
//! (`queue.rs`) until it has the lock, however many futile wake-ups it has. So the head of the
//! queue is always the longest waiter.
//!
//! A release that must check the queue either wakes its head and leaves the lock free for the first
//! thread that tries, or hands the lock off. While a woken waiter has not run yet, nothing in the
//! word shows it: releases are as fast as without a queue, and wake nobody else. To hand off to a
//! writer while other readers hold the lock, new threads are blocked ([`CLOSED`]), and the last
//! reader hands the lock off.
//!
//! *Why no wake-up is lost:* a thread that goes to sleep has stored [`queue::WAITING`] in its
//! state, and has *then* seen the lock taken and [`QUEUED`] set. The release that clears `QUEUED`
//! frees the lock, and after that swaps the states of the waiters at the head. Of two swaps of a
//! state, one comes first, and the second sees what was before it. Waiters further back are woken
//! when those in front of them leave the queue.

mod queue;
mod sleep;
mod sync;

#[cfg(not(loom))]
mod api;
#[cfg(all(test, loom))]
mod models;

#[cfg(not(loom))]
pub use api::{RawMutex, RawRwLock};

use queue::{AWAKE, GRANTED, Mode, NewOwners, WAITING, Waiter, Wake, bucket};
use sync::{AtomicU32, Ordering, SPINS, spin_loop};

/// A writer holds the lock.
const EXCLUSIVE: u32 = 1;
/// A release must check the queue. If there is a queue, this is always set, except while a waiter
/// at its head is awake.
const QUEUED: u32 = 2;
/// Readers hold the lock and new threads queue: the last reader hands the lock off.
const CLOSED: u32 = 4;
/// One reader holds the lock. The rest of the word is the number of readers.
const READER: u32 = 8;
const READERS: u32 = !(READER - 1);
const HELD: u32 = EXCLUSIVE | READERS;

/// When a release hands the lock off.
#[derive(Clone, Copy, Debug)]
struct Policy {
    /// In one of this many releases that would wake somebody; 0 for never.
    one_in: u32,
    /// Always, once the head of the queue has waited for this many microseconds; `u32::MAX` for no
    /// bound.
    bound_us: u32,
}

impl Policy {
    fn has_bound(self) -> bool {
        self.bound_us != u32::MAX
    }

    /// The current time in nanoseconds, or 0 if it does not matter.
    fn now_ns(self) -> u64 {
        if self.has_bound() { sleep::now_ns() } else { 0 }
    }

    fn is_overdue(self, since_ns: u64, now_ns: u64) -> bool {
        self.has_bound() && now_ns.saturating_sub(since_ns) > u64::from(self.bound_us) * 1_000
    }
}

/// What a release does besides freeing its part of the lock.
enum Release {
    Only,
    Wake,
    HandOff,
}

struct Word(AtomicU32);

/// The word after acquiring the lock, if it can be acquired.
#[inline]
fn acquired(word: u32, mode: Mode) -> Option<u32> {
    match mode {
        Mode::Exclusive => (word & (HELD | CLOSED) == 0).then_some(word | EXCLUSIVE),
        Mode::Shared if word & (EXCLUSIVE | CLOSED) != 0 => None,
        Mode::Shared => Some(word.checked_add(READER).expect("too many readers hold the lock")),
    }
}

impl Word {
    #[cfg(not(loom))]
    const fn free() -> Self {
        Self(AtomicU32::new(0))
    }

    fn key(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }

    #[inline]
    fn try_lock(&self, mode: Mode) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        while let Some(taken) = acquired(word, mode) {
            match self.0.compare_exchange_weak(word, taken, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    #[inline]
    fn lock(&self, mode: Mode, policy: Policy) {
        let got = match mode {
            Mode::Exclusive => self
                .0
                .compare_exchange_weak(0, EXCLUSIVE, Ordering::Acquire, Ordering::Relaxed)
                .is_ok(),
            Mode::Shared => self.try_lock(mode),
        };
        if !got {
            self.lock_slow(mode, policy);
        }
    }

    #[inline]
    fn unlock(&self, mode: Mode, policy: Policy) {
        let freed = match mode {
            Mode::Exclusive => {
                self.0.compare_exchange(EXCLUSIVE, 0, Ordering::Release, Ordering::Relaxed).is_ok()
            }
            Mode::Shared => self.try_unlock_shared(),
        };
        if !freed {
            self.unlock_slow(mode, policy, false);
        }
    }

    /// Releases, and hands the lock off if there is a queue.
    fn unlock_fair(&self, mode: Mode, policy: Policy) {
        self.unlock_slow(mode, policy, true);
    }

    #[cfg(not(loom))]
    fn is_held(&self) -> bool {
        self.0.load(Ordering::Relaxed) & HELD != 0
    }

    #[cfg(not(loom))]
    fn is_held_exclusively(&self) -> bool {
        self.0.load(Ordering::Relaxed) & EXCLUSIVE != 0
    }

    /// Tries for the lock for a while. Gives up if the word has a bit of `give_up`: a new thread
    /// does not spin if there is a queue.
    fn spin(&self, mode: Mode, give_up: u32) -> bool {
        for _ in 0..SPINS {
            if self.try_lock(mode) {
                return true;
            }
            if self.0.load(Ordering::Relaxed) & give_up != 0 {
                return false;
            }
            spin_loop();
        }
        false
    }

    #[cold]
    fn lock_slow(&self, mode: Mode, policy: Policy) {
        if self.spin(mode, QUEUED) {
            return;
        }
        let waiter = Waiter::new(self.key(), mode, policy.now_ns());
        if self.acquire_or_queue(&waiter) {
            return;
        }
        loop {
            loop {
                match waiter.state.load(Ordering::Acquire) {
                    WAITING => sleep::wait(&waiter.state, WAITING),
                    GRANTED => return,
                    _ => break,
                }
            }
            if self.spin(mode, 0) || (self.go_to_sleep(&waiter) && self.acquire_or_rest(mode)) {
                self.leave_queue(&waiter);
                return;
            }
        }
    }

    /// Acquires the lock if it is free after all (true), else puts the waiter into the queue.
    fn acquire_or_queue(&self, waiter: &Waiter) -> bool {
        let mut queue = bucket(self.key()).lock();
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let taken = acquired(word, waiter.mode);
            if taken.is_none() && word & QUEUED != 0 {
                break;
            }
            match self.0.compare_exchange_weak(
                word,
                taken.unwrap_or(word | QUEUED),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) if taken.is_some() => return true,
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        // SAFETY: the waiter is on the stack of `lock_slow`, which only returns once it is out of
        // the queue: granted or removed.
        unsafe { queue.push(waiter) };
        false
    }

    /// Goes from awake back to waiting; false if the lock has been granted meanwhile.
    fn go_to_sleep(&self, waiter: &Waiter) -> bool {
        waiter.state.compare_exchange(AWAKE, WAITING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Acquires the lock if it is free after all (true), else makes the next release check the
    /// queue.
    fn acquire_or_rest(&self, mode: Mode) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let taken = acquired(word, mode);
            if taken.is_none() && word & QUEUED != 0 {
                return false;
            }
            match self.0.compare_exchange_weak(
                word,
                taken.unwrap_or(word | QUEUED),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return taken.is_some(),
                Err(now) => word = now,
            }
        }
    }

    /// Leaves the queue after acquiring the lock without a hand-off.
    #[cold]
    fn leave_queue(&self, waiter: &Waiter) {
        let mut queue = bucket(self.key()).lock();
        if !queue.remove(waiter) {
            drop(queue);
            // A reader was granted the lock just as it acquired it, so it holds it twice.
            self.0.fetch_sub(READER, Ordering::Release);
            loop {
                match waiter.state.load(Ordering::Acquire) {
                    GRANTED => return,
                    other => sleep::wait(&waiter.state, other),
                }
            }
        }
        let next = queue.of(self.key()).next().map(|next| next.mode);
        // The awake waiter has left: from now on, releases must check the queue again, if there is
        // one.
        match next {
            Some(_) => self.0.fetch_or(QUEUED, Ordering::Relaxed),
            None => self.0.fetch_and(!QUEUED, Ordering::Relaxed),
        };
        // The readers behind a reader may acquire the lock, too.
        let wake = (next == Some(Mode::Shared) && waiter.mode == Mode::Shared)
            .then(|| queue.wake_leading(self.key()));
        drop(queue);
        if let Some(wake) = wake {
            wake.send();
        }
    }

    /// Releases a reader's hold, if that affects nobody else.
    #[inline]
    fn try_unlock_shared(&self) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        while word & (QUEUED | CLOSED) == 0 || (word & CLOSED != 0 && word & READERS != READER) {
            match self.0.compare_exchange_weak(
                word,
                word - READER,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    #[cold]
    fn unlock_slow(&self, mode: Mode, policy: Policy, fair: bool) {
        let key = self.key();
        let mut queue = bucket(key).lock();
        let head = queue
            .of(key)
            .next()
            .map(|head| (head.mode, head.since_ns, head.state.load(Ordering::Relaxed) == WAITING));
        // A waiter that is already awake takes no part in the lottery, which is for waiters that
        // would be woken.
        let is_due = head.is_some_and(|(_, since_ns, is_asleep)| {
            fair || policy.is_overdue(since_ns, policy.now_ns())
                || (is_asleep && queue.draw(policy.one_in))
        });
        let leading = queue.leading(key).count() as u32;
        let more = queue.of(key).nth(leading as usize).is_some();
        let mut word = self.0.load(Ordering::Relaxed);
        let release = loop {
            let left = word - mode.unit();
            let is_last = left & HELD == 0;
            let (next, release) = match head {
                None => (left & !QUEUED, Release::Only),
                Some((wanted, ..)) if is_last && (is_due || word & CLOSED != 0) => {
                    ((leading * wanted.unit()) | if more { QUEUED } else { 0 }, Release::HandOff)
                }
                Some(_) if is_last => (left & !QUEUED, Release::Wake),
                Some((Mode::Exclusive, ..)) if is_due => (left | CLOSED, Release::Only),
                Some(_) => (left, Release::Only),
            };
            match self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break release,
                Err(now) => word = now,
            }
        };
        // From here on, the lock and its memory may no longer exist; only its address is used.
        match release {
            Release::Only => {}
            Release::Wake => {
                let wake: Wake = queue.wake_leading(key);
                drop(queue);
                wake.send();
            }
            Release::HandOff => {
                let owners: NewOwners = queue.take_new_owners(key);
                drop(queue);
                owners.grant();
            }
        }
    }
}

impl Mode {
    /// What one owner in this mode adds to the word.
    const fn unit(self) -> u32 {
        match self {
            Mode::Shared => READER,
            Mode::Exclusive => EXCLUSIVE,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const POLICY: Policy = Policy { one_in: 0, bound_us: 0 };

    /// Checks a lock that is held in this way, with a waiter in its queue that is over a bound of
    /// zero.
    fn with_waiter(held: u32, check: impl FnOnce(&Word, &Waiter)) {
        let word = Word(AtomicU32::new(held | QUEUED));
        let waiter = Waiter::new(word.key(), Mode::Exclusive, sleep::now_ns());
        while sleep::now_ns() == waiter.since_ns {}
        // SAFETY: it lives until the end of this function, which removes it.
        unsafe { bucket(word.key()).lock().push(&waiter) };
        check(&word, &waiter);
        bucket(word.key()).lock().remove(&waiter);
    }

    fn states(word: &Word, waiter: &Waiter) -> (u32, u32) {
        (word.0.load(Ordering::SeqCst), waiter.state.load(Ordering::SeqCst))
    }

    #[test]
    fn the_next_release_hands_off_to_a_waiter_over_the_bound() {
        with_waiter(EXCLUSIVE, |word, waiter| {
            word.unlock(Mode::Exclusive, POLICY);
            assert_eq!(states(word, waiter), (EXCLUSIVE, GRANTED));
        });
    }

    #[test]
    fn a_waiter_below_the_bound_is_woken_again_and_again() {
        let never = Policy { one_in: 0, bound_us: u32::MAX };
        with_waiter(EXCLUSIVE, |word, waiter| {
            for _ in 0..20 {
                word.unlock(Mode::Exclusive, never);
                assert_eq!(states(word, waiter), (0, AWAKE));
                word.lock(Mode::Exclusive, never);
                assert!(word.go_to_sleep(waiter) && !word.acquire_or_rest(Mode::Exclusive));
            }
        });
    }

    #[test]
    fn a_writer_over_the_bound_blocks_new_readers_and_the_last_one_hands_off() {
        with_waiter(2 * READER, |word, waiter| {
            word.unlock(Mode::Shared, POLICY);
            assert_eq!(states(word, waiter), (READER | QUEUED | CLOSED, WAITING));
            assert!(!word.try_lock(Mode::Shared));
            word.unlock(Mode::Shared, POLICY);
            assert_eq!(states(word, waiter), (EXCLUSIVE, GRANTED));
        });
    }
}
