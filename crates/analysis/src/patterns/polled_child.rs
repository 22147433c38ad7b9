//! Polling for a child: a process sleeps, looks whether the process that it started has ended, and
//! sleeps again, until it has.
//!
//! *Why by its end:* no event shows what a thread looks for when it wakes. A child that lived all the
//! time, and ended in the last of the sleeps, is what it waited for.

use super::case::Case;
use super::finding::{Evidence, Finding, Pattern};
use crate::explain::{Cause, Piece};
use crate::timeline::State;
use crate::wording::sentence::{Sentence, duration, sentence};
use unhitch_model::ThreadId;

/// Fewer sleeps are no polling.
const MIN_SLEEPS: usize = 3;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let is_sleep = |piece: &Piece| {
        matches!(piece.cause, Cause::Timer | Cause::Timeout)
            && matches!(piece.segment.state, State::Sleeping(_))
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
    let child = child(case, sleeper, &sleeps)?;
    let longest = sleeps.iter().max_by_key(|piece| piece.window.duration_ns())?;
    let own = sleeper == case.candidate.victim;
    let mut sentences = if own { Vec::new() } else { case.waits() };
    sentences.push(case.slept_often(sleeper, sleeps.len() as u64, ns, &longest.segment));
    let life = case.analysis.timeline.life(child).intersect(case.explanation.window);
    sentences.push(sentence!(
        "{}, which it had started, lived for {} of that, and ended in the last of these sleeps.",
        case.name(child),
        duration(life.duration_ns())
    ));
    // The child may have slept, too.
    let computing = case.computing(child, &[life]);
    sentences.extend((computing.samples > 0).then_some(computing.sentence));
    let cause = sentence!(
        "{} had not ended, for which it polled{}.",
        case.name(child),
        match computing.place.is_empty() {
            true => Sentence::default(),
            false => sentence!("; that was{}", computing.place),
        }
    );
    Some(Finding {
        culprit: Some(child),
        function: computing.function,
        sentences,
        evidence: Evidence::Inferred,
        evidence_words: Sentence::from("what it looks for when it wakes is not recorded"),
        ..case.finding(Pattern::TimerSleep, cause)
    })
}

/// The only process that the sleeper's one started, that lived for most of these sleeps and ended in
/// the last.
fn child(case: &Case<'_>, sleeper: ThreadId, sleeps: &[&Piece]) -> Option<ThreadId> {
    let (threads, timeline) = (&case.analysis.trace.threads, &case.analysis.timeline);
    let own = threads.process_of(sleeper).pid;
    let (first, last) = (sleeps.first()?.window, sleeps.last()?.window);
    let length = last.end.since(first.start);
    let mut children = threads.processes().map(|(_, process)| process).filter(|process| {
        let life = timeline.life(process.leader);
        process.parent_pid == Some(own)
            && life.end > last.start
            && life.end <= last.end
            && life.end.since(life.start.max(first.start)) * 2 >= length
    });
    let child = children.next()?.leader;
    children.next().is_none().then_some(child)
}
