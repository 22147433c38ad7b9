//! Who was kept from CPUs by the quota of a control group.
//!
//! Recorder 2 notes that a thread leaves its CPU throttled. Otherwise no event shows it: the thread
//! is ready and does not run. The groups' own counters do (`cpu.stat`, read regularly while
//! recording). A quota is blamed for a wait only if the thread was seen to be throttled for at least
//! half of it, or if the counters around it show that the group was.

use super::explanation::{Cause, Explanation};
use crate::Analysis;
use crate::timeline::Segment;
use crate::wording::units;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use unhitch_model::{MachineReport, TaskState, ThreadId, Throttling, Window};

/// The quota that kept `thread` from CPUs for `waited_ns` inside `window`; nothing where the
/// counters do not say so.
pub fn throttled(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    window: Window,
    waited_ns: u64,
) -> Option<Throttling> {
    let found = analysis.trace.machine.throttled_by(&analysis.trace.threads, thread, window)?;
    let is_half = |ns: u64| ns.saturating_mul(2) >= waited_ns;
    let is_enough = is_half(found.throttled_ns) || is_half(throttled_ns(analysis, thread, window));
    (waited_ns > 0 && is_enough).then_some(found)
}

/// How long the thread waited for a CPU in `window` after it had left one throttled.
fn throttled_ns(analysis: &Analysis<'_>, thread: ThreadId, window: Window) -> u64 {
    let left_throttled = |segment: &&Segment| {
        let state = segment.out().map(|out| analysis.trace.switches.prev_state[out]);
        state == Some(TaskState::Throttled)
    };
    let segments = analysis.segments(thread, window);
    segments.iter().filter(left_throttled).map(|segment| segment.window.duration_ns()).sum()
}

/// The quota that kept one thread of an explanation from CPUs for at least half of it.
pub fn main_throttling(analysis: &Analysis<'_>, explanation: &Explanation) -> Option<Throttling> {
    let mut waited: FxHashMap<ThreadId, u64> = FxHashMap::default();
    for piece in explanation.pieces.iter().filter(|piece| piece.cause == Cause::WaitedForCpu) {
        *waited.entry(piece.thread).or_default() += piece.window.duration_ns();
    }
    let (thread, ns) = waited.into_iter().max_by_key(|&(thread, ns)| (ns, Reverse(thread)))?;
    let most = ns.saturating_mul(2) >= explanation.window.duration_ns();
    most.then(|| throttled(analysis, thread, explanation.window, ns)).flatten()
}

/// True when the thread itself, or the first of its process, was seen in its groups: else they
/// are taken to be its parent's.
pub fn is_in_known_groups(analysis: &Analysis<'_>, thread: ThreadId) -> bool {
    let members = &analysis.trace.machine.members;
    members.contains_key(&thread)
        || members.contains_key(&analysis.trace.threads.process_of(thread).leader)
}

/// `throttled by control group /x: 10 % of a CPU allowed (quota 10 ms per 100 ms), used up in 28 of
/// 47 periods, 2.531 s throttled`.
pub fn words(machine: &MachineReport, throttling: &Throttling) -> String {
    let path = machine.group(throttling.group).map_or("?", |group| group.path.as_str());
    format!("throttled by control group {path}: {}", figures(throttling))
}

/// The figures alone.
pub fn figures(throttling: &Throttling) -> String {
    used(
        throttling.quota_ns,
        throttling.period_ns,
        (throttling.throttled_periods, throttling.periods),
        throttling.throttled_ns,
    )
}

/// A quota (none: it was lifted) with how often it was used up, of how many periods, and how long that
/// kept threads from CPUs.
pub fn used(
    quota_ns: Option<u64>,
    period_ns: u64,
    (throttled, periods): (u64, u64),
    throttled_ns: u64,
) -> String {
    let allowed = match quota_ns {
        Some(quota) => format!(
            "{} allowed (quota {} per {})",
            cpu_share(quota as f64 / period_ns.max(1) as f64),
            units::duration(quota),
            units::duration(period_ns)
        ),
        None => "a quota that was lifted meanwhile".to_owned(),
    };
    format!(
        "{allowed}, used up in {} of {}, {} throttled",
        units::count(throttled),
        units::plural(periods, "period"),
        units::duration(throttled_ns)
    )
}

/// `10 % of a CPU`, `2.5 CPUs`.
fn cpu_share(cpus: f64) -> String {
    let percent = cpus * 100.0;
    match percent {
        ..1.0 => format!("{percent:.2} % of a CPU"),
        ..100.5 => format!("{percent:.0} % of a CPU"),
        _ => format!("{cpus:.1} CPUs"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn shares_of_cpus() {
        assert_eq!(
            [0.001, 0.1, 1.0, 2.5].map(super::cpu_share),
            ["0.10 % of a CPU", "10 % of a CPU", "100 % of a CPU", "2.5 CPUs"]
        );
    }
}
