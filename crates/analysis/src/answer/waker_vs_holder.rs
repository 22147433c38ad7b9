//! The last waker is not assumed to be the lock's holder. Where the thread that ended the victim's
//! wait for a lock is not the one that is inferred to have held it, an answer shows both readings
//! and how they are known.

use crate::diagnose::Stall;
use crate::locks::leaf;
use crate::wording::sentence::{duration, sentence};
use crate::wording::{Sentence, Span, Subject, units};
use crate::{Analysis, Evidence, Hop, WaitClass};
use unhitch_model::ThreadId;

/// How two waits are known to be for one lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum SameLock {
    /// They ended in the same code.
    Code,
    /// The kernel reported the same address.
    Address,
    /// It is one wait, and the lock itself named its holder when that began.
    Owner,
}

impl SameLock {
    /// The name in JSON.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Address => "address",
            Self::Owner => "owner",
        }
    }
}

/// The last waker and the holder of the lock.
pub(super) struct WakerVsHolder<'a> {
    /// The victim's own wait, and who ended it.
    pub(super) last: &'a Hop,
    /// The wait that the holder ended.
    pub(super) held: &'a Hop,
    /// How all waits between are known to be for one lock; nothing where they are for several.
    pub(super) same_lock: Option<SameLock>,
    /// For how long of the stall each of the two had it, nanoseconds.
    pub(super) last_ns: u64,
    /// See `last_ns`.
    pub(super) held_ns: u64,
}

impl<'a> WakerVsHolder<'a> {
    /// Both readings, where they differ. A queue has no single holder.
    pub(super) fn new(analysis: &Analysis<'_>, stall: &'a Stall) -> Option<Self> {
        let explanation = &stall.explanation;
        let holder = stall.finding.culprit.filter(|_| !stall.finding.pattern.is_queue())?;
        let is_lock = |hop: &&Hop| hop.class == WaitClass::Lock;
        let held = explanation
            .hops
            .iter()
            .filter(is_lock)
            .filter(|hop| hop.by == holder && hop.meanwhile.is_none())
            .max_by_key(|hop| hop.window.duration_ns())?;
        // Behind its part of the sleep comes that of the thread that ended it.
        let behind = held.released.and_then(|_| {
            let of_sleep = |hop: &&Hop| hop.sleeper == held.sleeper && hop.slept == held.slept;
            explanation.hops.iter().filter(of_sleep).find(|hop| hop.released.is_none())
        });
        let (mut last, mut same_lock) = match behind {
            Some(behind) => (behind, Some(SameLock::Owner)),
            None => (held, Some(SameLock::Address)),
        };
        for (_, parent) in explanation.hops_to(last.parent) {
            same_lock = same_lock.min(same(analysis, parent, last));
            last = parent;
        }
        let had_ns = |thread: ThreadId| {
            let pieces = explanation.pieces.iter().filter(|piece| piece.thread == thread);
            let of_lock =
                pieces.filter(|piece| explanation.hop_of(piece).as_ref().is_some_and(is_lock));
            of_lock.map(|piece| piece.window.duration_ns()).sum()
        };
        let differ = last.by != holder && is_lock(&last) && last.wake.is_some();
        differ.then(|| Self {
            last,
            held,
            same_lock,
            last_ns: had_ns(last.by),
            held_ns: had_ns(holder),
        })
    }

    /// How it is known who woke the victim.
    pub(super) fn waker_evidence(&self) -> Evidence {
        if self.last.source.context == crate::WakeContext::Task {
            Evidence::Direct
        } else {
            Evidence::Inferred
        }
    }

    /// Both readings as a sentence.
    pub(super) fn sentence(&self, analysis: &Analysis<'_>, stall: &Stall) -> Sentence {
        let name = |thread: ThreadId| {
            let name = units::thread(analysis.trace, thread, stall.explanation.window.end);
            Span::new(name, Subject::Thread(thread))
        };
        let why = match self.same_lock {
            Some(SameLock::Owner) => {
                return sentence!(
                    "The last waker was {}, which held the lock for {}; the main holder was {}, \
                     which held it for {}. The lock itself named {} when {} began to wait.",
                    name(self.last.by),
                    duration(self.last_ns),
                    name(self.held.by),
                    duration(self.held_ns),
                    name(self.held.by),
                    name(self.held.sleeper)
                );
            }
            Some(SameLock::Address) => "its address",
            Some(SameLock::Code) => "the code on their stacks",
            None => {
                let other_lock = match self.held.sleeper == self.last.by {
                    true => sentence!("{} itself waited for another lock", name(self.last.by)),
                    false => sentence!(
                        "{} itself waited, through other threads, for another lock",
                        name(self.last.by)
                    ),
                };
                return sentence!(
                    "The last waker was {}, which held the lock for {}. Meanwhile {}; its main \
                     holder was {}, for {}.",
                    name(self.last.by),
                    duration(self.last_ns),
                    other_lock,
                    name(self.held.by),
                    duration(self.held_ns)
                );
            }
        };
        sentence!(
            "The last waker was {}, which held the lock for {}; the main holder was {}, which held \
             it for {}. The waits between the two were for the same lock, according to {}.",
            name(self.last.by),
            duration(self.last_ns),
            name(self.held.by),
            duration(self.held_ns),
            why
        )
    }
}

/// How the wait of a hop's waker is known to be for the hop's own lock; nothing where it is for
/// another.
fn same(analysis: &Analysis<'_>, hop: &Hop, behind: &Hop) -> Option<SameLock> {
    if let Some((one, other)) = hop.lock_avma.zip(behind.lock_avma) {
        return (one == other).then_some(SameLock::Address);
    }
    (behind.class == WaitClass::Lock
        && leaf(analysis, hop.wait_stack) == leaf(analysis, behind.wait_stack))
    .then_some(SameLock::Code)
}
