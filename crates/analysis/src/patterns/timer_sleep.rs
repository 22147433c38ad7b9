//! Timer sleep: someone slept because the program asked for it.

use super::{Case, Finding, Pattern};
use crate::answer::units;
use crate::explain::Cause;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let (sleeper, ns) = case.most_of(|piece, _| piece.cause == Cause::Timer)?;
    if !case.is_most(ns) {
        return None;
    }
    let stack = case.longest(sleeper, Cause::Timer)?.segment.wait_stack(case.analysis.trace);
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
