//! Who ended a sleep; who owned the lock before that thread did; and, while the sleep has not ended,
//! whom the thread waits for.

use super::acquisition::acquisition;
use super::explanation::Hop;
use super::other_end::{asked_at_end, file_server, helper_at_end, lasts_until_end};
use super::processes::{awaited_process, who_ended, working_child};
use super::wait_class::{class_of, kept_wait};
use crate::stacks::classes::{WakeContext, WakeSource};
use crate::timeline::{Segment, State};
use crate::{Analysis, WaitClass};
use unhitch_model::{ThreadId, Window};

/// The task that ended a sleep; where the recording ends first, the one that owns what it waits for,
/// or was asked for it.
pub(super) fn ended_by(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    segment: &Segment,
) -> Option<(ThreadId, WakeSource)> {
    let by_task = |owner| (owner, WakeSource { context: WakeContext::Task, interrupt: None });
    let Some(wake) = segment.wake else {
        return awaited_at_end(analysis, thread, segment).map(by_task);
    };
    if signalled_by(analysis, segment).is_some() {
        return kept_wait(analysis, segment)?.owner.map(by_task);
    }
    let source = analysis.stacks.wake_source(analysis.trace, wake);
    let waker = analysis.trace.wakings.waker[wake];
    source.context.is_task().then(|| match class_of(analysis, segment) {
        WaitClass::Process => (who_ended(analysis, waker), source),
        _ => (waker, source),
    })
}

/// Whom a thread waits for in a sleep that has not ended when the recording does: who owns the lock,
/// the process whose end it waits for, who was asked for an answer, who serves the file system, was
/// given its work, or is a child that works.
fn awaited_at_end(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    segment: &Segment,
) -> Option<ThreadId> {
    if !lasts_until_end(analysis, thread, segment) {
        return None;
    }
    owner_at_end(analysis, thread, segment)
        .or_else(|| awaited_process(analysis, thread, segment))
        .or_else(|| file_server(analysis, segment))
        .or_else(|| asked_at_end(analysis, thread, segment))
        .or_else(|| helper_at_end(analysis, thread, segment))
        .or_else(|| match class_of(analysis, segment) {
            WaitClass::Ipc | WaitClass::Condition => working_child(analysis, thread, segment),
            _ => None,
        })
}

/// Who sent the signal that interrupted a sleep. What the thread waited for had not happened then.
/// *Why not where it waits for events or for a process*: there, a signal may be what it waits for.
pub(crate) fn signalled_by(analysis: &Analysis<'_>, segment: &Segment) -> Option<ThreadId> {
    let wakings = &analysis.trace.wakings;
    let wake = segment.wake.filter(|wake| analysis.stacks.signals(wakings.stack[*wake]))?;
    let class = class_of(analysis, segment);
    let takes_signals = matches!(
        class,
        WaitClass::Idle
            | WaitClass::KernelIdle
            | WaitClass::Process
            | WaitClass::Stopped
            | WaitClass::Unknown
    );
    (!takes_signals).then(|| wakings.waker[wake])
}

/// The sleep of `thread` that has not ended when the recording does, and who owns what it waits
/// for.
pub(crate) fn owned_at_end(
    analysis: &Analysis<'_>,
    thread: ThreadId,
) -> Option<(Segment, ThreadId)> {
    let end = analysis.timeline.window().end;
    let last = analysis.segments(thread, Window::new(end.minus(1), end)).pop()?;
    let owner = match last.state {
        State::Sleeping(_) => owner_at_end(analysis, thread, &last)?,
        _ => return None,
    };
    Some((last, owner))
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

/// Who owns what a thread waits for in a sleep that has not ended when the recording does.
fn owner_at_end(analysis: &Analysis<'_>, thread: ThreadId, segment: &Segment) -> Option<ThreadId> {
    let futexes = &analysis.trace.futex_waits;
    let of_futex = || futexes.iter().find(|wait| wait.waiter == thread)?.owner;
    let kept = || kept_wait(analysis, segment)?.owner;
    lasts_until_end(analysis, thread, segment).then(|| of_futex().or_else(kept)).flatten()
}
