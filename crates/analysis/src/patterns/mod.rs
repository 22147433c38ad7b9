//! What causes look like. Each pattern is one file with one detector and one line in [`DETECTORS`];
//! the first detector that applies gives the finding.
//!
//! A detector reads only the explanation of a stall, so that whatever it states can be checked
//! against the partition. It also states its evidence: *direct* (the wake-ups were seen),
//! *inferred*, or *lost* (too much of the window is hidden).

mod behind;
mod case;
mod computing;
mod cpu_bound;
mod cpu_starvation;
mod dead_end;
mod deadlock;
mod device_wait;
mod disks;
mod evidence;
mod finding;
mod group_limits;
mod idle_holder;
mod io_wait;
mod lock_convoy;
mod lock_starvation;
mod long_hold;
mod memory;
mod occupants;
mod peers;
mod polled_end;
mod polled_lock;
mod priority_inversion;
mod refused_lock;
mod samples_only;
mod saturated_lock;
mod spin_wait;
mod steal;
mod stopped;
mod syn_retransmit;
mod timer_sleep;
mod unknown;

pub use case::Case;
pub(crate) use case::weaken;
pub use finding::{Evidence, Finding, Pattern};
pub(crate) use lock_starvation::MIN_WAKES_IN_VAIN;

use crate::Analysis;
use crate::candidate::Candidate;
use crate::explain::{self, Explanation};

/// Looks for one pattern.
pub type Detector = fn(&Case<'_>) -> Option<Finding>;

/// The registry of patterns, the most specific first.
pub const DETECTORS: &[Detector] = &[
    samples_only::detect,
    deadlock::detect,
    refused_lock::detect,
    lock_starvation::detect,
    stopped::detect,
    io_wait::detect,
    priority_inversion::detect,
    long_hold::detect,
    idle_holder::detect,
    saturated_lock::detect,
    lock_convoy::detect,
    device_wait::detect,
    memory::detect,
    cpu_starvation::detect,
    spin_wait::detect,
    cpu_bound::detect,
    cpu_starvation::detect_of_helper,
    polled_lock::detect,
    polled_end::detect,
    timer_sleep::detect,
    syn_retransmit::detect,
    dead_end::detect,
];

/// The finding of the first pattern that applies.
pub fn judge(analysis: &Analysis<'_>, candidate: &Candidate, explanation: &Explanation) -> Finding {
    let operation = candidate.operation.clone().or_else(|| {
        let segments = analysis.segments(candidate.victim, candidate.window);
        let operations = explain::operations(analysis, candidate.victim, &segments);
        let longest =
            operations.into_iter().max_by_key(|operation| operation.window.duration_ns())?;
        (longest.window.duration_ns().saturating_mul(2) >= candidate.window.duration_ns())
            .then_some(longest)
    });
    let partition = explain::partition(analysis, explanation);
    let case = Case { analysis, candidate, explanation, partition, operation };
    let finding = DETECTORS
        .iter()
        .find_map(|detect| detect(&case))
        .unwrap_or_else(|| unknown::finding(&case));
    let finding = steal::beside_steal(&case, finding);
    Finding { operation: case.operation, ..finding }
}
