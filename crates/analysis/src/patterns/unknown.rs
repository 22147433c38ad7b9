//! No pattern fits: says where the time went and leaves the conclusion to the reader.

use super::{Case, Evidence, Finding, Pattern};
use crate::answer::{units, words};
use crate::partition::Share;

pub(super) fn verdict(case: &Case<'_>) -> Finding {
    let trace = case.analysis.trace;
    let mut story = Vec::new();
    let longest = case.explanation.pieces.iter().max_by_key(|piece| piece.window.duration_ns());
    if let Some(wait) = case.victims_wait() {
        story.push(format!(
            "Its longest wait ({}, {}) ended when {} woke it. It waited in\n  {}",
            units::duration(wait.window.duration_ns()),
            wait.class.name().replace('_', " "),
            case.name(wait.by),
            case.told(wait.wait_stack)
        ));
    } else if let Some(piece) = longest {
        let stack = piece.segment.wait_stack(trace);
        story.push(format!(
            "The longest stretch ({}) was spent in\n  {}",
            units::duration(piece.window.duration_ns()),
            case.told(stack)
        ));
    }
    let top = case.partition.first();
    let (evidence, evidence_words) = match case.evidence() {
        (Evidence::Direct, words) => {
            (Evidence::Inferred, format!("{words}, but no pattern of a known cause fits"))
        }
        weaker => weaker,
    };
    Finding {
        pattern: Pattern::Unknown,
        culprit: top.and_then(|share| share.who).filter(|who| !who.is_idle()),
        crowd: None,
        function: longest
            .map(|piece| case.analysis.own_function(piece.segment.wait_stack(trace)))
            .unwrap_or_default(),
        evidence,
        evidence_words,
        story,
        cause: match top {
            Some(share) if case.is_most(share.ns) => {
                format!("for {} of it: {}.", case.percent(share.ns), part(case, share))
            }
            Some(share) => {
                format!(
                    "no single one: the largest part is \"{}\", {}.",
                    part(case, share),
                    case.percent(share.ns)
                )
            }
            None => "not known: nothing was recorded of it here.".to_owned(),
        },
        advice: String::new(),
        operation: None,
    }
}

/// A part of the time, as the partition shows it.
fn part(case: &Case<'_>, share: &Share) -> String {
    format!(
        "{} {}",
        words(share.what),
        share.who.map_or_else(|| "nobody known".to_owned(), |who| case.name(who))
    )
}
