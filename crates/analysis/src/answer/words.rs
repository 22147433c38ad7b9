//! How stalls and moments are called.

use crate::Analysis;
use crate::candidate::StallKind;
use crate::diagnose::Stall;
use crate::timeline::State;
use crate::wording::units;
use unhitch_model::Time;

/// What a stall is called: `HANG`, `STALL`, or, for one that was asked about, `WAIT` or `WINDOW`.
pub fn headline(stall: &Stall) -> &'static str {
    match stall.candidate.kind {
        StallKind::Mark => "WINDOW",
        StallKind::Longest if !is_wait(stall) => "WINDOW",
        StallKind::Longest | StallKind::Idle => "WAIT",
        _ if stall.candidate.event_loop || stall.candidate.kind == StallKind::LockStarvation => {
            "HANG"
        }
        _ => "STALL",
    }
}

/// True unless the victim itself ran for most of the time, or nothing is known of it.
fn is_wait(stall: &Stall) -> bool {
    let own = stall.explanation.pieces.iter().filter(|piece| {
        piece.hop.is_none() && matches!(piece.segment.state, State::Ran | State::Unknown)
    });
    let own_ns: u64 = own.map(|piece| piece.window.duration_ns()).sum();
    own_ns.saturating_mul(2) < stall.explanation.window.duration_ns()
}

/// A moment as text, counted from the trace's origin.
pub(super) fn at(analysis: &Analysis<'_>, time: Time) -> String {
    units::seconds(time.since(analysis.trace.origin()))
}
