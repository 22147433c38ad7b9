//! What excuses a break in a thread's rhythm: it ends in nobody's work.
//!
//! A worker without jobs has an irregular rhythm, too, and so has everyone who waits for a person,
//! for another machine or for a time. A client whose server computed has no such excuse. So a break
//! is a stall only if most of it went to something that the thread did not choose: the work of
//! others that it had asked for, a CPU that they did not get, a disk, memory, being stopped.

use super::busy::is_batch;
use super::rhythm;
use crate::candidate::StallKind;
use crate::explain::{Cause, Explanation, Hop, Piece, class_of};
use crate::family::descends;
use crate::samples::spinning;
use crate::{Analysis, WaitClass};
use rustc_hash::FxHashMap;
use std::cell::OnceCell;
use unhitch_model::{StackId, ThreadId, Window};

/// Minimum time that must have gone to others' work, nanoseconds.
const MIN_WORK_NS: u64 = 100_000_000;
/// Minimum waits of a thread at the place where it waits for work.
const MIN_WAITS_FOR_WORK: usize = 8;
/// A wait is far longer than nine in ten at its place if it takes this many times as long.
const FAR_LONGER: u64 = 50;
/// Minimum sleeps by the clock, of half the length or more, that are a habit.
const HABIT: usize = 3;
/// The same of any length, at one known place.
const HABITUAL_PLACE: usize = 8;

/// True if most of `explanation` is nobody's work, or that of its victim's own program.
pub(crate) fn is_excused(
    analysis: &Analysis<'_>,
    kind: StallKind,
    explanation: &Explanation,
) -> bool {
    let mut habits = Habits::new(analysis);
    let own = OwnWork::new(analysis, kind, explanation);
    let mut wanted: FxHashMap<u32, bool> = FxHashMap::default();
    let has_spun = OnceCell::new();
    let spins = || {
        let spinning = || spinning(analysis, explanation.victim, explanation.window).is_some();
        *has_spun.get_or_init(spinning)
    };
    let own_wait = |hop: u32| explanation.root(hop);
    let counts = |piece: &&Piece| {
        let mut is_wanted = |hop: u32| {
            let Some(root) = own_wait(hop) else { return false };
            *wanted.entry(root.root).or_insert_with(|| {
                root.class == WaitClass::Lock
                    || habits.has_asked(root.sleeper, root.wait_stack, root.by)
            })
        };
        match (piece.cause, piece.hop) {
            (Cause::Io | Cause::Device | Cause::Memory | Cause::Stopped, _) => true,
            (Cause::Ran | Cause::WaitedForCpu, None) => spins(),
            (Cause::Ran | Cause::WaitedForCpu, Some(hop)) => {
                is_wanted(hop) && !own.excuses(piece.thread, hop, &mut habits)
            }
            (Cause::Timer | Cause::Timeout, Some(hop)) => {
                let idle = own_wait(hop).is_some_and(|root| root.class.is_chosen());
                is_wanted(hop)
                    && !habits.is_habit(piece, idle)
                    && !(idle && waited_for_events(analysis, explanation, piece))
            }
            _ => false,
        }
    };
    let work_ns: u64 =
        explanation.pieces.iter().filter(counts).map(|piece| piece.window.duration_ns()).sum();
    work_ns < MIN_WORK_NS || work_ns.saturating_mul(2) < explanation.window.duration_ns()
}

/// True for a sleep by the clock of a thread that waited for events, and so would have woken for
/// whoever asked it for something; and the thread for which it did something then had never done so.
fn waited_for_events(analysis: &Analysis<'_>, explanation: &Explanation, piece: &Piece) -> bool {
    let trace = analysis.trace;
    let had_asked =
        |hop: &Hop| analysis.contacts().had_woken(trace, hop.sleeper, hop.by, piece.window.end);
    analysis.stacks.is_pump(piece.segment.wait_stack(trace))
        && !explanation.hop_of(piece).is_some_and(had_asked)
}

/// How the victim rests when it is not in the window that is explained.
pub(crate) struct Rest<'a, 't> {
    analysis: &'a Analysis<'t>,
    explanation: &'a Explanation,
    /// How often it sleeps at each place outside the window, by signature.
    elsewhere: OnceCell<FxHashMap<u64, usize>>,
}

impl<'a, 't> Rest<'a, 't> {
    pub(crate) fn new(analysis: &'a Analysis<'t>, explanation: &'a Explanation) -> Self {
        Self { analysis, explanation, elsewhere: OnceCell::new() }
    }

    /// True if `piece` is a short sleep of the victim by the clock, where it also sleeps at other times,
    /// again and again.
    pub(crate) fn is_as_ever(&self, piece: &Piece) -> bool {
        let is_short = piece.hop.is_none()
            && piece.cause == Cause::Timer
            && piece.window.duration_ns() < MIN_WORK_NS;
        let signature =
            || self.analysis.stacks.signature(piece.segment.wait_stack(self.analysis.trace));
        is_short
            && self.elsewhere().get(&signature()).is_some_and(|sleeps| *sleeps >= HABITUAL_PLACE)
    }

    fn elsewhere(&self) -> &FxHashMap<u64, usize> {
        self.elsewhere.get_or_init(|| {
            let (analysis, explanation) = (self.analysis, self.explanation);
            let Window { start, end } = analysis.timeline.window();
            let before = Window::new(start, explanation.window.start);
            let after = Window::new(explanation.window.end, end);
            let mut sleeps: FxHashMap<u64, usize> = FxHashMap::default();
            for window in [before, after] {
                each_sleep(analysis, explanation.victim, window, |signature, _| {
                    *sleeps.entry(signature).or_default() += 1;
                });
            }
            // Without a stack, no place is known.
            sleeps.remove(&0);
            sleeps
        })
    }
}

/// What threads of the victim's own process, and the processes that it started, computed; and
/// whatever others did, where the victim's process computes all the time. *Why that excuses:* a
/// compiler waits for its workers all the time, a build for its compilers, and all of them for each
/// other's turn. It is no excuse if somebody had a lock, or if the victim has a rhythm of its own to
/// which it returned from a wait where it hardly ever waits, or never for nearly as long.
struct OwnWork<'a, 't> {
    analysis: &'a Analysis<'t>,
    explanation: &'a Explanation,
    has_rhythm: OnceCell<bool>,
    /// By hop: whether a lock is waited for on the way to it.
    behind_lock: OnceCell<Vec<Option<()>>>,
}

impl<'a, 't> OwnWork<'a, 't> {
    fn new(analysis: &'a Analysis<'t>, kind: StallKind, explanation: &'a Explanation) -> Self {
        // The rhythm of a crowd is known already. The threads of a compiler wait for each other's turn.
        let known = (kind == StallKind::Crowd).then(|| !is_batch(analysis, explanation.victim));
        let has_rhythm = known.map_or_else(OnceCell::new, OnceCell::from);
        Self { analysis, explanation, has_rhythm, behind_lock: OnceCell::new() }
    }

    fn has_rhythm(&self) -> bool {
        let (victim, window) = (self.explanation.victim, self.explanation.window);
        *self.has_rhythm.get_or_init(|| rhythm::goes_on(self.analysis, victim, window))
    }

    /// True if the work of `worker`, which `hop` leads to, is no stall for the victim.
    fn excuses(&self, worker: ThreadId, hop: u32, habits: &mut Habits<'_, '_>) -> bool {
        let is_lock = |_, hop: &Hop| (hop.class == WaitClass::Lock).then_some(());
        let behind_lock = || self.behind_lock.get_or_init(|| self.explanation.nearest(is_lock));
        let has_lock = || behind_lock().get(hop as usize).is_some_and(Option::is_some);
        let mut is_unusual = || {
            self.explanation.root(hop).is_some_and(|root| {
                habits.is_rare(root.sleeper, root.wait_stack) || habits.is_far_longer(root)
            })
        };
        let (victim, start) = (self.explanation.victim, self.explanation.window.start);
        let is_own = descends(self.analysis, worker, victim, start);
        (is_own || is_batch(self.analysis, victim))
            && !has_lock()
            && !(is_unusual() && self.has_rhythm())
    }
}

/// How often, and how long, threads slept at their places.
pub(crate) struct Habits<'a, 't> {
    pub(crate) analysis: &'a Analysis<'t>,
    /// By thread, the lengths of its sleeps, nanoseconds, by signature; shortest first.
    sleeps: FxHashMap<ThreadId, FxHashMap<u64, Vec<u64>>>,
}

impl<'a, 't> Habits<'a, 't> {
    pub(crate) fn new(analysis: &'a Analysis<'t>) -> Self {
        Self { analysis, sleeps: FxHashMap::default() }
    }

    /// True if `sleeper`, asleep on `wait_stack`, wanted something from `by`, who ended its wait: it
    /// had asked, as the two wake each other, or it asks another worker of the same pool; or it waited
    /// where it hardly ever does, so that it is no wait for work.
    pub(crate) fn has_asked(
        &mut self,
        sleeper: ThreadId,
        wait_stack: StackId,
        by: ThreadId,
    ) -> bool {
        let analysis = self.analysis;
        let contacts = analysis.contacts();
        contacts.are_mutual(analysis.trace, sleeper, by)
            || self.is_rare(sleeper, wait_stack)
            || self.has_asked_colleague(sleeper, by)
    }

    /// True if `sleeper` wakes a thread that often waits where `by` does: whichever of a pool's workers
    /// is awake takes the next task, and wakes others if there are more.
    fn has_asked_colleague(&mut self, sleeper: ThreadId, by: ThreadId) -> bool {
        let analysis = self.analysis;
        let threads = &analysis.trace.threads;
        let process = threads.get(by).process;
        if threads.get(sleeper).process != process {
            return false;
        }
        let places = self.habitual_places(by);
        let is_colleague = |other: &ThreadId| {
            ![by, sleeper].contains(other) && threads.get(*other).process == process
        };
        let woken: Vec<ThreadId> =
            analysis.contacts().woken_by(sleeper).filter(is_colleague).collect();
        woken.into_iter().any(|other| {
            let others = self.habitual_places(other);
            places.iter().any(|place| others.contains(place))
        })
    }

    /// The places to which a thread returns to sleep.
    fn habitual_places(&mut self, thread: ThreadId) -> Vec<u64> {
        let analysis = self.analysis;
        let sleeps = self.sleeps.entry(thread).or_insert_with(|| sleeps_of(analysis, thread));
        let is_habit = |(signature, lengths): &(&u64, &Vec<u64>)| {
            **signature != 0 && lengths.len() >= HABITUAL_PLACE
        };
        sleeps.iter().filter(is_habit).map(|(signature, _)| *signature).collect()
    }

    /// True for a wait with a stack on which its thread seldom waits.
    fn is_rare(&mut self, sleeper: ThreadId, wait_stack: StackId) -> bool {
        let signature = self.analysis.stacks.signature(wait_stack);
        signature != 0 && self.sleeps_at(sleeper, signature).len() < MIN_WAITS_FOR_WORK
    }

    /// True for a wait that is far longer than nearly all of its thread at the same place.
    fn is_far_longer(&mut self, hop: &Hop) -> bool {
        let signature = self.analysis.stacks.signature(hop.wait_stack);
        let lengths = self.sleeps_at(hop.sleeper, signature);
        if signature == 0 || lengths.len() < MIN_WAITS_FOR_WORK {
            return false;
        }
        let usual_ns = lengths[lengths.len() * 9 / 10 - 1];
        hop.slept.duration_ns() >= usual_ns.saturating_mul(FAR_LONGER)
    }

    /// True if a sleep by the clock is one of many, and so no answer to anybody. For a thread that was
    /// `idle`, as servers are until a client asks, it is enough that its client often rests there.
    fn is_habit(&mut self, piece: &Piece, idle: bool) -> bool {
        let analysis = self.analysis;
        let signature = analysis.stacks.signature(piece.segment.wait_stack(analysis.trace));
        let slept_ns = piece.window.duration_ns();
        let shorter = |ns: &u64| ns.saturating_mul(2) < slept_ns;
        let sleeps = self.sleeps_at(piece.thread, signature);
        class_of(analysis, &piece.segment) == WaitClass::KernelIdle
            || idle && signature != 0 && sleeps.len() >= HABITUAL_PLACE
            || sleeps.len() - sleeps.partition_point(shorter) >= HABIT
    }

    /// The lengths of the sleeps of `thread` with this signature, shortest first; 0 stands for those
    /// without a stack.
    fn sleeps_at(&mut self, thread: ThreadId, signature: u64) -> &[u64] {
        let analysis = self.analysis;
        let sleeps = self.sleeps.entry(thread).or_insert_with(|| sleeps_of(analysis, thread));
        sleeps.get(&signature).map_or(&[], Vec::as_slice)
    }
}

fn sleeps_of(analysis: &Analysis<'_>, thread: ThreadId) -> FxHashMap<u64, Vec<u64>> {
    let mut sleeps: FxHashMap<u64, Vec<u64>> = FxHashMap::default();
    each_sleep(analysis, thread, analysis.timeline.window(), |signature, ns| {
        sleeps.entry(signature).or_default().push(ns);
    });
    sleeps.values_mut().for_each(|lengths| lengths.sort_unstable());
    sleeps
}

/// Calls `take` with the signature and the length of each sleep of `thread` inside `window`.
fn each_sleep(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    window: Window,
    mut take: impl FnMut(u64, u64),
) {
    analysis.timeline.each_segment(analysis.trace, thread, window, &mut |segment| {
        if segment.is_sleep() {
            let signature = analysis.stacks.signature(segment.wait_stack(analysis.trace));
            take(signature, segment.window.duration_ns());
        }
    });
}
