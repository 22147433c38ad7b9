//! Who has the other end of the pipe or socket that a thread waits for.

use super::wait_class::{class_of, kept_wait};
use crate::timeline::{Segment, State};
use crate::{Analysis, WaitClass};
use unhitch_model::{Descriptor, DescriptorKind, Holder, KeptWait, ThreadId, Window};

/// How long before a sleep its thread woke the one that it asked, at most, nanoseconds.
const MAX_BEFORE_NS: u64 = 10_000_000;
/// Maximum threads that ask each other in turn.
const MAX_ASKED: usize = 8;

/// What was noted of a sleep, if it was about a descriptor.
pub(crate) fn descriptor<'a>(
    analysis: &Analysis<'a>,
    sleep: &Segment,
) -> Option<(&'a KeptWait, &'a Descriptor)> {
    let wait = kept_wait(analysis, sleep)?;
    Some((wait, wait.descriptor.as_deref()?))
}

/// The only process that has the other end of what a thread waits on in this sleep; nothing if
/// it is its own, which may be the one to answer, or if others may have that end, too.
pub(crate) fn only_peer(
    analysis: &Analysis<'_>,
    sleeper: ThreadId,
    sleep: &Segment,
) -> Option<ThreadId> {
    let threads = &analysis.trace.threads;
    let (wait, on) = descriptor(analysis, sleep).filter(|_| analysis.trace.has_all_holders)?;
    match other_end(analysis, wait, on)[..] {
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
            processes(holders.filter(|holder| match Direction::of(wait) {
                Some(Direction::Read) => holder.writes,
                Some(Direction::Write) => holder.reads,
                None => false,
            }))
        }
        (DescriptorKind::UnixSocket | DescriptorKind::InternetSocket, Some(inode)) => {
            processes(holders(analysis, inode))
        }
        _ => Vec::new(),
    }
}

/// Where a system call moves data.
enum Direction {
    Read,
    Write,
}

impl Direction {
    /// By the call's number on x86-64, the only architecture on which waits have descriptors.
    fn of(wait: &KeptWait) -> Option<Self> {
        match wait.syscall? {
            // read, readv, preadv2
            0 | 19 | 327 => Some(Self::Read),
            // write, writev, pwritev2
            1 | 20 | 328 => Some(Self::Write),
            _ => None,
        }
    }
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

/// Who works on what a thread asked for, in a sleep that has not ended when the recording does: of
/// the only process at the other end, the thread that it woke last before it slept. One that rests
/// has answered, or nobody asked it.
pub(crate) fn asked_at_end(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    sleep: &Segment,
) -> Option<ThreadId> {
    asked(analysis, thread, sleep, MAX_ASKED)
}

/// The same for a chain of `most` threads at most, each of which asked the next.
fn asked(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    sleep: &Segment,
    most: usize,
) -> Option<ThreadId> {
    let trace = analysis.trace;
    let ended = || analysis.timeline.end_of_sleep(trace, thread, sleep);
    if most == 0 || sleep.wake.is_some() || ended() < analysis.timeline.window().end {
        return None;
    }
    let peer = trace.threads.get(only_peer(analysis, thread, sleep)?).process;
    let began = sleep.left(trace).unwrap_or(sleep.window.start);
    let before = Window::new(began.minus(MAX_BEFORE_NS), began.plus(1));
    let woken = analysis.issued(thread, before).iter().rev();
    let mut woken = woken.map(|waking| trace.wakings.wakee[*waking as usize]);
    let asked = woken.find(|wakee| trace.threads.get(*wakee).process == peer)?;
    let since = Window::new(began, sleep.window.end);
    let mut worked_ns = 0;
    analysis.timeline.each_segment(trace, asked, since, &mut |segment| {
        if works(analysis, asked, &segment, most) {
            worked_ns += segment.window.duration_ns();
        }
    });
    (worked_ns * 2 > since.duration_ns()).then_some(asked)
}

/// True unless the thread waits for requests, as far as is known.
fn works(analysis: &Analysis<'_>, thread: ThreadId, segment: &Segment, most: usize) -> bool {
    match segment.state {
        State::Ran | State::Runnable { .. } => true,
        State::Unknown => false,
        State::Sleeping(_) if analysis.stacks.is_pump(segment.wait_stack(analysis.trace)) => false,
        State::Sleeping(_) => match class_of(analysis, segment) {
            WaitClass::Idle | WaitClass::KernelIdle => false,
            WaitClass::Network | WaitClass::Ipc | WaitClass::Condition | WaitClass::Unknown => {
                asked(analysis, thread, segment, most - 1).is_some()
            }
            _ => true,
        },
    }
}
