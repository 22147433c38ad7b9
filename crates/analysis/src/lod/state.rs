//! What a lane shows: states, each with its own colour and pattern.

use crate::explain::{What, class_of};
use crate::timeline::{Segment, State};
use crate::{Analysis, WaitClass};

/// A state on a lane. The numbers are part of the page's protocol.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum LaneState {
    /// Hidden by lost records or by the start or end of the recording.
    #[default]
    Unknown = 0,
    /// Ran on a CPU; on a CPU's lane: a thread ran.
    Ran = 1,
    /// Was ready to run, but had no CPU.
    Runnable = 2,
    /// Waited for a lock.
    Lock = 3,
    /// Waited for a disk or a file system.
    Io = 4,
    /// Waited for memory.
    Memory = 5,
    /// Slept until a time.
    Timer = 6,
    /// Waited for another thread or process.
    Ipc = 7,
    /// Had nothing to do.
    Idle = 8,
    /// Was stopped.
    Stopped = 9,
    /// Slept for a device, or no rule knows for what.
    Slept = 10,
    /// Waited for the network.
    Network = 11,
    /// Waited for another thread's signal: a condition variable, a semaphore, a bare futex.
    Condition = 12,
}

impl LaneState {
    /// The number of states.
    pub const COUNT: usize = 13;

    /// All of them, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Unknown,
        Self::Ran,
        Self::Runnable,
        Self::Lock,
        Self::Io,
        Self::Memory,
        Self::Timer,
        Self::Ipc,
        Self::Idle,
        Self::Stopped,
        Self::Slept,
        Self::Network,
        Self::Condition,
    ];

    /// The name in JSON, and the label for people.
    pub const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Unknown => ("unknown", "lost or unknown"),
            Self::Ran => ("ran", "ran"),
            Self::Runnable => ("runnable", "waited for a CPU"),
            Self::Lock => ("lock", "waited for a lock"),
            Self::Io => ("io", "waited for a disk"),
            Self::Memory => ("memory", "waited for memory"),
            Self::Timer => ("timer", "slept until a time"),
            Self::Ipc => ("ipc", "waited for another thread or process"),
            Self::Idle => ("idle", "had nothing to do"),
            Self::Stopped => ("stopped", "stopped"),
            Self::Slept => {
                ("slept", "slept for a device, or for something that no rule classifies")
            }
            Self::Network => ("network", "waited for the network"),
            Self::Condition => ("condition", "waited for another thread's signal"),
        }
    }

    /// True for time spent on, or lost to, something: neither idle nor unknown.
    pub const fn is_busy(self) -> bool {
        !matches!(self, Self::Idle | Self::Unknown)
    }

    pub(super) fn of_number(number: usize) -> Self {
        Self::ALL.get(number).copied().unwrap_or_default()
    }

    /// The state of a segment of a thread's time.
    pub fn of(analysis: &Analysis<'_>, segment: &Segment) -> Self {
        match segment.state {
            State::Unknown => Self::Unknown,
            State::Ran => Self::Ran,
            State::Runnable { .. } => Self::Runnable,
            State::Sleeping(_) => Self::of_class(class_of(analysis, segment)),
        }
    }

    /// The state of a sleep of that class.
    pub const fn of_class(class: WaitClass) -> Self {
        match class {
            WaitClass::Lock => Self::Lock,
            WaitClass::BlockIo | WaitClass::FileSystem => Self::Io,
            WaitClass::Memory => Self::Memory,
            WaitClass::Timer => Self::Timer,
            // A futex wait that an unlock ended has the class of a lock already.
            WaitClass::Condition => Self::Condition,
            WaitClass::Ipc | WaitClass::Process | WaitClass::KernelWork => Self::Ipc,
            WaitClass::Network => Self::Network,
            WaitClass::Idle | WaitClass::KernelIdle => Self::Idle,
            WaitClass::Stopped => Self::Stopped,
            WaitClass::Device | WaitClass::Unknown => Self::Slept,
        }
    }

    /// The state whose colour a share of an answer's time has.
    pub const fn of_share(what: What) -> Self {
        match what {
            What::Ran => Self::Ran,
            What::WaitedForCpu => Self::Runnable,
            What::Lock => Self::Lock,
            What::Io => Self::Io,
            What::Timer | What::Sleep => Self::Timer,
            What::Memory => Self::Memory,
            What::Ipc | What::Outside => Self::Ipc,
            What::Network | What::OutsideNetwork => Self::Network,
            What::Condition => Self::Condition,
            What::Slept | What::Device => Self::Slept,
            What::Stopped => Self::Stopped,
            What::Unknown => Self::Unknown,
            What::Idle => Self::Idle,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a victim waits for, by class: none of them may be idle, which has no culprit.
    const CLASSES: [WaitClass; 13] = [
        WaitClass::Lock,
        WaitClass::Condition,
        WaitClass::BlockIo,
        WaitClass::FileSystem,
        WaitClass::Memory,
        WaitClass::Ipc,
        WaitClass::Network,
        WaitClass::Timer,
        WaitClass::Stopped,
        WaitClass::Process,
        WaitClass::Device,
        WaitClass::KernelWork,
        WaitClass::Unknown,
    ];

    #[test]
    fn a_wait_has_one_state_on_lanes_and_in_partitions() {
        assert_eq!(CLASSES.len() + 2, WaitClass::COUNT, "all but the two idle ones");
        for class in CLASSES {
            let (lane, part) =
                (LaneState::of_class(class), LaneState::of_share(What::of_class(class)));
            assert_eq!(lane, part, "{class:?}");
        }
    }

    #[test]
    fn numbers_are_indices_of_the_registry() {
        for (number, state) in LaneState::ALL.into_iter().enumerate() {
            assert_eq!((state as usize, LaneState::of_number(number)), (number, state));
        }
    }
}
