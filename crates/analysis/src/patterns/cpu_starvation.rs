//! CPU starvation: the victim was ready to run, and others had the CPU.

use super::{Case, Finding, Pattern};
use crate::answer::units;
use crate::explain::Cause;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let starved = case.ns_of(|piece, hop| hop.is_none() && piece.cause == Cause::WaitedForCpu);
    if !case.is_most(starved) {
        return None;
    }
    let trace = case.analysis.trace;
    let policy = |thread| units::policy(trace.threads.get(thread));
    let occupants = case.occupants(|piece| piece.hop.is_none());
    let others: Vec<String> = occupants
        .iter()
        .take(3)
        .filter_map(|&(thread, ns)| thread.map(|thread| format!("{}{} {}", case.name(thread), policy(thread), units::duration(ns))))
        .collect();
    let hog = occupants.iter().find_map(|&(thread, _)| thread.filter(|thread| !thread.is_idle()));
    let cause = match hog {
        Some(hog) => format!("CPU starvation: {} had the CPU.", case.name(hog)),
        None => "CPU starvation, though no thread had the CPU: the machine itself did not run it (a sleeping CPU, a throttled group, or a virtual machine's host).".to_owned(),
    };
    let (evidence, evidence_words) = case.evidence();
    Some(Finding {
        pattern: Pattern::CpuStarvation,
        culprit: hog,
        function: hog.and_then(|hog| case.hot(hog, &[case.explanation.window])).map(|spot| case.hot_name(&spot)).unwrap_or_default(),
        evidence,
        evidence_words,
        story: vec![
            format!(
                "It was ready to run{} for {} of these {} and got no CPU.",
                policy(case.candidate.victim),
                units::duration(starved),
                units::duration(case.duration_ns())
            ),
            format!(
                "The CPU it waited for was taken by: {}.",
                if others.is_empty() { "nobody that was recorded".to_owned() } else { others.join(", ") }
            ),
        ],
        cause,
        advice: String::new(),
        operation: None,
    })
}
