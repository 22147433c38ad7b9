//! CPU starvation: the victim was ready to run, and others had the CPU.

use super::{Case, Finding, Pattern};
use crate::answer::units;
use crate::explain::Cause;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let starved = case.ns_of(|piece, hop| hop.is_none() && piece.cause == Cause::WaitedForCpu);
    if !case.is_most(starved) {
        return None;
    }
    let occupants = case.occupants(|piece| piece.hop.is_none());
    let hog = occupants.hog();
    let hot = hog.and_then(|hog| case.hot_of(hog));
    let exits = hot.as_ref().is_some_and(|spot| case.analysis.facts.exits(spot.stack));
    let cause = match hog {
        Some(hog) => format!("CPU starvation: {} had the CPU{}.", case.occupant(hog), if exits { ", to end processes" } else { "" }),
        None => "CPU starvation, though no thread had the CPU: the machine itself did not run it (a sleeping CPU, a throttled group, or a virtual machine's host).".to_owned(),
    };
    let (evidence, evidence_words) = case.evidence();
    Some(Finding {
        pattern: Pattern::CpuStarvation,
        culprit: hog.map(|hog| hog.thread),
        crowd: hog.and_then(|hog| hog.crowd),
        function: hot.map(|spot| case.hot_name(&spot)).unwrap_or_default(),
        evidence,
        evidence_words,
        story: vec![
            format!(
                "It was ready to run{} for {} of these {} and got no CPU.",
                case.policy(case.candidate.victim),
                units::duration(starved),
                units::duration(case.duration_ns())
            ),
            format!(
                "The CPU it waited for was taken by: {}.",
                occupants.told(case).unwrap_or_else(|| "nobody that was recorded".to_owned())
            ),
        ],
        cause,
        advice: String::new(),
        operation: None,
    })
}
