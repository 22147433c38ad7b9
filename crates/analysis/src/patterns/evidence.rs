//! How a finding is known: what the explanation's hops rest on.

use super::case::Case;
use super::finding::Evidence;
use crate::explain::{Cause, Hop, Meanwhile, Piece, is_idle, is_of_transaction, signalled_by};
use crate::locks::released_by_others;
use crate::stacks::InterruptSource;
use crate::wording::sentence::{Sentence, plural, sentence};
use crate::{Analysis, Segment, WaitClass, WakeContext};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::ops::Range;
use unhitch_model::{ThreadId, Time, Window};

/// What is weak about a hop. Of equally much time, the last is reported.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum WeakKind {
    /// The stack does not show what the thread waited for.
    Class,
    /// A kernel worker or a soft interrupt issued the wake-up.
    Deferred,
    /// The lock's owner before the sleeper queued is inferred.
    Queued,
    /// Meanwhile another thread released the lock, which names no owner, to another waiter.
    HandedOn,
    /// The sleeper waited for any event; that only the last one mattered is inferred.
    Events,
    /// The sleeper polled by its own timer; whom it waited for until the last poll is inferred.
    Timed,
    /// Nobody woke the sleeper; who ran meanwhile is taken to be whom it waited for.
    RanOn,
    /// The disk's request ended in an interrupt; who serves such a disk and waited meanwhile is taken to
    /// be whom it waited for.
    ServedDisk,
    /// Who ended the wait did not exist yet; the one that started it is taken to be whom it waited for.
    Started,
    /// The sleeper gave up, or the recording ends, before the answer; the one that was asked last is taken
    /// to owe it.
    Asked,
    /// No wake-up was seen.
    NoWake,
}

/// Something weak about a hop, by its index.
#[derive(Clone, Copy, Debug)]
struct Weak {
    kind: WeakKind,
    hop: usize,
}

impl Weak {
    /// What is weak about `hop`, and until when the time behind it depends on that.
    /// `owner_follows`: the waits behind it lead to the owner that the lock named. `held`: when the
    /// thread that ended it is taken to have had the lock.
    fn of(
        analysis: &Analysis<'_>,
        index: usize,
        hop: &Hop,
        owner_follows: bool,
        held: Option<Window>,
    ) -> Option<(Time, Self)> {
        let weak = |until: Time, kind: WeakKind| Some((until, Self { kind, hop: index }));
        match hop.class {
            _ if hop.meanwhile == Some(Meanwhile::Ran) => weak(hop.window.end, WeakKind::RanOn),
            _ if hop.meanwhile == Some(Meanwhile::ServedDisk) => {
                weak(hop.window.end, WeakKind::ServedDisk)
            }
            // The lock itself named its owner, and the wake-up that released it was seen.
            _ if hop.released.is_some() => None,
            _ if hop.started.is_some() => weak(hop.window.end, WeakKind::Started),
            WaitClass::Lock if hop.wake.is_none() => weak(hop.window.end, WeakKind::NoWake),
            _ if hop.wake.is_none() => weak(hop.window.end, WeakKind::Asked),
            _ if hop.source.context != WakeContext::Task => {
                weak(hop.window.end, WeakKind::Deferred)
            }
            _ if hop.is_timed() => weak(hop.window.end, WeakKind::Timed),
            WaitClass::Condition | WaitClass::Unknown | WaitClass::Timer => {
                weak(hop.window.end, WeakKind::Class)
            }
            // The lock named another owner, whose release was not seen, or had several.
            WaitClass::Lock
                if hop.owner.is_some_and(|owner| owner != hop.by && !owner_follows)
                    || waited_for_readers(analysis, hop) =>
            {
                weak(hop.window.end, WeakKind::Queued)
            }
            WaitClass::Idle if hop.is_queued() => weak(hop.slept.start, WeakKind::Events),
            _ if hop.is_queued() => weak(hop.slept.start, WeakKind::Queued),
            WaitClass::Lock if hop.owner.is_none() => {
                weak(released_by_others(analysis, hop, held?)?, WeakKind::HandedOn)
            }
            _ => None,
        }
    }
}

/// Whether several readers may have kept the lock that `hop` is about.
fn waited_for_readers(analysis: &Analysis<'_>, hop: &Hop) -> bool {
    hop.wake.is_some_and(|wake| {
        analysis.stacks.waited_for_readers(hop.wait_stack, analysis.trace.wakings.stack[wake])
    })
}

impl Case<'_> {
    /// How well the stall's hops are known in general: direct when all of its waits ended by a
    /// wake-up seen in task context.
    pub fn evidence(&self) -> (Evidence, Sentence) {
        // What it was idle for is no question.
        let hidden = self.ns_of(|piece, _| {
            piece.cause == Cause::Lost && !is_idle(self.analysis, self.explanation, piece)
        });
        if hidden > self.duration_ns() / 10 {
            let words = sentence!(
                "{} of the time is hidden by lost records or by the start or end of the recording",
                self.percent(hidden)
            );
            return (Evidence::Lost, words);
        }
        let by_timer = self.ns_of(|piece, _| self.is_throttled(piece));
        match self.weakest() {
            _ if by_timer > self.duration_ns() / 10 => {
                let words = sentence!(
                    "for {} of the time, the kernel let threads sleep by its own timer; who used the \
                     memory, or kept the disk busy, is not shown by that",
                    self.percent(by_timer)
                );
                (Evidence::Inferred, words)
            }
            Some((weak, ns)) if ns > self.duration_ns() / 10 => {
                (Evidence::Inferred, self.weak_words(weak, ns))
            }
            _ => (Evidence::Direct, Sentence::from("every wake-up on the way was seen")),
        }
    }

    /// True for a wait for memory, or for others to have written it to a disk, that only the kernel's
    /// timer ended.
    fn is_throttled(&self, piece: &Piece) -> bool {
        let wake = || piece.segment.wake();
        let by_task = |wake| self.analysis.stacks.is_by_task(self.analysis.trace, wake);
        let interrupt =
            |wake| self.analysis.stacks.wake_source(self.analysis.trace, wake).interrupt;
        piece.cause == Cause::Memory
            && wake().is_some_and(|wake| {
                !by_task(wake)
                    && matches!(
                        interrupt(wake),
                        Some(InterruptSource::Timeout | InterruptSource::Timer)
                    )
            })
    }

    /// The weakness that most of the stall depends on, and the time that depends on any weakness.
    fn weakest(&self) -> Option<(Weak, u64)> {
        let hops = &self.explanation.hops;
        let owner_follows = self.owner_follows();
        let mut held: Vec<Option<Window>> = vec![None; hops.len()];
        for piece in &self.explanation.pieces {
            if let Some(held) = piece.hop.and_then(|hop| held.get_mut(hop as usize)) {
                let start = held.map_or(piece.window.start, |held| held.start);
                *held = Some(Window::new(start, piece.window.end));
            }
        }
        // Behind each hop: until when the time depends on something weak, here or nearer to the
        // victim, and on what.
        let mut until: Vec<Option<(Time, Weak)>> = Vec::with_capacity(hops.len());
        for (index, hop) in hops.iter().enumerate() {
            let inherited = hop.parent.and_then(|parent| *until.get(parent as usize)?);
            let own = Weak::of(self.analysis, index, hop, owner_follows[index], held[index]);
            until.push(inherited.into_iter().chain(own).max_by_key(|(until, _)| *until));
        }
        let mut sums: FxHashMap<WeakKind, (u64, Weak)> = FxHashMap::default();
        for piece in &self.explanation.pieces {
            let Some((until, weak)) = piece.hop.and_then(|hop| *until.get(hop as usize)?) else {
                continue;
            };
            let ns = until.min(piece.window.end).since(piece.window.start);
            let sum = sums.entry(weak.kind).or_insert((0, weak));
            let longer = |weak: Weak| {
                hops.get(weak.hop).map(|hop| (hop.window.duration_ns(), Reverse(weak.hop)))
            };
            *sum = (sum.0 + ns, if longer(weak) > longer(sum.1) { weak } else { sum.1 });
        }
        let all = sums.values().map(|(ns, _)| ns).sum();
        sums.into_values()
            .filter(|(ns, _)| *ns > 0)
            .max_by_key(|(ns, weak)| (*ns, weak.kind))
            .map(|(_, weak)| (weak, all))
    }

    /// By hop: true if the waits behind it lead to the owner that its lock named.
    fn owner_follows(&self) -> Vec<bool> {
        let places = self.explanation.places();
        let mut led_by: FxHashMap<ThreadId, Vec<usize>> = FxHashMap::default();
        for (hop, place) in self.explanation.hops.iter().zip(&places) {
            led_by.entry(hop.by).or_default().push(place.start);
        }
        led_by.values_mut().for_each(|places| places.sort_unstable());
        let follows = |(hop, place): (&Hop, &Range<usize>)| {
            let led = hop.owner.and_then(|owner| led_by.get(&owner));
            led.is_some_and(|led| {
                let next = led.partition_point(|led| *led <= place.start);
                led.get(next).is_some_and(|led| *led < place.end)
            })
        };
        self.explanation.hops.iter().zip(&places).map(follows).collect()
    }

    /// Why it is inferred who had the lock of `hop` before its sleeper came to wait for it.
    fn queued(&self, hop: &Hop, part: String) -> Sentence {
        let sleeper = self.name(hop.sleeper);
        if waited_for_readers(self.analysis, hop) {
            return sentence!(
                "for {} of the time, {} waited until all readers of the lock had let it go; that {}, \
                 the last of them, kept it longest is inferred",
                part,
                sleeper,
                self.name(hop.by)
            );
        }
        match hop.owner.filter(|owner| *owner != hop.by) {
            Some(owner) => sentence!(
                "for {} of the time, the lock's owner is inferred: it was {} when {} began to \
                     wait, and {} that released it",
                part,
                self.name(owner),
                sleeper,
                self.name(hop.by)
            ),
            None => sentence!(
                "for {} of the time, the lock's owner is inferred from hand-offs, e.g. before {} \
                     joined the queue",
                part,
                sleeper
            ),
        }
    }

    /// True if a signal interrupted the wait of `hop`, which then went on.
    fn was_interrupted(&self, hop: &Hop) -> bool {
        let sleeps = self.analysis.segments(hop.sleeper, hop.slept).into_iter();
        sleeps.filter(Segment::is_sleep).any(|sleep| signalled_by(self.analysis, &sleep).is_some())
    }

    fn weak_words(&self, weak: Weak, ns: u64) -> Sentence {
        let Some(hop) = self.explanation.hops.get(weak.hop) else { return Sentence::default() };
        let (sleeper, part) = (self.name(hop.sleeper), self.percent(ns));
        match weak.kind {
            WeakKind::NoWake if is_of_transaction(self.analysis, hop.wait_stack) => sentence!(
                "the recording ends before the lock is released; {} is the only session that was idle \
                 in a transaction then, by its title",
                self.name(hop.by)
            ),
            WeakKind::NoWake => Sentence::from(
                "the recording ends before the lock is released; its owner was read from the lock",
            ),
            WeakKind::Asked => self.unanswered(hop),
            WeakKind::RanOn => sentence!(
                "for {} of the time, {} {}; it is inferred that it waited for {}, the thread of its \
                 process that ran meanwhile",
                part,
                sleeper,
                match self.was_interrupted(hop) {
                    true => "was only interrupted by signals",
                    false => "only looked by its own timer",
                },
                self.name(hop.by)
            ),
            WeakKind::ServedDisk => sentence!(
                "for {} of the time, {} waited for a disk that is a file (a loop device), whose requests \
                 end in an interrupt; that {}, which serves such a disk and was kept as long, kept it \
                 waiting is inferred",
                part,
                sleeper,
                self.name(hop.by)
            ),
            WeakKind::Started => sentence!(
                "for {} of the time, {} waited for what had not been started yet; it is inferred \
                 that it waited for {}, which started it",
                part,
                sleeper,
                self.name(hop.by)
            ),
            WeakKind::Queued => self.queued(hop, part),
            WeakKind::HandedOn => sentence!(
                "for {} of the time, the lock's owner is inferred: it names none, and others released \
                 it, too, before {} did",
                part,
                self.name(hop.by)
            ),
            WeakKind::Events => sentence!(
                "for {} of the time, it is inferred which event mattered: {} waited for any, and \
                 those before that of {} are left out",
                part,
                sleeper,
                self.name(hop.by)
            ),
            WeakKind::Timed => sentence!(
                "for {} of the time, the culprit is inferred from the last wake-up: {} polled {} \
                 before that, woken by {}",
                part,
                sleeper,
                plural(hop.looks.into(), "time"),
                match self.was_interrupted(hop) {
                    true => "its own timer, a signal or no recorded thread",
                    false => "its own timer or by no recorded thread",
                }
            ),
            WeakKind::Deferred => sentence!(
                "for {} of the time, wake-ups came from a soft interrupt or a kernel worker, e.g. \
                 that of {} by {}",
                part,
                sleeper,
                self.name(hop.by)
            ),
            WeakKind::Class => sentence!(
                "for {} of the time, wake-ups were seen, e.g. of {}, but the stacks do not show \
                 whether that thread waited for a lock or a message",
                part,
                sleeper
            ),
        }
    }

    /// Why the thread that the sleeper of `hop` waited for is inferred: nothing shows its answer.
    fn unanswered(&self, hop: &Hop) -> Sentence {
        let sleeper = self.name(hop.sleeper);
        match hop.class {
            _ if hop.gave_up => sentence!(
                "{} gave up before it had its answer; it is inferred that {} owed it: its \
                 process was asked, and it worked meanwhile",
                sleeper,
                self.name(hop.by)
            ),
            WaitClass::Process => sentence!(
                "the recording ends before {}, for whose end {} waits",
                self.name(hop.by),
                sleeper
            ),
            class if class.is_disk() => sentence!(
                "the recording ends before {} has its answer; only {} was seen to serve a file \
                 system",
                sleeper,
                self.name(hop.by)
            ),
            WaitClass::Condition => sentence!(
                "the recording ends before {} goes on; it is inferred that it waits for {}, the \
                 thread of its process, or the child, that works meanwhile",
                sleeper,
                self.name(hop.by)
            ),
            _ => sentence!(
                "the recording ends before {} has its answer; {} was asked, answered before, or is \
                 its child",
                sleeper,
                self.name(hop.by)
            ),
        }
    }
}
