//! Who serves a disk that is a file itself (a loop device): a kernel worker, which reads or writes the
//! file, and may wait long for that. Its requests end in an interrupt, as those of any disk do: nobody
//! is seen to end the wait of whoever asked.

use super::ends::lasts_until_end;
use super::wait_class::class_of;
use crate::Analysis;
use crate::facts::requests;
use crate::stacks::classes::StackClasses;
use crate::timeline::Segment;
use std::cmp::Reverse;
use unhitch_model::{ThreadId, Trace, Window};

/// How soon after the wait of its worker a request is over, nanoseconds.
const OVER_WITHIN_NS: u64 = 20_000_000;

/// The threads that were seen to serve such disks.
pub(crate) fn disk_servers(trace: &Trace, stacks: &StackClasses) -> Vec<ThreadId> {
    let switches = &trace.switches;
    let at_switches = switches.stack.iter().zip(&switches.prev);
    let earlier = trace.earlier_waits.iter().map(|wait| (&wait.stack, &wait.thread));
    let waits = at_switches.chain(earlier).filter(|(stack, _)| stacks.serves_disk(**stack));
    let mut servers: Vec<ThreadId> = waits.map(|(_, thread)| *thread).collect();
    servers.sort_unstable();
    servers.dedup();
    servers
}

/// The worker that served the disk for which `thread` slept: one that itself waited for most of that
/// time, until about its end, for the file.
pub(super) fn disk_server_of(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    sleep: &Segment,
) -> Option<ThreadId> {
    if !class_of(analysis, sleep).is_disk() {
        return None;
    }
    let servers = analysis.disk_servers().iter().filter(|server| **server != thread);
    let waited = servers.filter_map(|server| Some((waited_ns(analysis, *server, sleep)?, *server)));
    let (ns, server) = waited.max_by_key(|&(ns, server)| (ns, Reverse(server)))?;
    let is_most = ns.saturating_mul(2) >= sleep.window.duration_ns();
    (is_most && !asked_other_disk(analysis, thread, sleep.window)).then_some(server)
}

/// How long `server` waited for its file during `sleep`, if that ended at about the end of the sleep,
/// or neither has ended.
fn waited_ns(analysis: &Analysis<'_>, server: ThreadId, sleep: &Segment) -> Option<u64> {
    let segments = analysis.segments(server, sleep.window);
    let is_wait = |segment: &&Segment| {
        segment.is_sleep() && analysis.stacks.serves_disk(segment.wait_stack(analysis.trace))
    };
    let last = segments.iter().rfind(is_wait)?;
    let is_over = last.window.end < sleep.window.end
        && last.window.end.plus(OVER_WITHIN_NS) >= sleep.window.end;
    let neither = || lasts_until_end(analysis, server, last);
    let waits = segments.iter().filter(is_wait);
    (is_over || neither()).then(|| waits.map(|wait| wait.window.duration_ns()).sum())
}

/// True if all that the thread is known to have asked for in that time was of disks that are no files.
fn asked_other_disk(analysis: &Analysis<'_>, thread: ThreadId, window: Window) -> bool {
    let requests = requests(analysis.trace, window);
    let mut own = requests.iter().filter(|request| request.asker == thread).peekable();
    own.peek().is_some() && own.all(|request| !request.disk.is_served_by_program())
}
