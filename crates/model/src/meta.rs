//! [`Meta`]: facts about a recording, and what its recorder can and cannot do.
//!
//! Readers set them. *Why capabilities*: analyses must not ask which file format a trace came from.
//! They ask for the property that matters to them.

use crate::{InputMarks, SaveReason, Time};

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
    /// Perfetto's protocol buffers.
    Perfetto,
    /// trace-cmd's `trace.dat`.
    TraceDat,
    /// The text of `perf script`.
    PerfScript,
    /// A kernel trace of LTTng: the Common Trace Format 1.8.
    Ctf,
}

impl Format {
    /// The name in `info --json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hitch => "hitch",
            Self::PerfData => "perf.data",
            Self::Etl => "etl",
            Self::Perfetto => "perfetto",
            Self::TraceDat => "trace.dat",
            Self::PerfScript => "perf script",
            Self::Ctf => "ctf",
        }
    }
}

/// What the source of a trace cannot tell, whatever happened on the machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Lack {
    /// No switch has the stack of the thread that left.
    WaitStacks,
    /// No wake-up has the stack of the thread that issued it.
    WakeStacks,
    /// Wake-ups are those of `sched_wakeup`: many are reported by the CPU of the woken thread.
    Wakers,
    /// Wake-ups do not say whether an interrupt issued them.
    WakeContexts,
    /// Nothing says which threads belong to one process.
    Processes,
    /// Frames have no addresses in files, so nothing can be named later.
    CodeAddresses,
}

impl Lack {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::WaitStacks,
        Self::WakeStacks,
        Self::Wakers,
        Self::WakeContexts,
        Self::Processes,
        Self::CodeAddresses,
    ];

    /// The name in `info --json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WaitStacks => "wait_stacks",
            Self::WakeStacks => "wake_stacks",
            Self::Wakers => "wakers",
            Self::WakeContexts => "wake_contexts",
            Self::Processes => "processes",
            Self::CodeAddresses => "code_addresses",
        }
    }

    /// What is missing, and what cannot be known without it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::WaitStacks => "no wait stacks: what each thread waited in is unknown",
            Self::WakeStacks => "no wake stacks: releasing functions are unknown",
            Self::Wakers => {
                "no sched_waking: wake-ups are those of sched_wakeup, which the kernel often \
                 reports on the CPU of the woken thread, where the waker is unknown"
            }
            Self::WakeContexts => {
                "no contexts of wake-ups: a thread that an interrupt stopped for a moment may be \
                 taken for the waker"
            }
            Self::Processes => {
                "no processes: each thread whose process is unknown is shown as one of its own"
            }
            Self::CodeAddresses => {
                "no places in files: functions without a name cannot be named from their files"
            }
        }
    }
}

/// The operating system that was recorded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum System {
    /// Linux.
    #[default]
    Linux,
    /// Windows.
    Windows,
}

impl System {
    /// A priority of [`Switches`](crate::Switches) as the system's users know it, if it is a
    /// real-time one: 1–99 on Linux, 16–31 on Windows; larger is more urgent.
    pub fn real_time_priority(self, kernel: i16) -> Option<i16> {
        let (kernel_range, most_urgent) = match self {
            Self::Linux => (0..99, 99),
            Self::Windows => (84..100, 115),
        };
        kernel_range.contains(&kernel).then(|| most_urgent - kernel)
    }
}

/// The instant that printed times are relative to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Origin {
    /// The first event of the trace.
    #[default]
    FirstEvent,
    /// The start of the first session of the trace, as in PerfView and WPA.
    SessionStart,
    /// That of the whole trace, of which this is a part: [`Meta::newest_from`].
    At(Time),
}

/// The longest time between two CPU samples that a file can claim, so that sums of them fit.
pub const MAX_SAMPLE_PERIOD_NS: u64 = 60_000_000_000;

/// Facts about the recording, as far as the file has them; empty text or 0 where it does not.
#[derive(Clone, Debug, Default)]
pub struct Meta {
    /// The kind of file.
    pub format: Format,
    /// The recorded operating system. It decides how priorities read, where function names come
    /// from, and how to record what is missing.
    pub system: System,
    /// True if the recorder reports every event that it drops. Linux drops context switches without
    /// a word on some machines.
    pub counts_losses: bool,
    /// What the source cannot tell; in order, each once.
    pub lacks: Vec<Lack>,
    /// True if code was named on the machine that was recorded, as far as its files could.
    pub is_named: bool,
    /// True if the recorder notes signals and requests to disks, too.
    pub notes_facts: bool,
    /// What printed times are relative to.
    pub origin: Origin,
    /// Only events from this time on were read, the newest part of a long recording.
    pub newest_from: Option<Time>,
    /// Host name.
    pub host: String,
    /// Kernel release, or the Windows build.
    pub kernel: String,
    /// Machine architecture, in the words of `uname -m`.
    pub arch: String,
    /// Number of CPUs of the machine.
    pub cpus: u16,
    /// Memory of the machine, bytes.
    pub memory_bytes: u64,
    /// The clock of the trace's times on Linux, `CLOCK_*`; `None` if it is not known.
    pub clock_id: Option<u32>,
    /// Wall-clock time of [`Time::ZERO`](crate::Time::ZERO), nanoseconds since the Unix epoch.
    pub epoch_ns: Option<i128>,
    /// The time between two CPU samples of one CPU, nanoseconds.
    pub sample_period_ns: u64,
    /// The only process whose switches and wake-ups were recorded; `None` if all were.
    pub only_pid: Option<u32>,
    /// True if the recording was killed before it was finished, or still goes on.
    pub is_interrupted: bool,
    /// The program that wrote the file, e.g. "unhitch 0.1.0".
    pub producer: String,
    /// How the recorder recorded, in words; empty if the file does not say.
    pub recorder: String,
    /// Which marks of input the trace holds; `None` if its recorder took none or did not say.
    pub input_marks: Option<InputMarks>,
    /// The user's notes, saved with the trace.
    pub notes: String,
    /// Why it was saved, if the recorder says so.
    pub save: Option<SaveReason>,
    /// Number of buffers (ETW) or rings (Linux) that the file was made from.
    pub buffers: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_time_priorities_are_those_that_users_set() {
        let linux = [-1, 0, 49, 98, 99, 120].map(|prio| System::Linux.real_time_priority(prio));
        assert_eq!(linux, [None, Some(99), Some(50), Some(1), None, None]);
        let windows = [83, 84, 99, 100, 131].map(|prio| System::Windows.real_time_priority(prio));
        assert_eq!(windows, [None, Some(31), Some(16), None, None]);
    }
}
