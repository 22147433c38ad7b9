//! Whom a thread waits for in a sleep that has not ended when the recording does.

use super::asked::{MAX_ASKED, asked_in_vain, last_woken, only_worker, works_mostly};
use super::ends::lasts_until_end;
use super::processes::{awaited_process, working_child};
use super::sleeps::{began, whole};
use super::transactions::idle_in_transaction;
use super::wait_class::{class_of, kept_wait};
use crate::timeline::{Segment, State};
use crate::{Analysis, WaitClass};
use unhitch_model::{ThreadId, Window};

/// Whom a thread waits for: who owns the lock, or seems to, the process whose end it waits for, the program that
/// serves the file system, who was asked for an answer, who was given its work, or the child that works.
pub(super) fn awaited_at_end(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    segment: &Segment,
) -> Option<ThreadId> {
    if !lasts_until_end(analysis, thread, segment) {
        return None;
    }
    let whole = whole(analysis, thread, segment);
    let find = || awaited(analysis, thread, &whole);
    analysis.memos.awaited.answer((thread, whole.window, whole.out()), find)
}

/// The same for a sleep that lasts until then.
fn awaited(analysis: &Analysis<'_>, thread: ThreadId, segment: &Segment) -> Option<ThreadId> {
    let asks_server = || analysis.stacks.asks_server(segment.wait_stack(analysis.trace));
    owner_at_end(analysis, thread, segment)
        .or_else(|| idle_in_transaction(analysis, thread, segment))
        .or_else(|| awaited_process(analysis, thread, segment))
        .or_else(|| asks_server().then(|| analysis.file_server()).flatten())
        .or_else(|| asked_in_vain(analysis, thread, segment))
        .or_else(|| helper_at_end(analysis, thread, segment))
        .or_else(|| match class_of(analysis, segment) {
            WaitClass::Ipc | WaitClass::Condition => working_child(analysis, thread, segment),
            _ => None,
        })
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

/// Who owns what a thread waits for in a sleep that has not ended when the recording does.
fn owner_at_end(analysis: &Analysis<'_>, thread: ThreadId, segment: &Segment) -> Option<ThreadId> {
    let of_futex = || analysis.futex_owner(thread);
    let kept = || kept_wait(analysis, segment)?.owner;
    lasts_until_end(analysis, thread, segment).then(|| of_futex().or_else(kept)).flatten()
}

/// The thread of its own process that a thread gave work to, and waits for in a sleep that has not
/// ended when the recording does, as far as can be told: the one that it woke last, or started,
/// before it waited for a condition, and that has worked since; or else the only one that has.
fn helper_at_end(analysis: &Analysis<'_>, thread: ThreadId, sleep: &Segment) -> Option<ThreadId> {
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
