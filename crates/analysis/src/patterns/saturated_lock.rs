//! Saturated lock: many threads take one lock briefly, so often that it is never free. When what
//! they do under it is to exit, it is the exits that are serialised.

use super::case::Case;
use super::case::{in_function, samples_of};
use super::finding::{Finding, Pattern};
use crate::WaitClass;
use crate::explain::{Cause, Hop, Piece};
use crate::locks::{Release, is_same_lock};
use crate::samples::hot_spot;
use crate::wording::sentence::{Sentence, are, count, duration, function, plural, sentence};
use rustc_hash::FxHashMap;
use unhitch_model::{ThreadId, Window};

/// Minimum wake-ups; fewer are a convoy.
const MIN_WAKES: u64 = 64;
/// Maximum time between releases, nanoseconds; longer holds are each worth a look of their own.
const MAX_HOLD_NS: u64 = 2_000_000;
/// Maximum holders that are listed for the longest wait.
const MAX_HOLDERS: usize = 8;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let behind_lock = case.ns_of(|_, hop| hop.is_some_and(|hop| hop.class == WaitClass::Lock));
    if !case.is_most(behind_lock) {
        return None;
    }
    let release = case.release()?;
    let whole_ns = case.duration_ns();
    let interval_ns = whole_ns / release.wakes.max(1);
    if release.wakes < MIN_WAKES || interval_ns > MAX_HOLD_NS || release.wakers.len() < 2 {
        return None;
    }
    let exits = case.analysis.stacks.exits(release.stack);
    let mut sentences = longest_wait(case);
    sentences.push(sentence!(
        "Most releases were by {}{}: {} wake-ups ended {} of waits, one wake-up per {}; on \
         average, {} waited. It releases the lock in\n  {}",
        function(&release.function),
        if exits { " (process exit)" } else { "" },
        count(release.wakes),
        duration(release.waited_ns),
        duration(interval_ns),
        plural((release.waited_ns as f64 / whole_ns as f64).round() as u64, "thread"),
        case.stack(release.stack)
    ));
    let busy_ns = on_cpu_ns(case, &release);
    let (name, busy) = activity(case, &release, busy_ns);
    sentences.extend(busy);
    // With samples, the release must account for the time, or the lock for nearly all of it that the
    // victim slept.
    let slept_ns = whole_ns - case.ns_of(|piece, hop| is_awake(case, piece, hop)).min(whole_ns);
    let is_certain = case.analysis.trace.samples.is_empty()
        || busy_ns.saturating_mul(2) >= whole_ns
        || behind_lock.saturating_mul(10) >= slept_ns.saturating_mul(9);
    if !is_certain {
        return None;
    }
    let (pattern, serialised, advice) = match exits {
        true => (
            Pattern::SerializedExit,
            "process destruction is serialised",
            "Let fewer processes exit at once, or do the costly part of the exit outside the lock.",
        ),
        false => (
            Pattern::SaturatedLock,
            "threads pass through it one at a time",
            "Split the lock, or do less under it: it is held almost all the time.",
        ),
    };
    let cause = sentence!(
        "a saturated lock: {}{}. More CPUs make it worse.",
        serialised,
        in_function(", in ", &name)
    );
    Some(Finding {
        culprit: case.main_holder().map(|(thread, _)| thread).or(release.wakers.first().copied()),
        function: name,
        sentences,
        advice: advice.to_owned(),
        ..case.finding(pattern, cause)
    })
}

/// True for what the victim did, or wanted to do, itself.
fn is_awake(case: &Case<'_>, piece: &Piece, hop: Option<&Hop>) -> bool {
    let own = hop.is_none() && piece.thread == case.candidate.victim;
    own && matches!(piece.cause, Cause::Ran | Cause::WaitedForCpu)
}

/// The function in which the holders spent their CPU time, and a sentence about that.
fn activity(case: &Case<'_>, release: &Release, busy_ns: u64) -> (String, Option<Sentence>) {
    let is_held = |piece: &&Piece| {
        let hop = case.explanation.hop_of(piece);
        piece.cause == Cause::Ran && hop.is_some_and(|hop| hop.class == WaitClass::Lock)
    };
    let held: Vec<(ThreadId, Window)> = (case.explanation.pieces.iter().filter(is_held))
        .map(|piece| (piece.thread, piece.window))
        .collect();
    if !case.is_most(busy_ns)
        && let Some(spot) = hot_spot(case.analysis, &held)
    {
        let held_ns: u64 = held.iter().map(|(_, window)| window.duration_ns()).sum();
        let sentence = sentence!(
            "While they held it, the holders were on a CPU for {} ({}); {} in that time {} in\n  {}",
            duration(held_ns),
            case.percent(held_ns),
            samples_of(&spot),
            are(spot.inside.into()),
            case.stack(spot.stack)
        );
        return (case.hot_name(&spot), Some(sentence));
    }
    let busy = (busy_ns > 0).then(|| {
        sentence!(
            "{} spent {} on a CPU in {}: {} of the time.",
            plural(release.wakers.len() as u64, "thread"),
            duration(busy_ns),
            function(&release.function),
            case.percent(busy_ns)
        )
    });
    (release.function.clone(), busy)
}

/// CPU time of the releasing function, of all threads, by samples; 0 without any.
fn on_cpu_ns(case: &Case<'_>, release: &Release) -> u64 {
    let trace = case.analysis.trace;
    let is_inside = |index: &usize| {
        let frames = trace.stacks.frames_of(trace.samples.stack[*index]);
        let mut symbols = frames.iter().flat_map(|&frame| trace.symbols.get(frame));
        symbols.any(|symbol| trace.name(symbol.function) == release.function)
    };
    let inside = trace.samples.range(case.explanation.window).filter(is_inside).count() as u64;
    inside.saturating_mul(trace.meta.sample_period_ns)
}

/// The longest single wait, and which threads held the lock meanwhile.
fn longest_wait(case: &Case<'_>) -> Vec<Sentence> {
    let Some(longest) = case.victims_wait() else { return Vec::new() };
    let holders = holders(case, longest);
    let holder =
        |&(thread, held): &(ThreadId, u64)| sentence!("{} ({})", case.name(thread), duration(held));
    let more = match holders.len().saturating_sub(MAX_HOLDERS) as u64 {
        0 => Sentence::default(),
        more => sentence!(" ← {} more", count(more)),
    };
    vec![
        sentence!(
            "Its longest single wait took {}, in\n  {}",
            duration(longest.slept.duration_ns()),
            case.wait_stack(longest)
        ),
        sentence!(
            "Owners until it acquired the lock, latest first, with hold times: {}{}.",
            Sentence::join(holders.iter().take(MAX_HOLDERS).map(holder), " ← "),
            more
        ),
    ]
}

/// Who held the lock while the sleeper of `hop` waited, the last one first, and how long: from the
/// wake-up that handed the lock to it until the wake-up by which it handed the lock on.
fn holders(case: &Case<'_>, hop: &Hop) -> Vec<(ThreadId, u64)> {
    let hops = &case.explanation.hops;
    // The wait by which the waker of each hop had got the lock: its last one for the same lock.
    let mut came: FxHashMap<u32, usize> = FxHashMap::default();
    for (index, hop) in hops.iter().enumerate().filter(|(_, hop)| hop.class == WaitClass::Lock) {
        let Some((at, parent)) =
            hop.parent.and_then(|parent| Some((parent, hops.get(parent as usize)?)))
        else {
            continue;
        };
        let same_lock =
            hop.is_queued() || is_same_lock(case.analysis, hop.wait_stack, parent.wait_stack);
        let last = came.get(&at).is_none_or(|&known| hops[known].window.end < hop.window.end);
        if parent.class == WaitClass::Lock && same_lock && last {
            came.insert(at, index);
        }
    }
    let mut holders = Vec::new();
    let mut at = hops.iter().position(|other| std::ptr::eq(other, hop));
    while let Some(index) = at {
        at = came.get(&(index as u32)).copied();
        let since = at.map_or(hops[index].window.start, |before| hops[before].window.end);
        holders.push((hops[index].by, hops[index].window.end.since(since)));
    }
    holders
}
