//! Timer sleep: someone slept because the program asked for it.

use super::{Case, Finding, Pattern};
use crate::WaitClass;
use crate::answer::units;
use crate::explain::{Cause, Piece};

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    // Who lets others wait while it waits for its own time to run out sleeps, whatever call it does that with.
    let slept = |piece: &Piece| {
        let rests = case.analysis.class_of(&piece.segment) == WaitClass::KernelIdle;
        piece.cause == Cause::Timer || piece.cause == Cause::Timeout && piece.hop.is_some() && !rests
    };
    let (sleeper, ns) = case.most_of(|piece, _| slept(piece))?;
    if !case.is_most(ns) {
        return None;
    }
    let longest = case.longest(sleeper, Cause::Timer).or(case.longest(sleeper, Cause::Timeout))?;
    let stack = longest.segment.wait_stack(case.analysis.trace);
    let who = if sleeper == case.candidate.victim { "It".to_owned() } else { case.name(sleeper) };
    let mut story = Vec::new();
    story.extend(case.waited_in().filter(|_| sleeper != case.candidate.victim));
    story.push(format!(
        "{who} slept for {} of these {}, until a timer it had set itself, in\n  {}",
        units::duration(ns),
        units::duration(case.duration_ns()),
        case.told(stack)
    ));
    let last = case.victims_wait().filter(|wait| wait.wake.is_some()).map(|wait| wait.by);
    story.extend(last.and_then(|last| case.let_go(last, &format!("{} ended the wait", case.name(last)))));
    let (evidence, evidence_words) = case.evidence();
    Some(Finding {
        pattern: Pattern::TimerSleep,
        culprit: Some(sleeper),
        crowd: None,
        function: case.analysis.own_function(stack),
        evidence,
        evidence_words,
        story,
        cause: match sleeper == case.candidate.victim {
            true => format!("a sleep that the program asked for, in {}.", case.analysis.own_function(stack)),
            false => format!("a sleep that {who} asked for while others waited for it, in {}.", case.analysis.own_function(stack)),
        },
        advice: String::new(),
        operation: None,
    })
}
