//! The class of one sleep.

use crate::Analysis;
use crate::stacks::WaitClass;
use crate::timeline::{Segment, State};
use unhitch_model::{StackId, TaskState};

/// The class of a sleep, from its wait stack and the stack that ended it.
pub fn class_of(analysis: &Analysis<'_>, segment: &Segment) -> WaitClass {
    let by_task = |wake: &usize| analysis.stacks.is_by_task(analysis.trace, *wake);
    let wake_stack = segment
        .wake
        .filter(by_task)
        .map_or(StackId::EMPTY, |wake| analysis.trace.wakings.stack[wake]);
    match segment.state {
        State::Sleeping(TaskState::Stopped | TaskState::Traced) => WaitClass::Stopped,
        State::Sleeping(TaskState::Idle | TaskState::Parked) => WaitClass::KernelIdle,
        _ => {
            match analysis.stacks.class_with_wake(segment.wait_stack(analysis.trace), wake_stack) {
                WaitClass::Unknown => class_by_reason(analysis, segment),
                class => class,
            }
        }
    }
}

/// The class by Windows' own reason, for a sleep whose stack is missing or has no names.
fn class_by_reason(analysis: &Analysis<'_>, segment: &Segment) -> WaitClass {
    let reason = segment.out.and_then(|out| analysis.trace.switches.prev_reason.get(out));
    reason.map_or(WaitClass::Unknown, |reason| WaitClass::of_reason(reason.number()))
}
