//! Priority inversion: the holder of the lock wanted a CPU, and others had it.

use super::{Case, Finding, Pattern};
use crate::State;
use crate::answer::units;
use crate::explain::Cause;
use crate::throttling;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let (holder, _) = case.main_holder()?;
    let starved = case.holder_without_cpu_ns(holder);
    if !case.is_most(starved) || holder == case.candidate.victim {
        return None;
    }
    let hop = case.hop_to(holder)?;
    let (who, trace) = (case.name(holder), case.analysis.trace);
    let occupants = case.occupants(|piece| piece.thread == holder && piece.hop.is_some());
    let quota = case.analysis.throttled(holder, case.explanation.window, starved);
    let had = match (&quota, occupants.hog()) {
        (Some(quota), _) => format!(": it was {}", throttling::words(&trace.machine, quota)),
        (None, Some(hog)) => format!(", which {} had", case.occupant(hog)),
        (None, None) => return None,
    };
    let mut story = Vec::new();
    if let Some(wait) = case.victims_wait() {
        story.push(format!("It waited for a lock in\n  {}", case.told(wait.wait_stack)));
    }
    story.push(format!(
        "{who}{} held the lock, and for {} of these {} it was ready to run but got no CPU.",
        case.policy(holder),
        units::duration(starved),
        units::duration(case.duration_ns())
    ));
    match &quota {
        Some(quota) => story.push(case.throttled_story(holder, quota)),
        None => story
            .extend(occupants.told(case).map(|others| format!("Its CPU was taken by: {others}."))),
    }
    let preempted = case
        .longest(holder, Cause::WaitedForCpu)
        .filter(|piece| piece.segment.state == State::Runnable { preempted: true });
    let lost_in =
        preempted.map(|piece| piece.segment.wait_stack(trace)).filter(|stack| !stack.is_empty());
    story.extend(lost_in.map(|stack| format!("It lost the CPU in\n  {}", case.told(stack))));
    if let Some(wake) = hop.wake {
        story.push(format!("It let the lock go in\n  {}", case.told(trace.wakings.stack[wake])));
    }
    let release = hop.wake.map(|wake| trace.wakings.stack[wake]).unwrap_or_default();
    let (evidence, evidence_words) = match &quota {
        Some(quota) => case.throttled_evidence(holder, starved, quota),
        None => case.evidence(),
    };
    let advice = match &quota {
        Some(_) => {
            "Give the control group a larger quota, or let nobody outside it wait for its locks."
        }
        None => {
            "Do not take a lock that others wait for at a lower priority than theirs; or use a priority-inheriting lock."
        }
    };
    Some(Finding {
        pattern: Pattern::PriorityInversion,
        culprit: Some(holder),
        crowd: None,
        function: case.analysis.own_function(lost_in.unwrap_or(release)),
        evidence,
        evidence_words,
        story,
        cause: format!("priority inversion: {who} held the lock without a CPU{had}."),
        advice: advice.to_owned(),
        operation: None,
    })
}
