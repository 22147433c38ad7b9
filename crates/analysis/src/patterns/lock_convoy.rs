//! Convoy: the lock went from thread to thread, each of which had waited for the one before; no
//! single one is to blame.

use super::{Case, Finding, Pattern};
use crate::WaitClass;
use crate::answer::units;
use crate::explain::Cause;
use rustc_hash::FxHashMap;
use unhitch_model::{ThreadId, Window};

const FEWEST_HOLDERS: usize = 3;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    // What each of the hands did with the lock: the pieces behind each hop.
    let mut holds: FxHashMap<u32, (ThreadId, u64)> = FxHashMap::default();
    let mut runs: Vec<(ThreadId, Window)> = Vec::new();
    let mut did: FxHashMap<Cause, u64> = FxHashMap::default();
    let behind_lock = case.explanation.pieces.iter().filter_map(|piece| {
        let hop = piece.hop.filter(|_| {
            case.explanation.hop_of(piece).is_some_and(|hop| hop.class == WaitClass::Lock)
        })?;
        Some((hop, piece))
    });
    for (hop, piece) in behind_lock {
        let ns = piece.window.duration_ns();
        holds.entry(hop).or_insert((piece.thread, 0)).1 += ns;
        *did.entry(piece.cause).or_default() += ns;
        if piece.cause == Cause::Ran {
            runs.push((piece.thread, piece.window));
        }
    }
    let mut holders_in_order: Vec<ThreadId> = Vec::new();
    for piece in case
        .explanation
        .pieces
        .iter()
        .filter(|piece| piece.hop.is_some_and(|hop| holds.contains_key(&hop)))
    {
        if holders_in_order.last() != Some(&piece.thread) {
            holders_in_order.push(piece.thread);
        }
    }
    let mut by_length: Vec<(u64, ThreadId)> =
        holds.values().map(|&(thread, ns)| (ns, thread)).collect();
    by_length.sort_unstable();
    let total: u64 = by_length.iter().map(|(ns, _)| ns).sum();
    // A moment on the way is no hold.
    by_length.retain(|(ns, _)| ns * 500 >= total);
    let mut holders: Vec<ThreadId> = by_length.iter().map(|(_, thread)| *thread).collect();
    holders.sort_unstable();
    holders.dedup();
    let (&(longest, longest_by), &(median, _)) =
        (by_length.last()?, by_length.get(by_length.len() / 2)?);
    // Of equally long holds the first: all who stood in this queue then name the same.
    let culprit = holders_in_order.into_iter().find(|thread| {
        by_length.iter().any(|(ns, who)| who == thread && ns * 20 >= longest * 19)
    })?;
    if !case.is_most(total) || holders.len() < FEWEST_HOLDERS {
        return None;
    }

    let mut story = Vec::new();
    if let Some(wait) = case.victims_wait() {
        story.push(format!("It waited for a lock in\n  {}", case.told(wait.wait_stack)));
    }
    story.push(format!(
        "{} handed it on, each having waited for the one before: {} in all, {} in the median, the longest {} by {}.",
        units::plural(holders.len() as u64, "thread"),
        units::duration(total),
        units::duration(median),
        units::duration(longest),
        case.name(longest_by)
    ));
    let mut parts: Vec<(u64, Cause)> = did
        .into_iter()
        .map(|(cause, ns)| (ns, cause))
        .filter(|(ns, _)| ns * 100 >= total)
        .collect();
    parts.sort_unstable_by(|a, b| b.cmp(a));
    let told: Vec<String> = parts
        .iter()
        .map(|(ns, cause)| format!("{} {}", units::percent(*ns, total), doing(*cause)))
        .collect();
    story.push(format!("While they held the lock they were {}.", told.join(", ")));
    let hot = case.analysis.hot_spot(&runs);
    let release = case.release();
    let function = match &hot {
        Some(spot) => {
            story.push(format!(
                "{} of {} samples inside the holds are in\n  {}",
                spot.inside,
                spot.total,
                case.told(spot.stack)
            ));
            case.hot_name(spot)
        }
        None => release.as_ref().map(|release| release.function.clone()).unwrap_or_default(),
    };
    if let Some(release) = &release {
        story.push(format!("They let the lock go in\n  {}", case.told(release.stack)));
    }
    let (evidence, evidence_words) = case.evidence();
    Some(Finding {
        pattern: Pattern::LockConvoy,
        culprit: Some(culprit),
        crowd: None,
        function: function.clone(),
        evidence,
        evidence_words,
        story,
        cause: format!(
            "a convoy: {} took one lock in turn, {} each{}.",
            units::plural(holders.len() as u64, "thread"),
            units::duration(median),
            if function.is_empty() { String::new() } else { format!(", for {function}") }
        ),
        advice:
            "Do less under the lock, or let those who need the same result share one computation."
                .to_owned(),
        operation: None,
    })
}

const fn doing(cause: Cause) -> &'static str {
    match cause {
        Cause::Ran => "on a CPU",
        Cause::WaitedForCpu => "waiting for a CPU",
        Cause::Timer | Cause::Timeout => "asleep until a time they had set",
        Cause::Io => "waiting for a disk",
        Cause::Memory => "waiting for memory",
        Cause::Message => "waiting for a message",
        Cause::Stopped => "stopped",
        Cause::UnknownWaker | Cause::Lost => "not recorded",
    }
}
