//! Who is waited for where nobody ends the wait: a thread that looks, by its own timer, whether
//! another thread of its process has stopped running.
//!
//! *Why by who ran:* the Java threads that have stopped for a safepoint sleep, and so does the VM
//! thread between two looks. What keeps them waiting is the thread that still runs; it wakes nobody. Nor
//! does who has a lock, and stops all threads by a signal again and again to collect garbage: they wait
//! for the lock anew each time.

use super::owners::signalled_by;
use super::wait_class::class_of;
use crate::timeline::{Segment, State};
use crate::{Analysis, WaitClass};
use unhitch_model::{ThreadId, Window};

/// How soon a thread stops after the wait that it prolonged, nanoseconds: the one that looks may see
/// it a moment later, or the other way round.
const STOPS_WITHIN_NS: u64 = 5_000_000;

/// The thread of the same process that was running, or ready to run, for most of a sleep in which
/// somebody waits for such a thread. Of several, the one that stopped when the sleep ended: others
/// may have worked all the time without anybody waiting for them.
pub(super) fn runner_of(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    sleep: &Segment,
) -> Option<ThreadId> {
    if let Some(sender) = interrupted_by(analysis, thread, sleep) {
        let active_ns = active_ns(analysis, sender, sleep.window);
        return (active_ns.saturating_mul(2) >= sleep.window.duration_ns()).then_some(sender);
    }
    if !sleep.is_sleep() || !analysis.stacks.holder_runs(sleep.wait_stack(analysis.trace)) {
        return None;
    }
    let process = analysis.trace.threads.get(thread).process;
    let others = analysis.threads_of(process).iter().copied().filter(|other| *other != thread);
    let active = others.map(|other| (active_ns(analysis, other, sleep.window), other));
    active
        .filter(|(ns, _)| ns.saturating_mul(2) >= sleep.window.duration_ns())
        .max_by_key(|&(ns, other)| (stops_at(analysis, other, sleep.window), ns, other))
        .map(|(_, other)| other)
}

/// The other thread of the same process that interrupted a wait for a lock by a signal.
fn interrupted_by(analysis: &Analysis<'_>, thread: ThreadId, sleep: &Segment) -> Option<ThreadId> {
    let process = |thread: ThreadId| analysis.trace.threads.get(thread).process;
    let sender = signalled_by(analysis, sleep)?;
    let is_own = sender != thread && process(sender) == process(thread);
    (is_own && class_of(analysis, sleep) == WaitClass::Lock).then_some(sender)
}

/// How long a thread ran, or was ready to.
pub(crate) fn active_ns(analysis: &Analysis<'_>, thread: ThreadId, window: Window) -> u64 {
    let mut active_ns = 0;
    analysis.timeline.each_segment(analysis.trace, thread, window, &mut |segment| {
        if matches!(segment.state, State::Ran | State::Runnable { .. }) {
            active_ns += segment.window.duration_ns();
        }
    });
    active_ns
}

/// True if the thread was active inside the window, and fell asleep at about its end.
fn stops_at(analysis: &Analysis<'_>, thread: ThreadId, window: Window) -> bool {
    let end = Window::new(
        window.end.minus(STOPS_WITHIN_NS).max(window.start),
        window.end.plus(STOPS_WITHIN_NS),
    );
    let segments = analysis.segments(thread, end);
    segments.iter().any(|segment| segment.is_sleep())
}
