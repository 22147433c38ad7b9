//! Waits for the end of a process: whose end, and which of its threads ended it.

use super::asked::{MAX_ASKED, asked_in_vain, works_mostly};
use super::sleeps::began;
use super::wait_class::{class_of, kept_wait};
use crate::timeline::Segment;
use crate::{Analysis, WaitClass};
use rustc_hash::FxHashSet;
use unhitch_model::{KeptWait, ThreadId, Window};

/// The process whose end a thread waits for in a sleep that has not ended when the recording does, by
/// its first thread: the one that its system call names, or else the only child, or the only one that
/// does not wait for requests itself, as all of a pipeline do but the slow one.
pub(super) fn awaited_process(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    sleep: &Segment,
) -> Option<ThreadId> {
    if class_of(analysis, sleep) != WaitClass::Process {
        return None;
    }
    let threads = &analysis.trace.threads;
    let end = analysis.timeline.window().end;
    if let Some(pid) = kept_wait(analysis, sleep).and_then(named_process) {
        return threads.at(pid, end);
    }
    match children(analysis, thread)[..] {
        [only] => Some(only),
        _ => working_child(analysis, thread, sleep),
    }
}

/// The only process that a thread's process started and that waited neither for requests in this sleep nor
/// for another one of them: whoever reads what a child writes, or waits for a thread that does, may not wait
/// for its end.
pub(super) fn working_child(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    sleep: &Segment,
) -> Option<ThreadId> {
    let since = Window::new(began(analysis, sleep), sleep.window.end);
    let all = children(analysis, thread);
    let among: FxHashSet<ThreadId> = all.iter().copied().collect();
    let works = |child: &ThreadId| works_mostly(analysis, *child, since, MAX_ASKED);
    let waits_for_another = |child: ThreadId| {
        let segments = analysis.segments(child, since).into_iter().filter(Segment::is_sleep);
        let longest = segments.max_by_key(|segment| segment.window.duration_ns());
        let asked = longest.and_then(|sleep| asked_in_vain(analysis, child, &sleep));
        let process = asked.map(|asked| analysis.trace.threads.process_of(asked).leader);
        process.is_some_and(|process| process != child && among.contains(&process))
    };
    let mut working = all.iter().copied().filter(works).filter(|child| !waits_for_another(*child));
    let only = working.next()?;
    working.next().is_none().then_some(only)
}

/// The processes that the process of `thread` started, and that live when the recording ends, by their
/// first threads.
fn children(analysis: &Analysis<'_>, thread: ThreadId) -> Vec<ThreadId> {
    let (threads, end) = (&analysis.trace.threads, analysis.timeline.window().end);
    let own = threads.process_of(thread).pid;
    let started = analysis.children_of(own).iter().map(|child| threads.process(*child));
    let leaders = started.map(|process| process.leader);
    leaders.filter(|leader| analysis.timeline.life(*leader).end >= end).collect()
}

/// The process that the call names, if it does not wait for any.
fn named_process(wait: &KeptWait) -> Option<u32> {
    const P_PID: u64 = 1;
    let [first, second] = wait.arguments;
    // By the call's number on x86-64, the only architecture on which it is noted.
    let pid = match wait.syscall? {
        // wait4
        61 => first as i32,
        // waitid
        247 if first == P_PID => second as i32,
        _ => return None,
    };
    u32::try_from(pid).ok().filter(|pid| *pid != 0)
}

/// The thread that ended a process, of which `last` was the last to exit: others only obeyed.
pub(super) fn who_ended(analysis: &Analysis<'_>, last: ThreadId) -> ThreadId {
    let (trace, threads) = (analysis.trace, &analysis.trace.threads);
    if threads.process_of(last).leader == last {
        return last;
    }
    let segments = analysis.segments(last, analysis.timeline.life(last));
    let is_sleep = |segment: &&Segment| segment.is_sleep();
    let wake = segments.iter().rfind(is_sleep).and_then(|sleep| sleep.wake());
    let signal = wake.filter(|wake| analysis.stacks.signals(trace.wakings.stack[*wake]));
    let sender = signal.map(|wake| trace.wakings.waker[wake]);
    let is_own = |sender: &ThreadId| threads.get(*sender).process == threads.get(last).process;
    sender.filter(is_own).unwrap_or(last)
}
