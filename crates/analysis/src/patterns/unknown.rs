//! No pattern fits: shows where the time went and leaves the conclusion to the reader.

use super::case::Case;
use super::case::weaken;
use super::finding::{Finding, Pattern};
use crate::explain::Share;
use crate::stacks::text::own_function;
use crate::wording::sentence::{Sentence, duration, sentence};

pub(super) fn finding(case: &Case<'_>) -> Finding {
    let longest = case.explanation.pieces.iter().max_by_key(|piece| piece.window.duration_ns());
    let mut sentences = Vec::new();
    if let Some(wait) = case.victims_wait() {
        sentences.push(sentence!(
            "Its longest wait ({}, {}) ended when {} woke it. It waited in\n  {}",
            duration(wait.window.duration_ns()),
            wait.class.words(),
            case.name(wait.by),
            case.wait_stack(wait)
        ));
    } else if let Some(piece) = longest {
        sentences.push(sentence!(
            "The longest stretch ({}) was spent in\n  {}",
            duration(piece.window.duration_ns()),
            case.segment_stack(piece.thread, &piece.segment)
        ));
    }
    let top = case.partition.first();
    let cause = match top {
        Some(share) if case.is_most(share.ns) => {
            sentence!("the largest part is \"{}\", {}.", part(case, share), case.percent(share.ns))
        }
        Some(share) => sentence!(
            "no single cause: the largest part is \"{}\", {}.",
            part(case, share),
            case.percent(share.ns)
        ),
        None => Sentence::from("not known: nothing about this thread was recorded in this time."),
    };
    let stack = longest.map(|piece| piece.segment.wait_stack(case.analysis.trace));
    let mut finding = Finding {
        culprit: top.and_then(|share| share.who).filter(|who| !who.is_idle()),
        function: stack.map(|stack| own_function(case.analysis, stack)).unwrap_or_default(),
        sentences,
        ..case.finding(Pattern::Unknown, cause)
    };
    weaken(&mut finding, |words| sentence!("{}, but no known pattern fits", words));
    finding
}

/// A part of the time, as the partition shows it.
fn part(case: &Case<'_>, share: &Share) -> Sentence {
    let label = share.what.words();
    let who = match share.who {
        Some(who) if who.is_idle() => return Sentence::from(share.what.words_of_idle()),
        Some(who) => Sentence::from(case.name(who)),
        None => Sentence::from("an unknown thread"),
    };
    let leads_on = [" by", " from", " for"].iter().any(|end| label.ends_with(end));
    sentence!("{}{} {}", label, if leads_on { "" } else { ":" }, who)
}
