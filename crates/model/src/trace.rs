//! The trace itself.

use crate::{
    Contentions, FrameId, ModuleKind, Modules, NameId, Placements, ProviderEvents, Samples, StackId, Stacks, Strings, Switches, Symbols,
    ThreadId, Threads, Time, Wakings, Warnings, Window,
};
use std::collections::BTreeMap;

/// The kind of file that a trace was read from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Format {
    /// Unhitch's own container.
    #[default]
    Hitch,
    /// Linux `perf.data`.
    PerfData,
    /// Event Tracing for Windows.
    Etl,
}

impl Format {
    /// The name in `info --json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hitch => "hitch",
            Self::PerfData => "perf.data",
            Self::Etl => "etl",
        }
    }
}

/// Facts about the recording, as far as the file tells them; empty text or 0 where it does not.
#[derive(Clone, Debug, Default)]
pub struct Meta {
    /// The kind of file.
    pub format: Format,
    /// Host name.
    pub host: String,
    /// Kernel release, or the Windows build.
    pub kernel: String,
    /// Machine architecture, as `uname -m` says it.
    pub arch: String,
    /// CPUs of the machine.
    pub cpus: u16,
    /// Memory of the machine, bytes.
    pub memory_bytes: u64,
    /// Wall-clock time of [`Time::ZERO`], nanoseconds since the Unix epoch.
    pub epoch_ns: Option<i128>,
    /// The time between two CPU samples of one CPU, nanoseconds.
    pub sample_period_ns: u64,
    /// The process whose switches and wake-ups alone were recorded; none when all were.
    pub only_pid: Option<u32>,
    /// What produced the file, e.g. "unhitch 0.1.0".
    pub producer: String,
    /// The user's words, saved with the trace.
    pub notes: String,
    /// Buffers (ETW) or rings (Linux) that the file was made of.
    pub buffers: u64,
}

/// The time that one CPU's events really cover.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuSpan {
    /// The CPU.
    pub cpu: u16,
    /// From its first to just after its last event.
    pub window: Window,
}

/// A stretch of time in which one CPU's events were lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loss {
    /// The CPU.
    pub cpu: u16,
    /// Between the last event before and the first after the loss.
    pub window: Window,
    /// How many events are missing, 0 when unknown.
    pub events: u64,
}

/// A thread that was waiting for a futex when the trace was saved, as `/proc` and the lock word told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FutexWait {
    /// When that was read.
    pub time: Time,
    /// The waiting thread.
    pub waiter: ThreadId,
    /// Address of the futex word in its process, avma.
    pub word_avma: u64,
    /// The thread that held the lock, where the lock says so.
    pub owner: Option<ThreadId>,
}

/// A recording: everything observed, nothing concluded. Immutable once read.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Facts about the recording.
    pub meta: Meta,
    /// All names.
    pub strings: Strings,
    /// All threads and processes.
    pub threads: Threads,
    /// All modules.
    pub modules: Modules,
    /// All stacks.
    pub stacks: Stacks,
    /// Names of the stacks' frames.
    pub symbols: Symbols,
    /// Context switches.
    pub switches: Switches,
    /// Wake-ups.
    pub wakings: Wakings,
    /// CPU samples.
    pub samples: Samples,
    /// Who came on which CPU, by the kernel's records of that (`PERF_RECORD_SWITCH`): the switches tell it again, where none is missing.
    pub arrivals: Placements,
    /// Which CPU the scheduler chose for a thread that was not running.
    pub migrations: Placements,
    /// Kernel lock contention.
    pub contentions: Contentions,
    /// Events of all other providers: disk transfers, page faults, UI delays, input, marks.
    pub events: ProviderEvents,
    /// Futex waits at the time of the save.
    pub futex_waits: Vec<FutexWait>,
    /// What each CPU's events cover, by CPU.
    pub spans: Vec<CpuSpan>,
    /// Where events are missing, by start.
    pub losses: Vec<Loss>,
    /// Records of the file by kind, the ignored ones included.
    pub by_kind: BTreeMap<String, u64>,
    /// What is damaged, lost or guessed.
    pub warnings: Warnings,
}

impl Default for Trace {
    fn default() -> Self {
        let mut strings = Strings::default();
        let threads = Threads::new(strings.intern("idle"));
        Self {
            meta: Meta::default(),
            strings,
            threads,
            modules: Modules::default(),
            stacks: Stacks::default(),
            symbols: Symbols::default(),
            switches: Switches::default(),
            wakings: Wakings::default(),
            samples: Samples::default(),
            arrivals: Placements::default(),
            migrations: Placements::default(),
            contentions: Contentions::default(),
            events: ProviderEvents::default(),
            futex_waits: Vec::new(),
            spans: Vec::new(),
            losses: Vec::new(),
            by_kind: BTreeMap::new(),
            warnings: Warnings::default(),
        }
    }
}

impl Trace {
    /// The window that *every* CPU's events cover: outside it, what a thread did on an uncovered CPU is unknown. Empty without events.
    pub fn common_window(&self) -> Window {
        let start = self.spans.iter().map(|span| span.window.start).max().unwrap_or_default();
        let end = self.spans.iter().map(|span| span.window.end).max().unwrap_or_default();
        Window::new(start, end.max(start))
    }

    /// The text of a name.
    pub fn name(&self, id: NameId) -> &str {
        self.strings.get(id)
    }

    /// The name that a thread had at `time`.
    pub fn thread_name(&self, id: ThreadId, time: Time) -> &str {
        self.name(self.threads.name_at(id, time))
    }

    /// The name that a thread's process had at `time`: its own, or its thread-group leader's.
    pub fn process_name(&self, id: ThreadId, time: Time) -> &str {
        self.name(self.process_name_id(id, time))
    }

    /// The same as an id.
    pub fn process_name_id(&self, id: ThreadId, time: Time) -> NameId {
        let process = self.threads.process_of(id);
        if process.name.is_empty() { self.threads.name_at(process.leader, time) } else { process.name }
    }

    /// What a stack prints, root first: function names, inlined ones included; `module+0xoffset` where there is no name.
    pub fn stack_names(&self, id: StackId) -> Vec<String> {
        let mut names: Vec<String> = self.stacks.frames_of(id).iter().flat_map(|&frame| self.frame_names(frame)).collect();
        names.reverse();
        names
    }

    /// What a frame prints, innermost function first.
    pub fn frame_names(&self, id: FrameId) -> Vec<String> {
        let symbols = self.symbols.get(id);
        if !symbols.is_empty() {
            return symbols.iter().map(|symbol| self.name(symbol.function).to_owned()).collect();
        }
        let Some(frame) = self.stacks.frame(id) else { return vec!["?".to_owned()] };
        let Some(module) = self.modules.get(frame.module) else { return vec![format!("?+{:#x}", frame.offset)] };
        let path = self.name(module.path);
        if module.kind == ModuleKind::Cut {
            return vec![path.to_owned()];
        }
        if matches!(module.kind, ModuleKind::Image { .. }) {
            // As debuggers write a place that has no name.
            return vec![format!("{}!+{:#x}", path.rsplit(['/', '\\']).next().unwrap_or(path), frame.offset)];
        }
        vec![format!("{}+{:#x}", path.rsplit('/').next().unwrap_or(path), frame.offset)]
    }
}
