//! Stopped: the victim, or the thread it waited for, was stopped by a signal, a tracer or the
//! freezer.

use super::case::{Case, weaken};
use super::finding::{Finding, Pattern};
use crate::explain::Cause;
use crate::facts::{Signal, stopped_by};
use crate::stacks::text::own_function;
use crate::timeline::{Segment, State};
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
        .out()
        .filter(|_| state == Some(TaskState::Stopped))
        .and_then(|out| stopping_signal(case, stopped, out));
    let continued = Continued::of(case, segment);
    let (by, advice) = match (&signal, &continued) {
        (Some(signal), _) if signal.sender.is_idle() => {
            (format!("by {}", signal.name()).into(), "Who sent the signal is not known.")
        }
        (Some(signal), _) => (format!("by {}", signal.name()).into(), about_terminal(signal)),
        (None, Some(Continued { by, how: How::Traced, .. })) => {
            (sentence!("by its tracer {}", case.name(*by)), "")
        }
        (None, _) => stopper(state, &trace.meta),
    };
    let own = stopped == case.candidate.victim;
    let mut sentences = if own { Vec::new() } else { case.waits() };
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
    let sender = signal.as_ref().map(|signal| signal.sender);
    sentences.extend(signal.and_then(|signal| sent(case, &signal)));
    if let Some(Continued { by, wake, .. }) = continued {
        let stack = case.wake_stack(wake);
        sentences.push(sentence!("{} continued it in\n  {}", case.name(by), stack));
    }
    sentences.extend(case.ended_wait_in(stopped, "Then it ended the wait"));
    let stack = if stack.is_empty() { case.release_stack(stopped) } else { stack };
    // Where the victim waited for a stopped thread, the chain ends at that one.
    let sender = sender.filter(|sender| own && !sender.is_idle() && !sender.is_unknown());
    let stopped_by = continued.filter(|continued| own && continued.how != How::Unknown);
    let (culprit, stack) = match (sender, &stopped_by) {
        (Some(sender), _) => (sender, stack),
        (None, Some(by)) => (by.by, trace.wakings.stack[by.wake]),
        (None, None) => (stopped, stack),
    };
    let mut finding = Finding {
        culprit: Some(culprit),
        function: own_function(case.analysis, stack),
        sentences,
        advice: advice.to_owned(),
        ..case.finding(Pattern::Stopped, sentence!("{} was stopped {}.", who, by))
    };
    if let Some(Continued { by, how: How::Thawed, .. }) = stopped_by {
        let guess =
            sentence!("{} ended the freezing; that it began it, too, is a guess", case.name(by));
        weaken(&mut finding, |_| guess);
    }
    Some(finding)
}

/// Who let a stopped thread go on.
struct Continued {
    by: ThreadId,
    wake: usize,
    how: How,
}

/// What letting a thread go on says about who stopped it.
#[derive(PartialEq, Eq)]
enum How {
    /// Only the debugger that stopped it can do this.
    Traced,
    /// Who froze a control group mostly thaws it, too.
    Thawed,
    /// Nothing: anybody may send SIGCONT.
    Unknown,
}

impl Continued {
    /// `None` if the thread was seen to be continued by nobody.
    fn of(case: &Case<'_>, stop: &Segment) -> Option<Self> {
        let (stacks, wakings) = (&case.analysis.stacks, &case.analysis.trace.wakings);
        let is_task =
            |wake: &usize| stacks.wake_source(case.analysis.trace, *wake).context.is_task();
        let wake = stop.wake().filter(is_task)?;
        let how = match wakings.stack[wake] {
            stack if stacks.is_debuggers(stack) => How::Traced,
            stack if stacks.thaws(stack) => How::Thawed,
            _ => How::Unknown,
        };
        Some(Self { by: wakings.waker[wake], wake, how })
    }
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

/// What to do about a job in the background that wanted something from its terminal.
fn about_terminal(signal: &Signal) -> &'static str {
    match signal.name() {
        "SIGTTIN" => {
            "A job in the background is stopped when it reads from its terminal: give it another input \
             (`< /dev/null`), or bring it to the foreground (`fg`)."
        }
        "SIGTTOU" => {
            "A job in the background is stopped when it changes the modes of its terminal, or writes to it \
             after `stty tostop`: give it another output, or bring it to the foreground (`fg`)."
        }
        _ => "",
    }
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
fn stopper(state: Option<TaskState>, meta: &Meta) -> (Sentence, &'static str) {
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
    (Sentence::from(by), advice)
}
