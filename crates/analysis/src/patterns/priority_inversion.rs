//! Priority inversion: the lock's holder was runnable, and others had the CPU.

use super::case::Case;
use super::finding::{Finding, Pattern};
use crate::State;
use crate::explain::Cause;
use crate::explain::throttling::{self, throttled};
use crate::stacks::text::own_function;
use crate::wording::sentence::sentence;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let (holder, _) = case.main_holder()?;
    let starved = case.holder_without_cpu_ns(holder);
    if !case.is_most(starved) || holder == case.candidate.victim {
        return None;
    }
    let (who, trace) = (case.name(holder), case.analysis.trace);
    let occupants = case.occupants(|piece| piece.thread == holder && piece.hop.is_some());
    let quota = throttled(case.analysis, holder, case.explanation.window, starved);
    let had = match (&quota, occupants.hog()) {
        (Some(quota), _) => sentence!(": it was {}", throttling::words(&trace.machine, quota)),
        (None, Some(hog)) => sentence!(", because {} had it", case.occupant(hog)),
        (None, None) => return None,
    };
    let mut sentences = case.waited_for_lock_in();
    sentences.push(sentence!(
        "{}{} held the lock, and for {} it was ready to run but got no CPU.",
        who.clone(),
        case.policy(holder),
        case.part(starved)
    ));
    match &quota {
        Some(quota) => sentences.push(case.throttled_story(holder, quota)),
        None => sentences.extend(
            occupants.listed(case).map(|others| sentence!("Its CPU was used by: {}.", others)),
        ),
    }
    let preempted = case
        .longest(holder, Cause::WaitedForCpu)
        .map(|piece| &piece.segment)
        .filter(|segment| segment.state == State::Runnable { preempted: true })
        .filter(|segment| !segment.wait_stack(trace).is_empty());
    sentences.extend(
        preempted.map(|segment| {
            sentence!("It lost the CPU in\n  {}", case.segment_stack(holder, segment))
        }),
    );
    sentences.extend(case.ended_wait_in(holder, "It released the lock"));
    let stack =
        preempted.map_or_else(|| case.release_stack(holder), |segment| segment.wait_stack(trace));
    let advice = match &quota {
        Some(_) => {
            "Give the control group a larger quota, or let nobody outside it wait for its locks."
        }
        None => {
            "Use a priority-inheriting lock, or do not hold a lock at a lower priority than the \
             threads that wait for it."
        }
    };
    let cause = sentence!("priority inversion: {} held the lock but got no CPU{}.", who, had);
    // Whoever departs from the usual scheduling is to blame: a real-time thread that leaves an
    // ordinary one no CPU, else the holder.
    let hog = occupants.hog().map(|hog| hog.thread).filter(|_| quota.is_none());
    let hog = hog.filter(|hog| case.is_real_time(*hog) && !case.is_real_time(holder));
    let hot = hog.and_then(|hog| case.hot(hog, &[case.explanation.window]));
    let function = match hot {
        Some(spot) => case.hot_name(&spot),
        None => own_function(case.analysis, stack),
    };
    let mut finding = Finding {
        culprit: hog.or(Some(holder)),
        function,
        sentences,
        advice: advice.to_owned(),
        ..case.finding(Pattern::PriorityInversion, cause)
    };
    if let Some(quota) = &quota {
        (finding.evidence, finding.evidence_words) =
            case.throttled_evidence(holder, starved, quota);
    }
    Some(finding)
}
