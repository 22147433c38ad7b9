//! The address of the lock that a wait is for, where the recording tells it, and which waits are for
//! one lock according to that.

use super::same_lock::leaf;
use super::waiters::SYS_FUTEX;
use crate::analysis::Analysis;
use crate::explain::{class_of, kept_wait};
use crate::stacks::WaitClass;
use crate::timeline::{Segment, State};
use unhitch_model::ThreadId;

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
    let woken_at = segment.wake().and_then(|wake| analysis.woken_futex(wake));
    let waits_at = || {
        let wait = kept_wait(analysis, segment).filter(|wait| wait.syscall == Some(SYS_FUTEX));
        wait.map(|wait| wait.arguments[0])
    };
    let futex = woken_at.or_else(waits_at)?;
    (class_of(analysis, segment) == WaitClass::Lock).then_some(futex)
}

/// True for the address of a lock in the kernel, which is the same for all processes.
pub(super) fn is_kernel_avma(avma: u64) -> bool {
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
