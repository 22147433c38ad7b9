//! The columns of scheduler events: context switches, wake-ups, samples, lock contention. All
//! columns of a struct have the same length, and all are sorted by time.

use crate::{StackId, ThreadId, Time, Window};
use std::ops::Range;

/// The state in which a thread left its CPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum TaskState {
    /// R: still runnable; the thread yielded or was preempted.
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
    /// X or Z: the thread has exited.
    Dead,
    /// R: runnable, but its control group has used up its CPU quota. Only where the recorder sees
    /// that; else such a thread is [`Runnable`](Self::Runnable).
    Throttled,
}

impl TaskState {
    /// True if the thread still wanted the CPU.
    pub const fn is_runnable(self) -> bool {
        matches!(self, Self::Runnable | Self::Preempted | Self::Throttled)
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
            Self::Throttled => "R",
        }
    }
}

/// Windows' reason for a wait: `KWAIT_REASON`, and whether the thread waited in user mode.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct WaitReason(u8);

/// Names of `KWAIT_REASON`, by number.
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
    /// From the reason's number and the mode.
    pub const fn new(number: u8, user_mode: bool) -> Self {
        Self(number & 0x7f | (user_mode as u8) << 7)
    }

    /// The number of the `KWAIT_REASON`.
    pub const fn number(self) -> u8 {
        self.0 & 0x7f
    }

    /// True if the thread waited in user mode, so that its kernel stack may be paged out.
    pub const fn is_user_mode(self) -> bool {
        self.0 & 0x80 != 0
    }

    /// The name without the enumeration's prefix, e.g. `WrPushLock`.
    pub fn name(self) -> &'static str {
        WAIT_REASONS.get(usize::from(self.number())).copied().unwrap_or("unknown")
    }
}

/// Context switches: at `time`, `prev` left `cpu` and `next` came on.
#[derive(Clone, Debug, Default)]
pub struct Switches {
    /// When.
    pub time: Vec<Time>,
    /// On which CPU.
    pub cpu: Vec<u16>,
    /// The thread that left.
    pub prev: Vec<ThreadId>,
    /// The thread that came on.
    pub next: Vec<ThreadId>,
    /// The state in which `prev` left.
    pub prev_state: Vec<TaskState>,
    /// Why `prev` left, if the system reports it (Windows); else the whole column is empty.
    pub prev_reason: Vec<WaitReason>,
    /// Kernel priority of `prev`: 100–139 normal, below 100 real-time; smaller is more urgent.
    /// Windows' priorities 0–15 are 139 minus the priority; its real-time ones, 16–31, are 115
    /// minus the priority.
    pub prev_prio: Vec<i16>,
    /// Kernel priority of `next`.
    pub next_prio: Vec<i16>,
    /// The wait stack: that of `prev` when it left.
    pub stack: Vec<StackId>,
}

/// The context in which a wake-up was issued.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct WakeFlags(pub u8);

impl WakeFlags {
    /// Issued inside a hardware interrupt, or inside a DPC of Windows.
    pub const HARDIRQ: Self = Self(1);
    /// Issued inside a soft interrupt.
    pub const SOFTIRQ: Self = Self(2);
    /// Issued inside a non-maskable interrupt.
    pub const NMI: Self = Self(4);
    /// The first wake-up of a thread just created.
    pub const NEW: Self = Self(8);

    /// True if every bit of `other` is set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of bits.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Wake-ups: at `time`, on `cpu`, while `waker` was current, `wakee` was made runnable.
#[derive(Clone, Debug, Default)]
pub struct Wakings {
    /// When.
    pub time: Vec<Time>,
    /// The CPU on which the wake-up was issued.
    pub cpu: Vec<u16>,
    /// The thread current on that CPU. It is the cause only if no interrupt flag is set.
    pub waker: Vec<ThreadId>,
    /// The thread made runnable.
    pub wakee: Vec<ThreadId>,
    /// The CPU proposed for the wakee.
    pub target_cpu: Vec<u16>,
    /// The context in which it was issued.
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
    /// Its stack.
    pub stack: Vec<StackId>,
    /// True for samples inside an interrupt, or inside a DPC of Windows, if the system reports
    /// that; else the whole column is empty.
    pub in_interrupt: Vec<bool>,
}

impl Samples {
    /// False if the CPU was idle as far as known: in its idle thread, and not in an interrupt.
    pub fn is_work(&self, sample: usize) -> bool {
        let interrupts_idle = || self.in_interrupt.get(sample) == Some(&true);
        self.thread.get(sample).is_some_and(|thread| !thread.is_idle() || interrupts_idle())
    }
}

/// Threads and the CPUs they came on or were sent to.
#[derive(Clone, Debug, Default)]
pub struct Placements {
    /// When.
    pub time: Vec<Time>,
    /// The CPU.
    pub cpu: Vec<u16>,
    /// The thread.
    pub thread: Vec<ThreadId>,
}

/// Whether a contention event opens or closes a wait for a kernel lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ContentionKind {
    /// The thread found the lock taken and starts to wait.
    Begin,
    /// The thread owns the lock, or gave up.
    End,
}

/// Waits for kernel locks, from `lock:contention_begin` and `lock:contention_end`.
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
    /// The thread's stack; often empty for `End`.
    pub stack: Vec<StackId>,
}

/// Generates the row of a struct of columns, and what the columns can do with rows. An optional
/// column is empty where the system does not report it; the row's field is then `None`, in all rows
/// alike.
macro_rules! rows {
    (
        $columns:ident, $(#[$doc:meta])* $row:ident {
            $($field:ident: $type:ty,)*
        } $(optional { $optional:ident: $optional_type:ty })?
    ) => {
        $(#[$doc])*
        ///
        /// The fields are described at the columns.
        #[allow(missing_docs, reason = "described at the columns")]
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub struct $row {
            $(pub $field: $type,)*
            $(pub $optional: Option<$optional_type>,)?
        }

        impl $columns {
            /// Empty columns with room for `rows` rows. An optional column gets its room when its
            /// first value comes.
            pub fn with_capacity(rows: usize) -> Self {
                Self {
                    $($field: Vec::with_capacity(rows),)*
                    $($optional: Vec::new(),)?
                }
            }

            /// Adds a row, which must not be earlier than the last one.
            #[inline]
            pub fn push(&mut self, row: $row) {
                $(self.$field.push(row.$field);)*
                $(if let Some(value) = row.$optional {
                    if self.$optional.capacity() == 0 {
                        self.$optional.reserve(self.time.capacity());
                    }
                    self.$optional.push(value);
                })?
            }

            /// How many rows there are.
            pub fn len(&self) -> usize {
                self.time.len()
            }

            /// True when there are none.
            pub fn is_empty(&self) -> bool {
                self.time.is_empty()
            }

            /// The indices of the rows inside `window`.
            pub fn range(&self, window: Window) -> Range<usize> {
                self.time.partition_point(|&t| t < window.start)
                    ..self.time.partition_point(|&t| t < window.end)
            }
        }
    };
}

rows!(
    Switches,
    /// One context switch, a row of [`Switches`].
    Switch {
        time: Time,
        cpu: u16,
        prev: ThreadId,
        next: ThreadId,
        prev_state: TaskState,
        prev_prio: i16,
        next_prio: i16,
        stack: StackId,
    } optional { prev_reason: WaitReason }
);
rows!(
    Wakings,
    /// One wake-up, a row of [`Wakings`].
    Waking {
        time: Time,
        cpu: u16,
        waker: ThreadId,
        wakee: ThreadId,
        target_cpu: u16,
        flags: WakeFlags,
        stack: StackId,
    }
);
rows!(
    Samples,
    /// One CPU sample, a row of [`Samples`].
    Sample {
        time: Time,
        cpu: u16,
        thread: ThreadId,
        stack: StackId,
    } optional { in_interrupt: bool }
);
rows!(
    Placements,
    /// One thread and the CPU it came on or was sent to, a row of [`Placements`].
    Placement {
        time: Time,
        cpu: u16,
        thread: ThreadId,
    }
);
rows!(
    Contentions,
    /// The begin or end of one wait for a kernel lock, a row of [`Contentions`].
    Contention {
        time: Time,
        thread: ThreadId,
        kind: ContentionKind,
        lock_avma: u64,
        flags: u32,
        stack: StackId,
    }
);

impl Switches {
    /// Inserts the `new` switches, each before the one that has its index now. The indices must ascend,
    /// and none may exceed [`len`](Self::len). Reasons are kept only if all switches have one.
    pub fn insert(&mut self, new: &[(usize, Switch)]) {
        fn column<T: Copy>(
            column: &mut Vec<T>,
            new: &[(usize, Switch)],
            value: impl Fn(&Switch) -> T,
        ) {
            let mut end = column.len();
            column.reserve_exact(new.len());
            column.extend(new.iter().map(|(_, switch)| value(switch)));
            // From the end, so that nothing is moved twice.
            for (earlier, (before, switch)) in new.iter().enumerate().rev() {
                column.copy_within(*before..end, before + earlier + 1);
                column[before + earlier] = value(switch);
                end = *before;
            }
        }
        let has_reasons = self.prev_reason.len() == self.len()
            && new.iter().all(|(_, switch)| switch.prev_reason.is_some());
        match has_reasons {
            true => {
                let reason = |switch: &Switch| switch.prev_reason.unwrap_or_default();
                column(&mut self.prev_reason, new, reason);
            }
            false => self.prev_reason.clear(),
        }
        column(&mut self.time, new, |switch| switch.time);
        column(&mut self.cpu, new, |switch| switch.cpu);
        column(&mut self.prev, new, |switch| switch.prev);
        column(&mut self.next, new, |switch| switch.next);
        column(&mut self.prev_state, new, |switch| switch.prev_state);
        column(&mut self.prev_prio, new, |switch| switch.prev_prio);
        column(&mut self.next_prio, new, |switch| switch.next_prio);
        column(&mut self.stack, new, |switch| switch.stack);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(nanos: u64, prev: u32, prev_reason: Option<WaitReason>) -> Switch {
        Switch {
            time: Time::from_nanos(nanos),
            cpu: 0,
            prev: ThreadId(prev),
            next: ThreadId(prev + 1),
            prev_state: TaskState::Sleeping,
            prev_reason,
            prev_prio: 120,
            next_prio: 100,
            stack: StackId::EMPTY,
        }
    }

    #[test]
    fn rows_become_columns() {
        let mut switches = Switches::with_capacity(2);
        [10, 20].into_iter().for_each(|nanos| switches.push(switch(nanos, nanos as u32, None)));
        assert_eq!((switches.len(), switches.prev_reason.len()), (2, 0));
        assert_eq!(switches.prev, [ThreadId(10), ThreadId(20)]);
        let window = Window::new(Time::from_nanos(11), Time::from_nanos(21));
        assert_eq!(switches.range(window), 1..2);
    }

    #[test]
    fn new_switches_go_before_the_ones_they_name() {
        let mut old = Switches::default();
        [10, 20, 30].into_iter().for_each(|nanos| old.push(switch(nanos, nanos as u32, None)));
        let new = [(0, 1), (1, 11), (1, 12), (3, 31)];
        let new = new.map(|(before, nanos)| (before, switch(nanos, nanos as u32, None)));
        let mut all = old;
        all.insert(&new);
        assert_eq!(
            all.prev.iter().map(|prev| prev.0).collect::<Vec<_>>(),
            [1, 10, 11, 12, 20, 30, 31]
        );
        assert!(all.time.is_sorted());
        let columns = [all.cpu.len(), all.next.len(), all.prev_state.len(), all.next_prio.len()];
        assert_eq!((columns, all.stack.len(), all.prev_reason.len()), ([7; 4], 7, 0));
    }

    #[test]
    fn reasons_are_all_there_or_none_is() {
        let mut old = Switches::default();
        old.push(switch(10, 1, Some(WaitReason::new(28, false))));
        let mut with = old.clone();
        with.insert(&[(1, switch(20, 2, Some(WaitReason::new(6, true))))]);
        assert_eq!(
            with.prev_reason.iter().map(|reason| reason.name()).collect::<Vec<_>>(),
            ["WrPushLock", "UserRequest"]
        );
        old.insert(&[(1, switch(20, 2, None))]);
        assert!(old.prev_reason.is_empty());
    }
}
