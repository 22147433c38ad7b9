//! How a sleep ended: by its own timer, or not before the recording did.

use super::wait_class::class_of;
use crate::stacks::InterruptSource;
use crate::timeline::Segment;
use crate::{Analysis, WaitClass};
use unhitch_model::ThreadId;

/// True for a sleep that ended by its own timer. Where nobody is known to have ended a sleep
/// that only a thread or a timer ends, it was the timer (interrupts of an idle CPU may not be
/// reported).
pub(crate) fn timed_out(analysis: &Analysis<'_>, segment: &Segment) -> bool {
    match segment.wake() {
        Some(wake) => {
            let interrupt = analysis.stacks.wake_source(analysis.trace, wake).interrupt;
            matches!(interrupt, Some(InterruptSource::Timeout | InterruptSource::Alarm))
        }
        None => matches!(
            class_of(analysis, segment),
            WaitClass::Lock | WaitClass::Condition | WaitClass::Timer
        ),
    }
}

/// True for a wait for an answer that ended by its own timer.
pub(super) fn gave_up(analysis: &Analysis<'_>, sleep: &Segment) -> bool {
    let is_for_answer = || matches!(class_of(analysis, sleep), WaitClass::Network | WaitClass::Ipc);
    sleep.wake().is_some() && timed_out(analysis, sleep) && is_for_answer()
}

/// True for a sleep that has not ended when the recording does.
pub(super) fn lasts_until_end(analysis: &Analysis<'_>, thread: ThreadId, sleep: &Segment) -> bool {
    let ended = || analysis.timeline.end_of_sleep(analysis.trace, thread, sleep);
    sleep.wake().is_none() && ended() >= analysis.timeline.window().end
}
