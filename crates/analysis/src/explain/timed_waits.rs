//! One wait that looks like many: a thread that waits with a timeout looks now and then whether it
//! may go on, and waits again.
//!
//! *Why:* the timer of such a wait ends nothing, so it is never the cause. Whoever let the thread
//! go on in the end ended the whole wait.

use super::ends::{lasts_until_end, timed_out};
use super::operations::{LONGEST_LOOK_NS, LOOK_NS, woke_someone, woke_someone_of};
use super::owners::{ended_by, signalled_by};
use super::wait_class::class_of;
use crate::Analysis;
use crate::stacks::WaitClass;
use crate::timeline::{Segment, State};
use unhitch_model::{ThreadId, Time, Window};

/// A wait for an event goes back over those before it as long as the loop did something else for at
/// most one part in this many of the time since.
pub(super) const BUSY: u64 = 8;
/// Maximum wake-ups by a thread that are looked through for the one with which it asked.
const MAX_WAKES_BACK: usize = 64;

/// A thread that waits with a timeout, polls, and waits again (for CPython's GIL every 5 ms, for a
/// Java monitor ever more seldom, for PostgreSQL's deadlock check once a second) waits once, in
/// whatever call: its sleeps, and the polls in between, become one sleep, which ends when another
/// thread wakes it, or for a lock when the recording ends. So do those that a signal interrupted, as
/// garbage collectors send it to stop all threads. Other sleeps that no thread ended stay as they are.
pub(super) fn join_timed_waits(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    mut segments: Vec<Segment>,
) -> Vec<Segment> {
    let repeats = |segment: &Segment| {
        may_repeat(analysis, segment)
            && (timed_out(analysis, segment) || signalled_by(analysis, segment).is_some())
    };
    let Some(last) = segments.iter().rposition(repeats) else { return segments };
    // Latest first.
    let mut joined: Vec<Segment> = Vec::with_capacity(segments.len());
    let after = segments.split_off(last + 1);
    joined.extend(after.into_iter().rev());
    for segment in segments.into_iter().rev() {
        match later_sleep(analysis, thread, &segment, &joined) {
            Some(later) => {
                joined.truncate(later + 1);
                if let Some(sleep) = joined.last_mut() {
                    *sleep = sleep.begun_by(&segment);
                }
            }
            None => joined.push(segment),
        }
    }
    joined.reverse();
    joined
}

/// Index in `after` (latest first) of the later sleep that continues the wait of `segment`: that one
/// timed out, or a signal interrupted it, and its thread slept again below the same caller.
fn later_sleep(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    segment: &Segment,
    after: &[Segment],
) -> Option<usize> {
    if !may_repeat(analysis, segment) {
        return None;
    }
    let sender = signalled_by(analysis, segment);
    let is_interrupted = sender.is_some();
    if !is_interrupted && !timed_out(analysis, segment) {
        return None;
    }
    let stack = segment.wait_stack(analysis.trace);
    let is_lock = class_of(analysis, segment) == WaitClass::Lock;
    let is_wait = |sleep: &Segment| {
        may_repeat(analysis, sleep)
            && analysis.stacks.is_same_caller(stack, sleep.wait_stack(analysis.trace))
    };
    // A look at a lock may itself take locks, or read from a disk, and a handler may do anything; what comes
    // long after is neither.
    let is_soon = |other: &Segment| other.window.start.since(segment.window.end) <= LONGEST_LOOK_NS;
    let is_look = |other: &Segment| match other.state {
        State::Ran | State::Runnable { .. } => true,
        State::Sleeping(_) => (is_lock || is_interrupted) && is_soon(other) && !is_wait(other),
        State::Unknown => false,
    };
    let later = after.iter().rposition(|other| !is_look(other))?;
    let (sleep, look) = (&after[later], &after[later + 1..]);
    let between = Window::new(segment.window.end, sleep.window.start);
    let ran = look.iter().filter(|between| between.state == State::Ran);
    let ran_ns: u64 = ran.map(|ran| ran.window.duration_ns()).sum();
    let is_short =
        if is_lock { between.duration_ns() <= LONGEST_LOOK_NS } else { ran_ns <= LOOK_NS };
    let is_ended = || {
        analysis.stacks.holder_runs(stack)
            || (is_lock || is_interrupted) && lasts_until_end(analysis, thread, sleep)
            || ended_by(analysis, thread, sleep).is_some_and(|(by, _)| by != thread)
    };
    let is_look = || match is_interrupted {
        // A handler may be long, and tell whoever sent the signal; but whom it asks for something answers
        // that.
        true => {
            let all = sleep.window.end.since(segment.window.start);
            let is_asked = |(by, _): (ThreadId, _)| {
                Some(by) != sender && woke_someone_of(analysis, thread, by, between)
            };
            between.duration_ns().saturating_mul(BUSY) <= all
                && is_ended()
                && !ended_by(analysis, thread, sleep).is_some_and(is_asked)
        }
        false => is_short && is_ended() && !woke_someone(analysis, thread, between),
    };
    // An event loop has timers that have nothing to do with the answer that it waits for.
    let is_for_answer = || {
        class_of(analysis, segment) == WaitClass::Idle
            && ran_ns.saturating_mul(BUSY) <= sleep.window.end.since(segment.window.start)
            && answers(analysis, thread, segment, sleep)
    };
    (is_wait(sleep) && (is_look() || is_for_answer())).then_some(later)
}

/// True if another process ended `sleep` with the answer to what `thread` asked of it before the
/// earlier sleep `first`, and asked nothing else of it since.
fn answers(analysis: &Analysis<'_>, thread: ThreadId, first: &Segment, sleep: &Segment) -> bool {
    let wakings = &analysis.trace.wakings;
    let process = |thread: ThreadId| analysis.trace.threads.get(thread).process;
    let ended = ended_by(analysis, thread, sleep).map(|(by, _)| by);
    let Some(by) = ended.filter(|by| process(*by) != process(thread)) else { return false };
    let began = first.left(analysis.trace).unwrap_or(first.window.start);
    let asks = |wake: &&u32| {
        let wake = **wake as usize;
        let is_by = process(wakings.wakee[wake]) == process(by);
        is_by && !analysis.stacks.closes(wakings.stack[wake])
    };
    let since = Window::new(first.window.end, sleep.window.start);
    if analysis.issued(thread, since).iter().any(|wake| asks(&wake)) {
        return false;
    }
    let before = analysis.issued(thread, Window::new(Time::ZERO, began)).iter();
    let Some(asked) = before.rev().take(MAX_WAKES_BACK).find(asks) else { return false };
    let asked = Window::new(wakings.time[*asked as usize], first.window.end);
    !woke_someone_of(analysis, by, thread, asked)
}

/// True for a sleep that its thread may take up again: not one that somebody else imposed on
/// it, nor one for a device.
fn may_repeat(analysis: &Analysis<'_>, segment: &Segment) -> bool {
    let class = class_of(analysis, segment);
    let imposed = matches!(
        class,
        WaitClass::Stopped | WaitClass::KernelIdle | WaitClass::Memory | WaitClass::Process
    );
    segment.is_sleep() && !imposed && !class.is_disk()
}

/// How often a thread slept again inside the one wait `slept`.
pub(super) fn looks(analysis: &Analysis<'_>, thread: ThreadId, slept: Window) -> u32 {
    let mut sleeps = 0u32;
    analysis.timeline.each_uncut(analysis.trace, thread, slept, &mut |_, segment| {
        sleeps += u32::from(segment.is_sleep() && segment.window.overlaps(slept))
    });
    sleeps.saturating_sub(1)
}
