//! A trace together with everything computed from it once.

use crate::cpus::CpuTimes;
use crate::facts::Facts;
use crate::hot::SampleIndex;
use crate::kernel_locks::KernelLocks;
use crate::marks::{Mark, marks};
use crate::same_lock::Releasing;
use crate::timeline::{Segment, State, Timeline};
use crate::waits::Rules;
use std::sync::OnceLock;
use unhitch_model::{ThreadId, Trace, Window};

/// The indices that all questions about a trace share.
pub struct Analysis<'t> {
    /// The trace.
    pub trace: &'t Trace,
    /// What its stacks mean.
    pub facts: Facts,
    /// What its threads did.
    pub timeline: Timeline,
    /// Who had its CPUs.
    pub cpus: CpuTimes,
    /// Where its threads were while they ran.
    pub samples: SampleIndex,
    /// What people did meanwhile.
    pub marks: Vec<Mark>,
    /// Which functions end which waits for locks, computed when first asked for.
    pub(crate) releasing: OnceLock<Releasing>,
    /// For which kernel locks its threads waited.
    pub(crate) kernel_locks: KernelLocks,
}

impl<'t> Analysis<'t> {
    /// Computes all indices of `trace`.
    pub fn new(trace: &'t Trace, rules: &Rules) -> Self {
        let grouped = || (CpuTimes::new(trace, trace.common_window()), SampleIndex::new(trace));
        let (timeline, (facts, (cpus, samples))) = rayon::join(
            || Timeline::new(trace),
            || rayon::join(|| Facts::new(trace, rules), grouped),
        );
        Self {
            trace,
            facts,
            timeline,
            cpus,
            samples,
            marks: marks(trace),
            kernel_locks: KernelLocks::new(trace),
            releasing: OnceLock::new(),
        }
    }

    /// The partition of a thread's time inside `window`.
    pub fn segments(&self, thread: ThreadId, window: Window) -> Vec<Segment> {
        self.timeline.segments(self.trace, thread, window)
    }

    /// The CPU that a segment ran on, or for which it waited.
    pub fn cpu_of(&self, segment: &Segment) -> Option<u16> {
        let switched_in = segment.back.map(|back| self.trace.switches.cpu[back]);
        let proposed = segment.wake.map(|wake| self.trace.wakings.target_cpu[wake]);
        let left = segment.out.map(|out| self.trace.switches.cpu[out]);
        match segment.state {
            State::Ran => switched_in,
            State::Runnable { .. } => switched_in.or(proposed).or(left),
            State::Sleeping(_) | State::Unknown => None,
        }
    }
}
