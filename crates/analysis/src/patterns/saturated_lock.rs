//! Saturated lock: many threads take one lock for a moment each, so often that it is never free. When the moment is a process's exit,
//! it is the exits that are serialised.

use super::{Case, Finding, Pattern};
use crate::answer::units;
use crate::explain::{Cause, Hop};
use crate::{Release, WaitClass};
use std::cmp::Reverse;
use unhitch_model::{ThreadId, Window};

/// Fewer releases are a convoy of a few.
const FEWEST_WAKES: u64 = 64;
/// Longer holds are each worth a look of their own.
const LONGEST_HOLD_NS: u64 = 2_000_000;
/// The longest wait's chain is told for so many links.
const MOST_LINKS: usize = 8;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let behind_lock = case.ns_of(|_, hop| hop.is_some_and(|hop| hop.class == WaitClass::Lock));
    if !case.is_most(behind_lock) {
        return None;
    }
    let (window, trace) = (case.explanation.window, case.analysis.trace);
    let release = case.analysis.releases(window).into_iter().next()?;
    let interval_ns = window.duration_ns() / release.wakes.max(1);
    if release.wakes < FEWEST_WAKES || interval_ns > LONGEST_HOLD_NS || release.wakers.len() < 2 {
        return None;
    }
    let exits = case.analysis.facts.exits(release.stack);
    let what = if exits { " (process exit)" } else { "" };
    let mut story = longest_wait(case);
    story.push(format!(
        "Dominant release: {}{what}: {} wake-ups ended {} of waits, one per {}; {:.0} threads were waiting on average. It lets the lock go in\n  {}",
        release.function,
        units::count(release.wakes),
        units::duration(release.waited_ns),
        units::duration(interval_ns),
        release.waited_ns as f64 / window.duration_ns() as f64,
        case.told(release.stack),
    ));
    let busy_ns = on_cpu_ns(case, &release);
    let mut function = release.function.clone();
    let held: Vec<(ThreadId, Window)> = (case.explanation.pieces.iter())
        .filter(|piece| piece.cause == Cause::Ran && case.explanation.hop_of(piece).is_some_and(|hop| hop.class == WaitClass::Lock))
        .map(|piece| (piece.thread, piece.window))
        .collect();
    if busy_ns * 2 < window.duration_ns()
        && let Some(spot) = case.analysis.samples.hot_spot(trace, &held)
    {
        let held_ns: u64 = held.iter().map(|(_, window)| window.duration_ns()).sum();
        story.push(format!(
            "While they held it, the holders were on a CPU for {} ({}); {} of {} samples of that are in\n  {}",
            units::duration(held_ns),
            case.percent(held_ns),
            spot.inside,
            spot.total,
            case.told(spot.stack)
        ));
        function = case.hot_name(&spot);
    } else if busy_ns > 0 {
        story.push(format!(
            "{} on a CPU in {} = {} of the stall, by {}.",
            units::duration(busy_ns),
            release.function,
            units::percent(busy_ns, window.duration_ns()),
            units::plural(release.wakers.len() as u64, "thread")
        ));
    }
    let culprit = case.main_holder().map(|(thread, _)| thread).or(release.wakers.first().copied());
    let (evidence, evidence_words) = case.evidence();
    let serialised = if exits { "process destruction is serialised" } else { "everybody passes through it one at a time" };
    Some(Finding {
        pattern: if exits { Pattern::SerializedExit } else { Pattern::SaturatedLock },
        culprit,
        cause: format!("a saturated lock: {serialised}, in {function}. More CPUs make it worse."),
        function,
        evidence,
        evidence_words,
        story,
        advice: if exits {
            "Let fewer processes exit at once, or do the costly part of the exit outside the lock.".to_owned()
        } else {
            "Split the lock, or do less under it: it is held almost all the time.".to_owned()
        },
        operation: None,
    })
    .filter(|_| trace.samples.is_empty() || busy_ns * 2 >= window.duration_ns() || behind_lock * 10 >= window.duration_ns() * 9)
}

/// CPU time of the releasing function, of all threads, by samples; 0 without any.
fn on_cpu_ns(case: &Case<'_>, release: &Release) -> u64 {
    let trace = case.analysis.trace;
    let inside = |index: &usize| {
        let frames = trace.stacks.frames_of(trace.samples.stack[*index]);
        frames.iter().any(|&frame| trace.symbols.get(frame).iter().any(|symbol| trace.name(symbol.function) == release.function))
    };
    trace.samples.range(case.explanation.window).filter(inside).count() as u64 * trace.meta.sample_period_ns
}

/// The longest single wait, and through whose hands the lock came meanwhile.
fn longest_wait(case: &Case<'_>) -> Vec<String> {
    let Some(longest) = case.victims_wait() else { return Vec::new() };
    let mut story = vec![format!(
        "Its longest single wait took {}, in\n  {}",
        units::duration(longest.slept.duration_ns()),
        case.told(longest.wait_stack)
    )];
    let hops = &case.explanation.hops;
    let mut at = hops.iter().position(|hop| std::ptr::eq(hop, longest));
    let mut links: Vec<String> = Vec::new();
    let mut more = 0;
    while let Some(index) = at {
        let held: u64 =
            case.explanation.pieces.iter().filter(|piece| piece.hop == Some(index as u32)).map(|p| p.window.duration_ns()).sum();
        match links.len() < MOST_LINKS {
            true => links.push(format!("{} ({})", case.name(hops[index].by), units::duration(held))),
            false => more += 1,
        }
        // The lock came to it from whoever ended its own last wait for one.
        let before = |hop: &&Hop| hop.parent == Some(index as u32) && hop.class == WaitClass::Lock;
        at = hops
            .iter()
            .filter(before)
            .max_by_key(|hop| (hop.window.end, Reverse(hop.depth)))
            .and_then(|hop| hops.iter().position(|other| std::ptr::eq(hop, other)));
    }
    let more = if more > 0 { format!(" ← {more} more") } else { String::new() };
    story.push(format!("The lock came to it, each holding it for so long: {}{more}.", links.join(" ← ")));
    story
}
