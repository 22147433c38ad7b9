//! Which stall is told first.

use super::stall::{Query, Stall};
use crate::patterns::Pattern;
use std::cmp::Reverse;
use unhitch_model::Window;

/// Sorts stalls by how much they matter. *Why explained ones first:* a wait as long as the recording
/// that nothing explains is mostly an idle thread's, but not if a user was seen to wait. So is a stop:
/// a job that somebody suspended in a terminal. *Why those next for which somebody waited:* a batch
/// that computes hurts nobody.
pub(super) fn worst_first(stalls: &mut [Stall], query: &Query, recorded: Window) {
    stalls.sort_by_key(|stall| {
        let candidate = &stall.candidate;
        let suspended = stall.finding.pattern == Pattern::Stopped
            && candidate.window.intersect(recorded) == recorded;
        let unexplained = !query.is_about_something()
            && (suspended || !stall.finding.pattern.is_definite())
            && !candidate.is_seen_by_user();
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
