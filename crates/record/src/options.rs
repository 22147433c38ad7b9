//! [`Options`]: what to record, and how much of it to keep.

use unhitch_formats::container::Readers;

/// What to record, and how much of it to keep.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Size of each CPU's ring in bytes, rounded up to a power of two. The same amount again is
    /// kept for copies during a save.
    pub ring_bytes_per_cpu: usize,
    /// CPU samples per second on each CPU; 0 for none.
    pub sample_hz: u32,
    /// Whether stacks include user-mode frames (found by frame pointers).
    pub user_stacks: bool,
    /// Maximum depth of a stack, in frames; the kernel's own limit also applies.
    pub max_stack: u16,
    /// Record only switches, wake-ups and lock waits that involve a thread that this process has at
    /// the start. CPU samples, lifetimes and names are still recorded for the whole machine,
    /// because the thread that had the CPU instead is part of the answer. Threads created later are
    /// not followed, as an active filter cannot be changed; the trace says so.
    pub only_pid: Option<u32>,
    /// What records: see [`EngineChoice`].
    pub engine: EngineChoice,
    /// Who may read the traces. A trace that had to be written elsewhere than requested can only be
    /// read by its owner.
    pub readers: Readers,
}

/// What records the events.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum EngineChoice {
    /// Performance events, on any kernel.
    #[default]
    Perf,
    /// Programs in the kernel (BPF), which need its type information (BTF).
    Bpf,
}

impl EngineChoice {
    /// The name on the command line and in a trace.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Perf => "perf",
            Self::Bpf => "bpf",
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ring_bytes_per_cpu: 16 << 20,
            sample_hz: 199,
            user_stacks: true,
            max_stack: 127,
            only_pid: None,
            engine: EngineChoice::Perf,
            readers: Readers::Owner,
        }
    }
}
