//! All waits inside a window, of all threads: a lock as all of its waiters saw it, not only the
//! victim.
//!
//! *Why aggregate before following a chain:* with a hundred threads at one lock, each link of a
//! chain looks innocent. The function on most wake stacks shows at once where the lock is always
//! released.

use crate::Analysis;
use crate::explain::class_of;
use crate::stacks::WaitClass;
use crate::stacks::text::deepest_function;
use crate::timeline::State;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use unhitch_model::{StackId, ThreadId, Time, Window};

/// Wake-ups that ended waits for a lock, by the function that released it.
#[derive(Clone, PartialEq, Debug)]
pub struct Release {
    /// The releasing function.
    pub function: String,
    /// A stack on which it was seen, the most frequent.
    pub stack: StackId,
    /// How many waits it ended.
    pub wakes: u64,
    /// How long they had waited, inside the window, summed.
    pub waited_ns: u64,
    /// The threads that released, most frequent first.
    pub wakers: Vec<ThreadId>,
}

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
            if matches!(segment.state, State::Sleeping(_))
                && class_of(analysis, &segment) == WaitClass::Unknown
            {
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
        let waits = segments.filter(|segment| {
            matches!(segment.state, State::Sleeping(_)) && select(class_of(analysis, segment))
        });
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
        .filter(|(_, segment)| {
            matches!(segment.state, State::Sleeping(_)) && select(class_of(analysis, segment))
        })
        .filter_map(|(thread, segment)| {
            let woken = analysis.trace.wakings.time[segment.wake?];
            let slept_from = segment.left(analysis.trace)?;
            (woken >= window.start && woken <= window.end).then(|| {
                (thread, woken, woken.since(slept_from), segment.wait_stack(analysis.trace))
            })
        })
        .collect();
    list.sort_unstable_by_key(|&(thread, woken, ..)| (woken, thread));
    list
}

/// Who ended waits for locks inside `window`, the function that ended most first.
pub fn releases(analysis: &Analysis<'_>, window: Window) -> Vec<Release> {
    let by_stack: FxHashMap<(StackId, ThreadId), (u64, u64)> = (1..analysis.timeline.threads()
        as u32)
        .into_par_iter()
        .fold(FxHashMap::default, |mut sums: FxHashMap<_, (u64, u64)>, thread| {
            for segment in analysis.segments(ThreadId(thread), window) {
                let Some(wake) =
                    segment.wake.filter(|_| matches!(segment.state, State::Sleeping(_)))
                else {
                    continue;
                };
                let ended = window.contains(analysis.trace.wakings.time[wake])
                    || analysis.trace.wakings.time[wake] == window.end;
                if ended && class_of(analysis, &segment) == WaitClass::Lock {
                    let sum = sums
                        .entry((
                            analysis.trace.wakings.stack[wake],
                            analysis.trace.wakings.waker[wake],
                        ))
                        .or_default();
                    *sum = (sum.0 + 1, sum.1 + segment.window.duration_ns());
                }
            }
            sums
        })
        .reduce(FxHashMap::default, |mut all, sums| {
            for (key, (wakes, ns)) in sums {
                let sum = all.entry(key).or_insert((0, 0));
                *sum = (sum.0 + wakes, sum.1 + ns);
            }
            all
        });
    let mut functions: FxHashMap<StackId, String> = FxHashMap::default();
    let mut by_function: FxHashMap<String, Vec<(StackId, ThreadId, u64, u64)>> =
        FxHashMap::default();
    for ((stack, waker), (wakes, ns)) in by_stack {
        let function = functions
            .entry(stack)
            .or_insert_with(|| deepest_function(analysis, stack).unwrap_or_default());
        by_function.entry(function.clone()).or_default().push((stack, waker, wakes, ns));
    }
    let mut releases: Vec<Release> =
        by_function.into_iter().map(|(function, parts)| release(function, &parts)).collect();
    releases.sort_by(|a, b| {
        (b.wakes, b.waited_ns, &a.function).cmp(&(a.wakes, a.waited_ns, &b.function))
    });
    releases
}

fn release(function: String, parts: &[(StackId, ThreadId, u64, u64)]) -> Release {
    let ranked = |key: fn(&(StackId, ThreadId, u64, u64)) -> u32| {
        let mut sums: FxHashMap<u32, u64> = FxHashMap::default();
        parts.iter().for_each(|part| *sums.entry(key(part)).or_default() += part.2);
        let mut list: Vec<(u32, u64)> = sums.into_iter().collect();
        list.sort_by_key(|&(key, wakes)| (Reverse(wakes), key));
        list
    };
    Release {
        function,
        stack: ranked(|part| part.0.0).first().map_or(StackId::EMPTY, |(stack, _)| StackId(*stack)),
        wakes: parts.iter().map(|part| part.2).sum(),
        waited_ns: parts.iter().map(|part| part.3).sum(),
        wakers: ranked(|part| part.1.0).into_iter().map(|(thread, _)| ThreadId(thread)).collect(),
    }
}
