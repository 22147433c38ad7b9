//! What a file says about its events, the machine and the recording: the same for reader and
//! writer.

use super::attr::{self, EventAttr, flag};
use crate::tracepoint::TracingData;
use unhitch_model::Window;

/// One event of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDesc {
    /// As perf names it: `sched:sched_switch`, `cpu-clock`, `dummy:HG`.
    pub name: String,
    /// What it counts and carries.
    pub attr: EventAttr,
    /// The ids of its instances, usually one per CPU. Samples refer to them.
    pub ids: Vec<u64>,
}

impl EventDesc {
    /// All samples of a tracepoint. Their only id is the tracepoint's own `number`. `base` has what
    /// all events of the file have in common.
    pub fn tracepoint(
        base: &EventAttr,
        (system, name): (&str, &str),
        number: u16,
        sample_type: u64,
    ) -> Self {
        let (config, name) = (u64::from(number), format!("{system}:{name}"));
        let kind = attr::TYPE_TRACEPOINT;
        let attr = EventAttr { kind, config, sample_period: 1, sample_type, ..base.clone() };
        Self { name, attr, ids: vec![config] }
    }

    /// CPU samples, each after `period_ns` of the CPU's clock.
    pub fn cpu_clock(base: &EventAttr, period_ns: u64, sample_type: u64, id: u64) -> Self {
        let (kind, config) = (attr::TYPE_SOFTWARE, attr::SW_CPU_CLOCK);
        let attr =
            EventAttr { kind, config, sample_period: period_ns, sample_type, ..base.clone() };
        Self { name: "cpu-clock".to_owned(), attr, ids: vec![id] }
    }

    /// Threads, names and mappings; no samples.
    pub fn side_band(base: &EventAttr, sample_type: u64, id: u64) -> Self {
        let side_band = flag::MMAP | flag::MMAP2 | flag::COMM | flag::COMM_EXEC | flag::TASK;
        let (kind, config, flags) = (attr::TYPE_SOFTWARE, attr::SW_DUMMY, base.flags | side_band);
        let attr = EventAttr { kind, config, sample_period: 1, sample_type, flags, ..base.clone() };
        Self { name: "dummy:HG".to_owned(), attr, ids: vec![id] }
    }
}

/// One instant on two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockData {
    /// The trace's clock, `CLOCK_*`.
    pub clockid: u32,
    /// Wall-clock time, nanoseconds since the Unix epoch.
    pub wall_ns: u64,
    /// The same instant on the trace's clock.
    pub clock_ns: u64,
}

/// Facts about machine and recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Host name.
    pub host: String,
    /// Kernel release, in the words of `uname -r`.
    pub kernel: String,
    /// Architecture, in the words of `uname -m`.
    pub arch: String,
    /// The recorder, e.g. `unhitch 0.1.0`; takes the place of perf's version.
    pub producer: String,
    /// CPUs in use.
    pub cpus_online: u32,
    /// CPUs of the machine.
    pub cpus_available: u32,
    /// Memory of the machine, KiB.
    pub memory_kib: u64,
    /// The recorder's command line.
    pub command_line: Vec<String>,
    /// Descriptions of the tracepoints.
    pub tracing_data: TracingData,
    /// Build id of the kernel; empty if it is unknown or in a mapping's record.
    pub kernel_build_id: Vec<u8>,
    /// How the trace's clock relates to wall-clock time.
    pub clock_id: Option<ClockData>,
    /// From the first to the last sample.
    pub sample_window: Option<Window>,
}
