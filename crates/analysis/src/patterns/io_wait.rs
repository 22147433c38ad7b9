//! Slow device: a disk or a file system was waited for, by the victim or by the one it waited for.

use super::{Case, Finding, Pattern, place};
use crate::WaitClass;
use crate::answer::units;
use crate::explain::Cause;
use crate::partition::What;
use unhitch_model::ThreadId;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let share = |what: What| {
        case.partition.iter().filter(|share| share.what == what).map(|share| share.ns).sum::<u64>()
    };
    let ns = share(What::Io);
    // Who has a lock and waits for a disk is a holder first of all.
    let behind_lock = case.victims_wait().is_some_and(|hop| hop.class == WaitClass::Lock);
    if !case.is_most(ns) || behind_lock {
        return None;
    }
    let (trace, victim) = (case.analysis.trace, case.candidate.victim);
    let mut story = Vec::new();
    let own = case
        .explanation
        .pieces
        .iter()
        .filter(|piece| piece.hop.is_none() && piece.cause == Cause::Io);
    let asked = match case.victims_wait() {
        Some(hop) => hop.wait_stack,
        None => own.max_by_key(|piece| piece.window.duration_ns())?.segment.wait_stack(trace),
    };
    story.push(format!(
        "It waited for a disk or a file system for {} of these {}. It had asked for that in\n  {}",
        units::duration(ns),
        units::duration(case.duration_ns()),
        case.told(asked)
    ));
    let (waiter, waited) = case.most_of(|piece, _| piece.cause == Cause::Io).unwrap_or((victim, 0));
    if waiter != victim
        && let Some(piece) = case.longest(waiter, Cause::Io)
    {
        story.push(format!(
            "Of that, {} waited for the device for {}, in\n  {}",
            case.name(waiter),
            units::duration(waited),
            case.told(piece.segment.wait_stack(trace))
        ));
    }
    let waits = case.explanation.pieces.iter().filter(|piece| piece.cause == Cause::Io);
    let mut lengths: Vec<u64> = waits.map(|piece| piece.window.duration_ns()).collect();
    lengths.sort_unstable();
    if let ([_, .., longest], Some(median)) = (&lengths[..], lengths.get(lengths.len() / 2)) {
        story.push(format!(
            "{} for the device, {} in the median, the longest {}.",
            units::plural(lengths.len() as u64, "wait"),
            units::duration(*median),
            units::duration(*longest)
        ));
    }
    let others = other_users(case);
    if !others.is_empty() {
        story.push(format!("Meanwhile {} waited for a disk, too.", told(case, &others)));
    }
    let (evidence, evidence_words) = case.evidence();
    Some(Finding {
        pattern: Pattern::IoWait,
        culprit: Some(waiter),
        crowd: None,
        function: case.analysis.own_function(asked),
        evidence,
        evidence_words,
        story,
        cause: format!("a slow disk or file system{}.", place(", waited for in ", &case.analysis.own_function(asked))),
        advice: "The device's own queue is not recorded (block:block_rq_issue and block:block_rq_complete would show it).".to_owned(),
        operation: None,
    })
}

/// Who else waited for disks meanwhile, and how long, longest first.
fn other_users(case: &Case<'_>) -> Vec<(ThreadId, u64)> {
    let window = case.explanation.window;
    let mut list = case.analysis.waits_for(window, WaitClass::is_disk);
    list.retain(|(thread, ns)| *thread != case.candidate.victim && ns * 20 > window.duration_ns());
    list
}

fn told(case: &Case<'_>, list: &[(ThreadId, u64)]) -> String {
    const MOST: usize = 3;
    let told: Vec<String> = list
        .iter()
        .take(MOST)
        .map(|(thread, ns)| format!("{} ({})", case.name(*thread), units::duration(*ns)))
        .collect();
    match list.len().saturating_sub(MOST) {
        0 => told.join(", "),
        more => format!("{} and {more} more", told.join(", ")),
    }
}
