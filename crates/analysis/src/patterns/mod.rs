//! What causes look like. Each pattern is one file with one detector and one line in [`DETECTORS`];
//! the first detector that applies gives the finding.
//!
//! A detector reads only the explanation of a stall, so that whatever it states can be checked
//! against the partition. It also states its evidence: *direct* (the wake-ups were seen),
//! *inferred*, or *lost* (too much of the window is hidden).

mod case;
mod computing;
mod cpu_bound;
mod cpu_starvation;
mod dead_end;
mod evidence;
mod io_wait;
mod lock_convoy;
mod lock_starvation;
mod long_hold;
mod memory;
mod occupants;
mod priority_inversion;
mod samples_only;
mod saturated_lock;
mod stopped;
mod timer_sleep;
mod unknown;

pub use case::Case;
pub use evidence::Evidence;

use crate::candidate::Candidate;
use crate::explain::{self, Explanation};
use crate::wording::Sentence;
use crate::{Analysis, Operation};
use unhitch_model::{NameId, ThreadId};

/// A cause by name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Pattern {
    /// The releaser takes the lock again before the woken waiter runs.
    LockStarvation,
    /// One thread held what the victim waited for.
    LongHold,
    /// Many threads take one lock briefly, so often that it is never free.
    SaturatedLock,
    /// A saturated lock whose holders are exiting.
    SerializedExit,
    /// The lock was handed from waiter to waiter.
    LockConvoy,
    /// The lock's holder was runnable, but others had the CPU.
    PriorityInversion,
    /// The victim was runnable, but others had the CPU.
    CpuStarvation,
    /// The victim computed, or the thread whose message it waited for did.
    CpuBound,
    /// A wait for a disk or a file system.
    IoWait,
    /// A wait for memory.
    Memory,
    /// A thread was stopped by a signal, a tracer or the freezer.
    Stopped,
    /// The victim, or the thread it waited for, slept because it had asked to.
    TimerSleep,
    /// The records that would tell are missing.
    DeadEnd,
    /// No pattern fits.
    Unknown,
}

impl Pattern {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LockStarvation => "lock_starvation",
            Self::LongHold => "long_hold",
            Self::SaturatedLock => "saturated_lock",
            Self::SerializedExit => "serialized_exit",
            Self::LockConvoy => "lock_convoy",
            Self::PriorityInversion => "priority_inversion",
            Self::CpuStarvation => "cpu_starvation",
            Self::CpuBound => "cpu_bound",
            Self::IoWait => "io_wait",
            Self::Memory => "memory",
            Self::Stopped => "stopped",
            Self::TimerSleep => "timer_sleep",
            Self::DeadEnd => "dead_end",
            Self::Unknown => "unknown",
        }
    }

    /// True when a queue is to blame rather than one thread.
    pub const fn is_queue(self) -> bool {
        matches!(self, Self::SaturatedLock | Self::SerializedExit | Self::LockConvoy)
    }

    /// True when it names a cause.
    pub const fn is_definite(self) -> bool {
        !matches!(self, Self::DeadEnd | Self::Unknown)
    }
}

/// The verdict on a stall.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// The cause by name.
    pub pattern: Pattern,
    /// The thread responsible.
    pub culprit: Option<ThreadId>,
    /// The name that all culprits share, where they are a group of threads.
    pub group_name: Option<NameId>,
    /// The culprit's function, empty when unknown.
    pub function: String,
    /// How the cause is known.
    pub evidence: Evidence,
    /// Why the evidence is what it is.
    pub evidence_words: Sentence,
    /// What happened, in order.
    pub sentences: Vec<Sentence>,
    /// The cause in one line.
    pub cause: Sentence,
    /// What would fix or confirm it, empty when there is nothing honest to say.
    pub advice: String,
    /// The blocked operation that fills at least half of the stall, if there is one.
    pub operation: Option<Operation>,
}

/// Looks for one pattern.
pub type Detector = fn(&Case<'_>) -> Option<Finding>;

/// The registry of patterns, the most specific first.
pub const DETECTORS: &[Detector] = &[
    samples_only::detect,
    lock_starvation::detect,
    stopped::detect,
    io_wait::detect,
    priority_inversion::detect,
    long_hold::detect,
    saturated_lock::detect,
    lock_convoy::detect,
    memory::detect,
    cpu_starvation::detect,
    cpu_bound::detect,
    timer_sleep::detect,
    dead_end::detect,
];

/// The finding of the first pattern that applies.
pub fn judge(analysis: &Analysis<'_>, candidate: &Candidate, explanation: &Explanation) -> Finding {
    let operation = candidate.operation.clone().or_else(|| {
        let segments = analysis.segments(candidate.victim, candidate.window);
        let operations = explain::operations(analysis, candidate.victim, &segments);
        let longest =
            operations.into_iter().max_by_key(|operation| operation.window.duration_ns())?;
        (longest.window.duration_ns() * 2 >= candidate.window.duration_ns()).then_some(longest)
    });
    let partition = explain::partition(analysis, explanation);
    let case = Case { analysis, candidate, explanation, partition, operation };
    let finding = DETECTORS
        .iter()
        .find_map(|detect| detect(&case))
        .unwrap_or_else(|| unknown::finding(&case));
    Finding { operation: case.operation, ..finding }
}
