//! Timer sleep: someone slept because the program asked for it.

use super::{Case, Finding, Pattern};
use crate::answer::units;
use crate::explain::{Cause, Piece};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use unhitch_model::ThreadId;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let mut sums: FxHashMap<ThreadId, u64> = FxHashMap::default();
    let slept = |piece: &&Piece| piece.cause == Cause::Timer;
    case.explanation.pieces.iter().filter(slept).for_each(|piece| *sums.entry(piece.thread).or_default() += piece.window.duration_ns());
    let (sleeper, ns) = sums.into_iter().max_by_key(|&(thread, ns)| (ns, Reverse(thread)))?;
    if !case.is_most(ns) {
        return None;
    }
    let longest = case
        .explanation
        .pieces
        .iter()
        .filter(slept)
        .filter(|piece| piece.thread == sleeper)
        .max_by_key(|piece| piece.window.duration_ns())?;
    let stack = longest.segment.wait_stack(case.analysis.trace);
    let who = if sleeper == case.candidate.victim { "It".to_owned() } else { case.name(sleeper) };
    let (evidence, evidence_words) = case.evidence();
    Some(Finding {
        pattern: Pattern::TimerSleep,
        culprit: Some(sleeper),
        function: case.analysis.own_function(stack),
        evidence,
        evidence_words,
        story: vec![format!(
            "{who} slept for {} of these {}, until a timer it had set itself, in\n  {}",
            units::duration(ns),
            units::duration(case.duration_ns()),
            case.told(stack)
        )],
        cause: format!("a sleep that the program asked for, in {}.", case.analysis.own_function(stack)),
        advice: String::new(),
        operation: None,
    })
}
