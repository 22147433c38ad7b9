//! What a wait is for, and what kind of interrupt ended it: the vocabulary of the wait rules.

use serde::Deserialize;

/// Why a thread was off its CPU, as far as its wait stack shows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitClass {
    /// Nothing to do: an event loop's poll, a pause, a terminal read.
    Idle,
    /// A kernel thread at rest.
    KernelIdle,
    /// A lock held by another thread.
    Lock,
    /// A condition variable, semaphore or bare futex. The stack alone does not show whether it
    /// stands for a lock or for a message.
    Condition,
    /// A block device.
    BlockIo,
    /// A file system's journal, write-back or server.
    FileSystem,
    /// Page fault, reclaim, swap, dirty-page throttling.
    Memory,
    /// A local peer: pipe, Unix socket, message queue.
    Ipc,
    /// A network peer.
    Network,
    /// A sleep that the thread asked for.
    Timer,
    /// Stopped by a signal, a tracer or the freezer.
    Stopped,
    /// Another process: wait4, exit, exec.
    Process,
    /// A device other than a disk: graphics, sound, USB, a hypervisor's balloon.
    Device,
    /// Work that the kernel does elsewhere: an RCU grace period, a work queue, another CPU.
    KernelWork,
    /// No rule matched.
    #[default]
    Unknown,
}

impl WaitClass {
    /// The number of classes.
    pub(crate) const COUNT: usize = Self::Unknown as usize + 1;

    /// The class of a Windows wait by its `KWAIT_REASON`. `UserRequest`, the reason of most waits,
    /// could be anything.
    pub(crate) const fn of_reason(number: u8) -> Self {
        match number {
            // FreePage, PageIn, PoolAllocation, their Wr forms, VirtualMemory, PageOut,
            // PhysicalFault.
            1..=3 | 8..=10 | 18 | 19 | 39 => Self::Memory,
            4 | 11 => Self::Timer,
            5 | 12 => Self::Stopped,
            15 => Self::KernelIdle,
            16 => Self::Idle,
            17 => Self::Ipc,
            // Resource, PushLock, Mutex, FastMutex, GuardedMutex, Rundown.
            27..=29 | 34..=36 => Self::Lock,
            // KeyedEvent, AlertByThreadId.
            21 | 37 => Self::Condition,
            _ => Self::Unknown,
        }
    }

    /// True for waits for a disk, or for a file system on top of one.
    pub const fn is_disk(self) -> bool {
        matches!(self, Self::BlockIo | Self::FileSystem)
    }

    /// True for waits that another thread ends, or seems to.
    pub(super) const fn is_between_threads(self) -> bool {
        matches!(
            self,
            Self::Lock | Self::Condition | Self::Ipc | Self::Network | Self::Idle | Self::Timer
        )
    }

    /// True for classes that no thread ever waits in by choice.
    pub(crate) const fn is_unwanted(self) -> bool {
        matches!(self, Self::Lock | Self::BlockIo | Self::FileSystem | Self::Memory | Self::Stopped)
    }

    /// True for waits for work, for an event, or for a time: those that a program chooses.
    pub(crate) const fn is_chosen(self) -> bool {
        matches!(self, Self::Idle | Self::KernelIdle | Self::Timer)
    }

    /// The name in rules, JSON and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::KernelIdle => "kernel_idle",
            Self::Lock => "lock",
            Self::Condition => "condition",
            Self::BlockIo => "block_io",
            Self::FileSystem => "file_system",
            Self::Memory => "memory",
            Self::Ipc => "ipc",
            Self::Network => "network",
            Self::Timer => "timer",
            Self::Stopped => "stopped",
            Self::Process => "process",
            Self::Device => "device",
            Self::KernelWork => "kernel_work",
            Self::Unknown => "unknown",
        }
    }

    /// The name in sentences.
    pub fn words(self) -> String {
        self.name().replace('_', " ")
    }
}

/// What the rules make of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wait {
    /// What it is for.
    pub class: WaitClass,
    /// True for an event loop's wait for its next event.
    pub pump: bool,
    /// True for that of a toolkit for windows: its thread is an event loop whatever ends its waits.
    pub toolkit: bool,
    /// True for a wait that no thread chooses, however short or regular.
    pub unwanted: bool,
    /// What its program's users call it: an index into the words of the rules.
    pub words: Option<u16>,
    /// True if whoever has what is waited for is on a CPU all the time: a thread of the same process.
    pub holder_runs: bool,
    /// It is no wait for a lock, even if an unlock ended it.
    pub message: bool,
}

/// The device or clock behind a wake-up from an interrupt.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptSource {
    /// The timeout with which the sleeper went to sleep.
    Timeout,
    /// A timer of the process that sends it a signal.
    Alarm,
    /// Another timer: a timerfd, delayed work.
    Timer,
    /// A block device's completion.
    BlockIo,
    /// The network.
    Network,
    /// The kernel's read-copy-update machinery.
    Rcu,
    /// No rule matched.
    #[default]
    Other,
}

impl InterruptSource {
    /// The cell of a table, and the words in a sentence; none where no rule matched.
    pub const fn words(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Self::Timeout => ("(timeout)", "its timeout"),
            Self::Alarm => ("(timer)", "an alarm"),
            Self::Timer => ("(timer)", "a timer"),
            Self::BlockIo => ("(block device)", "a block device"),
            Self::Network => ("(network)", "the network"),
            Self::Rcu => ("(RCU)", "RCU"),
            Self::Other => return None,
        })
    }
}
