//! Which processes a process started.

use crate::Analysis;
use unhitch_model::{ThreadId, Time};

/// Maximum generations.
const MAX_DEPTH: usize = 32;

/// True if the process of `thread` is that of `ancestor`, or one that it started, or one that such a
/// one started, and so on, at the time `at`.
pub(super) fn descends(
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
