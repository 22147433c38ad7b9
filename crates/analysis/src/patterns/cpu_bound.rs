//! Computation: the victim itself was on a CPU most of the time, or the thread whose message it
//! waited for was.

use super::case::Case;
use super::finding::{Evidence, Finding, Pattern};
use crate::WaitClass;
use crate::explain::{Cause, Hop, Piece};
use crate::wording::sentence::sentence;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    // Computing under a lock is another pattern.
    let computed = |piece: &Piece, hop: Option<&Hop>| {
        piece.cause == Cause::Ran && hop.is_none_or(|hop| hop.class != WaitClass::Lock)
    };
    let (who, ran) = case.most_of(computed)?;
    if !case.is_most(ran) {
        return None;
    }
    let own = who == case.candidate.victim;
    let windows = case.windows_of(|piece, hop| piece.thread == who && computed(piece, hop));
    let computing = case.computing(who, &windows);
    let mut sentences = Vec::new();
    match case.waited_in().filter(|_| !own) {
        Some(waited) => {
            sentences.push(waited);
            sentences.push(sentence!(
                "{}, whose reply it waited for, was on a CPU for {}.",
                case.name(who),
                case.part(ran)
            ));
        }
        None => sentences.push(sentence!(
            "Nobody kept it waiting: it was on a CPU for {} ({}).",
            case.part(ran),
            case.percent(ran)
        )),
    }
    sentences.push(computing.sentence);
    sentences.extend(case.ended_wait_in(who, "It replied").filter(|_| !own));
    let place = computing.place;
    let cause = match (own, case.candidate.event_loop) {
        (true, true) => sentence!("its own computation on the event loop{}.", place),
        (true, false) => sentence!("its own computation{}.", place),
        (false, _) if place.is_empty() => {
            sentence!("the computation of {}, whose reply it waited for.", case.name(who))
        }
        (false, _) => {
            sentence!("the computation of {}, whose reply it waited for,{}.", case.name(who), place)
        }
    };
    let mut finding = Finding {
        culprit: Some(who),
        function: computing.function,
        sentences,
        ..case.finding(Pattern::CpuBound, cause)
    };
    if own && finding.evidence == Evidence::Direct {
        let and_samples = if computing.samples > 0 { " and samples" } else { "" };
        finding.evidence_words = sentence!("its switches{} were seen", and_samples);
    }
    if own && case.candidate.event_loop {
        finding.advice = "Move the computation off the event loop, or split it up.".to_owned();
    }
    Some(finding)
}
