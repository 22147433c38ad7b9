//! A stretch of a thread's time that may be a stall: what the stall detectors propose, and what is
//! then explained and judged.

use crate::Operation;
use unhitch_model::{ThreadId, Time, Window};

/// Why a stretch of time counts as a stall.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum StallKind {
    /// An event loop stayed away from its idle wait.
    EventLoop,
    /// A wait for a lock, a disk, memory, or a peer that does not take what is written to it.
    UnwantedWait,
    /// A thread wanted a CPU and did not get one.
    CpuStarvation,
    /// One operation was woken again and again in vain.
    LockStarvation,
    /// Most CPUs fell idle, and were back at once when many long waits ended.
    Machine,
    /// Windows reported that a thread did not look at its messages, or the agent that a window did
    /// not answer.
    UiDelay,
    /// A thread's window had the focus, and it did not look at keys or buttons that were pressed.
    Input,
    /// A cycle of a thread that was far longer than its others at that place.
    Rhythm,
    /// A wait of many threads for one of their process, far longer than they usually stay away from where
    /// they had been.
    Crowd,
    /// A process that began during the recording, and was kept waiting for most of its life.
    Command,
    /// A window that the query names.
    Mark,
    /// The longest wait of a thread that the query names, where nothing about it is a stall.
    Longest,
    /// The same where the thread waited only for work, events or a time.
    Idle,
}

impl StallKind {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EventLoop => "event_loop",
            Self::UnwantedWait => "unwanted_wait",
            Self::CpuStarvation => "cpu_starvation",
            Self::LockStarvation => "lock_starvation",
            Self::Machine => "machine",
            Self::UiDelay => "ui_delay",
            Self::Input => "input",
            Self::Rhythm | Self::Crowd => "rhythm",
            Self::Command => "command",
            Self::Mark | Self::Longest | Self::Idle => "mark",
        }
    }
}

/// A stretch of a thread's time that may be a stall.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    /// Why it may be one.
    pub kind: StallKind,
    /// The thread.
    pub victim: ThreadId,
    /// The time.
    pub window: Window,
    /// The blocked operation it consists of, if it is one.
    pub operation: Option<Operation>,
    /// True when the victim is an event loop: somebody waits for its reaction.
    pub event_loop: bool,
    /// What the whole machine did, for a machine-wide stall.
    pub machine: Option<Box<MassRelease>>,
}

impl Candidate {
    /// True if a user was seen to wait: by the keys pressed, or a window that did not answer.
    pub(crate) fn is_seen_by_user(&self) -> bool {
        matches!(self.kind, StallKind::Input | StallKind::UiDelay)
    }

    /// True if somebody sat before it.
    pub(crate) fn is_seen(&self) -> bool {
        self.event_loop || self.is_seen_by_user()
    }

    /// True for a break in a rhythm.
    pub(crate) fn is_break(&self) -> bool {
        matches!(self.kind, StallKind::Rhythm | StallKind::Crowd)
    }

    /// True for a wait that was picked because somebody asked, and that its thread did not choose.
    pub(crate) fn is_unusual_wait(&self) -> bool {
        self.kind == StallKind::Rhythm
            || (self.kind == StallKind::Longest && self.operation.is_some())
    }
}

/// Many long waits that ended at once, and how busy the machine was before, meanwhile and after.
#[derive(Clone, PartialEq, Debug)]
pub struct MassRelease {
    /// Busy CPUs before the fall (after the recovery, where the recording begins later than the
    /// fall).
    pub before: f64,
    /// Busy CPUs while the waits lasted.
    pub low: f64,
    /// From the first wake-up until the last CPU was busy again that had been before, all of them
    /// to stay so; where they never all were at once, to the end of the first millisecond in which
    /// nearly as many were busy.
    pub recovery_ns: u64,
    /// Context switches in that time.
    pub switches: usize,
    /// Who was released, when, after how long a wait and in which function, in order of time.
    pub released: Vec<(ThreadId, Time, u64, String)>,
    /// Processes that ended while the machine fell.
    pub ended: usize,
}
