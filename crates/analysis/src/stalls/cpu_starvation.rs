//! Threads that wanted a CPU and did not get one.

use super::busy::is_batch;
use super::thread_view::ThreadView;
use crate::candidate::{Candidate, StallKind};
use crate::explain::{awaited_cpu, throttling};
use crate::{Analysis, Segment, State};
use unhitch_model::{Policy, Window};

/// Minimum time without a CPU, nanoseconds.
const THRESHOLD_NS: u64 = 50_000_000;
/// The same where others had the CPU and nobody sits before the thread, as before an event loop.
const UNSEEN_THRESHOLD_NS: u64 = 100_000_000;
/// The same for a thread or a process that computes all the time, which is late by what others have
/// of the CPU and not by one wait, and for the kernel's housekeeping.
const BATCH_THRESHOLD_NS: u64 = 500_000_000;
/// Time around a wait in which its thread is seen to compute, or not, nanoseconds.
const AROUND_NS: u64 = 1_000_000_000;
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
    // Fair shares of a busy CPU are no starvation.
    let is_share = |wait: &Window| {
        let is_patient =
            || computes(view, *wait) || is_batch(analysis, view.thread) || view.kernel_thread;
        let ns = wait.duration_ns();
        !view.event_loop
            && (ns < UNSEEN_THRESHOLD_NS || ns < BATCH_THRESHOLD_NS && is_patient())
            && had_others(analysis, view, *wait)
    };
    let single = waits(THRESHOLD_NS)
        .filter(|wait| !throttled.iter().any(|joined| joined.overlaps(*wait)))
        .filter(|wait| !is_share(wait));
    found.extend(single.chain(throttled.iter().copied()).map(candidate));
}

/// True if the thread ran, or wanted to, for most of the time around `wait`: nobody waits for its
/// reaction.
fn computes(view: &ThreadView<'_>, wait: Window) -> bool {
    let around = Window::new(wait.start.minus(AROUND_NS), wait.end.plus(AROUND_NS));
    let (mut slept_ns, mut other_ns) = (0u64, 0u64);
    for segment in view.inside(around) {
        let ns = segment.window.intersect(around).duration_ns();
        match segment.state {
            State::Sleeping(_) => slept_ns += ns,
            State::Ran | State::Runnable { .. } => other_ns += ns,
            State::Unknown => {}
        }
    }
    slept_ns < other_ns.saturating_sub(wait.duration_ns())
}

/// True if other threads had the CPU that the thread waited for, for most of the wait.
fn had_others(analysis: &Analysis<'_>, view: &ThreadView<'_>, wait: Window) -> bool {
    let segment = view.inside(wait).find(|segment| segment.window == wait);
    let cpu = segment.and_then(|segment| awaited_cpu(analysis, segment, wait));
    let Some(cpu) = cpu else { return false };
    let shares = analysis.cpus.shares(analysis.trace, cpu, wait).ns.into_iter();
    let others = shares.filter(|(thread, _)| thread.is_some_and(|thread| !thread.is_idle()));
    others.map(|(_, ns)| ns).sum::<u64>().saturating_mul(2) >= wait.duration_ns()
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
