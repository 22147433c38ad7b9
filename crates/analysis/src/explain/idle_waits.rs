//! Event loops and the workers of a pool: which of their events mattered.
//!
//! A thread that waits for any event, or for any work, and wakes somebody after one, would have done so
//! whenever that event had come. What came before has nothing to do with it, or led to it: then who sent
//! the event had been woken by this thread, and the chain leads back here by itself.

use super::asked::{MAX_ASKED, asked_by_loop};
use super::ends::{lasts_until_end, timed_out};
use super::loops::last_woken_by;
use super::owners::ended_by;
use super::sleeps::began;
use super::timed_waits::BUSY;
use super::wait_class::class_of;
use crate::Analysis;
use crate::stacks::WaitClass;
use crate::stacks::classes::{WakeContext, WakeSource};
use crate::timeline::{Segment, State};
use std::cell::OnceCell;
use unhitch_model::{ThreadId, Time, Window};

/// A kernel worker is shared: before it was given the work that mattered, it rested or did what others
/// had given to it. So all of that is a wait for whoever gave it that work. False for other threads,
/// and where an interrupt did.
fn join_worker_waits(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    segments: &mut Vec<Segment>,
    end: Time,
) -> bool {
    // One that lasts until the end comes after that work.
    let is_rest = |segment: &Segment| {
        segment.is_sleep()
            && segment.window.end < end
            && class_of(analysis, segment) == WaitClass::KernelIdle
    };
    if !analysis.trace.thread_name(thread, end).starts_with("kworker/") {
        return false;
    }
    let Some(last) = segments.iter().rposition(is_rest) else { return false };
    let giver = ended_by(analysis, thread, &segments[last]);
    if !giver.is_some_and(|(by, source)| by != thread && source.context.is_task()) {
        return false;
    }
    segments[last].window.start = segments[0].window.start;
    segments.drain(..last);
    true
}

/// Lets the wait for the last event before `end` cover the waits before it, with the little that
/// `thread` did in between. *Why only if it did little, and did not ask*: who sends the event may have
/// been busy all that time, and was asked late. Where that event came from outside, so that nobody
/// knows when it was asked for, the same goes for the event before which is not a client's.
pub(super) fn join_idle_waits(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    segments: &mut Vec<Segment>,
    end: Time,
) {
    if join_worker_waits(analysis, thread, segments, end) {
        return;
    }
    let mut covered = vec![false; segments.len()];
    let mut len = Some(segments.len());
    while let Some(until) = len {
        let Some(joined) = last_wait(analysis, thread, segments, (until, end)) else { break };
        segments[joined.last].window.start = segments[joined.first].window.start;
        covered[joined.first..joined.last].fill(true);
        len = joined.depends;
    }
    // All at once: a loop may have a million waits that each depend on the one before.
    let mut covered = covered.into_iter();
    segments.retain(|_| covered.next() == Some(false));
}

/// A wait for any event and those before it that it covers, by their places among the segments.
struct Joined {
    first: usize,
    last: usize,
    /// How many segments come before it, up to the event on which it may depend.
    depends: Option<usize>,
}

/// The last wait of the first `until` segments, if it is one of an event loop or for work.
fn last_wait(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    segments: &[Segment],
    (until, end): (usize, Time),
) -> Option<Joined> {
    let is_sleep = |segment: &Segment| segment.is_sleep();
    let last = segments.get(..until)?.iter().rposition(is_sleep)?;
    let wait = &segments[last];
    let (class, stack) = (class_of(analysis, wait), wait.wait_stack(analysis.trace));
    let is_for_work = class == WaitClass::Condition;
    if !(class == WaitClass::Idle || is_for_work) || wait.window.end >= end || wait.wake().is_none()
    {
        return None;
    }
    // Whatever ends an event loop's waits, each is for any event. A worker may wait for other things in
    // other places.
    let is_idle = |segment: &Segment| {
        let is_there = || analysis.stacks.is_same_caller(stack, segment.wait_stack(analysis.trace));
        is_sleep(segment) && class_of(analysis, segment) == class && (!is_for_work || is_there())
    };
    let ended = ended_by(analysis, thread, wait);
    // A kernel worker is shared: what it did before has nothing to do with this event.
    let is_own_or_shared = |(by, source): (ThreadId, WakeSource)| {
        by == thread || by.is_idle() || source.context == WakeContext::Worker
    };
    if ended.map_or(is_for_work, is_own_or_shared) {
        return None;
    }
    let by = ended.map(|(by, _)| by);
    let born = by.map_or(Time::ZERO, |by| analysis.timeline.life(by).start);
    let ended_at = wait.window.end;
    let process = |thread: ThreadId| analysis.trace.threads.get(thread).process;
    let wakings = &analysis.trace.wakings;
    let woken = |window: Window, whom: ThreadId| {
        let woken = analysis.issued(thread, window).iter().map(|wake| *wake as usize);
        woken.filter(move |wake| process(wakings.wakee[*wake]) == process(whom))
    };
    let wakes = |window: Window, whom: ThreadId| woken(window, whom).next().is_some();
    let asks = |window: Window, whom: ThreadId| {
        woken(window, whom).find(|wake| !analysis.stacks.closes(wakings.stack[*wake]))
    };
    let is_foreign = |other: ThreadId| process(other) != process(thread);
    let asked = |segment: &Segment| {
        by.is_some_and(|by| is_foreign(by) && asks(segment.window, by).is_some())
    };
    // A client got its answer, and no more.
    let is_of_client = |segment: &Segment, until: Time| {
        let client = ended_by(analysis, thread, segment).map(|(client, _)| client);
        client.is_none_or(|client| {
            is_foreign(client) && wakes(Window::new(segment.window.end, until), client)
        })
    };
    let first_asked = OnceCell::new();
    let first_asked = || {
        let all = Window::new(segments[0].window.start, wait.window.start);
        *first_asked.get_or_init(|| asks(all, by?).map(|wake| wakings.time[wake]))
    };
    // By a timer of its own, and not for the first time: the event may answer what it had asked before.
    let asked_again = |at: usize| {
        let before = segments[..at].iter().rev().find(|segment| is_sleep(segment));
        let asked_before = |time: Time| first_asked().is_some_and(|first| first < time);
        before.is_some_and(|sleep| timed_out(analysis, sleep) && asked_before(sleep.window.start))
    };
    let (mut first, mut busy_ns, mut next) = (last, 0u64, wait.window.start);
    let mut depends = None;
    for at in (0..last).rev() {
        let segment = &segments[at];
        // The first wait of interest may have begun before who ended the last was born, but not ended.
        if segment.state == State::Unknown || segment.window.end <= born {
            break;
        }
        if is_idle(segment) {
            if by.is_none() && !is_of_client(segment, next) {
                depends = Some(at + 1);
                break;
            }
            next = segment.window.start;
            let since = Window::new(segment.window.end, ended_at);
            if busy_ns.saturating_mul(BUSY) <= since.duration_ns() {
                first = at;
            }
        } else {
            busy_ns += segment.window.duration_ns();
            if asked(segment) && !asked_again(at) {
                // What made it ask is an event of its own.
                depends = Some(at);
                break;
            }
        }
    }
    Some(Joined { first, last, depends })
}

/// Of an event loop that has not answered when the recording ends: lets its last sleep, which it had not
/// ended then, cover the sleeps of `segments`, with the little that it did in between, back to when it
/// asked whom it waits for. False for others.
pub(super) fn join_unanswered(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    segments: &mut Vec<Segment>,
) -> bool {
    let Some(until) = segments.last().map(|last| last.window.end) else { return false };
    let end = analysis.timeline.window().end;
    let last = analysis.segments(thread, Window::new(end.minus(1), end)).pop();
    let is_idle = |sleep: &Segment| {
        sleep.is_sleep()
            && class_of(analysis, sleep) == WaitClass::Idle
            && lasts_until_end(analysis, thread, sleep)
    };
    let Some(mut last) = last.filter(is_idle) else { return false };
    let process = analysis.trace.threads.get(thread).process;
    let since = Window::new(began(analysis, &last), end);
    let Some(by) = asked_by_loop(analysis, process, since, MAX_ASKED) else { return false };
    let of_it = analysis.trace.threads.get(by).process;
    let asked = last_woken_by(analysis, process, of_it, end).map_or(Time::ZERO, |(_, at)| at);
    let (mut first, mut busy_ns) = (None, 0u64);
    for (at, segment) in segments.iter().enumerate().rev() {
        if segment.state == State::Unknown || segment.window.start < asked {
            break;
        }
        if !segment.is_sleep() {
            busy_ns += segment.window.duration_ns();
        } else if busy_ns.saturating_mul(BUSY) <= until.since(segment.window.start) {
            first = Some(at);
        }
    }
    let Some(first) = first else { return false };
    last.window = Window::new(segments[first].window.start, until);
    segments.truncate(first);
    segments.push(last);
    true
}
