//! How stalls and moments are called.

use crate::Analysis;
use crate::candidate::StallKind;
use crate::diagnose::Stall;
use crate::wording::units;
use unhitch_model::Time;

/// What a stall is called: `HANG`, `STALL`, or `WINDOW` for one that was asked about.
pub fn headline(stall: &Stall) -> &'static str {
    match stall.candidate.kind {
        StallKind::Mark => "WINDOW",
        StallKind::Longest | StallKind::Idle => "WAIT",
        _ if stall.candidate.event_loop || stall.candidate.kind == StallKind::LockStarvation => {
            "HANG"
        }
        _ => "STALL",
    }
}

/// A moment as text, counted from the trace's origin.
pub(super) fn at(analysis: &Analysis<'_>, time: Time) -> String {
    units::seconds(time.since(analysis.trace.origin()))
}
