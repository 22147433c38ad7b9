//! Slow memory: page faults, reclaim, swap or throttled writing took most of the stall.

use super::case::Case;
use super::case::in_function;
use super::disks;
use super::finding::{Finding, Pattern};
use super::group_limits;
use crate::WaitClass;
use crate::explain::Cause;
use crate::stacks::text::own_function;
use crate::wording::sentence::sentence;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let (waiter, ns) = case.most_of(|piece, hop| {
        let is_behind_memory = hop.is_some_and(|hop| hop.class == WaitClass::Memory);
        piece.cause == Cause::Memory || piece.cause == Cause::Ran && is_behind_memory
    })?;
    if !case.is_most(ns) {
        return None;
    }
    let (stack, waited_in) = match case.longest(waiter, Cause::Memory) {
        Some(piece) => (
            piece.segment.wait_stack(case.analysis.trace),
            case.segment_stack(waiter, &piece.segment),
        ),
        None => {
            let hop = case.hop_to(waiter)?;
            (hop.wait_stack, case.wait_stack(hop))
        }
    };
    let function = own_function(case.analysis, stack);
    let words = case.analysis.stacks.words(stack);
    let what = words.map_or_else(|| "memory".to_owned(), |words| format!("a {words}"));
    let cause = sentence!("a wait for {}{}.", what, in_function(", in ", &function));
    // What a rule has words for may have advice of its own.
    let usual = "See /proc/pressure/memory and the control group's memory.events. Memory that must \
                 be quick to access can be locked (mlock), or touched beforehand.";
    let advice = case.analysis.stacks.advice(stack).unwrap_or(usual);
    Some(Finding {
        culprit: Some(waiter),
        function,
        sentences: std::iter::once(sentence!(
            "{} spent {} on page faults, reclaim, swap or throttled writing, in\n  {}",
            case.it_or_name(waiter),
            case.part(ns),
            waited_in
        ))
        .chain(disks::shown(case, waiter).sentences)
        .chain(group_limits::memory(case, waiter))
        .chain(group_limits::io(case, waiter).into_iter().map(|limit| limit.sentence))
        .collect(),
        advice: advice.to_owned(),
        ..case.finding(Pattern::Memory, cause)
    })
}
