//! Event loops that stopped pumping: a thread that returns to poll, select or epoll stays away from
//! it.
//!
//! Needs no instrumentation and works backwards in time. It misses a loop that polls without ever
//! blocking: such a loop is busy.

use super::thread_view::ThreadView;
use crate::candidate::{Candidate, StallKind};
use crate::stacks::InterruptSource;
use crate::{Analysis, Operation, State};
use unhitch_model::{Time, Window};

/// Minimum absence of an event loop, nanoseconds: a human notices it.
const THRESHOLD_NS: u64 = 100_000_000;
/// Minimum events of an event loop; with fewer, the program only happens to poll.
const MIN_EVENTS: usize = 3;
/// Maximum waits per pump of an event loop, unless it pumps very often.
const WAITS_PER_PUMP: usize = 4;
/// So many events come only to a thread that is there to handle them, whatever else it waits for.
const MANY_EVENTS: usize = 30;

/// True when the pump is what this thread's waits are about, and events end most of them: who only
/// ever wakes by its own timeout uses poll as a sleep, and nobody is waiting for its answer.
/// Wake-ups that were not seen prove neither. The loop of a program with windows is one even if, in a
/// quiet minute, only its timers ended its waits.
pub(super) fn is_event_loop(analysis: &Analysis<'_>, operations: &[Operation]) -> bool {
    let pumps = || operations.iter().filter(|operation| operation.pump);
    let wakes: Vec<usize> = pumps().filter_map(|pump| pump.wakes.last().copied()).collect();
    let is_timeout = |wake: &&usize| {
        analysis.stacks.wake_source(analysis.trace, **wake).interrupt
            == Some(InterruptSource::Timeout)
    };
    let has_windows = pumps().any(|pump| analysis.stacks.is_toolkit(pump.stack));
    let timeouts = if has_windows { 0 } else { wakes.iter().filter(is_timeout).count() };
    let events = wakes.len() - timeouts;
    events >= MIN_EVENTS
        && events >= timeouts
        && (events >= MANY_EVENTS || pumps().count() * WAITS_PER_PUMP >= operations.len())
}

pub(super) fn find(analysis: &Analysis<'_>, view: &ThreadView<'_>, found: &mut Vec<Candidate>) {
    if !view.event_loop {
        return;
    }
    let end = analysis.timeline.life(view.thread).end;
    let mut pumps = view.operations.iter().filter(|operation| operation.pump).peekable();
    while let Some(pump) = pumps.next() {
        // Away from the moment an event called it, the wait for a CPU included.
        let called =
            pump.wakes.last().map_or(pump.window.end, |&wake| analysis.trace.wakings.time[wake]);
        let away = Window::new(
            called,
            pumps
                .peek()
                .map_or_else(|| away_until(analysis, view).min(end), |next| next.window.start),
        );
        if away.duration_ns() >= THRESHOLD_NS && !is_unknown(view, away) && !pump.open {
            found.push(Candidate {
                kind: StallKind::EventLoop,
                victim: view.thread,
                window: away,
                operation: None,
                event_loop: true,
                machine: None,
            });
        }
    }
}

/// Until when a thread that never came back to its pump is known to have been away: its last wait
/// may be the pump, where nothing tells what it waits for (on Windows, a wait has no stack before
/// it is over).
fn away_until(analysis: &Analysis<'_>, view: &ThreadView<'_>) -> Time {
    match view.segments.last() {
        Some(last) if last.is_sleep() && last.wait_stack(analysis.trace).is_empty() => {
            last.window.start
        }
        _ => Time::MAX,
    }
}

/// True when most of the window is hidden by losses: that is no stall that can be defended.
pub(super) fn is_unknown(view: &ThreadView<'_>, window: Window) -> bool {
    let hidden = view.inside(window).filter(|segment| segment.state == State::Unknown);
    let hidden_ns: u64 = hidden.map(|segment| segment.window.intersect(window).duration_ns()).sum();
    hidden_ns.saturating_mul(2) > window.duration_ns()
}
