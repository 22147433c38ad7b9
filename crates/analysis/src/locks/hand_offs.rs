//! Who else had a lock while a thread waited for it, by the wake-ups of its other waiters.

use super::lock_address::{SYS_FUTEX, is_kernel_avma, lock_of};
use crate::Analysis;
use crate::explain::Hop;
use rustc_hash::{FxHashMap, FxHashSet};
use unhitch_model::{ThreadId, Time, Trace, Window};

/// The threads that ever waited at an address (avma), as far as the recorder noted it.
pub(crate) struct Waiters(FxHashMap<u64, FxHashSet<ThreadId>>);

impl Waiters {
    pub(crate) fn new(trace: &Trace) -> Self {
        let mut waiters: FxHashMap<u64, FxHashSet<ThreadId>> = FxHashMap::default();
        let mut add = |avma, thread| {
            waiters.entry(avma).or_default().insert(thread);
        };
        for wait in &trace.kept_waits {
            let futex = (wait.syscall == Some(SYS_FUTEX)).then_some(wait.arguments[0]);
            if let Some(avma) = wait.kernel_lock_avma.or(futex) {
                add(avma, wait.thread);
            }
        }
        trace.kept_wakes.iter().for_each(|wake| add(wake.futex_avma, wake.wakee));
        let reported = trace.contentions.lock_avma.iter().zip(&trace.contentions.thread);
        reported.for_each(|(avma, thread)| add(*avma, *thread));
        Self(waiters)
    }
}

/// The last time inside `window` at which another thread than the one that woke the sleeper of `hop`
/// released the same lock, by its address, to another waiter: until then, that one did not have it.
pub(crate) fn released_by_others(
    analysis: &Analysis<'_>,
    hop: &Hop,
    window: Window,
) -> Option<Time> {
    let trace = analysis.trace;
    let lock_avma = hop.lock_avma?;
    let process = |thread| trace.threads.get(thread).process;
    let may_wait = |thread: &ThreadId| {
        ![hop.sleeper, hop.by].contains(thread)
            && (is_kernel_avma(lock_avma) || process(*thread) == process(hop.sleeper))
    };
    let released = |waiter: ThreadId| {
        let waits = analysis.segments(waiter, window).into_iter();
        let ended = waits.filter(|wait| wait.is_sleep()).filter_map(move |wait| {
            let wake = wait.wake()?;
            let time = trace.wakings.time[wake];
            let is_release = window.contains(time)
                && trace.wakings.waker[wake] != hop.by
                && analysis.stacks.is_by_task(trace, wake)
                && lock_of(analysis, waiter, &wait) == Some(lock_avma);
            is_release.then_some(time)
        });
        ended.max()
    };
    let waiters = analysis.waiters().0.get(&lock_avma)?;
    waiters.iter().copied().filter(may_wait).filter_map(released).max()
}
