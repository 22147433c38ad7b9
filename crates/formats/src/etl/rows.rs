//! The rows that the decoder makes of events. They hold the file's own numbers: names, threads and
//! times are resolved later.

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

/// A wake-up (`ReadyThread`).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(super) struct Ready {
    pub ticks: i64,
    pub cpu: u16,
    pub tid: u32,
    /// The waker, from the event's header; [`NOBODY`](super::event::NOBODY) if the header has none.
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

/// Any other event that is kept. Its payload is in its chunk's `payloads`.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct ProviderEvent {
    pub ticks: i64,
    pub cpu: u16,
    pub tid: u32,
    pub pid: u32,
    /// Number of its [`KindKey`](super::kinds::KindKey).
    pub kind: u32,
    pub payload_start: usize,
    pub payload_len: u32,
}

/// A `StackWalk` event: one part of the stack of another event.
#[derive(Clone, Copy, Debug)]
pub(super) struct StackRecord {
    /// Time of the `StackWalk` event, ticks.
    pub at: i64,
    /// Time of the event whose stack it is, ticks.
    pub of: i64,
    pub cpu: u16,
    pub pid: u32,
    pub tid: u32,
    pub part: PartRef,
    /// The event itself carried the stack, so it is not the stack of the thread's other events.
    pub own: bool,
}

/// A stack part, or the key to look it up with.
#[derive(Clone, Copy, Debug)]
pub(super) enum PartRef {
    /// Number of the part.
    Here(u32),
    /// The part that the session cached under this key.
    Key { key: u64, user: bool },
}

/// The stack part that a key stood for until then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Definition {
    pub at: i64,
    pub key: u64,
    pub part: u32,
    /// Written when the key was assigned, not when it was withdrawn.
    pub first: bool,
}

/// An event about a process, thread, image or anything else with a name. They are rare and kept
/// whole.
#[derive(Clone, Debug)]
pub(super) struct Naming {
    pub ticks: i64,
    pub hook: u16,
    pub version: u8,
    pub pid: u32,
    pub payload: Box<[u8]>,
}

/// The rows of one buffer.
#[derive(Default, Debug)]
pub(super) struct Chunk {
    pub cpu: u16,
    /// Where the buffer begins in its file, bytes.
    pub offset: usize,
    /// Number of the file.
    pub file: usize,
    /// Times of the first and the last event, ticks.
    pub ticks: Option<(i64, i64)>,
    /// The same of switches, wake-ups and samples.
    pub scheduling: Option<(i64, i64)>,
    /// The buffer's header says that events in or before it were lost.
    pub lost: bool,
    /// Losses that events in it report: from the event before to the report, ticks.
    pub losses: Vec<(i64, i64)>,
    pub switches: Vec<Switch>,
    pub readies: Vec<Ready>,
    pub samples: Vec<Sample>,
    pub provider_events: Vec<ProviderEvent>,
    pub payloads: Vec<u8>,
    pub stacks: Vec<StackRecord>,
    pub definitions: Vec<Definition>,
    pub naming: Vec<Naming>,
    /// The end of a sentence that begins with where the buffer is.
    pub damage: Option<String>,
}

impl Chunk {
    /// The payload of one of its provider events.
    pub(super) fn payload(&self, event: &ProviderEvent) -> &[u8] {
        self.payloads
            .get(event.payload_start..)
            .and_then(|rest| rest.get(..event.payload_len as usize))
            .unwrap_or_default()
    }
}

/// The payload of a provider event of the chunk with this number.
pub(super) fn payload<'a>(chunks: &'a [Chunk], chunk: u32, event: &ProviderEvent) -> &'a [u8] {
    chunks.get(chunk as usize).map(|chunk| chunk.payload(event)).unwrap_or_default()
}
