//! The columns: context switches, wake-ups, samples, lock contention. All columns of a struct have
//! the same length; all are sorted by time.

use crate::{StackId, ThreadId, Time};

/// The state in which a thread left its CPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum TaskState {
    /// R: still runnable; it yielded or was preempted.
    #[default]
    Runnable,
    /// R+: preempted inside the kernel.
    Preempted,
    /// S: interruptible sleep.
    Sleeping,
    /// D: uninterruptible sleep.
    DiskSleep,
    /// I: uninterruptible idle kernel thread, not counted as load.
    Idle,
    /// T: stopped by a signal.
    Stopped,
    /// t: stopped by a tracer.
    Traced,
    /// P: parked kernel thread.
    Parked,
    /// X or Z: it has exited.
    Dead,
}

impl TaskState {
    /// True when the thread still wanted the CPU.
    pub const fn is_runnable(self) -> bool {
        matches!(self, Self::Runnable | Self::Preempted)
    }

    /// The letter(s) that `ps` and `perf` use.
    pub const fn letter(self) -> &'static str {
        match self {
            Self::Runnable => "R",
            Self::Preempted => "R+",
            Self::Sleeping => "S",
            Self::DiskSleep => "D",
            Self::Idle => "I",
            Self::Stopped => "T",
            Self::Traced => "t",
            Self::Parked => "P",
            Self::Dead => "X",
        }
    }
}

/// Why Windows says that a thread waits: `KWAIT_REASON`, and whether it waited in user mode.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct WaitReason(u8);

/// By number.
const WAIT_REASONS: [&str; 43] = [
    "Executive",
    "FreePage",
    "PageIn",
    "PoolAllocation",
    "DelayExecution",
    "Suspended",
    "UserRequest",
    "WrExecutive",
    "WrFreePage",
    "WrPageIn",
    "WrPoolAllocation",
    "WrDelayExecution",
    "WrSuspended",
    "WrUserRequest",
    "WrEventPair",
    "WrQueue",
    "WrLpcReceive",
    "WrLpcReply",
    "WrVirtualMemory",
    "WrPageOut",
    "WrRendezvous",
    "WrKeyedEvent",
    "WrTerminated",
    "WrProcessInSwap",
    "WrCpuRateControl",
    "WrCalloutStack",
    "WrKernel",
    "WrResource",
    "WrPushLock",
    "WrMutex",
    "WrQuantumEnd",
    "WrDispatchInt",
    "WrPreempted",
    "WrYieldExecution",
    "WrFastMutex",
    "WrGuardedMutex",
    "WrRundown",
    "WrAlertByThreadId",
    "WrDeferredPreempt",
    "WrPhysicalFault",
    "WrIoRing",
    "WrMdlCache",
    "WrRcu",
];

impl WaitReason {
    /// From the number of the reason, and the mode.
    pub const fn new(number: u8, user_mode: bool) -> Self {
        Self(number & 0x7f | (user_mode as u8) << 7)
    }

    /// `KWAIT_REASON` as a number.
    pub const fn number(self) -> u8 {
        self.0 & 0x7f
    }

    /// True when the thread waited in user mode: its kernel stack may be paged out.
    pub const fn is_user_mode(self) -> bool {
        self.0 & 0x80 != 0
    }

    /// Its name without the enumeration's prefix, e.g. `WrPushLock`.
    pub fn name(self) -> &'static str {
        WAIT_REASONS.get(usize::from(self.number())).copied().unwrap_or("unknown")
    }
}

/// Context switches: `prev` left `cpu` at `time`, `next` came on.
#[derive(Clone, Debug, Default)]
pub struct Switches {
    /// When.
    pub time: Vec<Time>,
    /// On which CPU.
    pub cpu: Vec<u16>,
    /// The thread that left.
    pub prev: Vec<ThreadId>,
    /// The thread that came.
    pub next: Vec<ThreadId>,
    /// The state in which `prev` left.
    pub prev_state: Vec<TaskState>,
    /// Why `prev` left, where the system says so (Windows); empty, not only short, where it does
    /// not.
    pub prev_reason: Vec<WaitReason>,
    /// Kernel priority of `prev` (100–139 normal, below 100 real-time; smaller is more urgent).
    /// Windows: 139 less its priority for 0–15, 115 less its priority for the real-time ones,
    /// 16–31.
    pub prev_prio: Vec<i16>,
    /// Kernel priority of `next`.
    pub next_prio: Vec<i16>,
    /// The wait stack: where `prev` was when it left.
    pub stack: Vec<StackId>,
}

/// In which context a wake-up was issued.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct WakeFlags(pub u8);

impl WakeFlags {
    /// Issued inside a hardware interrupt (Windows: a DPC counts here too).
    pub const HARDIRQ: Self = Self(1);
    /// Issued inside a soft interrupt.
    pub const SOFTIRQ: Self = Self(2);
    /// Issued inside a non-maskable interrupt.
    pub const NMI: Self = Self(4);
    /// The first wake-up of a thread just created.
    pub const NEW: Self = Self(8);

    /// True when every bit of `other` is set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of bits.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Wake-ups, as issued: at `time`, on `cpu`, while `waker` was current, `wakee` was made runnable.
#[derive(Clone, Debug, Default)]
pub struct Wakings {
    /// When.
    pub time: Vec<Time>,
    /// The CPU on which the wake-up was issued.
    pub cpu: Vec<u16>,
    /// The thread current on that CPU: the cause only when no interrupt flag is set.
    pub waker: Vec<ThreadId>,
    /// The thread made runnable.
    pub wakee: Vec<ThreadId>,
    /// The CPU proposed for the wakee.
    pub target_cpu: Vec<u16>,
    /// In which context.
    pub flags: Vec<WakeFlags>,
    /// The wake stack: what the CPU was executing.
    pub stack: Vec<StackId>,
}

/// CPU samples: `thread` was running on `cpu` at `time`, in `stack` (its leaf is the sampled
/// instruction).
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// When.
    pub time: Vec<Time>,
    /// On which CPU.
    pub cpu: Vec<u16>,
    /// The running thread.
    pub thread: Vec<ThreadId>,
    /// Where it was.
    pub stack: Vec<StackId>,
    /// True of those inside an interrupt (Windows: a DPC counts here too), where the system says
    /// so; empty, not only short, where it does not.
    pub in_interrupt: Vec<bool>,
}

impl Samples {
    /// False when the CPU was idle, as far as is known: in its idle thread, and in no interrupt.
    pub fn is_work(&self, sample: usize) -> bool {
        let interrupts_idle = || self.in_interrupt.get(sample) == Some(&true);
        self.thread.get(sample).is_some_and(|thread| !thread.is_idle() || interrupts_idle())
    }
}

/// Threads and their CPUs: who came on one, or was sent to one.
#[derive(Clone, Debug, Default)]
pub struct Placements {
    /// When.
    pub time: Vec<Time>,
    /// On or to which CPU.
    pub cpu: Vec<u16>,
    /// The thread.
    pub thread: Vec<ThreadId>,
}

/// Whether a contention event opens or closes a wait for a kernel lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ContentionKind {
    /// The thread found the lock taken and starts to wait.
    Begin,
    /// The thread has the lock, or gave up.
    End,
}

/// Waits for kernel locks as the kernel itself reports them (`lock:contention_begin`,
/// `lock:contention_end`).
#[derive(Clone, Debug, Default)]
pub struct Contentions {
    /// When.
    pub time: Vec<Time>,
    /// The waiting thread.
    pub thread: Vec<ThreadId>,
    /// Begin or end.
    pub kind: Vec<ContentionKind>,
    /// Address of the lock, kernel avma.
    pub lock_avma: Vec<u64>,
    /// `Begin`: the kernel's flags (SPIN 1, READ 2, WRITE 4, RT 8, PERCPU 16, MUTEX 32). `End`: 0
    /// or a negative errno, as its low 32 bits.
    pub flags: Vec<u32>,
    /// Where the thread was; often empty for `End`.
    pub stack: Vec<StackId>,
}

macro_rules! lengths {
    ($($name:ident),*) => {$(
        impl $name {
            /// How many events there are.
            pub fn len(&self) -> usize {
                self.time.len()
            }

            /// True when there are none.
            pub fn is_empty(&self) -> bool {
                self.time.is_empty()
            }

            /// The indices of the events inside `window`.
            pub fn range(&self, window: crate::Window) -> std::ops::Range<usize> {
                self.time.partition_point(|&t| t < window.start)..self.time.partition_point(|&t| t < window.end)
            }
        }
    )*};
}
lengths!(Switches, Wakings, Samples, Placements, Contentions);
