//! Polling for the end of a process: a thread sleeps, looks whether a process that it started, or another
//! one of its program, has ended, and sleeps again, until it has.
//!
//! *Why by its end:* no event shows what a thread looks for when it wakes. A process that lived all the
//! time, and ended in the last of the sleeps, is what it waited for: a child first of all, or a sibling of
//! the same name, as the sessions of a server of PostgreSQL are, or another one of that name, as commands
//! are that keep each other out by a lock file.

use super::behind::with_what_kept;
use super::case::Case;
use super::finding::{Evidence, Finding, Pattern};
use crate::explain::{Cause, Piece};
use crate::stacks::text::own_function;
use crate::wording::sentence::{Sentence, duration, sentence};
use unhitch_model::{Process, ThreadId};

/// Fewer sleeps are no polling.
const MIN_SLEEPS: usize = 3;
/// The same where the other process is no child: that it ended in the last may be a coincidence.
const MIN_SLEEPS_FOR_NAMESAKE: usize = 10;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let is_sleep = |piece: &Piece| {
        matches!(piece.cause, Cause::Timer | Cause::Timeout) && piece.segment.is_sleep()
    };
    let (sleeper, ns) = case.most_of(|piece, _| is_sleep(piece))?;
    let sleeps: Vec<&Piece> = case
        .explanation
        .pieces
        .iter()
        .filter(|piece| piece.thread == sleeper && is_sleep(piece))
        .collect();
    if !case.is_most(ns) || sleeps.len() < MIN_SLEEPS {
        return None;
    }
    let (ended, how) = match child(case, sleeper, &sleeps) {
        Some(child) => (child, "which it had started"),
        None if sleeps.len() < MIN_SLEEPS_FOR_NAMESAKE => return None,
        None => (namesake(case, sleeper, &sleeps)?, "another process of its program"),
    };
    let longest = sleeps.iter().max_by_key(|piece| piece.window.duration_ns())?;
    let own = sleeper == case.candidate.victim;
    let mut sentences = if own { Vec::new() } else { case.waits() };
    sentences.push(case.slept(sleeper, sleeps.len() as u64, ns, &longest.segment));
    let life = case.analysis.timeline.life(ended).intersect(case.explanation.window);
    sentences.push(sentence!(
        "{}, {}, lived for {} of that, and ended in the last of these sleeps.",
        case.name(ended),
        how,
        duration(life.duration_ns())
    ));
    // A full stop follows, or what kept it.
    let cause = sentence!("{} had not ended, for which it polled", case.name(ended));
    let finding = Finding {
        culprit: Some(ended),
        function: own_function(case.analysis, longest.segment.wait_stack(case.analysis.trace)),
        sentences,
        evidence: Evidence::Inferred,
        evidence_words: Sentence::from("what it looks for when it wakes is not recorded"),
        ..case.finding(Pattern::TimerSleep, cause)
    };
    let intro = sentence!("What kept {}:", case.name(ended));
    Some(with_what_kept(case, finding, sleeper, (ended, life), intro))
}

/// The only process that the sleeper's one started, and that ended in the last of these sleeps.
fn child(case: &Case<'_>, sleeper: ThreadId, sleeps: &[&Piece]) -> Option<ThreadId> {
    let own = case.analysis.trace.threads.process_of(sleeper).pid;
    only(case, sleeps, |process| process.parent_pid == Some(own))
}

/// The only process of the same name that ended in the last of these sleeps, of the same parent if
/// there are such.
fn namesake(case: &Case<'_>, sleeper: ThreadId, sleeps: &[&Piece]) -> Option<ThreadId> {
    let threads = &case.analysis.trace.threads;
    let own = threads.process_of(sleeper);
    let name = |process: &Process| threads.name_at(process.leader, case.explanation.window.end);
    let is_other = |process: &Process| process.pid != own.pid && name(process) == name(own);
    let is_sibling =
        |process: &Process| process.parent_pid.is_some_and(|parent| own.parent_pid == Some(parent));
    only(case, sleeps, |process| is_other(process) && is_sibling(process))
        .or_else(|| only(case, sleeps, is_other))
}

/// The only process of these that lived for most of the sleeps and ended in the last.
fn only(case: &Case<'_>, sleeps: &[&Piece], is_one: impl Fn(&Process) -> bool) -> Option<ThreadId> {
    let timeline = &case.analysis.timeline;
    let (first, last) = (sleeps.first()?.window, sleeps.last()?.window);
    let length = last.end.since(first.start);
    let processes = case.analysis.trace.threads.processes().map(|(_, process)| process);
    let mut ended = processes.filter(|process| {
        let life = timeline.life(process.leader);
        is_one(process)
            && life.end > last.start
            && life.end <= last.end
            && life.end.since(life.start.max(first.start)).saturating_mul(2) >= length
    });
    let only = ended.next()?.leader;
    ended.next().is_none().then_some(only)
}
