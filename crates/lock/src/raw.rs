//! The lock itself: one word, and what happens to it. A mutex is the same lock that nobody shares.
//! The only module with `unsafe`.
//!
//! The word says who holds the lock (one writer, or a number of readers), whether a release must
//! look at the queue, and whether newcomers are shut out. A waiter stays in its place in the queue
//! (`queue.rs`) until it has the lock, however often it is woken in vain; so the head of the queue
//! is always the one who has waited longest.
//!
//! A release that must look at the queue either wakes the head of it and leaves the lock free for
//! whoever comes first, or hands the lock over. While the woken one is on its way, nothing in the
//! word tells of it: releases are as fast as without a queue, and wake nobody else. Handing over to
//! a writer while other readers still hold the lock means to shut out newcomers ([`CLOSED`]); the
//! last reader to leave then hands over.
//!
//! *Why no wake-up is lost:* whoever lies down has put [`queue::WAITING`] into its state, and has
//! *then* seen the lock taken and [`QUEUED`] set. The release that clears it frees the lock, and
//! after that swaps the states of those at the head: of two swaps of a state one comes first, and
//! the second sees what was before it. Those behind are looked after by whoever leaves the queue
//! before them.

mod queue;
mod sleep;

#[cfg(not(loom))]
mod sync {
    pub use core::hint::spin_loop;
    pub use core::sync::atomic::{AtomicU32, Ordering};
}
#[cfg(loom)]
mod sync {
    pub use loom::hint::spin_loop;
    pub use loom::sync::atomic::{AtomicU32, Ordering};
}

#[cfg(not(loom))]
mod api;
#[cfg(all(test, loom))]
mod models;

#[cfg(not(loom))]
pub use api::{RawMutex, RawRwLock};

use queue::{AWAKE, GRANTED, Heirs, Mode, WAITING, Waiter, Wake, bucket};
use sync::{AtomicU32, Ordering, spin_loop};

/// A writer holds the lock.
const EXCLUSIVE: u32 = 1;
/// A release must look at the queue. Not set, though somebody is queued, only while one of those at
/// its head is awake.
const QUEUED: u32 = 2;
/// Readers hold the lock and newcomers queue: the last one to leave hands over.
const CLOSED: u32 = 4;
/// One reader holds the lock. Their number is the rest of the word.
const READER: u32 = 8;
const READERS: u32 = !(READER - 1);
const HELD: u32 = EXCLUSIVE | READERS;

/// How often one looks whether the lock is free before one lies down: some µs, about what lying
/// down and being woken costs.
#[cfg(not(loom))]
const SPINS: u32 = 100;
#[cfg(loom)]
const SPINS: u32 = 0;

/// When a release hands over.
#[derive(Clone, Copy, Debug)]
struct Policy {
    /// Once in so many releases that would wake somebody; 0 for never.
    one_in: u32,
    /// Always, once the head of the queue has waited this long; `u32::MAX` for no bound.
    bound_us: u32,
}

impl Policy {
    fn has_bound(self) -> bool {
        self.bound_us != u32::MAX
    }

    /// The time, where it matters.
    fn now_ns(self) -> u64 {
        if self.has_bound() { sleep::now_ns() } else { 0 }
    }

    fn is_overdue(self, since_ns: u64, now_ns: u64) -> bool {
        self.has_bound() && now_ns.saturating_sub(since_ns) > u64::from(self.bound_us) * 1_000
    }
}

/// What a release does beside freeing its part of the lock.
enum Parting {
    Leave,
    Wake,
    HandOver,
}

struct Word(AtomicU32);

/// The word with the lock taken, if it is to be had.
#[inline]
fn taken(word: u32, mode: Mode) -> Option<u32> {
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
        while let Some(taken) = taken(word, mode) {
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
            Mode::Shared => self.unlock_quietly(),
        };
        if !freed {
            self.unlock_slow(mode, policy, false);
        }
    }

    /// Hands over if anybody is queued.
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

    /// Looks for a while whether the lock is free. A newcomer gives up when there is a queue.
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
        if self.take_or_queue(&waiter) {
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
            if self.spin(mode, 0) || (self.lie_down(&waiter) && self.take_or_rest(mode)) {
                self.leave_queue(&waiter);
                return;
            }
        }
    }

    /// Takes the lock if it is free after all (true), else puts the waiter into the queue.
    fn take_or_queue(&self, waiter: &Waiter) -> bool {
        let mut queue = bucket(self.key()).lock();
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let taken = taken(word, waiter.mode);
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
        // SAFETY: the waiter is on the stack of `lock_slow`, which returns only once it is out of
        // the queue: granted, or removed.
        unsafe { queue.push(waiter) };
        false
    }

    /// Goes back from awake to waiting; false when the lock has been granted meanwhile.
    fn lie_down(&self, waiter: &Waiter) -> bool {
        waiter.state.compare_exchange(AWAKE, WAITING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Takes the lock if it is free after all (true), else sees to it that the next release looks
    /// at the queue.
    fn take_or_rest(&self, mode: Mode) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let taken = taken(word, mode);
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

    /// For a queued one that has taken the lock by itself.
    #[cold]
    fn leave_queue(&self, waiter: &Waiter) {
        let mut queue = bucket(self.key()).lock();
        if !queue.remove(waiter) {
            drop(queue);
            // A reader was granted the lock just when it took it: it holds it twice.
            self.0.fetch_sub(READER, Ordering::Release);
            loop {
                match waiter.state.load(Ordering::Acquire) {
                    GRANTED => return,
                    other => sleep::wait(&waiter.state, other),
                }
            }
        }
        let next = queue.of(self.key()).next().map(|next| next.mode);
        // The one who was awake is gone: from now on releases must look at the queue again, if
        // there is one.
        match next {
            Some(_) => self.0.fetch_or(QUEUED, Ordering::Relaxed),
            None => self.0.fetch_and(!QUEUED, Ordering::Relaxed),
        };
        // The readers behind a reader may come in too.
        let wake = (next == Some(Mode::Shared) && waiter.mode == Mode::Shared)
            .then(|| queue.wake_leading(self.key()));
        drop(queue);
        if let Some(wake) = wake {
            wake.send();
        }
    }

    /// A reader leaves, if that concerns nobody else.
    #[inline]
    fn unlock_quietly(&self) -> bool {
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
        // Who is awake already, and on its way, takes no part in the lottery: that is for those who
        // would be woken.
        let is_due = head.is_some_and(|(_, since_ns, is_asleep)| {
            fair || policy.is_overdue(since_ns, policy.now_ns())
                || (is_asleep && queue.draw(policy.one_in))
        });
        let leading = queue.leading(key).count() as u32;
        let more = queue.of(key).nth(leading as usize).is_some();
        let mut word = self.0.load(Ordering::Relaxed);
        let parting = loop {
            let left = word - mode.unit();
            let is_last = left & HELD == 0;
            let (next, parting) = match head {
                None => (left & !QUEUED, Parting::Leave),
                Some((wanted, ..)) if is_last && (is_due || word & CLOSED != 0) => {
                    ((leading * wanted.unit()) | if more { QUEUED } else { 0 }, Parting::HandOver)
                }
                Some(_) if is_last => (left & !QUEUED, Parting::Wake),
                Some((Mode::Exclusive, ..)) if is_due => (left | CLOSED, Parting::Leave),
                Some(_) => (left, Parting::Leave),
            };
            match self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break parting,
                Err(now) => word = now,
            }
        };
        // From here on the lock may be gone, with the memory it was in; only its address is used.
        match parting {
            Parting::Leave => {}
            Parting::Wake => {
                let wake: Wake = queue.wake_leading(key);
                drop(queue);
                wake.send();
            }
            Parting::HandOver => {
                let heirs: Heirs = queue.take_heirs(key);
                drop(queue);
                heirs.grant();
            }
        }
    }
}

impl Mode {
    /// What one holder of this mode adds to the word.
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

    /// A lock so held, and one in its queue that has waited longer than no time.
    fn with_waiter(held: u32, check: impl FnOnce(&Word, &Waiter)) {
        let word = Word(AtomicU32::new(held | QUEUED));
        let waiter = Waiter::new(word.key(), Mode::Exclusive, sleep::now_ns());
        while sleep::now_ns() == waiter.since_ns {}
        // SAFETY: it lives to the end of this function, which takes it out.
        unsafe { bucket(word.key()).lock().push(&waiter) };
        check(&word, &waiter);
        bucket(word.key()).lock().remove(&waiter);
    }

    fn look(word: &Word, waiter: &Waiter) -> (u32, u32) {
        (word.0.load(Ordering::SeqCst), waiter.state.load(Ordering::SeqCst))
    }

    #[test]
    fn a_waiter_over_the_bound_is_handed_the_lock_by_the_next_release() {
        with_waiter(EXCLUSIVE, |word, waiter| {
            word.unlock(Mode::Exclusive, POLICY);
            assert_eq!(look(word, waiter), (EXCLUSIVE, GRANTED));
        });
    }

    #[test]
    fn below_the_bound_it_is_woken_again_and_again() {
        let never = Policy { one_in: 0, bound_us: u32::MAX };
        with_waiter(EXCLUSIVE, |word, waiter| {
            for _ in 0..20 {
                word.unlock(Mode::Exclusive, never);
                assert_eq!(look(word, waiter), (0, AWAKE));
                word.lock(Mode::Exclusive, never);
                assert!(word.lie_down(waiter) && !word.take_or_rest(Mode::Exclusive));
            }
        });
    }

    #[test]
    fn a_writer_over_the_bound_shuts_readers_out_and_is_handed_the_lock_by_the_last() {
        with_waiter(2 * READER, |word, waiter| {
            word.unlock(Mode::Shared, POLICY);
            assert_eq!(look(word, waiter), (READER | QUEUED | CLOSED, WAITING));
            assert!(!word.try_lock(Mode::Shared));
            word.unlock(Mode::Shared, POLICY);
            assert_eq!(look(word, waiter), (EXCLUSIVE, GRANTED));
        });
    }
}
