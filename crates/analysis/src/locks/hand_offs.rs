//! Who else had a lock while a thread waited for it, by the wake-ups of its other waiters.

use super::lock_address::{is_kernel_avma, lock_of};
use crate::Analysis;
use crate::explain::Hop;
use unhitch_model::{ThreadId, Time, Window};

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
    let waiters = analysis.waiters().at(lock_avma);
    waiters.filter(may_wait).filter_map(released).max()
}
