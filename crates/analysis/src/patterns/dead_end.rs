//! Dead end: the trail leaves the recording. Says what is missing and how to record it.

use super::{Case, Evidence, Finding, Pattern};
use crate::answer::{recording, units};
use crate::explain::Cause;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let lost = case.ns_of(|piece, _| piece.cause == Cause::Lost);
    let outside = case.ns_of(|piece, _| piece.cause == Cause::Message);
    let unseen = outside
        + case.ns_of(|piece, _| piece.cause == Cause::UnknownWaker && piece.segment.wake.is_none());
    if !case.is_most(lost + unseen) {
        return None;
    }
    let trace = case.analysis.trace;
    let longest = case
        .explanation
        .pieces
        .iter()
        .filter(|piece| matches!(piece.cause, Cause::Lost | Cause::UnknownWaker | Cause::Message))
        .max_by_key(|piece| piece.window.duration_ns())?;
    let stack = longest.segment.wait_stack(trace);
    let ends = longest.window.end >= case.analysis.timeline.window().end;
    let window = case.explanation.window;
    let overwritten = trace.losses.iter().any(|loss| loss.window.overlaps(window));
    let silent = case.analysis.cpus.silent_cpus(trace);
    let silent_words;
    let (why, advice) = if lost > unseen {
        match overwritten || window.start <= case.analysis.timeline.window().start {
            true => (
                "what it did meanwhile is hidden by lost records or the recording's edge",
                "Record with larger buffers (--buffer), and save sooner after the hang.",
            ),
            false => ("the kernel did not report what it did meanwhile", ""),
        }
    } else if outside * 2 > unseen {
        ("it waited for a message from the network, and who sent that is not recorded", "")
    } else if trace.wakings.is_empty() {
        (
            "the recording holds no wake-ups, so nothing tells who ended the wait",
            recording::wakings(trace.meta.format),
        )
    } else if ends {
        (
            "it was still waiting when the recording ended",
            "Save again after it has ended: the wake-up that ends a wait is what names the culprit.",
        )
    } else if overwritten {
        (
            "the wake-up that ended it is not in the recording",
            "Record with larger buffers (--buffer).",
        )
    } else if !silent.is_empty() {
        let cpus: Vec<String> = silent.iter().map(u16::to_string).collect();
        let (are, their) = if cpus.len() == 1 {
            ("CPU", "reports nothing of its")
        } else {
            ("CPUs", "report nothing of their")
        };
        silent_words = format!(
            "no task ended the wait, and {are} {} {their} idle time: it was a timer, a device, or the network, in an interrupt there",
            cpus.join(", ")
        );
        (silent_words.as_str(), "")
    } else {
        ("nobody was seen to end the wait, and nothing else was lost", "")
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
