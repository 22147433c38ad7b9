//! Waits that nobody chooses: locks, block devices, file systems, memory, being stopped, a peer
//! that does not take what is written to it, any uninterruptible sleep, and sleeps between one look at a
//! file's lock and the next, which another process has.

use super::thread_view::ThreadView;
use crate::candidate::{Candidate, StallKind};
use crate::explain::{class_of, timed_out};
use crate::{Analysis, Operation, Segment, WaitClass};
use unhitch_model::{TaskState, ThreadId, Time, Window};

/// Shorter waits are no stall of their own.
const THRESHOLD_NS: u64 = 100_000_000;
/// How long after a sleep a thread looks for a lock again at the latest, and how many segments after a
/// look it sleeps.
const SOON_NS: u64 = 10_000_000;
const MAX_SEGMENTS_BETWEEN: usize = 16;
/// Shorter ones are not part of a machine's stall either.
const THRESHOLD_OF_MANY_NS: u64 = 50_000_000;

/// True for waits that are stalls by themselves, not only together with others.
pub(crate) fn is_long(candidate: &Candidate) -> bool {
    candidate.kind != StallKind::UnwantedWait || candidate.window.duration_ns() >= THRESHOLD_NS
}

pub(super) fn find(analysis: &Analysis<'_>, view: &ThreadView<'_>, found: &mut Vec<Candidate>) {
    let unwanted = |window: Window, operation: Option<Operation>| Candidate {
        kind: StallKind::UnwantedWait,
        victim: view.thread,
        window,
        operation,
        event_loop: view.event_loop,
        machine: None,
    };
    found.extend(refused(analysis, view).into_iter().map(|window| unwanted(window, None)));
    for (index, operation) in view.operations.iter().enumerate() {
        let next = view.operations.get(index + 1).map_or(Time::MAX, |next| next.window.start);
        if operation.window.duration_ns() >= THRESHOLD_OF_MANY_NS
            && is_unwanted(analysis, operation)
            && (!analysis.stacks.is_kernel_thread(operation.stack)
                || somebody_waited(analysis, operation, next))
        {
            found.push(unwanted(operation.window, Some(operation.clone())));
        }
    }
}

/// The times in which the thread only slept, looked for a lock on a file and was refused it: from the
/// first refusal to the end of the sleep after the last. *Why not one that has lasted since before the
/// recording*: a program that stands by for another looks so all its life.
fn refused(analysis: &Analysis<'_>, view: &ThreadView<'_>) -> Vec<Window> {
    let all = analysis.timeline.window();
    // Each with how long it was until it looked again for the first time.
    let mut polls: Vec<(Window, u64)> = Vec::new();
    for refusal in analysis.refusals().inside(view.thread, all) {
        let is_sleep = |segment: &&Segment| {
            segment.is_sleep()
                && segment.window.start >= refusal.time
                && timed_out(analysis, segment)
        };
        let from = view.segments.partition_point(|segment| segment.window.end <= refusal.time);
        let next = view.segments[from..].iter().take(MAX_SEGMENTS_BETWEEN);
        let Some(sleep) = next.into_iter().find(is_sleep) else { continue };
        match polls.last_mut() {
            Some((last, _)) if refusal.time.since(last.end) <= SOON_NS => {
                last.end = sleep.window.end
            }
            _ => {
                let window = Window::new(refusal.time, sleep.window.end);
                polls.push((window, window.duration_ns()));
            }
        }
    }
    polls.retain(|(window, interval)| {
        let may_be_older = window.start.since(all.start) <= interval.saturating_mul(3) / 2;
        window.duration_ns() >= THRESHOLD_NS && !may_be_older
    });
    polls.into_iter().map(|(window, _)| window).collect()
}

fn is_unwanted(analysis: &Analysis<'_>, operation: &Operation) -> bool {
    match operation.class {
        class if class.is_unwanted() => true,
        WaitClass::KernelIdle => false,
        // vfork and exec wait uninterruptibly for their child: that is normal, not a hang.
        WaitClass::Process | WaitClass::Timer => false,
        _ => {
            operation.state == TaskState::DiskSleep || analysis.stacks.is_unwanted(operation.stack)
        }
    }
}

/// Whether a kernel thread that waited in `operation` kept a program waiting: the housekeeping of
/// the kernel hurts nobody by itself. Asks for whom it woke between its wait and the `next` one,
/// and whether they had waited for it most of that time.
fn somebody_waited(analysis: &Analysis<'_>, operation: &Operation, next: Time) -> bool {
    let trace = analysis.trace;
    let after = Window::new(operation.window.end, next.min(analysis.timeline.window().end));
    let waited = |wakee: ThreadId| {
        let waits = analysis.segments(wakee, operation.window).into_iter().filter(|segment| {
            segment.is_sleep()
                && !matches!(class_of(analysis, segment), WaitClass::Idle | WaitClass::KernelIdle)
                && !analysis.stacks.is_kernel_thread(segment.wait_stack(trace))
        });
        waits.map(|segment| segment.window.duration_ns()).sum::<u64>().saturating_mul(2)
            >= operation.window.duration_ns()
    };
    let woke = |index: &usize| {
        trace.wakings.waker[*index] == operation.thread
            && analysis.stacks.wake_source(trace, *index).context.is_task()
    };
    trace.wakings.range(after).filter(woke).any(|index| waited(trace.wakings.wakee[index]))
}
