//! Who has the other end of the pipe or socket that a thread waits for.

use super::wait_class::{class_of, kept_wait};
use crate::family::descends;
use crate::timeline::{Segment, State};
use crate::{Analysis, WaitClass};
use unhitch_model::{
    Descriptor, DescriptorKind, Holder, KeptWait, ProcessId, ThreadId, Time, Window,
};

/// How long before a sleep its thread woke the one that it asked, at most, nanoseconds.
const MAX_BEFORE_NS: u64 = 10_000_000;
/// How long before a sleep one for the same ended, at most, nanoseconds.
const MAX_BACK_NS: u64 = 10_000_000_000;
/// Maximum threads that ask each other in turn.
pub(super) const MAX_ASKED: usize = 8;

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
    if most == 0 || !lasts_until_end(analysis, thread, sleep) {
        return None;
    }
    let process = |thread: ThreadId| analysis.trace.threads.get(thread).process;
    let since = Window::new(began(analysis, sleep), sleep.window.end);
    let before = || answered_before(analysis, thread, sleep);
    let asked = match (descriptor(analysis, sleep), class_of(analysis, sleep)) {
        (Some(_), _) => {
            let peer = only_peer(analysis, thread, sleep).or_else(before)?;
            // It may be too busy to have been woken.
            last_woken(analysis, thread, sleep, |woken| process(woken) == process(peer))
                .filter(|woken| *woken != thread)
                .or_else(|| only_worker(analysis, process(peer), since, most))
        }
        // It waits for any of several, such as in poll(2).
        (None, WaitClass::Network | WaitClass::Ipc | WaitClass::Idle) => {
            last_woken(analysis, thread, sleep, |woken| process(woken) != process(thread))
                .filter(|woken| analysis.contacts().are_mutual(analysis.trace, thread, *woken))
                .or_else(before)
        }
        (None, _) => None,
    };
    asked.filter(|asked| *asked != thread && works_mostly(analysis, *asked, since, most))
}

/// Who ended the last wait of a thread before `sleep` for the same: on the same descriptor, of which
/// several processes may have the other end; where the descriptor is not known, of the same class, by
/// another process.
fn answered_before(analysis: &Analysis<'_>, thread: ThreadId, sleep: &Segment) -> Option<ThreadId> {
    let trace = analysis.trace;
    let on = descriptor(analysis, sleep).map(|(_, on)| (on.kind, on.inode));
    let class = class_of(analysis, sleep);
    let is_same = |earlier: &Segment| match on {
        Some(_) => descriptor(analysis, earlier).map(|(_, on)| (on.kind, on.inode)) == on,
        None => class_of(analysis, earlier) == class,
    };
    let began = began(analysis, sleep);
    let before = analysis.segments(thread, Window::new(began.minus(MAX_BACK_NS), began));
    let earlier = before
        .iter()
        .rfind(|earlier| matches!(earlier.state, State::Sleeping(_)) && is_same(earlier))?;
    let wake = earlier.wake.filter(|wake| analysis.stacks.is_by_task(trace, *wake))?;
    let by = trace.wakings.waker[wake];
    let process = |thread: ThreadId| trace.threads.get(thread).process;
    let is_peer = if on.is_some() { by != thread } else { process(by) != process(thread) };
    is_peer.then_some(by)
}

/// The thread of its own process that a thread gave work to, and waits for in a sleep that has not
/// ended when the recording does, as far as can be told: the one that it woke last, or started,
/// before it waited for a condition, and that has worked since; or else the only one that has.
pub(super) fn helper_at_end(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    sleep: &Segment,
) -> Option<ThreadId> {
    if class_of(analysis, sleep) != WaitClass::Condition {
        return None;
    }
    let process = |thread: ThreadId| analysis.trace.threads.get(thread).process;
    let is_own = |woken: ThreadId| woken != thread && process(woken) == process(thread);
    let since = Window::new(began(analysis, sleep), sleep.window.end);
    last_woken(analysis, thread, sleep, is_own)
        .filter(|helper| works_mostly(analysis, *helper, since, MAX_ASKED))
        .or_else(|| only_worker(analysis, process(thread), since, MAX_ASKED))
        .filter(|helper| *helper != thread)
}

/// The only thread of a process that did not wait for requests for most of `window`.
fn only_worker(
    analysis: &Analysis<'_>,
    process: ProcessId,
    window: Window,
    most: usize,
) -> Option<ThreadId> {
    let all = (1..analysis.timeline.threads() as u32).map(ThreadId);
    let mut workers = all
        .filter(|thread| analysis.trace.threads.get(*thread).process == process)
        .filter(|thread| works_mostly(analysis, *thread, window, most));
    let only = workers.next()?;
    workers.next().is_none().then_some(only)
}

/// The program that answers a request to a file system of a program (FUSE): the only one that was seen
/// to wait for requests.
pub(super) fn file_server(analysis: &Analysis<'_>, sleep: &Segment) -> Option<ThreadId> {
    let (trace, stacks) = (analysis.trace, &analysis.stacks);
    if !stacks.asks_server(sleep.wait_stack(trace)) {
        return None;
    }
    let process = |thread: ThreadId| trace.threads.get(thread).process;
    let is_wait = |index: &usize| stacks.is_file_server(trace.switches.stack[*index]);
    let waits = (0..trace.switches.len()).rev().filter(is_wait);
    let earlier = trace.earlier_waits.iter().filter(|wait| stacks.is_file_server(wait.stack));
    let mut servers =
        waits.map(|index| trace.switches.prev[index]).chain(earlier.map(|wait| wait.thread));
    let server = servers.next()?;
    servers.all(|other| process(other) == process(server)).then_some(server)
}

/// True for a sleep that has not ended when the recording does.
pub(super) fn lasts_until_end(analysis: &Analysis<'_>, thread: ThreadId, sleep: &Segment) -> bool {
    let ended = || analysis.timeline.end_of_sleep(analysis.trace, thread, sleep);
    sleep.wake.is_none() && ended() >= analysis.timeline.window().end
}

/// When a sleep began, even if that was before the window that it was cut to.
pub(super) fn began(analysis: &Analysis<'_>, sleep: &Segment) -> Time {
    sleep.left(analysis.trace).unwrap_or(sleep.window.start)
}

/// The thread that `thread` woke last before it slept, of those that `select` accepts.
fn last_woken(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    sleep: &Segment,
    select: impl Fn(ThreadId) -> bool,
) -> Option<ThreadId> {
    let trace = analysis.trace;
    let began = began(analysis, sleep);
    let before = Window::new(began.minus(MAX_BEFORE_NS), began.plus(1));
    let woken = analysis.issued(thread, before).iter().rev();
    let mut woken = woken.map(|waking| trace.wakings.wakee[*waking as usize]);
    woken.find(|wakee| select(*wakee))
}

/// True if `thread` did not wait for requests for most of `window`, as far as is known.
pub(super) fn works_mostly(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    window: Window,
    most: usize,
) -> bool {
    let mut worked_ns = 0;
    analysis.timeline.each_segment(analysis.trace, thread, window, &mut |segment| {
        if works(analysis, thread, &segment, most) {
            worked_ns += segment.window.duration_ns();
        }
    });
    worked_ns * 2 > window.duration_ns()
}

/// True unless the thread waits for requests, as far as is known.
fn works(analysis: &Analysis<'_>, thread: ThreadId, segment: &Segment, most: usize) -> bool {
    match segment.state {
        State::Ran | State::Runnable { .. } => true,
        State::Unknown => false,
        State::Sleeping(_) => match class_of(analysis, segment) {
            WaitClass::Lock => true,
            _ if analysis.stacks.is_pump(segment.wait_stack(analysis.trace)) => false,
            WaitClass::Idle | WaitClass::KernelIdle => false,
            WaitClass::Network | WaitClass::Ipc | WaitClass::Condition | WaitClass::Unknown => {
                asked(analysis, thread, segment, most.saturating_sub(1)).is_some()
            }
            _ => true,
        },
    }
}
