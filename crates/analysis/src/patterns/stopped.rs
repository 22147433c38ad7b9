//! Stopped: the victim, or the thread it waited for, was stopped by a signal, a tracer or the
//! freezer.

use super::case::Case;
use super::finding::{Finding, Pattern};
use crate::explain::Cause;
use crate::stacks::text::own_function;
use crate::wording::sentence::{Sentence, sentence};
use unhitch_model::TaskState;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let (stopped, ns) = case.most_of(|piece, _| piece.cause == Cause::Stopped)?;
    if !case.is_most(ns) {
        return None;
    }
    let trace = case.analysis.trace;
    let segment = &case.longest(stopped, Cause::Stopped)?.segment;
    let (who, stack) = (case.name(stopped), segment.wait_stack(trace));
    let (by, advice) = stopper(segment.out.map(|out| trace.switches.prev_state[out]));
    let own = stopped == case.candidate.victim;
    let mut sentences: Vec<Sentence> = case.waited_in().filter(|_| !own).into_iter().collect();
    let ended_it =
        case.victims_wait().is_some_and(|wait| wait.by == stopped && wait.wake.is_some());
    let whom = match (own, ended_it) {
        (true, _) => Sentence::from("It"),
        (false, true) => sentence!("{}, which later ended that wait,", who.clone()),
        (false, false) => sentence!("{}, which it waited for,", who.clone()),
    };
    sentences.push(sentence!("{} was stopped {} for {}.", whom, by, case.part(ns)));
    if !stack.is_empty() {
        sentences.push(sentence!("It stopped in\n  {}", case.segment_stack(stopped, segment)));
    }
    // The sender of the signal that ends a stop is its waker; the sender of the signal that began
    // it leaves no event.
    let is_task = |wake: &usize| case.analysis.stacks.wake_source(trace, *wake).context.is_task();
    if let Some(wake) = segment.wake.filter(is_task) {
        sentences.push(sentence!(
            "{} continued it in\n  {}",
            case.name(trace.wakings.waker[wake]),
            case.wake_stack(wake)
        ));
    }
    sentences.extend(case.ended_wait_in(stopped, "Then it ended the wait"));
    let stack = if stack.is_empty() { case.release_stack(stopped) } else { stack };
    Some(Finding {
        culprit: Some(stopped),
        function: own_function(case.analysis, stack),
        sentences,
        advice: advice.to_owned(),
        ..case.finding(Pattern::Stopped, sentence!("{} was stopped {}.", who, by))
    })
}

/// What stops a thread that left its CPU in `state`, and how to find out who did it.
fn stopper(state: Option<TaskState>) -> (&'static str, &'static str) {
    match state {
        Some(TaskState::Traced) => (
            "by a tracer (a debugger, strace)",
            "The tracer is not recorded; while it traces, TracerPid in /proc/PID/status of the \
             stopped process names it.",
        ),
        Some(TaskState::Stopped) => (
            "by a signal (SIGSTOP, SIGTSTP, job control)",
            "Who stopped it is not recorded; `trace-cmd record -e signal:signal_generate` would \
             show it.",
        ),
        _ => (
            "by the freezer (a suspend, or its control group)",
            "Who froze it is not recorded; check what writes to cgroup.freeze, and whether the \
             machine was suspended.",
        ),
    }
}
