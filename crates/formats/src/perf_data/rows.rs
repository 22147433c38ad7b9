//! The rows of a recording, by kind, before its threads and stacks are resolved. They have the
//! kernel's thread ids, and the number of the stack in a table of their decoder's.

use unhitch_model::{TaskState, WakeFlags};

/// One event of some kind.
#[derive(Clone, Copy, Default)]
pub(crate) struct Row<T> {
    pub time: u64,
    pub stack: u32,
    pub cpu: u16,
    pub of: T,
}

/// A context switch.
#[derive(Clone, Copy, Default)]
pub(crate) struct Switch {
    pub prev: u32,
    pub next: u32,
    pub prev_prio: i16,
    pub next_prio: i16,
    pub prev_state: TaskState,
}

/// A wake-up.
#[derive(Clone, Copy, Default)]
pub(crate) struct Waking {
    pub waker: u32,
    pub wakee: u32,
    pub target_cpu: u16,
    pub flags: WakeFlags,
}

/// A CPU sample.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sample {
    pub tid: u32,
}

/// A thread came on the row's CPU, or was sent there.
#[derive(Clone, Copy, Default)]
pub(crate) struct Placement {
    pub tid: u32,
}

/// A lock contention event.
#[derive(Clone, Copy, Default)]
pub(crate) struct Contention {
    pub lock_avma: u64,
    pub tid: u32,
    pub flags: u32,
    pub end: bool,
}

/// A wait of which more than the stack was kept. The row's time is when the thread left its CPU.
#[derive(Clone, Copy, Default)]
pub(crate) struct KeptWait {
    pub tid: u32,
    /// Negative in no system call.
    pub syscall: i32,
    pub arguments: [u64; 2],
    /// 0 if it is not known.
    pub owner: u32,
    /// 0 for none.
    pub kernel_lock: u64,
}

/// The rows of one chunk, in the order of the file. Stacks are numbers in the decoder's table.
#[derive(Default)]
pub(crate) struct Rows {
    pub switches: Vec<Row<Switch>>,
    pub wakings: Vec<Row<Waking>>,
    pub samples: Vec<Row<Sample>>,
    pub arrivals: Vec<Row<Placement>>,
    pub migrations: Vec<Row<Placement>>,
    pub contentions: Vec<Row<Contention>>,
    pub kept_waits: Vec<Row<KeptWait>>,
}
