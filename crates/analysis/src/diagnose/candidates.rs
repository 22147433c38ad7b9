//! Which stretches of time are worth explaining: what the detectors propose, and what was most
//! unusual about threads or a time that a query names.

use super::stall::{Query, weight};
use crate::Analysis;
use crate::candidate::{Candidate, StallKind};
use crate::stalls::never_victims::is_never_victim;
use crate::stalls::{
    asked, candidates_of, command, crowd, in_progress, machine, ui_delay, unwanted_wait,
};
use rayon::prelude::*;
use std::cmp::Reverse;
use unhitch_model::{ThreadId, Window};

/// Maximum candidates of each of two sorts that are explained, the longest first: breaks in rhythm,
/// many of which turn out to be idle, must not crowd out the others.
const MAX_EXPLAINED: usize = 64;

/// Maximum candidates of one kind and one process at one time. *Why so many:* beyond ten victims, more
/// do not make a stall worse.
const MAX_ALIKE: usize = 10;

/// The longest of what the detectors propose.
pub(super) fn worth_explaining(analysis: &Analysis<'_>, query: &Query) -> Vec<Candidate> {
    let is_break = Candidate::is_break;
    let (breaks, others) = candidates(analysis, query).into_iter().partition(is_break);
    let longest = |mut sort: Vec<Candidate>| {
        sort.sort_by_key(|candidate| {
            (Reverse(weight(candidate)), candidate.window.start, candidate.victim)
        });
        spread(analysis, sort)
    };
    [longest(others), longest(breaks)].concat()
}

/// The first of a sort, but only so many of one kind that one process has at the same time. *Why not
/// all:* a hundred threads that were stopped together tell nothing more, and would crowd out others.
fn spread(analysis: &Analysis<'_>, sort: Vec<Candidate>) -> Vec<Candidate> {
    let process = |candidate: &Candidate| analysis.trace.threads.get(candidate.victim).process;
    let is_like = |one: &Candidate, other: &Candidate| {
        let shared = one.window.intersect(other.window).duration_ns();
        let longer = one.window.duration_ns().max(other.window.duration_ns());
        one.kind == other.kind
            && process(one) == process(other)
            && shared.saturating_mul(10) >= longer.saturating_mul(9)
    };
    let mut kept: Vec<Candidate> = Vec::new();
    for candidate in sort {
        if kept.len() == MAX_EXPLAINED {
            break;
        }
        if kept.iter().filter(|known| is_like(known, &candidate)).count() < MAX_ALIKE {
            kept.push(candidate);
        }
    }
    kept
}

/// Everything that the detectors propose.
fn candidates(analysis: &Analysis<'_>, query: &Query) -> Vec<Candidate> {
    let is_wanted = |thread: ThreadId| match query.victims.is_empty() {
        true => is_recorded(analysis, thread) && !is_never_victim(analysis, thread),
        false => is_recorded(analysis, thread) && query.victims.contains(&thread),
    };
    if let (Some(window), false) = (query.window, query.victims.is_empty()) {
        let named = query.victims.iter().map(|&victim| Candidate {
            kind: StallKind::Mark,
            victim,
            window: window.intersect(analysis.timeline.life(victim)),
            operation: None,
            event_loop: false,
            machine: None,
        });
        return named.filter(|candidate| !candidate.window.is_empty()).collect();
    }
    let overlaps = |candidate: &Candidate| {
        query.window.is_none_or(|window| candidate.window.overlaps(window))
            && (!query.in_progress || in_progress::is_in_progress(analysis, candidate))
    };
    let (candidates, rare): (Vec<_>, Vec<_>) = (1..analysis.timeline.threads() as u32)
        .into_par_iter()
        // The threads of a storm follow each other.
        .with_max_len(1)
        .map(ThreadId)
        .filter(|&thread| is_wanted(thread))
        .map(|thread| candidates_of(analysis, thread))
        .unzip();
    let mut candidates: Vec<Candidate> =
        candidates.into_iter().flatten().filter(overlaps).collect();
    candidates.extend(machine::find(analysis, &candidates));
    candidates.retain(unwanted_wait::is_long);
    let crowds = crowd::find(analysis, rare.into_iter().flatten().collect()).into_iter();
    candidates.extend(crowds.filter(overlaps));
    let commands = command::find(analysis).into_iter();
    candidates.extend(commands.filter(|command| is_wanted(command.victim)).filter(overlaps));
    let reported = ui_delay::find(analysis).into_iter();
    candidates.extend(reported.filter(|candidate| is_wanted(candidate.victim)).filter(overlaps));
    let parts = candidates.into_iter().map(|candidate| inside(candidate, query.window));
    parts.collect()
}

/// The part of a candidate that is inside the window that the query names.
fn inside(candidate: Candidate, window: Option<Window>) -> Candidate {
    let part = window.map_or(candidate.window, |window| candidate.window.intersect(window));
    match part == candidate.window {
        true => candidate,
        false => Candidate { window: part, operation: None, ..candidate },
    }
}

/// What was most unusual about the threads that the query names; without any, about the threads
/// with the most unusual time in the window.
pub(super) fn most_unusual(analysis: &Analysis<'_>, query: &Query) -> Vec<Candidate> {
    if query.in_progress {
        let present = |&thread: &ThreadId| in_progress::present(analysis, thread);
        return query.victims.iter().filter_map(present).take(MAX_EXPLAINED).collect();
    }
    let window = query.window.unwrap_or_else(|| analysis.timeline.window());
    let threads: Vec<ThreadId> = match query.victims.is_empty() {
        true => (1..analysis.timeline.threads() as u32)
            .map(ThreadId)
            .filter(|&thread| is_recorded(analysis, thread))
            .collect(),
        false => query.victims.clone(),
    };
    let unusual = |thread| asked::unusual(analysis, thread, window);
    let mut candidates: Vec<Candidate> = threads.into_par_iter().flat_map_iter(unusual).collect();
    if query.victims.is_empty() {
        let rank = |candidate: &Candidate| match candidate.kind {
            StallKind::Rhythm => 0,
            StallKind::Longest => 1,
            _ => 2,
        };
        candidates.sort_by_key(|candidate| {
            (rank(candidate), Reverse(candidate.window.duration_ns()), candidate.victim)
        });
    }
    candidates.truncate(MAX_EXPLAINED);
    candidates
}

/// False for threads that were recorded only where they met others: nothing can be said of them.
fn is_recorded(analysis: &Analysis<'_>, thread: ThreadId) -> bool {
    let trace = analysis.trace;
    trace.meta.only_pid.is_none_or(|pid| trace.threads.process_of(thread).pid == pid)
}
