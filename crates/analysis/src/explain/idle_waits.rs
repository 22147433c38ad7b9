//! Event loops: which of their events mattered.
//!
//! A thread that waits for any event, and wakes somebody after one, would have done so whenever that
//! event had come. What came before has nothing to do with it, or led to it: then who sent the event
//! had been woken by this thread, and the chain leads back here by itself.

use super::owners::ended_by;
use super::wait_class::class_of;
use crate::Analysis;
use crate::stacks::WaitClass;
use crate::timeline::{Segment, State};
use unhitch_model::{ThreadId, Time};

/// An event loop that did something else for more than one part in this many of the time was not
/// waiting for the event.
const BUSY: u64 = 8;

/// Lets the wait for the last event before `end` cover the waits before it, with the little that
/// `thread` did in between. *Why only if it did little*: who sends the event may have been busy all
/// that time, and was asked late.
pub(super) fn join_idle_waits(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    segments: &mut Vec<Segment>,
    end: Time,
) {
    let is_sleep = |segment: &Segment| matches!(segment.state, State::Sleeping(_));
    let is_idle =
        |segment: &Segment| is_sleep(segment) && class_of(analysis, segment) == WaitClass::Idle;
    let ended = |segment: &Segment| segment.window.end < end;
    let Some(last) = segments.iter().rposition(|segment| is_sleep(segment) && ended(segment))
    else {
        return;
    };
    let is_by_task = segments[last].wake.is_some()
        && ended_by(analysis, thread, &segments[last])
            .is_some_and(|(by, _)| by != thread && !by.is_idle());
    if !is_idle(&segments[last]) || !is_by_task {
        return;
    }
    let (mut first, mut busy_ns) = (last, 0);
    for at in (0..last).rev() {
        let segment = &segments[at];
        if segment.state == State::Unknown {
            break;
        }
        if !is_idle(segment) {
            busy_ns += segment.window.duration_ns();
        } else if busy_ns * BUSY <= segments[last].window.end.since(segment.window.start) {
            first = at;
        }
    }
    segments[last].window.start = segments[first].window.start;
    segments.drain(first..last);
}
