//! Rhythm breaks: a thread that returns to a wait again and again, and once stays away for far
//! longer than it usually does.
//!
//! *Why it needs no knowledge of the program:* nobody waits on purpose for what usually takes 2 ms.
//! It does not matter in which call the thread waits. Whether a break is a stall is decided by what
//! fills it, see [`excuse`](super::excuse).

use super::thread_view::ThreadView;
use crate::candidate::{Candidate, StallKind};
use crate::explain::operations;
use crate::{Analysis, Operation, WaitClass};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use unhitch_model::{ThreadId, Window};

/// Minimum cycles before a break: with fewer, there is no rhythm.
const MIN_CYCLES: usize = 8;
/// A cycle breaks the rhythm when it is this many times as long as nine in ten of them.
const BREAK_FACTOR: u64 = 8;
/// Minimum length of a break, nanoseconds: shorter ones go unnoticed.
const MIN_BREAK_NS: u64 = 100_000_000;
/// Maximum breaks of one thread, the longest first.
pub(super) const MAX_BREAKS: usize = 8;

/// A cycle that is far longer than nine in ten of its place.
#[derive(Clone, Copy)]
pub(super) struct Break<'a> {
    /// From one wait at the place to the next, or to the end of the recording.
    pub(super) cycle: Window,
    /// The wait that it begins with.
    pub(super) first: &'a Operation,
}

/// The breaks in a thread's rhythm, longest first, none of which is most of another.
pub(super) fn breaks(operations: &[Operation]) -> Vec<Break<'_>> {
    let mut found = Vec::new();
    // Each place has a rhythm of its own. The thread as a whole has one, too: stacks of short waits
    // may be missing, and who waits once where it never did before breaks no other.
    add_breaks(operations.iter(), &mut found);
    for place in places(operations).into_values() {
        add_breaks(place.into_iter(), &mut found);
    }
    found.sort_by_key(|found| (Reverse(found.cycle.duration_ns()), found.cycle.start));
    let mut distinct: Vec<Break<'_>> = Vec::new();
    for found in found {
        let is_known = |known: &Break<'_>| {
            known.cycle.intersect(found.cycle).duration_ns() * 2 >= found.cycle.duration_ns()
        };
        if !distinct.iter().any(is_known) {
            distinct.push(found);
        }
    }
    distinct
}

/// The waits at each place that has a cycle as long as a break.
fn places(operations: &[Operation]) -> FxHashMap<u64, Vec<&Operation>> {
    let mut last: FxHashMap<u64, (usize, &Operation, bool)> = FxHashMap::default();
    for operation in operations.iter().filter(|operation| operation.signature != 0) {
        let is_long = |from: &Operation| {
            operation.window.start.since(from.window.start) >= MIN_BREAK_NS
                || operation.open && operation.window.duration_ns() >= MIN_BREAK_NS
        };
        let place = last.entry(operation.signature).or_insert((0, operation, false));
        *place = (place.0 + 1, operation, place.2 || is_long(place.1));
    }
    last.retain(|_, (waits, _, is_long)| *waits > MIN_CYCLES && *is_long);
    let mut places: FxHashMap<u64, Vec<&Operation>> = FxHashMap::default();
    for operation in operations {
        if let Some((waits, ..)) = last.get(&operation.signature) {
            let place = places.entry(operation.signature);
            place.or_insert_with(|| Vec::with_capacity(*waits)).push(operation);
        }
    }
    places
}

/// Adds the breaks among the cycles of `waits`, those of one place.
fn add_breaks<'a>(
    waits: impl Iterator<Item = &'a Operation> + Clone,
    found: &mut Vec<Break<'a>>,
) {
    let next = waits.clone().skip(1).map(Some).chain([None]);
    // The last wait has no end, unless it lasts until the recording ends: then the cycle is at least
    // that long.
    let cycles = waits.zip(next).filter_map(|(first, next)| {
        let end = match next {
            Some(next) => next.window.start,
            None => first.open.then_some(first.window.end)?,
        };
        Some(Break { cycle: Window::new(first.window.start, end), first })
    });
    let is_long = |cycle: &Break<'_>| cycle.cycle.duration_ns() >= MIN_BREAK_NS;
    if !cycles.clone().skip(MIN_CYCLES).any(|cycle| is_long(&cycle)) {
        return;
    }
    let mut lengths: Vec<u64> = cycles.clone().map(|cycle| cycle.cycle.duration_ns()).collect();
    let ninth = lengths.len() * 9 / 10 - 1;
    let (_, &mut usual_ns, _) = lengths.select_nth_unstable(ninth);
    let limit_ns = usual_ns.saturating_mul(BREAK_FACTOR).max(MIN_BREAK_NS);
    found.extend(
        cycles.skip(MIN_CYCLES).filter(|cycle| cycle.cycle.duration_ns() >= limit_ns),
    );
}

pub(super) fn find(analysis: &Analysis<'_>, view: &ThreadView<'_>, found: &mut Vec<Candidate>) {
    // A kernel thread has no work of its own: whom it kept waiting is the victim.
    let works_for_others = |operation: &Operation| {
        operation.class == WaitClass::KernelIdle
            || analysis.stacks.is_kernel_thread(operation.stack)
    };
    if view.operations.iter().any(works_for_others) {
        return;
    }
    for Break { cycle, .. } in breaks(view.operations).into_iter().take(MAX_BREAKS) {
        let from = view.operations.partition_point(|operation| operation.window.end <= cycle.start);
        let inside = view.operations.get(from..).unwrap_or(&[]).iter();
        let longest = inside
            .take_while(|operation| operation.window.start < cycle.end)
            .max_by_key(|operation| operation.window.intersect(cycle).duration_ns());
        let most = longest.filter(|wait| {
            wait.window.intersect(cycle).duration_ns() * 2 >= cycle.duration_ns()
        });
        if most.is_some_and(|wait| is_nobodys(analysis, wait)) {
            continue;
        }
        // The one wait in it, where it fills nearly all.
        let nearly_all = |wait: &&Operation| {
            wait.window.intersect(cycle).duration_ns() >= cycle.duration_ns() / 10 * 9
        };
        let wait = most.filter(nearly_all);
        found.push(Candidate {
            kind: StallKind::Rhythm,
            victim: view.thread,
            window: wait.map_or(cycle, |wait| wait.window),
            operation: wait.cloned(),
            event_loop: view.event_loop,
            machine: None,
        });
    }
}

/// True if `thread` has a place to which it returned many times before `window` and again after it,
/// and never in between: there, the window broke its rhythm, and it did not wait for work.
pub(super) fn goes_on(analysis: &Analysis<'_>, thread: ThreadId, window: Window) -> bool {
    /// Minimum waits at the place after the window.
    const MIN_AFTER: usize = 3;
    let segments = analysis.segments(thread, analysis.timeline.window());
    let operations = operations(analysis, thread, &segments);
    let is_elsewhere = |found: &Break<'_>| {
        found.first.window.intersect(window).duration_ns() * 2 < window.duration_ns()
    };
    places(&operations).values().any(|place| {
        let mut broken = Vec::new();
        add_breaks(place.iter().copied(), &mut broken);
        let after = place.partition_point(|wait| wait.window.start < window.end);
        place.len() - after >= MIN_AFTER
            && broken.iter().any(|found| {
                found.cycle.intersect(window).duration_ns() * 2 >= window.duration_ns()
                    && is_elsewhere(found)
            })
    })
}

/// True for a wait that no thread ended, and that the program chose: its own timer did, or something
/// outside the machine.
fn is_nobodys(analysis: &Analysis<'_>, wait: &Operation) -> bool {
    let by_task = wait.wakes.last().is_some_and(|&wake| {
        analysis.stacks.is_by_task(analysis.trace, wake)
            && analysis.trace.wakings.waker.get(wake) != Some(&wait.thread)
    });
    !by_task && (is_chosen(wait) || wait.open && wait.class != WaitClass::Lock)
}

/// True for a wait for work, for an event, or for a time: one that a program chooses.
pub(super) fn is_chosen(operation: &Operation) -> bool {
    operation.pump
        || matches!(operation.class, WaitClass::Idle | WaitClass::KernelIdle | WaitClass::Timer)
}
