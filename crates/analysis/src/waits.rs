//! All waits of some classes, of all threads.

use crate::Analysis;
use crate::explain::class_of;
use crate::stacks::WaitClass;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use unhitch_model::{StackId, ThreadId, Time, Window};

/// Waits on one stack, of whatever threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StackWaits {
    /// Where they waited.
    pub stack: StackId,
    /// How many waits.
    pub waits: u64,
    /// How long in all, nanoseconds.
    pub waited_ns: u64,
    /// The thread that waited longest there.
    pub most: ThreadId,
}

/// The waits that no rule classifies, by stack, the longest total first.
pub fn unclassified_waits(analysis: &Analysis<'_>) -> Vec<StackWaits> {
    let mut sums: FxHashMap<StackId, FxHashMap<ThreadId, (u64, u64)>> = FxHashMap::default();
    for thread in (1..analysis.timeline.threads() as u32).map(ThreadId) {
        for segment in analysis.segments(thread, analysis.timeline.window()) {
            if segment.is_sleep() && class_of(analysis, &segment) == WaitClass::Unknown {
                let sum = sums
                    .entry(segment.wait_stack(analysis.trace))
                    .or_default()
                    .entry(thread)
                    .or_default();
                *sum = (sum.0 + 1, sum.1 + segment.window.duration_ns());
            }
        }
    }
    let all = sums.into_iter().filter_map(|(stack, threads)| {
        let most = threads
            .iter()
            .max_by_key(|(thread, (_, ns))| (*ns, Reverse(**thread)))
            .map(|(thread, _)| *thread)?;
        let (waits, waited_ns) =
            threads.values().fold((0, 0), |sum, (waits, ns)| (sum.0 + waits, sum.1 + ns));
        Some(StackWaits { stack, waits, waited_ns, most })
    });
    let mut list: Vec<StackWaits> = all.collect();
    list.sort_by_key(|waits| (Reverse(waits.waited_ns), waits.stack));
    list
}

/// The time that each thread spent inside `window` in waits of the classes that `select` picks,
/// longest first.
pub fn waits_for(
    analysis: &Analysis<'_>,
    window: Window,
    select: impl Fn(WaitClass) -> bool + Sync,
) -> Vec<(ThreadId, u64)> {
    let of = |thread: ThreadId| {
        let segments = analysis.segments(thread, window).into_iter();
        let waits =
            segments.filter(|segment| segment.is_sleep() && select(class_of(analysis, segment)));
        waits.map(|segment| segment.window.duration_ns()).sum::<u64>()
    };
    let threads = (1..analysis.timeline.threads() as u32).into_par_iter().map(ThreadId);
    let mut list: Vec<(ThreadId, u64)> =
        threads.map(|thread| (thread, of(thread))).filter(|(_, ns)| *ns > 0).collect();
    list.sort_by_key(|&(thread, ns)| (Reverse(ns), thread));
    list
}

/// Whose sleeps of the classes that `select` picks were ended by wake-ups inside `window`:
/// thread, wake-up, whole length, wait stack.
pub fn waits_ended_in(
    analysis: &Analysis<'_>,
    window: Window,
    select: impl Fn(WaitClass) -> bool + Sync,
) -> Vec<(ThreadId, Time, u64, StackId)> {
    let of = |thread: ThreadId| {
        analysis.segments(thread, window).into_iter().map(move |segment| (thread, segment))
    };
    let threads = (1..analysis.timeline.threads() as u32).into_par_iter().map(ThreadId);
    let mut list: Vec<(ThreadId, Time, u64, StackId)> = threads
        .flat_map_iter(of)
        .filter(|(_, segment)| segment.is_sleep() && select(class_of(analysis, segment)))
        .filter_map(|(thread, segment)| {
            let woken = analysis.trace.wakings.time[segment.wake()?];
            let slept_from = segment.left(analysis.trace)?;
            (woken >= window.start && woken <= window.end).then(|| {
                (thread, woken, woken.since(slept_from), segment.wait_stack(analysis.trace))
            })
        })
        .collect();
    list.sort_unstable_by_key(|&(thread, woken, ..)| (woken, thread));
    list
}
