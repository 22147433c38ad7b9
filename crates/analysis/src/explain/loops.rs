//! Whom event loops may have asked: who has the other ends of the connections that they had made
//! themselves and still wait for when the recording ends
//! ([`loop_peers`](unhitch_model::Trace::loop_peers)).

use super::other_end::{holders, processes};
use super::sleeps::sleeps_before;
use crate::Analysis;
use crate::timeline::Segment;
use std::sync::Arc;
use unhitch_model::{ProcessId, ThreadId, Time};

/// The processes at the other ends of the connections that the event loops of `process` wait for, by their
/// first threads.
pub(super) fn loop_peers(analysis: &Analysis<'_>, process: ProcessId) -> Arc<[ThreadId]> {
    analysis.memos.loop_peers.answer(process, || find_loop_peers(analysis, process).into())
}

fn find_loop_peers(analysis: &Analysis<'_>, process: ProcessId) -> Vec<ThreadId> {
    let trace = analysis.trace;
    let all = &trace.loop_peers;
    let first = all.partition_point(|(of, _)| *of < process);
    let of_it = all[first..].iter().take_while(|(of, _)| *of == process);
    let mut peers: Vec<ThreadId> =
        of_it.flat_map(|(_, inode)| processes(holders(analysis, *inode))).collect();
    peers.retain(|peer| trace.threads.get(*peer).process != process);
    peers.sort_unstable();
    peers.dedup();
    peers
}

/// The thread of `whom` that `process` woke last before `until`, and when. *Why also by interrupts of
/// which no stack tells more*: a message within a machine is delivered in a soft interrupt of the sender.
pub(super) fn last_woken_by(
    analysis: &Analysis<'_>,
    process: ProcessId,
    whom: ProcessId,
    until: Time,
) -> Option<(ThreadId, Time)> {
    let find = || find_last_woken_by(analysis, process, whom, until);
    analysis.memos.last_woken_by.answer((process, whom, until), find)
}

fn find_last_woken_by(
    analysis: &Analysis<'_>,
    process: ProcessId,
    whom: ProcessId,
    until: Time,
) -> Option<(ThreadId, Time)> {
    /// Maximum sleeps of a thread that are looked through.
    const MAX_SLEEPS: usize = 1000;
    let (trace, wakings) = (analysis.trace, &analysis.trace.wakings);
    let by_it = |sleep: Segment| {
        let wake = sleep.wake()?;
        let by = trace.threads.get(wakings.waker[wake]).process;
        let is_sent = analysis.stacks.is_by_task(trace, wake) || wakings.stack[wake].is_empty();
        (by == process && is_sent).then(|| wakings.time[wake])
    };
    let last = |thread: &ThreadId| {
        let mut sleeps = sleeps_before(analysis, *thread, until).take(MAX_SLEEPS);
        Some((*thread, sleeps.find_map(by_it)?))
    };
    let woken = analysis.threads_of(whom).iter().filter_map(last);
    woken.max_by_key(|(_, at)| *at)
}
