//! `meta.json`: facts about a recording for which perf.data has no place.
//!
//! All times are nanoseconds of the trace's clock. A missing field has its default, so that older
//! files stay readable.

use serde::{Deserialize, Serialize};
use unhitch_model::units;

/// The content of `meta.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerMeta {
    /// Version of this layout: 1.
    pub version: u32,
    /// The program that wrote the file, e.g. `unhitch 0.1.0`.
    pub producer: String,
    /// Host name.
    pub host: String,
    /// Kernel release, in the words of `uname -r`.
    pub kernel: String,
    /// Architecture, in the words of `uname -m`.
    pub arch: String,
    /// CPUs of the machine.
    pub cpus: u16,
    /// Memory of the machine, bytes.
    pub memory_bytes: u64,
    /// The trace's clock, e.g. `monotonic`.
    pub clock: String,
    /// Wall-clock time of the clock's zero, nanoseconds since the Unix epoch.
    pub epoch_ns: Option<i64>,
    /// The time between two CPU samples of one CPU, nanoseconds.
    pub sample_period_ns: u64,
    /// The recorder's options.
    pub recorder: serde_json::Value,
    /// What each CPU's events cover.
    pub spans: Vec<CpuWindow>,
    /// Where events are missing.
    pub losses: Vec<CpuLoss>,
    /// What `/proc` showed about threads at the time of the save.
    pub threads: Vec<ThreadFacts>,
    /// What `/proc` showed about processes at the time of the save.
    pub processes: Vec<ProcessFacts>,
    /// Threads that were waiting for a futex at the time of the save.
    pub futex_waits: Vec<FutexWaiter>,
    /// Who had the pipes and sockets open that threads waited for, at the time of the save.
    pub holders: Vec<Holder>,
    /// True if every process was asked what it had open, so that `holders` lacks nobody.
    pub holders_complete: bool,
    /// Sockets and the sockets on the same machine that they were connected to, by inode.
    pub connections: Vec<(u64, u64)>,
    /// The other ends of connections that event loops waited for at the time of the save, and that
    /// their own processes had made.
    pub loop_peers: Vec<LoopPeer>,
    /// The recorder's warnings about damage, loss and guesses.
    pub warnings: Vec<String>,
}

impl ContainerMeta {
    /// Whether the recorder ran in the kernel.
    pub(super) fn is_by_bpf(&self) -> bool {
        self.recorder["engine"].as_str() == Some("bpf")
    }

    /// How the recorder recorded, and what it could not see, in words.
    pub(super) fn recorder_words(&self) -> String {
        let number = |name: &str| self.recorder[name].as_u64().filter(|number| *number > 0);
        let samples = number("sample_hz").map(|hz| format!("samples at {hz} Hz"));
        let stacks = || {
            let from_ns = number("min_wait_ns").unwrap_or_default();
            let of = match self.recorder["switch_in_hook"].as_str() {
                Some("sched_switch") => "kernel stacks",
                _ => "stacks",
            };
            format!("{of} of waits from {} on", units::duration(from_ns))
        };
        let parts = match self.recorder["engine"].as_str() {
            Some("bpf") => vec!["BPF".to_owned(), stacks()],
            Some("perf") => vec![
                "performance events".to_owned(),
                "owners of locks only at the end, no facts, no stacks of waits that began earlier"
                    .to_owned(),
            ],
            _ => return String::new(),
        };
        parts.into_iter().chain(samples).collect::<Vec<_>>().join("; ")
    }
}

/// A window of time on one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuWindow {
    /// The CPU.
    pub cpu: u16,
    /// First instant inside.
    pub start_ns: u64,
    /// First instant after.
    pub end_ns: u64,
}

/// A window of time in which events of one CPU are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuLoss {
    /// The CPU.
    pub cpu: u16,
    /// First instant inside.
    pub start_ns: u64,
    /// First instant after.
    pub end_ns: u64,
    /// How many events, 0 when unknown.
    pub events: u64,
}

/// A thread, as `/proc` showed it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadFacts {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Its scheduling policy, `SCHED_*`.
    pub policy: Option<u32>,
    /// Its nice value.
    pub nice: Option<i8>,
}

/// A process, as `/proc` showed it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessFacts {
    /// Process id.
    pub pid: u32,
    /// Its command line, with blanks between the arguments.
    pub command_line: String,
}

/// A thread in `futex(2)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FutexWaiter {
    /// When this was read.
    pub time_ns: u64,
    /// The waiting thread.
    pub tid: u32,
    /// Address of the futex word in its process, avma.
    pub word_avma: u64,
    /// The owner of the lock, if the lock word has it.
    pub owner_tid: Option<u32>,
}

/// The other end of a connection that an event loop waits for, among others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoopPeer {
    /// The loop's thread.
    pub tid: u32,
    /// Inode of the socket at the other end.
    pub inode: u64,
}

/// A process that has a pipe or socket open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Holder {
    /// Inode of the pipe or socket.
    pub inode: u64,
    /// Process id.
    pub pid: u32,
    /// The descriptor's number.
    pub fd: u32,
    /// It is open for reading. Where neither this nor `writes` is true, that is not known.
    pub reads: bool,
    /// It is open for writing.
    pub writes: bool,
}
