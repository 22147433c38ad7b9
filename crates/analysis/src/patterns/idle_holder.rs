//! An idle holder: who has the lock waits for somebody who has no part in it, as a database session
//! does that is idle in a transaction while its client thinks.

use super::case::Case;
use super::case::weaken;
use super::finding::{Finding, Pattern};
use crate::explain::{Hop, is_of_transaction};
use crate::family::descends;
use crate::stacks::text::idle_function;
use crate::wording::sentence::{Sentence, sentence};
use crate::wording::wait_words;
use crate::{Explanation, WaitClass};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// For a lock that a transaction of PostgreSQL keeps to its end.
pub(super) const END_TRANSACTION: &str = "End the transaction before waiting for anything else; idle_in_transaction_session_timeout ends \
     those that are forgotten.";

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let (lock, idle, ns) = held_by_idler(case)?;
    if !case.is_most(ns) || lock.by == case.candidate.victim {
        return None;
    }
    let analysis = case.analysis;
    let (holder, client) = (case.name(lock.by), case.name(idle.by));
    let what = wait_words::wanted(analysis, lock.wait_stack).unwrap_or_else(|| "a lock".to_owned());
    let mut sentences = Vec::new();
    sentences.extend(case.waited_in().filter(|_| lock.depth > 1));
    sentences.push(sentence!(
        "{} waited for {} in\n  {}",
        case.it_or_name(lock.sleeper),
        what,
        case.wait_stack(lock)
    ));
    let wanted =
        wait_words::wanted(analysis, idle.wait_stack).unwrap_or_else(|| "an event".to_owned());
    sentences.push(sentence!(
        "{} held it for {}, and was idle meanwhile: it waited for {}, in\n  {}",
        holder.clone(),
        case.part(ns),
        wanted,
        case.wait_stack(idle)
    ));
    sentences.push(sentence!(
        "{} woke it, and then it released {}.",
        client.clone(),
        wait_words::the_lock(analysis, lock)
    ));
    let in_transaction = is_of_transaction(analysis, lock.wait_stack);
    let doing = match analysis.stacks.words(idle.wait_stack) {
        Some(_) if in_transaction => "idle in its transaction: it waited for its client,",
        Some(_) => "idle between two commands: it waited for its client,",
        None => "idle: it waited for",
    };
    let cause = sentence!(
        "a long lock hold: {} kept {} while it was {} {}.",
        holder,
        wait_words::the_lock(analysis, lock),
        doing,
        client
    );
    let mut finding = Finding {
        culprit: Some(lock.by),
        function: idle_function(analysis, idle.wait_stack),
        sentences,
        advice: match in_transaction {
            true => END_TRANSACTION,
            false => "Do not wait for anybody with a lock: end the transaction, or release the lock, before.",
        }
        .to_owned(),
        ..case.finding(Pattern::LongHold, cause)
    };
    weaken(&mut finding, |_| {
        Sentence::from(
            "every wake-up on the way was seen; that the holder had the lock all the time is \
             inferred from its releasing it in the end",
        )
    });
    Some(finding)
}

/// The wait for a lock whose holder was idle for the longest time, the wait of that holder, and that
/// time.
fn held_by_idler<'a>(case: &'a Case<'_>) -> Option<(&'a Hop, &'a Hop, u64)> {
    let explanation = case.explanation;
    let mut sums: FxHashMap<(u32, u32), u64> = FxHashMap::default();
    let nearest = explanation.nearest(|number, hop| lock_and_idle(explanation, number, hop));
    for piece in &explanation.pieces {
        if let Some(key) = piece.hop.and_then(|hop| *nearest.get(hop as usize)?) {
            *sums.entry(key).or_default() += piece.window.duration_ns();
        }
    }
    let ((lock, idle), ns) = sums.into_iter().max_by_key(|&(hops, ns)| (ns, Reverse(hops)))?;
    let (lock, idle) = (explanation.hop(Some(lock))?, explanation.hop(Some(idle))?);
    // Who waits for a process that it started is not idle: that one works for it.
    let is_own_child = descends(case.analysis, idle.by, lock.by, explanation.window.end);
    (!is_own_child).then_some((lock, idle, ns))
}

/// A wait for a lock whose holder was idle, and that holder's wait, which is `hop`, by their numbers.
fn lock_and_idle(explanation: &Explanation, number: u32, hop: &Hop) -> Option<(u32, u32)> {
    let is_locks = explanation.hop(hop.parent)?.class == WaitClass::Lock;
    let lock = hop.parent.filter(|_| is_locks && hop.class == WaitClass::Idle)?;
    Some((lock, number))
}
