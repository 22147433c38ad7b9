//! Saturated lock: many threads take one lock for a moment each, so often that it is never free.
//! When the moment is a process's exit, it is the exits that are serialised.

use super::{Case, Finding, Pattern, place};
use crate::answer::units;
use crate::explain::{Cause, Hop};
use crate::{Release, WaitClass};
use rustc_hash::FxHashMap;
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
    let release = case.release()?;
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
        .filter(|piece| {
            piece.cause == Cause::Ran
                && case.explanation.hop_of(piece).is_some_and(|hop| hop.class == WaitClass::Lock)
        })
        .map(|piece| (piece.thread, piece.window))
        .collect();
    if busy_ns * 2 < window.duration_ns()
        && let Some(spot) = case.analysis.hot_spot(&held)
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
    let serialised = if exits {
        "process destruction is serialised"
    } else {
        "everybody passes through it one at a time"
    };
    Some(Finding {
        pattern: if exits { Pattern::SerializedExit } else { Pattern::SaturatedLock },
        culprit,
        crowd: None,
        cause: format!(
            "a saturated lock: {serialised}{}. More CPUs make it worse.",
            place(", in ", &function)
        ),
        function,
        evidence,
        evidence_words,
        story,
        advice: if exits {
            "Let fewer processes exit at once, or do the costly part of the exit outside the lock."
                .to_owned()
        } else {
            "Split the lock, or do less under it: it is held almost all the time.".to_owned()
        },
        operation: None,
    })
    .filter(|_| {
        trace.samples.is_empty()
            || busy_ns * 2 >= window.duration_ns()
            || behind_lock * 10 >= window.duration_ns() * 9
    })
}

/// CPU time of the releasing function, of all threads, by samples; 0 without any.
fn on_cpu_ns(case: &Case<'_>, release: &Release) -> u64 {
    let trace = case.analysis.trace;
    let inside = |index: &usize| {
        let frames = trace.stacks.frames_of(trace.samples.stack[*index]);
        frames.iter().any(|&frame| {
            trace
                .symbols
                .get(frame)
                .iter()
                .any(|symbol| trace.name(symbol.function) == release.function)
        })
    };
    trace.samples.range(case.explanation.window).filter(inside).count() as u64
        * trace.meta.sample_period_ns
}

/// The longest single wait, and through whose hands the lock came meanwhile.
fn longest_wait(case: &Case<'_>) -> Vec<String> {
    let Some(longest) = case.victims_wait() else { return Vec::new() };
    let mut story = vec![format!(
        "Its longest single wait took {}, in\n  {}",
        units::duration(longest.slept.duration_ns()),
        case.told(longest.wait_stack)
    )];
    let hands = hands(case, longest);
    let links: Vec<String> = hands
        .iter()
        .take(MOST_LINKS)
        .map(|&(thread, held)| format!("{} ({})", case.name(thread), units::duration(held)))
        .collect();
    let more = match hands.len().saturating_sub(MOST_LINKS) {
        0 => String::new(),
        more => format!(" ← {} more", units::count(more as u64)),
    };
    story.push(format!(
        "The lock came to it, each having it for so long: {}{more}.",
        links.join(" ← ")
    ));
    story
}

/// Through whose hands the lock came to the sleeper of `hop` while it waited, the last one first,
/// and how long each had it: from the wake-up that let it in to the wake-up by which it let in the
/// next.
fn hands(case: &Case<'_>, hop: &Hop) -> Vec<(ThreadId, u64)> {
    let hops = &case.explanation.hops;
    // By which wait the waker of each hop had come to the lock: its last one for the same lock.
    let mut came: FxHashMap<u32, usize> = FxHashMap::default();
    for (index, hop) in hops.iter().enumerate().filter(|(_, hop)| hop.class == WaitClass::Lock) {
        let Some((at, parent)) =
            hop.parent.and_then(|parent| Some((parent, hops.get(parent as usize)?)))
        else {
            continue;
        };
        let same_lock =
            hop.is_queued() || case.analysis.is_same_lock(hop.wait_stack, parent.wait_stack);
        let last = came.get(&at).is_none_or(|&known| hops[known].window.end < hop.window.end);
        if parent.class == WaitClass::Lock && same_lock && last {
            came.insert(at, index);
        }
    }
    let mut hands = Vec::new();
    let mut at = hops.iter().position(|other| std::ptr::eq(other, hop));
    while let Some(index) = at {
        at = came.get(&(index as u32)).copied();
        let since = at.map_or(hops[index].window.start, |before| hops[before].window.end);
        hands.push((hops[index].by, hops[index].window.end.since(since)));
    }
    hands
}
