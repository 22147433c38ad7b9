//! What kept a thread that kept the victim, where no wake-up leads from one to the other: who has a lock
//! for which the victim polls may itself wait for another process.

use super::case::Case;
use super::finding::{Evidence, Finding};
use super::{cpu_bound, long_hold, stopped, timer_sleep};
use crate::WaitClass;
use crate::candidate::{Candidate, StallKind};
use crate::explain::{Hop, active_ns, explain, partition};
use crate::wording::sentence::{Sentence, sentence};
use unhitch_model::{ThreadId, Window};

/// How it may have been kept. *Why not by what else is polled for*: two may poll for what each other has.
const DETECTORS: [fn(&Case<'_>) -> Option<Finding>; 4] =
    [stopped::detect, long_hold::detect, cpu_bound::detect, timer_sleep::detect];

/// The finding, which blames `thread` for what `sleeper` polled for and whose cause has no full stop yet,
/// with what `thread` did in `window`: the process that kept it is to blame, after `intro`, or else it
/// computed, or neither is known.
pub(super) fn with_what_kept(
    case: &Case<'_>,
    mut finding: Finding,
    sleeper: ThreadId,
    (thread, window): (ThreadId, Window),
    intro: Sentence,
) -> Finding {
    let process = |thread: ThreadId| case.analysis.trace.threads.get(thread).process;
    // Who waits for what the poller does is kept by that as little as the other way round.
    let is_other = |behind: &Finding| {
        let own = [thread, sleeper, case.candidate.victim].map(process);
        behind.culprit.is_some_and(|culprit| !own.contains(&process(culprit)))
    };
    let Some(behind) = behind(case, thread, window).filter(is_other) else {
        let computing = case.computing(thread, &[window]);
        // It may have slept, too.
        finding.sentences.extend((computing.samples > 0).then_some(computing.sentence));
        finding.cause = match computing.place.is_empty() {
            true => sentence!("{}.", finding.cause),
            false => sentence!("{}; that was{}.", finding.cause, computing.place),
        };
        if !computing.function.is_empty() {
            finding.function = computing.function;
        }
        return finding;
    };
    finding.sentences.push(intro);
    finding.sentences.extend(behind.sentences);
    Finding {
        culprit: behind.culprit,
        polled: Some(thread),
        function: behind.function,
        cause: sentence!("{}; what kept that one: {}", finding.cause, behind.cause),
        evidence: finding.evidence.max(behind.evidence).max(Evidence::Inferred),
        evidence_words: sentence!(
            "{}; that {} was kept by what it waited for is inferred",
            finding.evidence_words,
            case.name(thread)
        ),
        advice: behind.advice,
        ..finding
    }
}

/// What kept the process whose first thread is `thread` in `window`, if that waited for most of it, not
/// for its client's next command or the like, and no other thread of it worked. `It` in the sentences is
/// `thread`.
fn behind(case: &Case<'_>, thread: ThreadId, window: Window) -> Option<Finding> {
    let analysis = case.analysis;
    let process = analysis.trace.threads.get(thread).process;
    let mut others = analysis.threads_of(process).iter().filter(|other| **other != thread);
    if others
        .any(|other| active_ns(analysis, *other, window).saturating_mul(2) >= window.duration_ns())
    {
        return None;
    }
    let explanation = explain(analysis, thread, window);
    let candidate = Candidate {
        kind: StallKind::Longest,
        victim: thread,
        window: explanation.window,
        operation: None,
        event_loop: false,
        machine: None,
    };
    let partition = partition(analysis, &explanation);
    let own = Case {
        analysis,
        candidate: &candidate,
        explanation: &explanation,
        partition,
        operation: None,
    };
    let is_rest = |hop: &Hop| {
        let has_words = analysis.stacks.words(hop.wait_stack).is_some();
        hop.class == WaitClass::Idle && (has_words || analysis.stacks.is_toolkit(hop.wait_stack))
    };
    let own_waits = explanation.hops.iter().filter(|hop| hop.depth == 1 && hop.started.is_none());
    let waits = own_waits.filter(|hop| !is_rest(hop));
    if !own.is_most(waits.map(|hop| hop.window.duration_ns()).sum()) {
        return None;
    }
    DETECTORS.iter().find_map(|detect| detect(&own))
}
