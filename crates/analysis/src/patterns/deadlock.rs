//! Deadlock: each thread of a circle owns what the one before it waits for, so that none goes on.

use super::case::Case;
use super::finding::{Evidence, Finding, Pattern};
use crate::explain::owned_at_end;
use crate::stacks::text::own_function;
use crate::timeline::Segment;
use crate::wording::sentence::{Sentence, count, sentence};
use unhitch_model::ThreadId;

/// A thread of a circle, what it waits in, and who owns that.
struct Link {
    thread: ThreadId,
    sleep: Segment,
    owner: ThreadId,
}

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let victim = case.candidate.victim;
    let circle = circle(case)?;
    let is_in = circle.iter().any(|link| link.thread == victim);
    // The victim's own place is known; the circle goes on with whom it waits for.
    let culprit = circle.iter().find(|link| link.thread != victim)?;
    let mut sentences = Vec::new();
    if !is_in {
        sentences.extend(case.waited_for_lock_in());
        sentences.push(sentence!("It is owned by threads that wait for each other."));
    }
    sentences.extend(circle.iter().map(|link| {
        sentence!(
            "{} waits for a lock that {} owns, in\n  {}",
            case.name(link.thread),
            case.name(link.owner),
            case.segment_stack(link.thread, &link.sleep)
        )
    }));
    let cause = match &circle[..] {
        [one, other] => sentence!(
            "a deadlock: {} and {} each wait for a lock that the other owns.",
            case.name(one.thread),
            case.name(other.thread)
        ),
        more => sentence!(
            "a deadlock: each of {} threads waits for a lock that the next one owns: {}.",
            count(more.len() as u64),
            Sentence::join(more.iter().map(|link| case.name(link.thread)), ", ")
        ),
    };
    Some(Finding {
        culprit: Some(culprit.thread),
        function: own_function(case.analysis, culprit.sleep.wait_stack(case.analysis.trace)),
        evidence: Evidence::Inferred,
        evidence_words: Sentence::from("the owners were read from the locks at the save"),
        sentences,
        advice: "Take the locks in the same order everywhere. Unless one of the waits has a time \
                 limit, these threads never go on."
            .to_owned(),
        ..case.finding(Pattern::Deadlock, cause)
    })
}

/// The circle in which the owners of what the victim waits for end, if they do.
fn circle(case: &Case<'_>) -> Option<Vec<Link>> {
    let mut path: Vec<Link> = Vec::new();
    let mut thread = case.candidate.victim;
    loop {
        if let Some(first) = path.iter().position(|link| link.thread == thread) {
            return Some(path.split_off(first));
        }
        let (sleep, owner) = owned_at_end(case.analysis, thread)?;
        path.push(Link { thread, sleep, owner });
        thread = owner;
    }
}
