//! Priority inversion: the holder of the lock wanted a CPU, and others had it.

use super::{Case, Finding, Pattern};
use crate::answer::units;
use crate::explain::Cause;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let (holder, _) = case.main_holder()?;
    let starved = case.ns_of(|piece, hop| piece.thread == holder && hop.is_some() && piece.cause == Cause::WaitedForCpu);
    if !case.is_most(starved) || holder == case.candidate.victim {
        return None;
    }
    let hop = case.hop_to(holder)?;
    let (who, trace) = (case.name(holder), case.analysis.trace);
    let occupants = case.occupants(|piece| piece.thread == holder && piece.hop.is_some());
    let hog = occupants.iter().find_map(|&(thread, ns)| thread.filter(|thread| !thread.is_idle()).map(|thread| (thread, ns)))?;
    let policy = |thread| units::policy(trace.threads.get(thread));
    let mut story = Vec::new();
    if let Some(wait) = case.victims_wait() {
        story.push(format!("It waited for a lock in\n  {}", case.told(wait.wait_stack)));
    }
    story.push(format!(
        "{who}{} held the lock, and for {} of these {} it was ready to run but got no CPU.",
        policy(holder),
        units::duration(starved),
        units::duration(case.duration_ns())
    ));
    let others: Vec<String> = occupants
        .iter()
        .take(3)
        .filter_map(|&(thread, ns)| thread.map(|thread| format!("{}{} {}", case.name(thread), policy(thread), units::duration(ns))))
        .collect();
    story.push(format!("Its CPU was taken by: {}.", others.join(", ")));
    if let Some(wake) = hop.wake {
        story.push(format!("It let the lock go in\n  {}", case.told(trace.wakings.stack[wake])));
    }
    let release = hop.wake.map(|wake| trace.wakings.stack[wake]).unwrap_or_default();
    let (evidence, evidence_words) = case.evidence();
    Some(Finding {
        pattern: Pattern::PriorityInversion,
        culprit: Some(holder),
        function: case.analysis.own_function(release),
        evidence,
        evidence_words,
        story,
        cause: format!("priority inversion: {who} held the lock without a CPU, which {} had.", case.name(hog.0)),
        advice: "Do not take a lock that others wait for at a lower priority than theirs; or use a priority-inheriting lock.".to_owned(),
        operation: None,
    })
}
