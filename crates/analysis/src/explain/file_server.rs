//! File systems that a program serves (FUSE).

use crate::stacks::classes::StackClasses;
use unhitch_model::{ThreadId, Trace};

/// The program that answers a request to a file system of a program (FUSE): the only one that was seen
/// to wait for requests.
pub(crate) fn file_server(trace: &Trace, stacks: &StackClasses) -> Option<ThreadId> {
    let process = |thread: ThreadId| trace.threads.get(thread).process;
    let is_wait = |index: &usize| stacks.is_file_server(trace.switches.stack[*index]);
    let waits = (0..trace.switches.len()).rev().filter(is_wait);
    let earlier = trace.earlier_waits.iter().filter(|wait| stacks.is_file_server(wait.stack));
    let mut servers =
        waits.map(|index| trace.switches.prev[index]).chain(earlier.map(|wait| wait.thread));
    let server = servers.next()?;
    servers.all(|other| process(other) == process(server)).then_some(server)
}
