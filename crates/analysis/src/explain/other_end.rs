//! Who has the other end of the pipe or socket that a thread waits for.

use super::wait_class::kept_wait;
use crate::Analysis;
use crate::family::descends;
use crate::timeline::Segment;
use unhitch_model::{Descriptor, DescriptorKind, Holder, KeptWait, Polled, ThreadId};

/// What was noted of a sleep, if it was about a descriptor.
pub(crate) fn descriptor<'a>(
    analysis: &Analysis<'a>,
    sleep: &Segment,
) -> Option<(&'a KeptWait, &'a Descriptor)> {
    let wait = kept_wait(analysis, sleep)?;
    Some((wait, wait.descriptor.as_deref()?))
}

/// The only process that has the other end of what a thread waits on in this sleep, but for those that
/// it started; nothing if it is its own, which may be the one to answer, or if others may have that
/// end, too.
pub(crate) fn only_peer(
    analysis: &Analysis<'_>,
    sleeper: ThreadId,
    sleep: &Segment,
) -> Option<ThreadId> {
    let threads = &analysis.trace.threads;
    let (wait, on) = descriptor(analysis, sleep)?;
    // A connection is between two; a pipe may be open anywhere.
    if on.kind == DescriptorKind::Pipe && !analysis.trace.has_all_holders {
        return None;
    }
    let mut all = other_end(analysis, wait, on);
    if all.len() > 1 {
        // Its children only inherited it.
        let is_first = |one: &ThreadId| {
            all.iter().all(|other| descends(analysis, *other, *one, analysis.timeline.window().end))
        };
        all = all.iter().copied().filter(is_first).collect();
    }
    match all[..] {
        [only] if threads.get(only).process != threads.get(sleeper).process => Some(only),
        _ => None,
    }
}

/// The processes that are known to have the other end, by their first threads.
pub(crate) fn other_end(
    analysis: &Analysis<'_>,
    wait: &KeptWait,
    on: &Descriptor,
) -> Vec<ThreadId> {
    let is_nameless = analysis.trace.name(on.name).is_empty();
    match (on.kind, on.peer_inode) {
        (DescriptorKind::Pipe, _) if is_nameless => {
            let holders = holders(analysis, on.inode);
            let awaited = awaited(wait, on);
            processes(holders.filter(|holder| {
                awaited.to_read && holder.writes || awaited.to_write && holder.reads
            }))
        }
        (DescriptorKind::UnixSocket | DescriptorKind::InternetSocket, Some(inode)) => {
            processes(holders(analysis, inode))
        }
        _ => Vec::new(),
    }
}

/// Whether a wait is for data or for room; neither if that is not known. The numbers are those of x86-64,
/// the only architecture on which waits have descriptors.
fn awaited(wait: &KeptWait, on: &Descriptor) -> Polled {
    on.polled.unwrap_or(Polled {
        // read, readv, preadv2
        to_read: matches!(wait.syscall, Some(0 | 19 | 327)),
        // write, writev, pwritev2
        to_write: matches!(wait.syscall, Some(1 | 20 | 328)),
    })
}

/// Who had this inode open at the save.
pub(crate) fn holders<'a>(analysis: &Analysis<'a>, inode: u64) -> impl Iterator<Item = &'a Holder> {
    let all = &analysis.trace.holders;
    let first = all.partition_point(|holder| holder.inode < inode);
    all[first..].iter().take_while(move |holder| holder.inode == inode)
}

/// Each process once. Holders of one inode are sorted by process.
pub(crate) fn processes<'a>(holders: impl Iterator<Item = &'a Holder>) -> Vec<ThreadId> {
    let mut processes: Vec<ThreadId> = holders.map(|holder| holder.process).collect();
    processes.dedup();
    processes
}
