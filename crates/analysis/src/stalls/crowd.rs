//! Waits for replies by threads that are too many to have a rhythm each: the thread of a pool comes
//! back to a place a few times only, and all of them together often. One that waits for far longer
//! than they usually stay away is a break in their rhythm.
//!
//! *Why only replies:* who waits for work waits as long as there is none. A wait on a condition may be
//! either; many at once, where their threads hardly ever are, are replies. *Why not how long replies
//! usually take:* stacks of short waits are not recorded, so that the usual reply has no place.

use super::rhythm::{BREAK_FACTOR, MIN_BREAK_NS, MIN_CYCLES, sleeps};
use super::thread_view::ThreadView;
use crate::candidate::{Candidate, StallKind};
use crate::{Analysis, Operation, WaitClass};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use unhitch_model::{ProcessId, ThreadId, Time, Window};

/// Minimum absences before a wait that tell how long they usually are.
const MIN_USUAL: usize = 20;
/// Maximum places that a thread came from, the last first.
const MAX_BEFORE: usize = 4;
/// Minimum waits at one place, of different threads at the same time, that are a crowd.
const MIN_CROWD: usize = 4;
/// Maximum breaks of one place of a process, the longest first.
const MAX_OF_PLACE: usize = 8;
/// Maximum waits of one place, and of one process, that are looked at, the longest first. *Why:* there may
/// be thousands of threads, each with a past to look through.
const MAX_LOOKED_AT: [usize; 2] = [32, 256];

/// The long waits of a thread at places to which it seldom comes.
pub(super) fn rare_waits(analysis: &Analysis<'_>, view: &ThreadView<'_>) -> Vec<Operation> {
    let mut alike: FxHashMap<u64, usize> = FxHashMap::default();
    for wait in view.operations {
        *alike.entry(wait.signature).or_default() += 1;
    }
    let is_rare =
        |wait: &&Operation| alike[&wait.signature] <= MIN_CYCLES && is_long_reply(analysis, wait);
    view.operations.iter().filter(is_rare).cloned().collect()
}

fn is_long_reply(analysis: &Analysis<'_>, wait: &Operation) -> bool {
    let trace = analysis.trace;
    let by_another = |wake: &usize| {
        analysis.stacks.is_by_task(trace, *wake) && trace.wakings.waker[*wake] != wait.thread
    };
    wait.window.duration_ns() >= MIN_BREAK_NS
        && wait.signature != 0
        && matches!(wait.class, WaitClass::Network | WaitClass::Ipc | WaitClass::Condition)
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
    let process = analysis.trace.threads.get(first.thread).process;
    rare.sort_by_key(|wait| (Reverse(wait.window.duration_ns()), wait.thread));
    keep_longest(&mut rare);
    keep_crowds(&mut rare);
    let from: Vec<Vec<u64>> = rare.iter().map(|wait| places_before(analysis, wait)).collect();
    let mut absences: FxHashMap<u64, Vec<Absence>> =
        from.iter().flatten().map(|place| (*place, Vec::new())).collect();
    for thread in analysis.threads_of(process) {
        add_absences(analysis, *thread, &mut absences);
    }
    let mut left: FxHashMap<u64, usize> = FxHashMap::default();
    let mut found = Vec::new();
    for (wait, from) in rare.into_iter().zip(from) {
        if from.iter().any(|place| is_break(&wait, &absences[place])) {
            let count = left.entry(wait.signature).or_default();
            *count += 1;
            if *count <= MAX_OF_PLACE {
                found.push(wait);
            }
        }
    }
    let candidate = |wait: Operation| Candidate {
        kind: if is_condition(&wait) { StallKind::Crowd } else { StallKind::Rhythm },
        victim: wait.thread,
        window: wait.window,
        operation: Some(wait),
        event_loop: false,
        machine: None,
    };
    found.into_iter().map(candidate).collect()
}

/// Leaves out the shorter of very many; the longest come first.
fn keep_longest(waits: &mut Vec<Operation>) {
    let [of_place, of_process] = MAX_LOOKED_AT;
    let mut seen: FxHashMap<u64, usize> = FxHashMap::default();
    waits.retain(|wait| {
        let count = seen.entry(wait.signature).or_default();
        *count += 1;
        *count <= of_place
    });
    waits.truncate(of_process);
}

fn is_condition(wait: &Operation) -> bool {
    wait.class == WaitClass::Condition
}

/// Leaves out waits on conditions that are no crowd's.
fn keep_crowds(waits: &mut Vec<Operation>) {
    let mut places: FxHashMap<u64, Vec<Window>> = FxHashMap::default();
    for wait in waits.iter().filter(|wait| is_condition(wait)) {
        places.entry(wait.signature).or_default().push(wait.window);
    }
    waits.retain(|wait| {
        let is_at_once = |other: &&Window| {
            other.intersect(wait.window).duration_ns().saturating_mul(2)
                >= wait.window.duration_ns()
        };
        let at_once = places.get(&wait.signature).into_iter().flatten().filter(is_at_once);
        !is_condition(wait) || at_once.take(MIN_CROWD).count() == MIN_CROWD
    });
}

/// The time from a thread's sleep at a place to its next one there.
struct Absence {
    end: Time,
    ns: u64,
}

/// The places where the thread slept last before a wait.
fn places_before(analysis: &Analysis<'_>, wait: &Operation) -> Vec<u64> {
    let past = Window::new(analysis.timeline.window().start, wait.window.start);
    let segments = analysis.segments(wait.thread, past);
    let mut places = Vec::new();
    for place in sleeps(analysis, &segments).iter().rev().map(|sleep| sleep.signature) {
        if place != 0 && place != wait.signature && !places.contains(&place) {
            places.push(place);
        }
        if places.len() == MAX_BEFORE {
            break;
        }
    }
    places
}

/// Adds the absences of a thread from the places that are keys.
fn add_absences(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    absences: &mut FxHashMap<u64, Vec<Absence>>,
) {
    let segments = analysis.segments(thread, analysis.timeline.window());
    let mut left: FxHashMap<u64, Time> = FxHashMap::default();
    for sleep in sleeps(analysis, &segments) {
        let Some(list) = absences.get_mut(&sleep.signature) else { continue };
        let Window { start, end } = sleep.segment.window;
        if let Some(since) = left.insert(sleep.signature, end) {
            list.push(Absence { end: start, ns: start.since(since) });
        }
    }
}

/// True if nine in ten absences before the wait are far shorter than it.
fn is_break(wait: &Operation, absences: &[Absence]) -> bool {
    let limit_ns = wait.window.duration_ns() / BREAK_FACTOR;
    let before = || absences.iter().filter(|absence| absence.end <= wait.window.start);
    let (all, short) =
        (before().count(), before().filter(|absence| absence.ns <= limit_ns).count());
    all >= MIN_USUAL && short * 10 >= all * 9
}
