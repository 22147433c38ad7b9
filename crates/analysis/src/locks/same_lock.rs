//! Which waits are for one lock, as far as stacks tell: for locks whose addresses were not
//! recorded.
//!
//! *Why by release:* threads wait for one lock in many functions, and all waiters of any mutex
//! sleep in `futex_wait`. But a function that releases a lock wakes its waiters, wherever they
//! wait. So waits that sleep in one function and are ended by one releasing function are waits for
//! one lock.

use crate::analysis::{Analysis, Releasing};
use crate::explain::class_of;
use crate::stacks::WaitClass;
use crate::stacks::text::deepest_function;
use crate::timeline::Segment;
use rustc_hash::{FxHashMap, FxHashSet};
use unhitch_model::{NameId, StackId, ThreadId};

/// True when `segment` is a sleep for a lock that a task ended.
pub(crate) fn waits_for_lock(analysis: &Analysis<'_>, segment: &Segment) -> bool {
    let by_task =
        segment.wake().is_some_and(|wake| analysis.stacks.is_by_task(analysis.trace, wake));
    by_task && segment.is_sleep() && class_of(analysis, segment) == WaitClass::Lock
}

/// True when waits on these two stacks are for one lock.
pub(crate) fn is_same_lock(analysis: &Analysis<'_>, one: StackId, other: StackId) -> bool {
    let [a, b] = [one, other].map(|wait| analysis.stacks.signature(wait));
    if a == b || a == 0 || b == 0 || leaf(analysis, one) != leaf(analysis, other) {
        return a == b;
    }
    let releasing = analysis.releasing.get_or_init(|| all_releasing(analysis));
    let (Some(a), Some(b)) = (releasing.get(&a), releasing.get(&b)) else { return false };
    !a.is_disjoint(b)
}

/// The function that waits, below the scheduler's own.
pub(crate) fn leaf(analysis: &Analysis<'_>, stack: StackId) -> Option<NameId> {
    let frame = analysis.trace.stacks.frames_of(stack).get(analysis.stacks.noise_len(stack))?;
    analysis.trace.symbols.get(*frame).last().map(|symbol| symbol.function)
}

fn all_releasing(analysis: &Analysis<'_>) -> Releasing {
    let Analysis { trace, timeline, stacks, .. } = analysis;
    let mut pairs: FxHashSet<(StackId, u64)> = FxHashSet::default();
    for thread in (1..timeline.threads() as u32).map(ThreadId) {
        timeline.each_segment(trace, thread, timeline.window(), &mut |segment| {
            let wake = segment.wake().filter(|_| waits_for_lock(analysis, &segment));
            pairs.extend(wake.map(|wake| {
                (trace.wakings.stack[wake], stacks.signature(segment.wait_stack(trace)))
            }));
        });
    }
    let mut numbers: FxHashMap<String, u32> = FxHashMap::default();
    let mut functions: FxHashMap<StackId, Option<u32>> = FxHashMap::default();
    let mut releasing = Releasing::default();
    for (stack, signature) in pairs {
        let number = *functions.entry(stack).or_insert_with(|| {
            let next = numbers.len() as u32;
            deepest_function(analysis, stack)
                .map(|function| *numbers.entry(function).or_insert(next))
        });
        if let Some(number) = number {
            releasing.entry(signature).or_default().insert(number);
        }
    }
    releasing
}
