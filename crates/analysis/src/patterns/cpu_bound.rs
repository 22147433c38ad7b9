//! Own computation: the victim itself was on a CPU all the time.

use super::{Case, Finding, Pattern};
use crate::answer::units;
use crate::explain::Cause;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let own = |piece: &crate::Piece, hop: Option<&crate::Hop>| hop.is_none() && piece.cause == Cause::Ran;
    let ran = case.ns_of(own);
    if !case.is_most(ran) {
        return None;
    }
    let victim = case.candidate.victim;
    let hot = case.hot(victim, &case.windows_of(own));
    let mut story = vec![format!(
        "Nobody kept it waiting: it was on a CPU for {} of these {} ({}).",
        units::duration(ran),
        units::duration(case.duration_ns()),
        case.percent(ran)
    )];
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
    let (evidence, evidence_words) = case.evidence();
    let what = if case.candidate.event_loop { "its own computation on the event loop" } else { "its own computation" };
    Some(Finding {
        pattern: Pattern::CpuBound,
        culprit: Some(victim),
        function,
        evidence,
        evidence_words: if evidence == super::Evidence::Direct { "its switches and samples were seen".to_owned() } else { evidence_words },
        story,
        cause: format!("{what}{doing}."),
        advice: if case.candidate.event_loop {
            "Move the computation off the event loop, or cut it into pieces.".to_owned()
        } else {
            String::new()
        },
        operation: None,
    })
}
