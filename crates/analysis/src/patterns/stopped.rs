//! Stopped: the victim, or the thread it waited for, was stopped by a signal, a tracer or the
//! freezer.

use super::case::Case;
use super::finding::{Finding, Pattern};
use crate::explain::Cause;
use crate::facts::{Signal, stopped_by};
use crate::stacks::text::own_function;
use crate::timeline::State;
use crate::wording::sentence::{Sentence, sentence};
use crate::wording::{Event, Reference};
use unhitch_model::{Meta, System, TaskState, ThreadId, Window};

/// A thread that was on a CPU for longer than this has taken the signals sent to it, unless it spent
/// all that time in one system call.
const TAKES_SIGNAL_NS: u64 = 10_000_000;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let (stopped, ns) = case.most_of(|piece, _| piece.cause == Cause::Stopped)?;
    if !case.is_most(ns) {
        return None;
    }
    let trace = case.analysis.trace;
    let segment = &case.longest(stopped, Cause::Stopped)?.segment;
    let (who, stack) = (case.name(stopped), segment.wait_stack(trace));
    let state = match segment.state {
        State::Sleeping(state) => Some(state),
        _ => None,
    };
    let signal = segment
        .out
        .filter(|_| state == Some(TaskState::Stopped))
        .and_then(|out| stopping_signal(case, stopped, out));
    let (by, advice) = match &signal {
        Some(signal) if signal.sender.is_idle() => {
            (format!("by {}", signal.name()), "Who sent the signal is not known.")
        }
        Some(signal) => (format!("by {}", signal.name()), ""),
        None => stopper(state, &trace.meta),
    };
    let own = stopped == case.candidate.victim;
    let mut sentences: Vec<Sentence> = case.waited_in().filter(|_| !own).into_iter().collect();
    let ended_it =
        case.victims_wait().is_some_and(|wait| wait.by == stopped && wait.wake.is_some());
    let whom = match (own, ended_it) {
        (true, _) => Sentence::from("It"),
        (false, true) => sentence!("{}, which later ended that wait,", who.clone()),
        (false, false) => sentence!("{}, which it waited for,", who.clone()),
    };
    sentences.push(sentence!("{} was stopped {} for {}.", whom, by.clone(), case.part(ns)));
    if !stack.is_empty() {
        sentences.push(sentence!("It stopped in\n  {}", case.segment_stack(stopped, segment)));
    }
    sentences.extend(signal.and_then(|signal| sent(case, &signal)));
    // The sender of the signal that ends a stop is its waker.
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

/// The signal that stopped `thread` when it left its CPU with the switch `out`.
fn stopping_signal(case: &Case<'_>, thread: ThreadId, out: usize) -> Option<Signal> {
    let trace = case.analysis.trace;
    let stop = trace.switches.time[out];
    let signal = stopped_by(trace, thread, stop)?;
    let between = Window::new(trace.events.time[signal.event], stop);
    let segments = case.analysis.segments(thread, between);
    let ran = segments.iter().filter(|segment| segment.state == State::Ran);
    let ran_ns: u64 = ran.map(|segment| segment.window.duration_ns()).sum();
    (ran_ns <= TAKES_SIGNAL_NS).then_some(signal)
}

/// Who sent the signal, and where; nothing where that is not known.
fn sent(case: &Case<'_>, signal: &Signal) -> Option<Sentence> {
    let events = &case.analysis.trace.events;
    let at = events.time[signal.event];
    if signal.sender.is_idle() {
        return None;
    }
    if signal.sender.is_unknown() {
        return Some(sentence!("The kernel sent {} in an interrupt.", signal.name()));
    }
    let stack = case.stack(events.stack[signal.event]).seen_at(Reference {
        thread: Some(signal.sender),
        window: Window::new(at, at.plus(1)),
        event: Some(Event::Provider(signal.event)),
    });
    Some(sentence!("{} sent it {} in\n  {}", case.name(signal.sender), signal.name(), stack))
}

/// What stops a thread that left its CPU in `state`, and how to find out who did it.
fn stopper(state: Option<TaskState>, meta: &Meta) -> (String, &'static str) {
    let (by, advice) = match state {
        Some(TaskState::Traced) => (
            "by a tracer (a debugger, strace)",
            "The tracer is not recorded; while it traces, TracerPid in /proc/PID/status of the \
             stopped process names it.",
        ),
        Some(TaskState::Stopped) if meta.system == System::Windows => (
            "by a suspension (SuspendThread, a debugger, the system)",
            "Who suspended it is not recorded.",
        ),
        Some(TaskState::Stopped) => (
            "by a signal (SIGSTOP, SIGTSTP, job control)",
            match meta.notes_facts {
                true => "The recording does not show which signal stopped it.",
                false => "Who stopped it is not recorded; `--engine bpf` records it.",
            },
        ),
        _ => (
            "by the freezer (a suspend, or its control group)",
            "Who froze it is not recorded; check what writes to cgroup.freeze, and whether the \
             machine was suspended.",
        ),
    };
    (by.to_owned(), advice)
}
