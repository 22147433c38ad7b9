//! Slow memory: page faults, reclaim, swap or throttled writing took most of the stall.

use super::{Case, Finding, Pattern, place};
use crate::answer::units;
use crate::explain::Cause;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let (waiter, ns) = case.most_of(|piece, hop| {
        piece.cause == Cause::Memory
            || piece.cause == Cause::Ran
                && hop.is_some_and(|hop| hop.class == crate::WaitClass::Memory)
    })?;
    if !case.is_most(ns) {
        return None;
    }
    let trace = case.analysis.trace;
    let stack = match case.longest(waiter, Cause::Memory) {
        Some(piece) => piece.segment.wait_stack(trace),
        None => case.hop_to(waiter)?.wait_stack,
    };
    let who = if waiter == case.candidate.victim { "It".to_owned() } else { case.name(waiter) };
    let (evidence, evidence_words) = case.evidence();
    Some(Finding {
        pattern: Pattern::Memory,
        culprit: Some(waiter),
        crowd: None,
        function: case.analysis.own_function(stack),
        evidence,
        evidence_words,
        story: vec![format!(
            "{who} spent {} of these {} on memory: a page fault, reclaim, swap or throttled writing, in\n  {}",
            units::duration(ns),
            units::duration(case.duration_ns()),
            case.told(stack)
        )],
        cause: format!("memory was not at hand{}.", place(", in ", &case.analysis.own_function(stack))),
        advice: "See /proc/pressure/memory and the group's memory.events; lock or touch beforehand what must be quick.".to_owned(),
        operation: None,
    })
}
