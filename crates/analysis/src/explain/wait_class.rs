//! The class of one sleep.

use crate::Analysis;
use crate::stacks::WaitClass;
use crate::timeline::{Segment, State};
use unhitch_model::{KeptWait, StackId, TaskState};

/// The class of a sleep, from its wait stack and the stack that ended it.
pub fn class_of(analysis: &Analysis<'_>, segment: &Segment) -> WaitClass {
    let by_task = |wake: &usize| analysis.stacks.is_by_task(analysis.trace, *wake);
    let wake_stack = segment
        .wake()
        .filter(by_task)
        .map_or(StackId::EMPTY, |wake| analysis.trace.wakings.stack[wake]);
    let has_owner = || kept_wait(analysis, segment).is_some_and(|wait| wait.owner.is_some());
    match segment.state {
        State::Sleeping(TaskState::Stopped | TaskState::Traced) => WaitClass::Stopped,
        State::Sleeping(TaskState::Idle | TaskState::Parked) => WaitClass::KernelIdle,
        _ => {
            match analysis.stacks.class_with_wake(segment.wait_stack(analysis.trace), wake_stack) {
                // Only a lock says who holds it.
                WaitClass::Unknown | WaitClass::Condition if has_owner() => WaitClass::Lock,
                WaitClass::Unknown => class_by_reason(analysis, segment),
                class => class,
            }
        }
    }
}

/// What the recorder noted of a sleep when it began, if it did.
pub(crate) fn kept_wait<'a>(analysis: &Analysis<'a>, segment: &Segment) -> Option<&'a KeptWait> {
    let trace = analysis.trace;
    let key = match (segment.out(), segment.earlier_wait(trace)) {
        (Some(out), _) => (*trace.switches.prev.get(out)?, *trace.switches.time.get(out)?),
        (None, earlier) => earlier.map(|earlier| (earlier.thread, earlier.since))?,
    };
    let of_thread = analysis.kept_waits(key.0);
    let at = of_thread.binary_search_by_key(&key.1, |wait| wait.time);
    of_thread.get(at.ok()?)
}

/// The class by Windows' own reason, for a sleep whose stack is missing or has no names.
fn class_by_reason(analysis: &Analysis<'_>, segment: &Segment) -> WaitClass {
    let reason = segment.out().and_then(|out| analysis.trace.switches.prev_reason.get(out));
    reason.map_or(WaitClass::Unknown, |reason| WaitClass::of_reason(reason.number()))
}
