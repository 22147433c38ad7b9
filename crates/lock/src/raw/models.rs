//! Small programs for which loom tries every interleaving (up to a number of preemptions):
//! `tools/test-lock-models`.

use super::*;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

const UNFAIR: Policy = Policy { one_in: 0, bound_us: u32::MAX };
const FAIR: Policy = Policy { one_in: 1, bound_us: u32::MAX };
/// Every waiter is over the bound from the start.
const OVERDUE: Policy = Policy { one_in: 0, bound_us: 0 };

/// A value behind the lock. loom fails if two threads access it at once, or if a write is not
/// visible to the next thread.
struct Guarded {
    word: Word,
    value: UnsafeCell<u32>,
    policy: Policy,
}

impl Guarded {
    fn new(policy: Policy) -> Arc<Self> {
        Arc::new(Self { word: Word(AtomicU32::new(0)), value: UnsafeCell::new(0), policy })
    }

    fn add(&self) -> u32 {
        self.word.lock(Mode::Exclusive, self.policy);
        // SAFETY: the lock is held exclusively, which is what this checks.
        let after = self.value.with_mut(|value| unsafe {
            *value += 1;
            *value
        });
        self.word.unlock(Mode::Exclusive, self.policy);
        after
    }

    fn read(&self) -> u32 {
        self.word.lock(Mode::Shared, self.policy);
        // SAFETY: the lock is held shared.
        let value = self.value.with(|value| unsafe { *value });
        self.word.unlock(Mode::Shared, self.policy);
        value
    }

    /// True if there is no owner and no waiter, and no bit is set.
    fn is_unused(&self) -> bool {
        self.word.0.load(Ordering::SeqCst) == 0
    }
}

// SAFETY: the value is only accessed with the lock held.
unsafe impl Sync for Guarded {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Guarded {}

/// Runs `model` with every interleaving of at most `preemptions` preemptions. A thread that is
/// never woken is a deadlock, which loom reports.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// One writer on the model's own thread and the `others`, each doing its part; then the lock is as
/// new, and holds `sum`.
fn play(
    preemptions: usize,
    policy: Policy,
    others: &'static [fn(&Guarded)],
    own: fn(&Guarded),
    sum: u32,
) {
    check(preemptions, move || {
        let guarded = Guarded::new(policy);
        let threads = others.iter().map(|part| {
            let guarded = Arc::clone(&guarded);
            thread::spawn(move || part(&guarded))
        });
        let threads: Vec<_> = threads.collect();
        own(&guarded);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(guarded.is_unused());
        assert_eq!(guarded.read(), sum);
    });
}

fn adds(guarded: &Guarded) {
    guarded.add();
}

fn adds_twice(guarded: &Guarded) {
    (0..2).for_each(|_| adds(guarded));
}

fn reads(guarded: &Guarded) {
    guarded.read();
}

fn reads_twice(guarded: &Guarded) {
    guarded.read();
    guarded.read();
}

#[test]
fn two_writers_exclude_each_other_and_no_wake_up_is_lost() {
    play(4, UNFAIR, &[adds_twice], adds_twice, 4);
}

#[test]
fn two_writers_hand_over() {
    play(4, FAIR, &[adds_twice], adds_twice, 4);
}

#[test]
fn three_writers_unfair() {
    play(3, UNFAIR, &[adds, adds], adds, 3);
}

#[test]
fn three_writers_hand_over() {
    play(3, FAIR, &[adds, adds], adds, 3);
}

#[test]
fn readers_beside_a_writer_unfair() {
    play(3, UNFAIR, &[reads, reads], adds, 1);
}

#[test]
fn readers_beside_a_writer_hand_over() {
    play(3, FAIR, &[reads, reads], adds, 1);
}

#[test]
fn one_reader_coming_again_unfair() {
    play(4, UNFAIR, &[reads_twice], adds_twice, 2);
}

#[test]
fn one_reader_coming_again_hands_over() {
    play(4, FAIR, &[reads_twice], adds_twice, 2);
}

#[test]
fn writers_beside_a_reader() {
    play(3, FAIR, &[adds, reads], adds, 2);
}

/// The reader may be granted the lock just when it takes it by itself, and must not then hold it
/// twice.
#[test]
fn a_reader_that_is_granted_the_lock_while_it_takes_it() {
    let writes_and_reads = |guarded: &Guarded| {
        guarded.add();
        guarded.word.lock(Mode::Shared, UNFAIR);
        guarded.word.unlock_fair(Mode::Shared, UNFAIR);
    };
    play(4, UNFAIR, &[reads], writes_and_reads, 1);
}

#[test]
fn a_writer_woken_in_vain_again_and_again() {
    let adds_thrice = |guarded: &Guarded| (0..3).for_each(|_| adds(guarded));
    play(4, UNFAIR, &[adds], adds_thrice, 4);
}

#[test]
fn two_writers_over_the_bound() {
    play(4, OVERDUE, &[adds_twice], adds_twice, 4);
}

#[test]
fn three_writers_over_the_bound() {
    play(3, OVERDUE, &[adds, adds], adds, 3);
}

#[test]
fn readers_beside_a_writer_over_the_bound() {
    play(3, OVERDUE, &[reads, reads], adds, 1);
}

/// With a waiter in the queue a fair release leaves nothing to take.
#[test]
fn a_hand_over_reaches_the_waiter_before_anybody_else() {
    check(4, || {
        let guarded = Guarded::new(UNFAIR);
        guarded.word.lock(Mode::Exclusive, UNFAIR);
        let waiter = {
            let guarded = Arc::clone(&guarded);
            thread::spawn(move || guarded.add())
        };
        thread::yield_now();
        let is_queued = guarded.word.0.load(Ordering::SeqCst) & QUEUED != 0;
        guarded.word.unlock_fair(Mode::Exclusive, UNFAIR);
        let own = guarded.add();
        assert_eq!(waiter.join().unwrap() + own, 3);
        assert!(!is_queued || own == 2, "the lock was taken before the heir");
        assert!(guarded.is_unused());
    });
}
