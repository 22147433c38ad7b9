//! What the decoder makes of events: rows with the file's own numbers, before names, threads and
//! times are settled.

/// A context switch (`CSwitch`).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(super) struct Switch {
    pub ticks: i64,
    pub cpu: u16,
    pub new_tid: u32,
    pub old_tid: u32,
    pub new_priority: i8,
    pub old_priority: i8,
    pub wait_reason: u8,
    pub wait_mode: u8,
    pub state: u8,
}

/// A thread was made ready (`ReadyThread`).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(super) struct Ready {
    pub ticks: i64,
    pub cpu: u16,
    pub tid: u32,
    /// The header's thread, which did it; [`NOBODY`](super::event::NOBODY) where the header has
    /// none.
    pub by_tid: u32,
    pub in_dpc: bool,
}

/// A CPU sample (`SampledProfile`).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub ticks: i64,
    pub cpu: u16,
    pub tid: u32,
    pub in_interrupt: bool,
    pub instruction: u64,
}

/// Any other event that is kept; its payload is in its chunk's `payloads`.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Other {
    pub ticks: i64,
    pub cpu: u16,
    pub tid: u32,
    pub pid: u32,
    /// Number of its [`KindKey`](super::kinds::KindKey).
    pub kind: u32,
    pub payload_start: usize,
    pub payload_len: u32,
}

/// A part of the stack of some event, told by a `StackWalk` event.
#[derive(Clone, Copy, Debug)]
pub(super) struct StackRecord {
    /// When it was told.
    pub at: i64,
    /// The event that it belongs to.
    pub of: i64,
    pub cpu: u16,
    pub pid: u32,
    pub tid: u32,
    pub part: PartRef,
    /// The event itself carried it: it says nothing of the thread's other events.
    pub own: bool,
}

/// The frames of a part, or where to find them.
#[derive(Clone, Copy, Debug)]
pub(super) enum PartRef {
    /// The number of a part.
    Here(u32),
    /// Those that the session had stored under this key.
    Key { key: u64, user: bool },
}

/// What a key stood for until it was told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Definition {
    pub at: i64,
    pub key: u64,
    pub part: u32,
    /// Told when the key was given out, not when it was taken back.
    pub first: bool,
}

/// A process, thread, image, or another rare event that names something; kept whole.
#[derive(Clone, Debug)]
pub(super) struct Naming {
    pub ticks: i64,
    pub hook: u16,
    pub version: u8,
    pub pid: u32,
    pub payload: Box<[u8]>,
}

/// What one buffer held.
#[derive(Default, Debug)]
pub(super) struct Chunk {
    pub cpu: u16,
    /// The buffer's place in its file.
    pub offset: usize,
    /// Number of the file.
    pub file: usize,
    /// First and last event's time; the first after the last when there is none.
    pub ticks: Option<(i64, i64)>,
    /// The same of switches, wake-ups and samples.
    pub scheduling: Option<(i64, i64)>,
    /// Its header says that events before or in it were lost.
    pub lost: bool,
    /// Where events in it say so themselves: the time of the one before, and of the event.
    pub losses: Vec<(i64, i64)>,
    pub switches: Vec<Switch>,
    pub readies: Vec<Ready>,
    pub samples: Vec<Sample>,
    pub others: Vec<Other>,
    pub payloads: Vec<u8>,
    pub stacks: Vec<StackRecord>,
    pub definitions: Vec<Definition>,
    pub naming: Vec<Naming>,
    /// What is wrong with it.
    pub damage: Option<String>,
}
