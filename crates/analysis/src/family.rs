//! Which processes a process started.

use crate::Analysis;
use rustc_hash::{FxHashMap, FxHashSet};
use unhitch_model::{ProcessId, ThreadId, Time, Trace};

/// Maximum generations.
const MAX_DEPTH: usize = 32;

/// True if the process of `thread` is that of `ancestor`, or one that it started, or one that such a
/// one started, and so on, at the time `at`.
pub(crate) fn descends(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    ancestor: ThreadId,
    at: Time,
) -> bool {
    let threads = &analysis.trace.threads;
    let wanted = threads.get(ancestor).process;
    let line = std::iter::successors(Some(thread), |&child| {
        threads.at(threads.process_of(child).parent_pid?, at)
    });
    line.take(MAX_DEPTH).any(|one| threads.get(one).process == wanted)
}

/// Process `pid`, and all that it started, directly or through others.
pub fn descendants(trace: &Trace, pid: u32) -> FxHashSet<ProcessId> {
    let mut children: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
    for (_, process) in trace.threads.processes() {
        if let Some(parent) = process.parent_pid {
            children.entry(parent).or_default().push(process.pid);
        }
    }
    let (mut pids, mut next) = (FxHashSet::default(), vec![pid]);
    while let Some(pid) = next.pop() {
        if pids.insert(pid) {
            next.extend(children.get(&pid).into_iter().flatten());
        }
    }
    let processes = trace.threads.processes();
    processes.filter(|(_, process)| pids.contains(&process.pid)).map(|(id, _)| id).collect()
}
