//! The verdict on a stall: its cause by name, how it is known, and the sentences about it.

use crate::Operation;
use crate::wording::Sentence;
use unhitch_model::{NameId, ThreadId};

/// A cause by name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Pattern {
    /// The releaser takes the lock again before the woken waiter runs.
    LockStarvation,
    /// Threads own what each other waits for.
    Deadlock,
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
    /// A wait for a device other than a disk.
    DeviceWait,
    /// A wait for memory.
    Memory,
    /// A thread was stopped by a signal, a tracer or the freezer.
    Stopped,
    /// The victim, or the thread it waited for, slept because it had asked to.
    TimerSleep,
    /// A request for a connection got no answer, so the kernel repeated it.
    SynRetransmit,
    /// The records that would tell are missing.
    DeadEnd,
    /// No pattern fits.
    Unknown,
}

impl Pattern {
    /// All patterns.
    pub const ALL: [Self; 17] = [
        Self::LockStarvation,
        Self::Deadlock,
        Self::LongHold,
        Self::SaturatedLock,
        Self::SerializedExit,
        Self::LockConvoy,
        Self::PriorityInversion,
        Self::CpuStarvation,
        Self::CpuBound,
        Self::IoWait,
        Self::DeviceWait,
        Self::Memory,
        Self::Stopped,
        Self::TimerSleep,
        Self::SynRetransmit,
        Self::DeadEnd,
        Self::Unknown,
    ];

    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LockStarvation => "lock_starvation",
            Self::Deadlock => "deadlock",
            Self::LongHold => "long_hold",
            Self::SaturatedLock => "saturated_lock",
            Self::SerializedExit => "serialized_exit",
            Self::LockConvoy => "lock_convoy",
            Self::PriorityInversion => "priority_inversion",
            Self::CpuStarvation => "cpu_starvation",
            Self::CpuBound => "cpu_bound",
            Self::IoWait => "io_wait",
            Self::DeviceWait => "device_wait",
            Self::Memory => "memory",
            Self::Stopped => "stopped",
            Self::TimerSleep => "timer_sleep",
            Self::SynRetransmit => "syn_retransmit",
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

/// How a finding is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Evidence {
    /// Every wake-up on the way was seen, issued in task context.
    Direct,
    /// Some step was inferred; the text says which.
    Inferred,
    /// Too much of the window is hidden by lost records or by the start or end of the recording.
    Lost,
}

impl Evidence {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Inferred => "inferred",
            Self::Lost => "lost",
        }
    }
}

/// The verdict on a stall.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// The cause by name.
    pub pattern: Pattern,
    /// The thread responsible.
    pub culprit: Option<ThreadId>,
    /// The process that was polled for, where another one kept that.
    pub polled: Option<ThreadId>,
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
