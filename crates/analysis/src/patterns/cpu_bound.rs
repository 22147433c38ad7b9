//! Computation: the victim itself was on a CPU all the time, or the one whose message it waited
//! for.

use super::{Case, Finding, Pattern};
use crate::WaitClass;
use crate::answer::units;
use crate::explain::{Cause, Hop, Piece};

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    // Who computes under a lock is another pattern's.
    let computed = |piece: &Piece, hop: Option<&Hop>| {
        piece.cause == Cause::Ran && hop.is_none_or(|hop| hop.class != WaitClass::Lock)
    };
    let (who, ran) = case.most_of(computed)?;
    if !case.is_most(ran) {
        return None;
    }
    let own = who == case.candidate.victim;
    let computing = case
        .computing(who, &case.windows_of(|piece, hop| piece.thread == who && computed(piece, hop)));
    let mut story = Vec::new();
    let (ran_told, whole) = (units::duration(ran), units::duration(case.duration_ns()));
    match case.waited_in().filter(|_| !own) {
        Some(waited) => {
            story.push(waited);
            story.push(format!(
                "{}, whose answer it waited for, was on a CPU for {ran_told} of these {whole}.",
                case.name(who)
            ));
        }
        None => story.push(format!(
            "Nobody kept it waiting: it was on a CPU for {ran_told} of these {whole} ({}).",
            case.percent(ran)
        )),
    }
    story.push(computing.sentence);
    story.extend(case.let_go(who, "It answered").filter(|_| !own));
    let (evidence, evidence_words) = case.evidence();
    let place = &computing.place;
    let cause = match (own, case.candidate.event_loop) {
        (true, true) => format!("its own computation on the event loop{place}."),
        (true, false) => format!("its own computation{place}."),
        (false, _) if place.is_empty() => {
            format!("the computation of {}, for whose answer it waited.", case.name(who))
        }
        (false, _) => {
            format!("the computation of {}, for whose answer it waited,{place}.", case.name(who))
        }
    };
    Some(Finding {
        pattern: Pattern::CpuBound,
        culprit: Some(who),
        crowd: None,
        function: computing.function,
        evidence,
        evidence_words: if own && evidence == super::Evidence::Direct {
            let and_samples = if computing.samples > 0 { " and samples" } else { "" };
            format!("its switches{and_samples} were seen")
        } else {
            evidence_words
        },
        story,
        cause,
        advice: if own && case.candidate.event_loop {
            "Move the computation off the event loop, or cut it into pieces.".to_owned()
        } else {
            String::new()
        },
        operation: None,
    })
}
