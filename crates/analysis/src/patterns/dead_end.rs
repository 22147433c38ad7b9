//! Dead end: the trail leaves the recording. Says what is missing and how to record it.

use super::{Case, Evidence, Finding, Pattern};
use crate::answer::{recording, units};
use crate::explain::Cause;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let lost = case.ns_of(|piece, _| piece.cause == Cause::Lost);
    let unseen = case.ns_of(|piece, _| piece.cause == Cause::UnknownWaker && piece.segment.wake.is_none());
    if !case.is_most(lost + unseen) {
        return None;
    }
    let trace = case.analysis.trace;
    let longest = case
        .explanation
        .pieces
        .iter()
        .filter(|piece| matches!(piece.cause, Cause::Lost | Cause::UnknownWaker))
        .max_by_key(|piece| piece.window.duration_ns())?;
    let stack = longest.segment.wait_stack(trace);
    let ends = longest.window.end >= case.analysis.timeline.window().end;
    let (why, advice) = if lost > unseen {
        (
            "what it did meanwhile is hidden by lost records or the recording's edge",
            "Record with larger buffers (--buffer), and save sooner after the hang.",
        )
    } else if trace.wakings.is_empty() {
        ("the recording holds no wake-ups, so nothing tells who ended the wait", recording::wakings(trace.meta.format))
    } else if ends {
        (
            "it was still waiting when the recording ended",
            "Save again after it has ended: the wake-up that ends a wait is what names the culprit.",
        )
    } else {
        ("the wake-up that ended it is not in the recording", "Record with larger buffers (--buffer).")
    };
    let mut story = vec![format!(
        "{} waited for {} of these {}; {why}.",
        case.name(longest.thread),
        units::duration(lost + unseen),
        units::duration(case.duration_ns())
    )];
    if !stack.is_empty() {
        story.push(format!("It waited in\n  {}", case.told(stack)));
    }
    Some(Finding {
        pattern: Pattern::DeadEnd,
        culprit: None,
        crowd: None,
        function: case.analysis.own_function(stack),
        evidence: if lost > unseen { Evidence::Lost } else { Evidence::Inferred },
        evidence_words: why.to_owned(),
        story,
        cause: format!("not known: {why}."),
        advice: advice.to_owned(),
        operation: None,
    })
}
