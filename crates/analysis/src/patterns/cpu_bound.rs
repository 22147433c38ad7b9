//! Computation: the victim itself was on a CPU all the time, or the one whose message it waited for.

use super::{Case, Finding, Pattern};
use crate::WaitClass;
use crate::answer::units;
use crate::explain::{Cause, Hop, Piece};

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    // Who computes under a lock is another pattern's.
    let computed = |piece: &Piece, hop: Option<&Hop>| piece.cause == Cause::Ran && hop.is_none_or(|hop| hop.class != WaitClass::Lock);
    let (who, ran) = case.most_of(computed)?;
    if !case.is_most(ran) {
        return None;
    }
    let own = who == case.candidate.victim;
    let hot = case.hot(who, &case.windows_of(|piece, hop| piece.thread == who && computed(piece, hop)));
    let mut story = Vec::new();
    let (ran_told, whole) = (units::duration(ran), units::duration(case.duration_ns()));
    match case.waited_in().filter(|_| !own) {
        Some(waited) => {
            story.push(waited);
            story.push(format!("{}, whose answer it waited for, was on a CPU for {ran_told} of these {whole}.", case.name(who)));
        }
        None => story.push(format!("Nobody kept it waiting: it was on a CPU for {ran_told} of these {whole} ({}).", case.percent(ran))),
    }
    let (function, doing) = match &hot {
        Some(spot) => {
            story.push(format!("{} of {} samples are in\n  {}", spot.inside, spot.total, case.told(spot.stack)));
            (case.hot_name(spot), format!(" in {}", case.hot_name(spot)))
        }
        None => {
            story.push("There are no CPU samples of it in this window, so where it computed is not known.".to_owned());
            (String::new(), String::new())
        }
    };
    story.extend(case.let_go(who, "It answered").filter(|_| !own));
    let (evidence, evidence_words) = case.evidence();
    let what = match (own, case.candidate.event_loop) {
        (true, true) => "its own computation on the event loop".to_owned(),
        (true, false) => "its own computation".to_owned(),
        (false, _) => format!("the computation of {}, for whose answer it waited,", case.name(who)),
    };
    Some(Finding {
        pattern: Pattern::CpuBound,
        culprit: Some(who),
        crowd: None,
        function,
        evidence,
        evidence_words: if own && evidence == super::Evidence::Direct {
            "its switches and samples were seen".to_owned()
        } else {
            evidence_words
        },
        story,
        cause: format!("{what}{doing}."),
        advice: if own && case.candidate.event_loop {
            "Move the computation off the event loop, or cut it into pieces.".to_owned()
        } else {
            String::new()
        },
        operation: None,
    })
}
