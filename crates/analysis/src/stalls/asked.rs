//! The most unusual time of a thread that somebody asks about, where it has no stall: asked, there
//! is always an answer.
//!
//! A thread that wanted a CPU for most of the time, and had none, is told as a whole. Else its own
//! [rhythm](super::rhythm) is the measure. Without a break in it, the longest wait
//! that nobody chooses is taken; a thread that did nothing but wait for work gets its longest such
//! wait, and the answer says so.

use super::rhythm::{self, Break, MAX_BREAKS, breaks};
use crate::candidate::{Candidate, StallKind};
use crate::explain::operations;
use crate::{Analysis, Operation, State};
use std::cmp::Reverse;
use unhitch_model::{ThreadId, Window};

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
    let time_in = |counts: fn(&State) -> bool| -> u64 {
        let counted = segments.iter().filter(|segment| counts(&segment.state));
        counted.map(|segment| segment.window.intersect(window).duration_ns()).sum()
    };
    let is_most = |ns: u64| ns.saturating_mul(2) >= window.duration_ns();
    let runnable_ns = time_in(|state| matches!(state, State::Runnable { .. }));
    if is_most(runnable_ns) {
        return vec![candidate(StallKind::Longest, window, None)];
    }
    let sleeps = rhythm::sleeps(analysis, &segments);
    let mut breaks = breaks(&sleeps);
    breaks.retain(|found| found.cycle.overlaps(window) && !is_mostly_chosen(analysis, found));
    if !breaks.is_empty() {
        breaks.sort_by_key(|found| {
            (Reverse(found.cycle.intersect(window).duration_ns()), found.cycle)
        });
        let longest = breaks.iter().take(MAX_BREAKS);
        return longest.map(|found| candidate(StallKind::Rhythm, found.cycle, None)).collect();
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
    let busy_ns = runnable_ns + time_in(|state| *state == State::Ran);
    let computed = is_most(busy_ns).then(|| candidate(StallKind::Longest, window, None));
    let counts =
        |found: &Candidate| found.window.duration_ns().saturating_mul(100) >= window.duration_ns();
    let best = computed.or(found.clone().filter(counts)).or(idle).or(found);
    vec![best.unwrap_or_else(|| candidate(StallKind::Longest, window, None))]
}

/// True for a cycle most of which is a sleep that the program chose.
fn is_mostly_chosen(analysis: &Analysis<'_>, found: &Break<'_>) -> bool {
    let slept = found.first.segment.window.intersect(found.cycle).duration_ns();
    rhythm::is_chosen(analysis, found.first.segment)
        && slept.saturating_mul(2) >= found.cycle.duration_ns()
}

/// True for a wait that its thread chose.
pub(super) fn is_chosen(operation: &Operation) -> bool {
    operation.pump || operation.class.is_chosen()
}
