//! What a file says about its events, the machine and the recording: the same for reader and
//! writer.

use super::attr::EventAttr;
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
    /// How the trace's clock relates to wall-clock time.
    pub clock_id: Option<ClockData>,
    /// From the first to the last sample.
    pub sample_window: Option<Window>,
}
