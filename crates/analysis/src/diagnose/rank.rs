//! Which stall is told first.

use super::{Query, Stall};
use crate::candidate::{Candidate, StallKind};
use crate::patterns::Pattern;
use std::cmp::Reverse;

/// Sorts stalls by how much they matter. *Why explained ones first:* a wait as long as the recording
/// that nothing explains is mostly an idle thread's. *Why those next for which somebody waited:* a
/// batch that computes hurts nobody.
pub(super) fn worst_first(stalls: &mut [Stall], query: &Query) {
    stalls.sort_by_key(|stall| {
        let candidate = &stall.candidate;
        let unexplained = !query.is_about_something() && !stall.finding.pattern.is_definite();
        let alone = !query.is_about_something() && !stall.kept_somebody_waiting();
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

/// How much a candidate matters: its length, four times that for an event loop, because someone
/// sits before it.
pub(super) fn weight(candidate: &Candidate) -> u64 {
    candidate.window.duration_ns().saturating_mul(if candidate.event_loop { 4 } else { 1 })
}

impl Query {
    /// The order of answers to a query that names threads: those that were not idle, and the first
    /// thread's own, come first.
    fn rank(&self, stall: &Stall) -> (bool, bool) {
        let first = self.victims.first().is_none_or(|first| stall.victims.contains(first));
        (stall.candidate.kind == StallKind::Idle, !first)
    }
}

impl Stall {
    /// True if somebody sat before it, or somebody else kept its victims waiting: a thread, a disk,
    /// a quota. A command that waits for what it started does its work.
    fn kept_somebody_waiting(&self) -> bool {
        let works = matches!(self.finding.pattern, Pattern::CpuBound | Pattern::TimerSleep);
        let own = works && self.kept_waiting_by().is_none();
        match self.candidate.kind {
            StallKind::Command => !works,
            _ => self.candidate.event_loop || self.victims.len() > 1 || !own,
        }
    }

    /// How bad it is: how long, for how many, and whether there is a cause to act on.
    pub fn severity(&self) -> u64 {
        let cause = match self.finding.pattern {
            Pattern::Unknown | Pattern::DeadEnd => 1,
            Pattern::TimerSleep => 2,
            _ => 4,
        };
        // A busy machine starves many threads of a CPU a little: their number says less than that
        // of threads behind one lock.
        let most = if self.candidate.kind == StallKind::CpuStarvation { 2 } else { 10 };
        weight(&self.candidate).saturating_mul(self.victims.len().min(most) as u64 * cause)
    }
}
