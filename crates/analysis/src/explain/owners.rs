//! Who ended a sleep, and who owned the lock before that thread did.

use super::acquisition::acquisition;
use super::asked::asked_in_vain;
use super::awaited::awaited_at_end;
use super::ends::gave_up;
use super::explanation::Hop;
use super::processes::who_ended;
use super::wait_class::{class_of, kept_wait};
use crate::stacks::classes::{WakeContext, WakeSource};
use crate::timeline::Segment;
use crate::{Analysis, WaitClass};
use unhitch_model::{ThreadId, Time, Window};

/// The task that ended a sleep; where the recording ends first, the one that owns what it waits for,
/// or was asked for it.
pub(super) fn ended_by(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    segment: &Segment,
) -> Option<(ThreadId, WakeSource)> {
    let by_task = |owner| (owner, WakeSource { context: WakeContext::Task, interrupt: None });
    let Some(wake) = segment.wake() else {
        return awaited_at_end(analysis, thread, segment).map(by_task);
    };
    if signalled_by(analysis, segment).is_some() {
        return kept_wait(analysis, segment)?.owner.map(by_task);
    }
    if gave_up(analysis, segment) {
        return asked_in_vain(analysis, thread, segment).map(by_task);
    }
    let source = analysis.stacks.wake_source(analysis.trace, wake);
    let waker = analysis.trace.wakings.waker[wake];
    source.context.is_task().then(|| match class_of(analysis, segment) {
        WaitClass::Process | WaitClass::Timer => (who_ended(analysis, waker), source),
        _ => (waker, source),
    })
}

/// Who sent the signal that interrupted a sleep. What the thread waited for had not happened then.
/// *Why not where it waits for events or for a process*: there, a signal may be what it waits for.
pub(crate) fn signalled_by(analysis: &Analysis<'_>, segment: &Segment) -> Option<ThreadId> {
    let wakings = &analysis.trace.wakings;
    let wake = segment.wake().filter(|wake| analysis.stacks.signals(wakings.stack[*wake]))?;
    let class = class_of(analysis, segment);
    let takes_signals = matches!(
        class,
        WaitClass::Idle
            | WaitClass::KernelIdle
            | WaitClass::Process
            | WaitClass::Stopped
            | WaitClass::Unknown
    );
    (!takes_signals && !is_end_of_child(analysis, segment, class, wake))
        .then(|| wakings.waker[wake])
}

/// True for a sleep by the clock that the end of a child cut short for good, or so that the next child
/// could be started: until then, whoever sleeps like this waits for it, too. *Why not where it only sleeps
/// on*: it took note of it.
fn is_end_of_child(
    analysis: &Analysis<'_>,
    sleep: &Segment,
    class: WaitClass,
    wake: usize,
) -> bool {
    /// Within this time, who only took note sleeps again, nanoseconds.
    const SOON_NS: u64 = 2_000_000;
    let (trace, stacks) = (analysis.trace, &analysis.stacks);
    let (threads, wakings) = (&trace.threads, &trace.wakings);
    let own = wakings.wakee[wake];
    let child = threads.process_of(wakings.waker[wake]);
    if class != WaitClass::Timer
        || !stacks.exits(wakings.stack[wake])
        || child.parent_pid != Some(threads.process_of(own).pid)
    {
        return false;
    }
    let place = stacks.signature(sleep.wait_stack(trace));
    let end = sleep.window.end;
    let soon = analysis.segments(own, Window::new(end, end.plus(SOON_NS)));
    let sleeps_on = soon
        .iter()
        .find(|segment| segment.is_sleep() && stacks.signature(segment.wait_stack(trace)) == place);
    let starts_next = |until: Time| {
        let children = analysis.children_of(threads.process_of(own).pid).iter();
        children.map(|child| threads.process(*child)).any(|process| {
            let born = analysis.timeline.life(process.leader).start;
            end <= born && born <= until
        })
    };
    sleeps_on.is_none_or(|next| starts_next(next.window.start))
}

/// The thread that owned the lock when the sleep of `hop` began, and the wake-up of another waiter by
/// which it released it, where neither is the one that ended the sleep. *Why not where the waker had
/// waited for the lock, too*: then the thread that ended that wait is known, and leads to the owner.
pub(super) fn released_by_owner(
    analysis: &Analysis<'_>,
    hop: &Hop,
    segment: &Segment,
) -> Option<(ThreadId, usize)> {
    let lock_avma = hop.lock_avma.filter(|_| hop.class == WaitClass::Lock)?;
    let wait = kept_wait(analysis, segment).filter(|wait| !wait.is_owner_at_return)?;
    let owner = wait.owner.filter(|owner| ![hop.by, hop.sleeper].contains(owner))?;
    hop.wake?;
    if acquisition(analysis, &analysis.segments(hop.by, hop.slept), hop).is_some() {
        return None;
    }
    let is_release = |wake: &usize| analysis.woken_futex(*wake) == Some(lock_avma);
    let mut issued = analysis.issued(owner, hop.slept).iter().map(|wake| *wake as usize);
    let released = issued.find(is_release)?;
    let inside = analysis.trace.wakings.time[released] > hop.window.start;
    inside.then_some((owner, released))
}
