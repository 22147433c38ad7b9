//! Rhythm breaks: a thread that returns to a wait again and again, and once stays away for far
//! longer than it usually does.
//!
//! *Why it needs no knowledge of the program:* nobody waits on purpose for what usually takes 2 ms.
//! It does not matter in which call the thread waits. Whether a break is a stall is decided by what
//! fills it, see [`excuse`](super::excuse).

use super::thread_view::ThreadView;
use crate::candidate::{Candidate, StallKind};
use crate::explain::{asked_in_vain, class_of};
use crate::{Analysis, Operation, Segment, WaitClass};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use unhitch_model::{ThreadId, Time, Window};

/// Minimum cycles before a break: with fewer, there is no rhythm.
pub(super) const MIN_CYCLES: usize = 8;
/// A cycle breaks the rhythm when it is this many times as long as nine in ten of them.
pub(super) const BREAK_FACTOR: u64 = 8;
/// Minimum length of a break, nanoseconds: shorter ones go unnoticed.
pub(super) const MIN_BREAK_NS: u64 = 100_000_000;
/// Maximum breaks of one thread, the longest first.
pub(super) const MAX_BREAKS: usize = 8;

/// A sleep of a thread. *Why not an [`Operation`](crate::Operation):* a heartbeat that runs briefly
/// between two sleeps at one place looks like one call that never gets on.
#[derive(Clone, Copy)]
pub(super) struct Sleep<'a> {
    pub(super) segment: &'a Segment,
    /// What makes another sleep one at the same place; 0 without a stack.
    pub(super) signature: u64,
    /// True when the recording ends before it does.
    is_open: bool,
}

/// A cycle that is far longer than nine in ten of its place.
#[derive(Clone, Copy)]
pub(super) struct Break<'a> {
    /// From one sleep at the place to the next, or to the end of the recording.
    pub(super) cycle: Window,
    /// The sleep that it begins with.
    pub(super) first: Sleep<'a>,
}

/// The sleeps in a thread's time, in order.
pub(super) fn sleeps<'a>(analysis: &Analysis<'_>, segments: &'a [Segment]) -> Vec<Sleep<'a>> {
    let end = analysis.timeline.window().end;
    let is_sleep = |segment: &&Segment| segment.is_sleep();
    let sleep = |segment: &'a Segment| Sleep {
        segment,
        signature: analysis.stacks.signature(segment.wait_stack(analysis.trace)),
        is_open: segment.wake().is_none() && segment.window.end >= end,
    };
    segments.iter().filter(is_sleep).map(sleep).collect()
}

/// The breaks in a thread's rhythm, longest first, none of which is most of another.
pub(super) fn breaks<'a>(sleeps: &[Sleep<'a>]) -> Vec<Break<'a>> {
    let mut found = Vec::new();
    // Each place has a rhythm of its own. The thread as a whole has one, too: stacks of short waits
    // may be missing, and who waits once where it never did before breaks no other.
    add_breaks(sleeps, &mut found);
    for place in places(sleeps).into_values() {
        add_breaks(&place, &mut found);
    }
    found.sort_by_key(|found| (Reverse(found.cycle.duration_ns()), found.cycle.start));
    let mut distinct: Vec<Break<'a>> = Vec::new();
    for found in found {
        let is_known = |known: &Break<'_>| {
            known.cycle.intersect(found.cycle).duration_ns().saturating_mul(2)
                >= found.cycle.duration_ns()
        };
        if !distinct.iter().any(is_known) {
            distinct.push(found);
        }
    }
    distinct
}

/// The sleeps at each place that has a cycle as long as a break.
fn places<'a>(sleeps: &[Sleep<'a>]) -> FxHashMap<u64, Vec<Sleep<'a>>> {
    struct Place {
        sleeps: usize,
        last: Time,
        is_long: bool,
    }
    let mut known: FxHashMap<u64, Place> = FxHashMap::default();
    for sleep in sleeps.iter().filter(|sleep| sleep.signature != 0) {
        let Window { start, end } = sleep.segment.window;
        let new = Place { sleeps: 0, last: start, is_long: false };
        let place = known.entry(sleep.signature).or_insert(new);
        place.sleeps += 1;
        place.is_long |= start.since(place.last) >= MIN_BREAK_NS
            || sleep.is_open && end.since(start) >= MIN_BREAK_NS;
        place.last = start;
    }
    known.retain(|_, place| place.sleeps > MIN_CYCLES && place.is_long);
    let mut places: FxHashMap<u64, Vec<Sleep<'a>>> = FxHashMap::default();
    for sleep in sleeps {
        if let Some(place) = known.get(&sleep.signature) {
            let list = places.entry(sleep.signature);
            list.or_insert_with(|| Vec::with_capacity(place.sleeps)).push(*sleep);
        }
    }
    places
}

/// Adds the breaks among the cycles of `sleeps`, those of one place.
fn add_breaks<'a>(sleeps: &[Sleep<'a>], found: &mut Vec<Break<'a>>) {
    let next = sleeps.iter().skip(1).map(Some).chain([None]);
    // The last sleep has no end, unless it lasts until the recording ends: then the cycle is at
    // least that long.
    let cycles = sleeps.iter().zip(next).filter_map(|(first, next)| {
        let window = first.segment.window;
        let end = match next {
            Some(next) => next.segment.window.start,
            None => first.is_open.then_some(window.end)?,
        };
        Some(Break { cycle: Window::new(window.start, end), first: *first })
    });
    let is_long = |found: &Break<'_>| found.cycle.duration_ns() >= MIN_BREAK_NS;
    if !cycles.clone().skip(MIN_CYCLES).any(|cycle| is_long(&cycle)) {
        return;
    }
    let mut lengths: Vec<u64> = cycles.clone().map(|found| found.cycle.duration_ns()).collect();
    let ninth = (lengths.len() * 9 / 10).saturating_sub(1);
    let (_, &mut usual_ns, _) = lengths.select_nth_unstable(ninth);
    let limit_ns = usual_ns.saturating_mul(BREAK_FACTOR).max(MIN_BREAK_NS);
    let breaks = cycles.skip(MIN_CYCLES);
    found.extend(breaks.filter(|found| found.cycle.duration_ns() >= limit_ns));
}

pub(super) fn find(analysis: &Analysis<'_>, view: &ThreadView<'_>, found: &mut Vec<Candidate>) {
    if view.kernel_thread {
        return;
    }
    let sleeps = sleeps(analysis, view.segments);
    for Break { cycle, .. } in breaks(&sleeps).into_iter().take(MAX_BREAKS) {
        let from = sleeps.partition_point(|sleep| sleep.segment.window.end <= cycle.start);
        let inside = sleeps.get(from..).unwrap_or(&[]).iter();
        let longest = inside
            .take_while(|sleep| sleep.segment.window.start < cycle.end)
            .max_by_key(|sleep| sleep.segment.window.intersect(cycle).duration_ns());
        let most = longest.filter(|sleep| {
            sleep.segment.window.intersect(cycle).duration_ns().saturating_mul(2)
                >= cycle.duration_ns()
        });
        let is_idle = |sleep: &Sleep<'_>| {
            is_rest(analysis, sleep) || is_nobodys(analysis, view.thread, sleep)
        };
        if most.is_some_and(is_idle) {
            continue;
        }
        let wait = one_wait(view, cycle);
        // A loop that waits for events would have seen to any that came.
        let is_away = !most.is_some_and(|sleep| is_pump(analysis, sleep));
        found.push(Candidate {
            kind: StallKind::Rhythm,
            victim: view.thread,
            window: wait.map_or(cycle, |wait| wait.window),
            operation: wait.cloned(),
            event_loop: view.event_loop && is_away,
            machine: None,
        });
    }
}

/// The one wait that fills nearly all of a cycle.
fn one_wait<'a>(view: &ThreadView<'a>, cycle: Window) -> Option<&'a Operation> {
    let from = view.operations.partition_point(|operation| operation.window.start < cycle.start);
    let inside = view.operations.get(from..)?.iter();
    let mut inside = inside.take_while(|operation| operation.window.end <= cycle.end);
    inside.find(|wait| wait.window.duration_ns() >= cycle.duration_ns() / 10 * 9)
}

/// True if `thread` has a place to which it returned many times before `window` and again after it,
/// and never in between: there, the window broke its rhythm, and it did not wait for work.
pub(super) fn goes_on(analysis: &Analysis<'_>, thread: ThreadId, window: Window) -> bool {
    /// Minimum sleeps at the place after the window.
    const MIN_AFTER: usize = 3;
    let segments = analysis.segments(thread, analysis.timeline.window());
    let sleeps = sleeps(analysis, &segments);
    let is_it = |found: &Break<'_>| {
        let of_window = |other: Window| other.intersect(window).duration_ns().saturating_mul(2);
        of_window(found.cycle) >= window.duration_ns()
            && of_window(found.first.segment.window) < window.duration_ns()
    };
    places(&sleeps).values().any(|place| {
        let mut broken = Vec::new();
        add_breaks(place, &mut broken);
        let after = place.partition_point(|sleep| sleep.segment.window.start < window.end);
        place.len() - after >= MIN_AFTER && broken.iter().any(is_it)
    })
}

/// True for the sleep of a worker that has nothing to do, and has asked nobody for anything: whoever
/// waits for what it does later is the victim.
fn is_rest(analysis: &Analysis<'_>, sleep: &Sleep<'_>) -> bool {
    class_of(analysis, sleep.segment) == WaitClass::Idle && !is_pump(analysis, sleep)
}

fn is_pump(analysis: &Analysis<'_>, sleep: &Sleep<'_>) -> bool {
    analysis.stacks.is_pump(sleep.segment.wait_stack(analysis.trace))
}

/// True for a sleep that no thread ended, and that the program chose: its own timer did, or
/// something outside the machine. So it may be with one that has not ended.
fn is_nobodys(analysis: &Analysis<'_>, thread: ThreadId, sleep: &Sleep<'_>) -> bool {
    let trace = analysis.trace;
    let by_another = sleep.segment.wake().is_some_and(|wake| {
        analysis.stacks.is_by_task(trace, wake) && trace.wakings.waker.get(wake) != Some(&thread)
    });
    let is_owed = || {
        class_of(analysis, sleep.segment) == WaitClass::Lock
            || asked_in_vain(analysis, thread, sleep.segment).is_some()
    };
    !by_another && (is_chosen(analysis, sleep.segment) || sleep.is_open && !is_owed())
}

/// True for a wait for work, for an event, or for a time: one that a program chooses.
pub(super) fn is_chosen(analysis: &Analysis<'_>, sleep: &Segment) -> bool {
    analysis.stacks.is_pump(sleep.wait_stack(analysis.trace))
        || class_of(analysis, sleep).is_chosen()
}
