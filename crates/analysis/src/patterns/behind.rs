//! What kept a thread that kept the victim, where no wake-up leads from one to the other: who has a lock
//! for which the victim polls may itself wait for another process.

use super::case::Case;
use super::finding::Finding;
use super::{Detector, cpu_bound, long_hold, stopped, timer_sleep};
use crate::WaitClass;
use crate::candidate::{Candidate, StallKind};
use crate::explain::{Hop, explain, partition};
use unhitch_model::{ThreadId, Window};

/// How it may have been kept. *Why not by what else is polled for*: two may poll for what each other has.
const DETECTORS: [Detector; 4] =
    [stopped::detect, long_hold::detect, cpu_bound::detect, timer_sleep::detect];

/// What kept `thread` in `window`, if it waited for most of it, not for its client's next command or the
/// like, and another process is to blame. `It` in the sentences is `thread`.
pub(super) fn behind(case: &Case<'_>, thread: ThreadId, window: Window) -> Option<Finding> {
    let analysis = case.analysis;
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
    let hops = explanation.hops.iter();
    let is_rest = |hop: &Hop| {
        let has_words = analysis.stacks.words(hop.wait_stack).is_some();
        hop.class == WaitClass::Idle && (has_words || analysis.stacks.is_toolkit(hop.wait_stack))
    };
    let waits = hops.filter(|hop| hop.depth == 1 && !is_rest(hop));
    if !own.is_most(waits.map(|hop| hop.window.duration_ns()).sum()) {
        return None;
    }
    let finding = DETECTORS.iter().find_map(|detect| detect(&own))?;
    let process = |thread: ThreadId| analysis.trace.threads.get(thread).process;
    finding.culprit.is_some_and(|culprit| process(culprit) != process(thread)).then_some(finding)
}
