//! Who holds a lock of PostgreSQL that nobody has released when the recording ends. The lock's table is not
//! recorded; but a backend says in its title whether it is in a transaction without doing anything.

use super::wait_class::class_of;
use crate::Analysis;
use crate::WaitClass;
use crate::timeline::Segment;
use unhitch_model::{StackId, ThreadId};

/// The only backend that was idle in a transaction at the save, for one that waits for a lock of
/// PostgreSQL. *Why only one*: which of several holds the lock is not known.
pub(super) fn idle_in_transaction(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    sleep: &Segment,
) -> Option<ThreadId> {
    let (trace, threads) = (analysis.trace, &analysis.trace.threads);
    let is_lock = class_of(analysis, sleep) == WaitClass::Lock;
    if !is_lock || !is_of_transaction(analysis, sleep.wait_stack(trace)) {
        return None;
    }
    let end = analysis.timeline.window().end;
    let own_parent = threads.process_of(thread).parent_pid;
    let mut idle = threads.processes().map(|(_, process)| process).filter(|process| {
        let title = trace.name(process.command_line);
        let is_of_other_server = own_parent.zip(process.parent_pid).is_some_and(|(a, b)| a != b);
        title.starts_with("postgres: ")
            && title.contains(" idle in transaction")
            && !is_of_other_server
            && analysis.timeline.life(process.leader).end >= end
    });
    let only = idle.next()?.leader;
    (idle.next().is_none() && only != thread).then_some(only)
}

/// True for a wait for a lock of PostgreSQL that a transaction keeps to its end: not a lightweight one, which
/// is held only by who works, nor an advisory one, which a session may keep.
pub(crate) fn is_of_transaction(analysis: &Analysis<'_>, wait_stack: StackId) -> bool {
    let words = analysis.stacks.words(wait_stack).unwrap_or_default();
    words.ends_with(" of PostgreSQL")
        && !["lightweight lock", "advisory lock"].iter().any(|other| words.starts_with(other))
}
