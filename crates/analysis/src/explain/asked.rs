//! Who works on what a thread asked for, in a sleep that no answer ended: the recording ends first, or the
//! thread gave up.

use super::ends::{gave_up, lasts_until_end};
use super::loops::{last_woken_by, loop_peers};
use super::other_end::{descriptor, only_peer};
use super::sleeps::{began, sleeps_before, whole};
use super::wait_class::class_of;
use crate::timeline::{Segment, State};
use crate::{Analysis, WaitClass};
use unhitch_model::{Descriptor, ProcessId, ThreadId, Time, Window};

/// How long before a sleep its thread woke the one that it asked, at most, nanoseconds.
const MAX_BEFORE_NS: u64 = 10_000_000;
/// Maximum threads that ask each other in turn.
pub(super) const MAX_ASKED: usize = 8;

/// Who works on what a thread asked for, in a sleep that no answer ended: of the process at the other end,
/// the thread that it woke last before it slept, or the only one that works; where the descriptor is not
/// known, the process that it woke last, or that answered before. One that rests has answered, or handed
/// the request on, or nobody asked it.
pub(crate) fn asked_in_vain(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    sleep: &Segment,
) -> Option<ThreadId> {
    asked(analysis, thread, sleep, MAX_ASKED)
}

/// The same for a chain of `most` threads at most, each of which asked the next. *Why answers are kept:*
/// those who ask each other would be followed along every path between them.
fn asked(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    sleep: &Segment,
    most: usize,
) -> Option<ThreadId> {
    let is_unanswered = || gave_up(analysis, sleep) || lasts_until_end(analysis, thread, sleep);
    if most == 0 || !is_unanswered() {
        return None;
    }
    let sleep = &whole(analysis, thread, sleep);
    let since = Window::new(began(analysis, sleep), sleep.window.end);
    let find = || asked_since(analysis, thread, sleep, (since, most));
    analysis.memos.asked.answer((thread, since, most), find)
}

/// The same of a sleep that nobody answered in `since`.
fn asked_since(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    sleep: &Segment,
    (since, most): (Window, usize),
) -> Option<ThreadId> {
    let process = |thread: ThreadId| analysis.trace.threads.get(thread).process;
    let before = || answered_before(analysis, thread, sleep);
    let class = class_of(analysis, sleep);
    let is_unanswered_loop =
        |process: ProcessId| asked_by_loop(analysis, process, since, most - 1).is_some();
    let by_loop = || {
        let is_idle = class == WaitClass::Idle && !gave_up(analysis, sleep);
        is_idle.then(|| asked_by_loop(analysis, process(thread), since, most - 1)).flatten()
    };
    let at_other_end = || {
        let peer = only_peer(analysis, thread, sleep).or_else(before)?;
        // It may be too busy to have been woken.
        last_woken(analysis, thread, sleep, |woken| process(woken) == process(peer))
            .filter(|woken| *woken != thread)
            .or_else(|| only_worker(analysis, process(peer), since, most))
            .or_else(|| is_unanswered_loop(process(peer)).then_some(peer))
    };
    // It waits for any of several, such as in poll(2).
    let by_habit = || {
        last_woken(analysis, thread, sleep, |woken| process(woken) != process(thread))
            .filter(|woken| {
                analysis.contacts().are_mutual(analysis.trace, thread, *woken)
                    || seems_to_answer(analysis, thread, *woken, since.start)
            })
            .or_else(before)
    };
    let is_polled = |(_, on): (_, &Descriptor)| on.polled.is_some();
    let asked = match (descriptor(analysis, sleep).map(is_polled), class) {
        (Some(true), WaitClass::Network | WaitClass::Ipc | WaitClass::Idle) => {
            at_other_end().or_else(by_habit)
        }
        (Some(_), _) => at_other_end(),
        (None, WaitClass::Network | WaitClass::Ipc | WaitClass::Idle) => {
            by_loop().or_else(by_habit)
        }
        (None, _) => None,
    };
    let asked = asked.filter(|asked| *asked != thread)?;
    if works_mostly(analysis, asked, since, most) || is_unanswered_loop(process(asked)) {
        return Some(asked);
    }
    // It may have handed the request on. An event loop waits for more than that.
    let worker = || only_worker(analysis, process(asked), since, most);
    let is_for_answer = class != WaitClass::Idle && process(asked) != process(thread);
    is_for_answer.then(worker).flatten()
}

/// Of the processes that the event loops of `process` may have asked, the only one that is at work since
/// then, or else in `since`: by the thread that they woke last, the only one that works, or its first one
/// if it is stopped. `most`: of how many processes each may have asked the next.
pub(super) fn asked_by_loop(
    analysis: &Analysis<'_>,
    process: ProcessId,
    since: Window,
    most: usize,
) -> Option<ThreadId> {
    let most = most.checked_sub(1)?;
    analysis.memos.asked_by_loop.answer((process, since, most), || {
        let peers = loop_peers(analysis, process);
        let mut workers =
            peers.iter().filter_map(|peer| worker(analysis, process, *peer, (since, most)));
        let only = workers.next()?;
        workers.next().is_none().then_some(only)
    })
}

/// Who works for the event loops of `process` in that of `peer`.
fn worker(
    analysis: &Analysis<'_>,
    process: ProcessId,
    peer: ThreadId,
    (since, most): (Window, usize),
) -> Option<ThreadId> {
    let of_peer = analysis.trace.threads.get(peer).process;
    let woken = last_woken_by(analysis, process, of_peer, since.end);
    let works = |&(thread, at): &(ThreadId, Time)| {
        works_mostly(analysis, thread, Window::new(at, since.end), most)
    };
    let is_stopped = || {
        let last = Window::new(since.end.minus(1), since.end);
        let last = analysis.segments(peer, last).pop();
        last.is_some_and(|last| class_of(analysis, &last) == WaitClass::Stopped)
    };
    let hands_on = || asked_by_loop(analysis, of_peer, since, most).is_some();
    woken
        .filter(works)
        .map(|(thread, _)| thread)
        .or_else(|| only_worker(analysis, of_peer, since, most))
        .or_else(|| is_stopped().then_some(peer))
        .or_else(|| hands_on().then(|| woken.map_or(peer, |(thread, _)| thread)))
}

/// Who ended the last wait of a thread before `sleep` for the same: on the same descriptor, of which
/// several processes may have the other end; where the descriptor is not known, of the same class, by
/// another process.
fn answered_before(analysis: &Analysis<'_>, thread: ThreadId, sleep: &Segment) -> Option<ThreadId> {
    let trace = analysis.trace;
    let described = descriptor(analysis, sleep).map(|(_, on)| on);
    let class = class_of(analysis, sleep);
    let is_same = |earlier: &Segment| match (described, descriptor(analysis, earlier)) {
        (Some(on), Some((_, earlier))) => (on.kind, on.inode) == (earlier.kind, earlier.inode),
        // What a short poll was about is not noted.
        (Some(on), None) if on.polled.is_none() => false,
        _ => class_of(analysis, earlier) == class,
    };
    let earlier = sleeps_before(analysis, thread, began(analysis, sleep)).find(is_same)?;
    let wake = earlier.wake().filter(|wake| analysis.stacks.is_by_task(trace, *wake))?;
    let by = trace.wakings.waker[wake];
    let process = |thread: ThreadId| trace.threads.get(thread).process;
    let is_exact = described.is_some_and(|on| on.polled.is_none());
    let is_peer = if is_exact { by != thread } else { process(by) != process(thread) };
    is_peer.then_some(by)
}

/// True if the process of `other` seems to have answered `thread`, as a server of the same machine does by
/// a socket: in a soft interrupt of its own. Of the wake-ups that end short waits, no stack tells such an
/// interrupt from another; but these came while that process ran, and `thread` had just woken it.
fn seems_to_answer(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    other: ThreadId,
    until: Time,
) -> bool {
    /// Minimum answers.
    const MIN_ANSWERS: usize = 2;
    /// Maximum waits that are looked through.
    const MAX_WAITS: usize = 1000;
    let (trace, wakings) = (analysis.trace, &analysis.trace.wakings);
    let process = |thread: ThreadId| trace.threads.get(thread).process;
    let is_asked = |began: Time| {
        let before = Window::new(began.minus(MAX_BEFORE_NS), began.plus(1));
        let mut woken = analysis.issued(thread, before).iter();
        woken.any(|wake| process(wakings.wakee[*wake as usize]) == process(other))
    };
    let is_answer = |sleep: &Segment| {
        let unknown = sleep.wake().filter(|wake| {
            wakings.stack[*wake].is_empty() && !analysis.stacks.is_by_task(trace, *wake)
        });
        unknown.is_some_and(|wake| {
            let current = wakings.waker[wake];
            !current.is_idle() && process(current) == process(other) && is_asked(sleep.window.start)
        })
    };
    let sleeps = sleeps_before(analysis, thread, until).take(MAX_WAITS);
    sleeps.filter(is_answer).take(MIN_ANSWERS).count() == MIN_ANSWERS
}

/// The only thread of a process that did not wait for requests for most of `window`. *Why not a whole
/// chain of who asked whom from each:* in two crowds that ask each other, there would be millions.
pub(super) fn only_worker(
    analysis: &Analysis<'_>,
    process: ProcessId,
    window: Window,
    most: usize,
) -> Option<ThreadId> {
    const MOST: usize = 2;
    let most = most.min(MOST);
    analysis.memos.only_worker.answer((process, window, most), || {
        let all = analysis.threads_of(process).iter().copied();
        let mut workers = all.filter(|thread| works_mostly(analysis, *thread, window, most));
        let only = workers.next()?;
        workers.next().is_none().then_some(only)
    })
}

/// The thread that `thread` woke last before it slept, of those that `select` accepts.
pub(super) fn last_woken(
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
    let mut worked_ns = 0u64;
    analysis.timeline.each_segment(analysis.trace, thread, window, &mut |segment| {
        if works(analysis, thread, &segment, most) {
            worked_ns += segment.window.duration_ns();
        }
    });
    worked_ns.saturating_mul(2) > window.duration_ns()
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
