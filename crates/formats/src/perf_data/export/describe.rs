//! What the exported file says about its events and the machine.

use super::super::{
    attr::{EventAttr, flag, sample},
    description::{ClockData, EventDesc, Features},
    tracepoints::{self, CONTENTION_BEGIN, CONTENTION_END, SWITCH, Tracepoint, WAKEUP_NEW, WAKING},
};
use unhitch_model::{ModuleKind, Trace, Window};

/// Ids of the events that are not tracepoints. Those of tracepoints are the tracepoints' own
/// numbers, which have 16 bits.
pub(super) const CLOCK_ID: u64 = 1 << 16;
pub(super) const SIDE_BAND_ID: u64 = CLOCK_ID + 1;

/// What a CPU sample carries.
pub(super) const CLOCK_SAMPLE: u64 = sample::IDENTIFIER
    | sample::IP
    | sample::TID
    | sample::TIME
    | sample::CPU
    | sample::PERIOD
    | sample::CALLCHAIN;
/// What a tracepoint's samples carry. perf report shows the instruction of each.
pub(super) const TRACEPOINT_SAMPLE: u64 = CLOCK_SAMPLE | sample::RAW;

fn tracepoints(trace: &Trace) -> Vec<Tracepoint> {
    let mut all = vec![SWITCH, WAKING, WAKEUP_NEW];
    if !trace.contentions.is_empty() {
        all.extend([CONTENTION_BEGIN, CONTENTION_END]);
    }
    all
}

/// The events of the file.
pub(super) fn events(trace: &Trace) -> Vec<EventDesc> {
    let base = base(trace);
    let of = |of: Tracepoint| {
        EventDesc::tracepoint(&base, (of.system, of.name), of.id, TRACEPOINT_SAMPLE)
    };
    let mut events: Vec<EventDesc> = tracepoints(trace).into_iter().map(of).collect();
    if !trace.samples.is_empty() {
        let period_ns = trace.meta.sample_period_ns;
        events.push(EventDesc::cpu_clock(&base, period_ns, CLOCK_SAMPLE, CLOCK_ID));
    }
    events.push(EventDesc::side_band(&base, CLOCK_SAMPLE, SIDE_BAND_ID));
    events
}

/// What all events have in common.
fn base(trace: &Trace) -> EventAttr {
    let mut base = match trace.meta.clock_id {
        Some(clock) => EventAttr::on_clock(clock),
        None => EventAttr { flags: flag::SAMPLE_ID_ALL, ..EventAttr::default() },
    };
    // The CPUs' events begin at different times because their rings were overwritten.
    let mut starts = trace.spans.iter().map(|span| span.window.start);
    let first = starts.next();
    if starts.any(|start| Some(start) != first) {
        base.flags |= flag::WRITE_BACKWARD;
    }
    base
}

/// Facts about the machine and the recording.
pub(super) fn features(trace: &Trace, window: Window, producer: &str) -> Features {
    let meta = &trace.meta;
    let start = window.start.nanos();
    let wall_ns = |epoch_ns: i128| u64::try_from(epoch_ns + i128::from(start)).ok();
    let clock = meta.clock_id.zip(meta.epoch_ns.and_then(wall_ns));
    let cpus = u32::from(meta.cpus).max(cpus_seen(trace));
    Features {
        host: meta.host.clone(),
        kernel: meta.kernel.clone(),
        arch: meta.arch.clone(),
        producer: producer.to_owned(),
        cpus_online: cpus,
        cpus_available: cpus,
        memory_kib: meta.memory_bytes >> 10,
        command_line: vec!["unhitch".to_owned(), "export".to_owned()],
        tracing_data: tracepoints::tracing_data(&tracepoints(trace)),
        kernel_build_id: kernel_build_id(trace),
        clock_id: clock.map(|(clockid, wall_ns)| ClockData { clockid, wall_ns, clock_ns: start }),
        // perf's window has its last sample inside.
        sample_window: Some(Window { start: window.start, end: window.end.minus(1) }),
    }
}

fn kernel_build_id(trace: &Trace) -> Vec<u8> {
    let kernel = trace.modules.iter().find(|(_, module)| module.kind == ModuleKind::Kernel);
    kernel.map_or_else(Vec::new, |(_, module)| module.build_id.clone())
}

/// One more than the largest number of a CPU.
fn cpus_seen(trace: &Trace) -> u32 {
    let columns = [&trace.switches.cpu, &trace.wakings.cpu, &trace.samples.cpu];
    columns.into_iter().flatten().max().map_or(0, |cpu| u32::from(*cpu) + 1)
}
