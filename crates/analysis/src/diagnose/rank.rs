//! Which stall is told first.

use super::stall::{Query, Stall};
use crate::Analysis;
use crate::patterns::Pattern;
use std::cmp::Reverse;
use unhitch_model::{Policy, ThreadId};

/// Sorts stalls by how much they matter. *Why explained ones first:* a wait as long as the recording
/// that nothing explains is mostly an idle thread's, but not if a user was seen to wait. So is a stop:
/// a job that somebody suspended in a terminal. *Why those next for which somebody waited:* a batch
/// that computes hurts nobody, nor does one that is nice and gets no CPU.
pub(super) fn worst_first(analysis: &Analysis<'_>, stalls: &mut [Stall], query: &Query) {
    let recorded = analysis.timeline.window();
    stalls.sort_by_key(|stall| {
        let candidate = &stall.candidate;
        let suspended = stall.finding.pattern == Pattern::Stopped
            && candidate.window.intersect(recorded) == recorded;
        let unexplained = !query.is_about_something()
            && (suspended || !stall.finding.pattern.is_definite())
            && !candidate.is_seen_by_user();
        let alone = !query.is_about_something()
            && (!stall.kept_somebody_waiting() || gives_way(analysis, stall));
        (
            query.rank(stall),
            unexplained,
            alone,
            Reverse(stall.severity()),
            candidate.window.start,
            candidate.victim,
        )
    });
}

/// True if everyone who got no CPU had asked to come after others.
fn gives_way(analysis: &Analysis<'_>, stall: &Stall) -> bool {
    let is_nice = |victim: &ThreadId| {
        let thread = analysis.trace.threads.get(*victim);
        thread.nice.is_some_and(|nice| nice > 0)
            || matches!(thread.policy, Some(Policy::Batch | Policy::Idle))
    };
    stall.finding.pattern == Pattern::CpuStarvation && stall.victims.iter().all(is_nice)
}
