//! The most unusual time of a thread that somebody asks about, where it has no stall: asked, there
//! is always an answer.
//!
//! A thread's own habit is the measure: the cycles from one wait at a place to the next at the same
//! place. Without one, the longest wait that nobody chooses is taken; a thread that did nothing but
//! wait for work gets its longest such wait, and the answer says so.

use crate::candidate::{Candidate, StallKind};
use crate::explain::operations;
use crate::{Analysis, Operation, State, WaitClass};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use unhitch_model::{ThreadId, Window};

/// Minimum cycles that make a habit.
const MIN_CYCLES: usize = 8;
/// A cycle breaks the habit when it is this many times as long as nine in ten of them.
const BREAK_FACTOR: u64 = 8;
/// Minimum length of a break, nanoseconds.
const MIN_BREAK_NS: u64 = 100_000_000;
/// Maximum breaks that are explained, the longest first.
const MAX_BREAKS: usize = 8;

/// The most unusual time of `thread` inside `window`, longest first; nothing only where nothing
/// of it was recorded there.
pub(crate) fn unusual(analysis: &Analysis<'_>, thread: ThreadId, window: Window) -> Vec<Candidate> {
    let window = window.intersect(analysis.timeline.life(thread));
    if window.is_empty() {
        return Vec::new();
    }
    let segments = analysis.segments(thread, analysis.timeline.window());
    let operations = operations(analysis, thread, &segments);
    let candidate = |kind: StallKind, part: Window, operation: Option<&Operation>| Candidate {
        kind,
        victim: thread,
        window: part.intersect(window),
        operation: operation
            .filter(|operation| operation.window == part.intersect(window))
            .cloned(),
        event_loop: false,
        machine: None,
    };
    let mut breaks = breaks(&operations);
    breaks.retain(|(cycle, operation)| {
        cycle.overlaps(window) && !is_mostly_chosen(*cycle, operation)
    });
    if !breaks.is_empty() {
        breaks.sort_by_key(|(cycle, _)| (Reverse(cycle.intersect(window).duration_ns()), *cycle));
        let longest = breaks.iter().take(MAX_BREAKS);
        return longest
            .map(|(cycle, operation)| candidate(StallKind::Rhythm, *cycle, Some(operation)))
            .collect();
    }
    let waits = || operations.iter().filter(|operation| operation.window.overlaps(window));
    let longest = |chosen: bool| {
        let fitting = waits().filter(move |operation| is_chosen(operation) == chosen);
        fitting.max_by_key(|operation| {
            (operation.window.intersect(window).duration_ns(), Reverse(operation.window))
        })
    };
    let runnable =
        segments.iter().filter(|segment| matches!(segment.state, State::Runnable { .. }));
    let runnable = runnable
        .map(|segment| segment.window.intersect(window))
        .max_by_key(|part| (part.duration_ns(), Reverse(*part)));
    let unwanted = longest(false)
        .map(|operation| candidate(StallKind::Longest, operation.window, Some(operation)));
    let starved = runnable
        .filter(|part| !part.is_empty())
        .map(|part| candidate(StallKind::Longest, part, None));
    let found =
        unwanted.into_iter().chain(starved).max_by_key(|candidate| candidate.window.duration_ns());
    let idle = longest(true)
        .map(|operation| candidate(StallKind::Idle, operation.window, Some(operation)));
    // What it did not choose counts, however short, unless it is lost in the time that it
    // chose.
    let ran_ns: u64 = segments
        .iter()
        .filter(|segment| segment.state == State::Ran)
        .map(|segment| segment.window.intersect(window).duration_ns())
        .sum();
    let computed =
        (ran_ns * 2 >= window.duration_ns()).then(|| candidate(StallKind::Longest, window, None));
    let counts =
        |found: &Candidate| found.window.duration_ns().saturating_mul(100) >= window.duration_ns();
    let best = computed.or(found.clone().filter(counts)).or(idle).or(found);
    vec![best.unwrap_or_else(|| candidate(StallKind::Longest, window, None))]
}

/// The cycles at one place that are far longer than nine in ten of them, each with the wait that it
/// begins with.
fn breaks(operations: &[Operation]) -> Vec<(Window, &Operation)> {
    let mut places: FxHashMap<u64, Vec<&Operation>> = FxHashMap::default();
    for operation in operations.iter().filter(|operation| operation.signature != 0) {
        places.entry(operation.signature).or_default().push(operation);
    }
    let mut breaks = Vec::new();
    for waits in places.into_values().filter(|waits| waits.len() > MIN_CYCLES) {
        let cycles: Vec<(Window, &Operation)> = waits
            .windows(2)
            .map(|pair| (Window::new(pair[0].window.start, pair[1].window.start), pair[0]))
            .collect();
        let mut lengths: Vec<u64> = cycles.iter().map(|(cycle, _)| cycle.duration_ns()).collect();
        lengths.sort_unstable();
        let usual_ns = lengths[lengths.len() * 9 / 10 - 1];
        let limit_ns = usual_ns.saturating_mul(BREAK_FACTOR).max(MIN_BREAK_NS);
        breaks.extend(cycles.into_iter().filter(|(cycle, _)| cycle.duration_ns() >= limit_ns));
    }
    breaks
}

/// True for a wait for work, for an event, or for a time: one that a program chooses.
pub(super) fn is_chosen(operation: &Operation) -> bool {
    operation.pump
        || matches!(operation.class, WaitClass::Idle | WaitClass::KernelIdle | WaitClass::Timer)
}

/// True for a cycle most of which is a wait that the program chose.
fn is_mostly_chosen(cycle: Window, first: &Operation) -> bool {
    is_chosen(first) && first.window.intersect(cycle).duration_ns() * 2 >= cycle.duration_ns()
}
