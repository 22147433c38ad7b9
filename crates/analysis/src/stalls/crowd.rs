//! Waits for replies by threads that are too many to have a rhythm each: the thread of a pool waits
//! there a few times only, and all of them together often. One that takes far longer than theirs did
//! before is a break in their rhythm.
//!
//! *Why only replies:* who waits for work waits as long as there is none.

use super::rhythm::{BREAK_FACTOR, MIN_BREAK_NS, MIN_CYCLES};
use super::thread_view::ThreadView;
use crate::candidate::{Candidate, StallKind};
use crate::explain::operations;
use crate::{Analysis, Operation, WaitClass};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use unhitch_model::{ProcessId, ThreadId, Time};

/// Minimum waits before one that tell how long they usually are.
const MIN_USUAL: usize = 20;
/// Maximum waits of one place of a process, the longest first.
const MAX_OF_PLACE: usize = 8;

/// The long waits of a thread at places to which it seldom comes.
pub(super) fn rare_waits(analysis: &Analysis<'_>, view: &ThreadView<'_>) -> Vec<Operation> {
    let is_rare = |wait: &&Operation| {
        let alike = view.operations.iter().filter(|other| other.signature == wait.signature);
        is_long_reply(analysis, wait) && alike.count() <= MIN_CYCLES
    };
    view.operations.iter().filter(is_rare).cloned().collect()
}

fn is_long_reply(analysis: &Analysis<'_>, wait: &Operation) -> bool {
    let trace = analysis.trace;
    let by_another = |wake: &usize| {
        analysis.stacks.is_by_task(trace, *wake) && trace.wakings.waker[*wake] != wait.thread
    };
    wait.window.duration_ns() >= MIN_BREAK_NS
        && wait.signature != 0
        && matches!(wait.class, WaitClass::Network | WaitClass::Ipc)
        && !analysis.stacks.is_pump(wait.stack)
        && wait.wakes.last().is_some_and(by_another)
}

/// Those that break the rhythm of all threads of their process at that place.
pub(crate) fn find(analysis: &Analysis<'_>, rare: Vec<Operation>) -> Vec<Candidate> {
    let process = |thread: ThreadId| analysis.trace.threads.get(thread).process;
    let mut by_process: FxHashMap<ProcessId, Vec<Operation>> = FxHashMap::default();
    for wait in rare {
        by_process.entry(process(wait.thread)).or_default().push(wait);
    }
    let mut found: Vec<Candidate> = by_process
        .into_par_iter()
        .flat_map_iter(|(_, waits)| of_process(analysis, waits))
        .collect();
    found.sort_by_key(|candidate| (candidate.window, candidate.victim));
    found
}

fn of_process(analysis: &Analysis<'_>, mut rare: Vec<Operation>) -> Vec<Candidate> {
    let Some(first) = rare.first() else { return Vec::new() };
    let of = |thread: ThreadId| analysis.trace.threads.get(thread).process;
    let process = of(first.thread);
    // When the waits at each place ended, and how long they were.
    let mut usual: FxHashMap<u64, Vec<(Time, u64)>> =
        rare.iter().map(|wait| (wait.signature, Vec::new())).collect();
    let threads = (1..analysis.timeline.threads() as u32).map(ThreadId);
    for thread in threads.filter(|thread| of(*thread) == process) {
        let segments = analysis.segments(thread, analysis.timeline.window());
        for wait in operations(analysis, thread, &segments) {
            if let Some(list) = usual.get_mut(&wait.signature).filter(|_| !wait.open) {
                list.push((wait.window.end, wait.window.duration_ns()));
            }
        }
    }
    rare.sort_by_key(|wait| (Reverse(wait.window.duration_ns()), wait.thread));
    let mut left: FxHashMap<u64, usize> = FxHashMap::default();
    rare.retain(|operation| {
        let began = operation.window.start;
        let before = usual[&operation.signature].iter().filter(|(ended, _)| *ended <= began);
        let before: Vec<u64> = before.map(|(_, ns)| *ns).collect();
        let limit_ns = operation.window.duration_ns() / BREAK_FACTOR;
        let short = before.iter().filter(|ns| **ns <= limit_ns).count();
        let count = left.entry(operation.signature).or_default();
        let is_break = before.len() >= MIN_USUAL && short * 10 >= before.len() * 9;
        *count += usize::from(is_break);
        is_break && *count <= MAX_OF_PLACE
    });
    let candidate = |wait: Operation| Candidate {
        kind: StallKind::Rhythm,
        victim: wait.thread,
        window: wait.window,
        operation: Some(wait),
        event_loop: false,
        machine: None,
    };
    rare.into_iter().map(candidate).collect()
}
