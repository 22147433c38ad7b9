//! [`Options`]: what to record, and how much of it to keep.

use unhitch_formats::container::Readers;

/// What to record, and how much of it to keep.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Size of each CPU's ring in bytes, rounded up to a power of two. By default, performance
    /// events have 16 MiB for each CPU, at most 256 MiB in all, and keep the same amount again for
    /// copies during a save; BPF has 16 MiB for all of them, or 1 MiB for each.
    pub ring_bytes_per_cpu: Option<usize>,
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
    /// Of each thread, one wait's stack is recorded for so much blocked time, in nanoseconds. Only
    /// with [`EngineChoice::Bpf`]; otherwise every wait has a stack.
    pub min_wait_ns: u64,
    /// How much time may go into stacks, in millionths of one CPU; 0 for as much as it takes. Only
    /// with [`EngineChoice::Bpf`].
    pub stack_budget_ppm: u32,
    /// Unwinds every stack even if the recorder remembers it, compares the two, and warns of the
    /// result: for tests of [`EngineChoice::Bpf`].
    pub compare_stacks: bool,
    /// Whether the programs of [`EngineChoice::Bpf`] also compare waits with thresholds: the
    /// always-on recorder's triggers are about them.
    pub watch_waits: bool,
    /// What records: see [`EngineChoice`].
    pub engine: EngineChoice,
    /// [`record`](crate::record) ends when the trace has about this many bytes.
    pub max_bytes: Option<u64>,
    /// Who may read the traces. A trace that had to be written elsewhere than requested can only be
    /// read by its owner.
    pub readers: Readers,
}

/// What records the events.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum EngineChoice {
    /// BPF where the kernel allows it, else performance events.
    #[default]
    Auto,
    /// Performance events, on any kernel.
    Perf,
    /// Programs in the kernel (BPF), which need its type information (BTF).
    Bpf,
}

/// Size of the rings in bytes if nothing else is asked for: of each, or of all.
pub(crate) const DEFAULT_RING_BYTES: usize = 16 << 20;
/// Maximum size of all rings of performance events together, if nothing else is asked for.
pub(crate) const MAX_DEFAULT_BYTES: usize = 256 << 20;

impl Default for Options {
    fn default() -> Self {
        Self {
            ring_bytes_per_cpu: None,
            sample_hz: 199,
            user_stacks: true,
            max_stack: 127,
            only_pid: None,
            min_wait_ns: 1_000_000,
            stack_budget_ppm: 10_000,
            compare_stacks: false,
            watch_waits: false,
            engine: EngineChoice::Auto,
            max_bytes: None,
            readers: Readers::Owner,
        }
    }
}
