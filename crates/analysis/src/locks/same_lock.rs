//! Which waits are for one lock, as far as stacks tell: for locks whose addresses were not
//! recorded.
//!
//! *Why by release:* threads wait for one lock in many functions, and all waiters of any mutex
//! sleep in `futex_wait`. But a function that releases a lock wakes its waiters, wherever they
//! wait. So waits that sleep in one function and are ended by one releasing function are waits for
//! one lock.

use crate::analysis::{Analysis, Releasing};
use crate::explain::{class_of, kept_wait};
use crate::stacks::WaitClass;
use crate::stacks::text::deepest_function;
use crate::timeline::{Segment, State};
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use unhitch_model::{NameId, StackId, ThreadId};

/// True when `segment` is a sleep for a lock that a task ended.
pub(crate) fn waits_for_lock(analysis: &Analysis<'_>, segment: &Segment) -> bool {
    let by_task = segment.wake.is_some_and(|wake| analysis.stacks.is_by_task(analysis.trace, wake));
    by_task
        && matches!(segment.state, State::Sleeping(_))
        && class_of(analysis, segment) == WaitClass::Lock
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
    let pairs: FxHashSet<(StackId, u64)> = (1..analysis.timeline.threads() as u32)
        .into_par_iter()
        .fold(FxHashSet::default, |mut pairs, thread| {
            analysis.timeline.each_segment(
                analysis.trace,
                ThreadId(thread),
                analysis.timeline.window(),
                &mut |segment| {
                    if let Some(wake) = segment.wake.filter(|_| waits_for_lock(analysis, &segment))
                    {
                        pairs.insert((
                            analysis.trace.wakings.stack[wake],
                            analysis.stacks.signature(segment.wait_stack(analysis.trace)),
                        ));
                    }
                },
            );
            pairs
        })
        .reduce(FxHashSet::default, |mut all, pairs| {
            all.extend(pairs);
            all
        });
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

/// The address (avma) of the lock for which a thread slept, where the kernel reported it, or the
/// system call of the thread or of its waker names it.
pub fn lock_of(analysis: &Analysis<'_>, thread: ThreadId, segment: &Segment) -> Option<u64> {
    let State::Sleeping(_) = segment.state else { return None };
    kernel_lock_of(analysis, thread, segment)
        .or_else(|| kept_wait(analysis, segment)?.kernel_lock_avma)
        .or_else(|| futex_of(analysis, segment))
}

/// The futex for which a thread slept, if that was a lock: the one at which it was woken, or else the
/// one at which it began to wait. They differ if it was moved from one to the other (`FUTEX_REQUEUE`).
fn futex_of(analysis: &Analysis<'_>, segment: &Segment) -> Option<u64> {
    const SYS_FUTEX: u16 = 202;
    let woken_at = segment.wake.and_then(|wake| analysis.woken_futex(wake));
    let waits_at = || {
        let wait = kept_wait(analysis, segment).filter(|wait| wait.syscall == Some(SYS_FUTEX));
        wait.map(|wait| wait.arguments[0])
    };
    let futex = woken_at.or_else(waits_at)?;
    (class_of(analysis, segment) == WaitClass::Lock).then_some(futex)
}

/// True for the address of a lock in the kernel, which is the same for all processes.
fn is_kernel_avma(avma: u64) -> bool {
    avma >> 63 == 1
}

fn kernel_lock_of(analysis: &Analysis<'_>, thread: ThreadId, segment: &Segment) -> Option<u64> {
    let wait = analysis.kernel_locks.at(thread, segment.left(analysis.trace)?)?;
    let stack = segment.wait_stack(analysis.trace);
    let in_kernel = analysis.trace.stacks.kernel_frames(stack);
    let functions = |frame| analysis.trace.symbols.get(frame).last().map(|symbol| symbol.function);
    let leaf = leaf(analysis, wait.stack);
    let same_call = leaf.is_none() || in_kernel.iter().any(|frame| functions(*frame) == leaf);
    (same_call && class_of(analysis, segment) == WaitClass::Lock).then_some(wait.lock_avma)
}

/// Whether `segment` of `thread` was a sleep for the lock at `avma`, for which `sleeper` slept, if
/// both addresses are known and mean the same. Processes may share a futex at different addresses.
pub(crate) fn is_same_address(
    analysis: &Analysis<'_>,
    (avma, sleeper): (Option<u64>, ThreadId),
    thread: ThreadId,
    segment: &Segment,
) -> Option<bool> {
    let (one, other) = (avma?, lock_of(analysis, thread, segment)?);
    let process = |thread| analysis.trace.threads.process_of(thread).leader;
    (is_kernel_avma(one) || is_kernel_avma(other) || process(sleeper) == process(thread))
        .then_some(one == other)
}
