//! Who releases locks inside a window: a lock as all of its waiters saw it, not only the victim.
//!
//! *Why aggregate before following a chain:* with a hundred threads at one lock, each link of a
//! chain looks innocent. The function on most wake stacks shows at once where the lock is always
//! released.

use crate::Analysis;
use crate::explain::class_of;
use crate::stacks::WaitClass;
use crate::stacks::text::deepest_function;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use unhitch_model::{StackId, ThreadId, Window};

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

/// Who ended waits for locks inside `window`, the function that ended most first.
pub fn releases(analysis: &Analysis<'_>, window: Window) -> Vec<Release> {
    let by_stack: FxHashMap<(StackId, ThreadId), (u64, u64)> = (1..analysis.timeline.threads()
        as u32)
        .into_par_iter()
        .fold(FxHashMap::default, |mut sums: FxHashMap<_, (u64, u64)>, thread| {
            for segment in analysis.segments(ThreadId(thread), window) {
                let Some(wake) = segment.wake().filter(|_| segment.is_sleep()) else {
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
