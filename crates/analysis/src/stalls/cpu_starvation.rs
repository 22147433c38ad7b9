//! Threads that wanted a CPU and did not get one.

use super::thread_view::ThreadView;
use crate::candidate::{Candidate, StallKind};
use crate::explain::throttling;
use crate::{Analysis, Segment, State};
use unhitch_model::{Policy, Window};

const THRESHOLD_NS: u64 = 50_000_000;
/// Minimum nice value of a thread that has asked to come last.
const NICE_ENOUGH: i8 = 15;
/// Minimum wait for a CPU, nanoseconds: shorter ones are normal, and no part of a throttling.
const MIN_PIECE_NS: u64 = 1_000_000;

pub(super) fn find(analysis: &Analysis<'_>, view: &ThreadView<'_>, found: &mut Vec<Candidate>) {
    let thread = analysis.trace.threads.get(view.thread);
    if thread.policy == Some(Policy::Idle) || thread.nice.is_some_and(|nice| nice >= NICE_ENOUGH) {
        return;
    }
    let waits = |min_ns: u64| {
        let wait = move |segment: &&Segment| {
            matches!(segment.state, State::Runnable { .. })
                && segment.window.duration_ns() >= min_ns
        };
        view.segments.iter().filter(wait).map(|segment| segment.window)
    };
    let candidate = |window| Candidate {
        kind: StallKind::CpuStarvation,
        victim: view.thread,
        window,
        operation: None,
        event_loop: view.event_loop,
        machine: None,
    };
    let throttled = throttled(analysis, view, &waits(MIN_PIECE_NS).collect::<Vec<_>>());
    let single =
        waits(THRESHOLD_NS).filter(|wait| !throttled.iter().any(|joined| joined.overlaps(*wait)));
    found.extend(single.chain(throttled.iter().copied()).map(candidate));
}

/// Stretches in which a quota kept the thread from CPUs period after period: of a quota of 10 %, 90
/// ms in every 100 ms. Each is one stall, however often its thread ran for a moment.
fn throttled(analysis: &Analysis<'_>, view: &ThreadView<'_>, waits: &[Window]) -> Vec<Window> {
    let total = |waits: &[Window]| waits.iter().map(|wait| wait.duration_ns()).sum::<u64>();
    if analysis.trace.machine.readings.is_empty() || total(waits) < THRESHOLD_NS {
        return Vec::new();
    }
    let (machine, threads) = (&analysis.trace.machine, &analysis.trace.threads);
    let Some(quota) = machine.throttled_by(threads, view.thread, analysis.timeline.window()) else {
        return Vec::new();
    };
    // It runs for at most a period until the next wait, unless it had a new quota in between.
    let runs = waits.chunk_by(|wait, next| next.start.since(wait.end) <= quota.period_ns);
    let runs = runs.filter_map(|run| {
        let window = Window::new(run.first()?.start, run.last()?.end);
        let waited = total(run);
        let long = waited >= THRESHOLD_NS && waited.saturating_mul(2) >= window.duration_ns();
        (long && throttling::throttled(analysis, view.thread, window, waited).is_some())
            .then_some(window)
    });
    runs.collect()
}
