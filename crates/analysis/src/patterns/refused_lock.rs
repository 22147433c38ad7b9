//! Polling for a lock on a file: a thread sleeps, asks for the lock, is refused because another process
//! has it, and sleeps again, until it gets it. Whoever lets the lock go wakes nobody; but the recorder
//! notes each refusal, with the process that had the lock.

use super::behind::with_what_kept;
use super::case::Case;
use super::finding::{Evidence, Finding, Pattern};
use crate::explain::{Cause, Piece};
use crate::facts::Refusal;
use crate::stacks::text::own_function;
use crate::wording::sentence::{Sentence, count, plural, sentence};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use unhitch_model::{StackId, ThreadId, Window};

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let (analysis, window) = (case.analysis, case.explanation.window);
    let is_sleep = |piece: &Piece| {
        matches!(piece.cause, Cause::Timer | Cause::Timeout) && piece.segment.is_sleep()
    };
    let (sleeper, ns) = case.most_of(|piece, _| is_sleep(piece))?;
    let refused = analysis.refusals().inside(sleeper, window);
    let (holder, times) = main_holder(refused)?;
    if !case.is_most(ns) || analysis.trace.threads.process_of(sleeper).leader == holder {
        return None;
    }
    let sleeps = case.explanation.pieces.iter();
    let sleeps: Vec<&Piece> =
        sleeps.filter(|piece| piece.thread == sleeper && is_sleep(piece)).collect();
    let longest = sleeps.iter().max_by_key(|piece| piece.window.duration_ns())?;
    let stack = longest.segment.wait_stack(analysis.trace);
    let asked = refused.len() as u64;
    let wanted = wanted(case, stack, refused, holder);
    let mut sentences = if sleeper == case.candidate.victim { Vec::new() } else { case.waits() };
    let sleep_count = sleeps.iter().map(|piece| u64::from(piece.count())).sum();
    sentences.push(case.slept(sleeper, sleep_count, ns, &longest.segment));
    sentences.push(sentence!(
        "Meanwhile it asked for a {}, and the kernel refused it{} because of {}.",
        wanted.as_str(),
        match (asked, times == asked) {
            (1, _) => Sentence::default(),
            (_, true) => sentence!(" {} times, each time", count(asked)),
            (_, false) => sentence!(" {} times, {}", count(asked), plural(times, "time")),
        },
        case.name(holder)
    ));
    // A full stop follows, or what kept the holder.
    let cause = sentence!(
        "a long lock hold: {} had the {}, for which {} polled",
        case.name(holder),
        wanted.as_str(),
        match sleeper == case.candidate.victim {
            true => Sentence::from("it"),
            false => case.name(sleeper).into(),
        }
    );
    let is_seen = times == asked && asked + 1 >= sleep_count;
    let evidence_words = match is_seen {
        true => "each time that it asked, the kernel refused the lock and said who had it",
        false => "who had the lock is known of some of the times at which it looked",
    };
    let finding = Finding {
        culprit: Some(holder),
        function: own_function(analysis, stack),
        sentences,
        advice: "Block on the lock instead of polling for it: a waiter that sleeps is woken when \
                 the lock is free."
            .to_owned(),
        evidence: if is_seen { Evidence::Direct } else { Evidence::Inferred },
        evidence_words: Sentence::from(evidence_words),
        ..case.finding(Pattern::LongHold, cause)
    };
    let slept = Window::new(sleeps.first()?.window.start, sleeps.last()?.window.end);
    let intro = sentence!("What kept {}, which had it:", case.name(holder));
    Some(with_what_kept(case, finding, sleeper, (holder, slept), intro))
}

/// The process because of which the lock was refused most often, and how often.
fn main_holder(refused: &[Refusal]) -> Option<(ThreadId, u64)> {
    let mut holders: FxHashMap<ThreadId, u64> = FxHashMap::default();
    for holder in refused.iter().filter_map(|refusal| refusal.holder) {
        *holders.entry(holder).or_default() += 1;
    }
    holders.into_iter().max_by_key(|(who, times)| (*times, Reverse(*who)))
}

/// What the lock is called.
fn wanted(case: &Case<'_>, stack: StackId, refused: &[Refusal], holder: ThreadId) -> String {
    let refusal = refused.iter().find(|refusal| refusal.holder == Some(holder));
    let file = refusal.map(|refusal| refusal.file.as_str()).unwrap_or_default();
    match (case.analysis.stacks.words(stack), file) {
        (Some(words), _) => words.to_owned(),
        (None, "") => "lock on a file".to_owned(),
        (None, file) => {
            format!("lock on the file {}", case.analysis.trace.shown(file.to_owned()))
        }
    }
}
