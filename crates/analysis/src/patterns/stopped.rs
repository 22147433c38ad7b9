//! Stopped: the victim, or the one it waited for, was stopped by a signal, a tracer or the freezer.

use super::{Case, Finding, Pattern};
use crate::answer::units;
use crate::explain::Cause;
use unhitch_model::TaskState;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let (stopped, ns) = case.most_of(|piece, _| piece.cause == Cause::Stopped)?;
    if !case.is_most(ns) {
        return None;
    }
    let trace = case.analysis.trace;
    let segment = &case.longest(stopped, Cause::Stopped)?.segment;
    let (who, stack) = (case.name(stopped), segment.wait_stack(trace));
    let (by, advice) = match segment.out.map(|out| trace.switches.prev_state[out]) {
        Some(TaskState::Traced) => (
            "by a tracer (a debugger, strace)",
            "Who traces it is not recorded; TracerPid in its /proc/PID/status tells, as long as it does.",
        ),
        Some(TaskState::Stopped) => (
            "by a signal (SIGSTOP, SIGTSTP, job control)",
            "Who stopped it is not recorded; `trace-cmd record -e signal:signal_generate` would tell.",
        ),
        _ => (
            "by the freezer (a suspend, or its control group)",
            "Who froze it is not recorded; see who writes cgroup.freeze, and whether the machine was suspended.",
        ),
    };
    let mut story = Vec::new();
    story.extend(case.waited_in().filter(|_| stopped != case.candidate.victim));
    let whom = if stopped == case.candidate.victim {
        "It".to_owned()
    } else {
        format!("{who}, which could have ended that,")
    };
    story.push(format!(
        "{whom} was stopped {by} for {} of these {}.",
        units::duration(ns),
        units::duration(case.duration_ns())
    ));
    if !stack.is_empty() {
        story.push(format!("It stopped in\n  {}", case.told(stack)));
    }
    // The sender of the signal that ends a stop is its waker; that of the one that began it leaves
    // no event.
    let continued =
        segment.wake.filter(|&wake| case.analysis.facts.wake_source(trace, wake).context.is_task());
    if let Some(wake) = continued {
        story.push(format!(
            "{} let it go on in\n  {}",
            case.name(trace.wakings.waker[wake]),
            case.told(trace.wakings.stack[wake])
        ));
    }
    story.extend(case.let_go(stopped, "Then it ended the wait"));
    let release = case
        .hop_to(stopped)
        .and_then(|hop| hop.wake)
        .map(|wake| trace.wakings.stack[wake])
        .unwrap_or_default();
    let (evidence, evidence_words) = case.evidence();
    Some(Finding {
        pattern: Pattern::Stopped,
        culprit: Some(stopped),
        crowd: None,
        function: case.analysis.own_function(if stack.is_empty() { release } else { stack }),
        evidence,
        evidence_words,
        story,
        cause: format!("{who} was stopped {by}."),
        advice: advice.to_owned(),
        operation: None,
    })
}
