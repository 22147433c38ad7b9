//! Who waited for a stall's victims: of a server that computed, its clients.
//!
//! The chain of waits, walked backwards: whom they woke when they got on, and who had slept
//! meanwhile until then.

use super::stall::{Stall, Waiter};
use crate::explain::{class_of, signalled_by};
use crate::stalls::excuse::Habits;
use crate::stalls::never_victims::is_never_victim;
use crate::{Analysis, Pattern, Segment, WaitClass};
use unhitch_model::{ThreadId, Time, Window};

/// Maximum waits, one behind the other, between a waiter and the victim.
const MAX_DEPTH: usize = 4;
/// Maximum waiters of one stall.
const MAX_WAITERS: usize = 64;
/// Time in which a thread that got on wakes whoever waits for it, nanoseconds.
const SETTLE_NS: u64 = 20_000_000;

/// Adds to the stall's victims who waited for them for at least half of it.
pub(super) fn add(analysis: &Analysis<'_>, stall: &mut Stall) {
    // A machine-wide stall tells itself who was released.
    if stall.candidate.machine.is_some() {
        return;
    }
    let window = stall.explanation.window;
    let mut habits = Habits::new(analysis);
    let mut found: Vec<Waiter> = Vec::new();
    let until = Window::new(window.start, window.end.plus(SETTLE_NS));
    let mut waited_for: Vec<(ThreadId, Window)> =
        stall.victims.iter().map(|&victim| (victim, until)).collect();
    // Whose own doing it was kept all the others waiting, too.
    if matches!(stall.finding.pattern, Pattern::CpuBound | Pattern::TimerSleep) {
        waited_for.extend(stall.kept_waiting_by().map(|culprit| (culprit, until)));
    }
    for _ in 0..MAX_DEPTH {
        let mut next = Vec::new();
        for index in issued(analysis, &waited_for, until) {
            let (wakee, at) =
                (analysis.trace.wakings.wakee[index], analysis.trace.wakings.time[index]);
            let is_known =
                stall.victims.contains(&wakee) || found.iter().any(|waiter| waiter.thread == wakee);
            if is_known || found.len() == MAX_WAITERS {
                continue;
            }
            if let Some(waited_ns) = waited(&mut habits, index, window) {
                found.push(Waiter { thread: wakee, waited_ns });
                next.push((wakee, Window::new(at, at.plus(SETTLE_NS))));
            }
        }
        waited_for = next;
    }
    stall.victims.extend(found.iter().map(|waiter| waiter.thread));
    stall.victims.sort_unstable();
    stall.waiters = found;
}

/// The wake-ups that each of these threads issued itself in its window, as far as that lies inside
/// `within`, in order of time.
fn issued(analysis: &Analysis<'_>, wakers: &[(ThreadId, Window)], within: Window) -> Vec<usize> {
    let of = |(waker, when): &(ThreadId, Window)| analysis.issued(*waker, when.intersect(within));
    let mut all: Vec<usize> = wakers.iter().flat_map(of).map(|index| *index as usize).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// How long the thread that a wake-up woke had waited for that inside `window`; nothing if it was
/// not for half of it, or if it only had nothing to do.
fn waited(habits: &mut Habits<'_, '_>, wake: usize, window: Window) -> Option<u64> {
    let analysis = habits.analysis;
    let wakings = &analysis.trace.wakings;
    let (waker, wakee, at) = (wakings.waker[wake], wakings.wakee[wake], wakings.time[wake]);
    let sleep = sleep_before(analysis, wakee, at, window)?;
    let waited_ns = sleep.window.duration_ns();
    let stack = sleep.wait_stack(analysis.trace);
    (waited_ns.saturating_mul(2) >= window.duration_ns()
        && class_of(analysis, &sleep) != WaitClass::KernelIdle
        // What a signal interrupted was no wait for its sender.
        && signalled_by(analysis, &sleep).is_none()
        && !analysis.stacks.is_kernel_thread(stack)
        && !is_never_victim(analysis, wakee)
        && habits.has_asked(wakee, stack, waker))
    .then_some(waited_ns)
}

/// The part inside `window` of the sleep of `thread` that a wake-up ended at `at`.
fn sleep_before(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    at: Time,
    window: Window,
) -> Option<Segment> {
    let until = Window::new(window.start, at);
    let last = analysis.timeline.last_segment(analysis.trace, thread, until)?;
    (last.is_sleep() && last.window.end == at).then(|| last.within(last.window.intersect(window)))
}
