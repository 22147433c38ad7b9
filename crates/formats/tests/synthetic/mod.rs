//! Synthetic traces, byte for byte as perf would write them, for the tests and the examples.
#![allow(dead_code, reason = "each test uses a part")]

use unhitch_formats::perf_data::{
    ClockData, EventAttr, EventDesc, Features,
    attr::sample,
    record::{self, Mmap2, Sample, SampleId},
    tracepoints::{
        CONTENTION_BEGIN, CONTENTION_END, SWITCH, Tracepoint, WAKEUP_NEW, WAKING, tracing_data,
    },
    write,
};
use unhitch_model::linux::CLOCK_MONOTONIC;
use unhitch_model::{Time, Window};

const TRACEPOINTS: [Tracepoint; 5] = [SWITCH, WAKING, WAKEUP_NEW, CONTENTION_BEGIN, CONTENTION_END];
const CLOCK: usize = TRACEPOINTS.len();

pub const TRACEPOINT_SAMPLE: u64 =
    sample::IDENTIFIER | sample::TID | sample::TIME | sample::CPU | sample::CALLCHAIN | sample::RAW;
pub const CLOCK_SAMPLE: u64 =
    sample::IDENTIFIER | sample::IP | sample::TID | sample::TIME | sample::CPU | sample::CALLCHAIN;
/// The event that carries the side-band.
pub const DUMMY_ID: u64 = 1_000;

/// A thread as an event shows it.
#[derive(Clone, Copy)]
pub struct Task {
    pub pid: u32,
    pub tid: u32,
    pub comm: &'static str,
}

pub const IDLE: Task = Task { pid: 0, tid: 0, comm: "swapper/0" };

/// Where and when.
#[derive(Clone, Copy)]
pub struct At {
    pub ns: u64,
    pub cpu: u32,
}

/// Call-chain parts, leaf first.
#[derive(Clone, Copy, Default)]
pub struct Chain<'a> {
    pub kernel: &'a [u64],
    pub user: &'a [u64],
}

/// Collects records.
#[derive(Default)]
pub struct SyntheticTrace {
    pub records: Vec<u8>,
}

impl SyntheticTrace {
    pub fn events() -> Vec<EventDesc> {
        let base = EventAttr::on_clock(CLOCK_MONOTONIC);
        let tracepoint = |of: &Tracepoint| {
            EventDesc::tracepoint(&base, (of.system, of.name), of.id, TRACEPOINT_SAMPLE)
        };
        let clock = EventDesc::cpu_clock(&base, 1_000_000, CLOCK_SAMPLE, 0);
        let mut events: Vec<_> = TRACEPOINTS.iter().map(tracepoint).chain([clock]).collect();
        for (event, index) in events.iter_mut().zip(0_u64..) {
            event.ids = vec![index * 10 + 1, index * 10 + 2];
        }
        events.push(EventDesc::side_band(&base, CLOCK_SAMPLE, DUMMY_ID));
        events
    }

    pub fn features() -> Features {
        Features {
            host: "synthetic".to_owned(),
            kernel: "6.18.0".to_owned(),
            arch: "x86_64".to_owned(),
            producer: "unhitch test".to_owned(),
            cpus_online: 2,
            cpus_available: 2,
            memory_kib: 1 << 20,
            command_line: vec!["unhitch".to_owned(), "record".to_owned()],
            tracing_data: tracing_data(&TRACEPOINTS),
            kernel_build_id: Vec::new(),
            clock_id: Some(ClockData {
                clockid: CLOCK_MONOTONIC,
                wall_ns: 1_700_000_000_000_000_000,
                clock_ns: 1_000,
            }),
            sample_window: Some(Window::new(Time::from_nanos(1_000), Time::from_nanos(2_000))),
        }
    }

    /// The whole file.
    pub fn file(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let written =
            write(&mut out, &Self::events(), &Self::features(), &[&self.records]).unwrap();
        assert_eq!(written, out.len() as u64);
        out
    }

    pub fn side_band(ns: u64) -> SampleId {
        SampleId { pid: 0, tid: 0, time: Time::from_nanos(ns), cpu: 0, id: DUMMY_ID }
    }

    fn tracepoint(
        &mut self,
        index: usize,
        at: At,
        current: Task,
        irq_flags: u8,
        fields: &[u8],
        chain: Chain<'_>,
    ) {
        let mut raw = [0u8; 128];
        raw[..2].copy_from_slice(&TRACEPOINTS[index].id.to_le_bytes());
        raw[2] = irq_flags;
        raw[4..8].copy_from_slice(&current.tid.to_le_bytes());
        raw[8..8 + fields.len()].copy_from_slice(fields);
        let id = Self::id(index, at, current);
        let sample = Sample {
            id,
            kernel_frames: chain.kernel,
            user_frames: chain.user,
            raw: &raw[..8 + fields.len()],
            ..Sample::default()
        };
        record::sample(&mut self.records, TRACEPOINT_SAMPLE, &sample);
    }

    fn id(index: usize, at: At, current: Task) -> SampleId {
        let id = index as u64 * 10 + 1 + u64::from(at.cpu % 2);
        SampleId {
            pid: current.pid,
            tid: current.tid,
            time: Time::from_nanos(at.ns),
            cpu: at.cpu,
            id,
        }
    }

    pub fn switch(&mut self, at: At, prev: Task, state: u64, next: Task, chain: Chain<'_>) {
        let mut fields = [0u8; 56];
        fields[..prev.comm.len()].copy_from_slice(prev.comm.as_bytes());
        fields[16..20].copy_from_slice(&prev.tid.to_le_bytes());
        fields[20..24].copy_from_slice(&120i32.to_le_bytes());
        fields[24..32].copy_from_slice(&state.to_le_bytes());
        fields[32..32 + next.comm.len()].copy_from_slice(next.comm.as_bytes());
        fields[48..52].copy_from_slice(&next.tid.to_le_bytes());
        fields[52..56].copy_from_slice(&if next.tid == 0 { 120i32 } else { 19 }.to_le_bytes());
        self.tracepoint(0, at, prev, 0, &fields, chain);
    }

    fn wake(
        &mut self,
        index: usize,
        at: At,
        waker: Task,
        irq_flags: u8,
        wakee: Task,
        chain: Chain<'_>,
    ) {
        let mut fields = [0u8; 28];
        fields[..wakee.comm.len()].copy_from_slice(wakee.comm.as_bytes());
        fields[16..20].copy_from_slice(&wakee.tid.to_le_bytes());
        fields[20..24].copy_from_slice(&120i32.to_le_bytes());
        fields[24..28].copy_from_slice(&(1 - at.cpu % 2).to_le_bytes());
        self.tracepoint(index, at, waker, irq_flags, &fields, chain);
    }

    pub fn waking(&mut self, at: At, waker: Task, irq_flags: u8, wakee: Task, chain: Chain<'_>) {
        self.wake(1, at, waker, irq_flags, wakee, chain);
    }

    pub fn wakeup_new(&mut self, at: At, waker: Task, wakee: Task) {
        self.wake(2, at, waker, 0, wakee, Chain::default());
    }

    pub fn contention(&mut self, at: At, thread: Task, begin: bool, lock_avma: u64, flags: u32) {
        let mut fields = [0u8; 12];
        fields[..8].copy_from_slice(&lock_avma.to_le_bytes());
        fields[8..].copy_from_slice(&flags.to_le_bytes());
        self.tracepoint(if begin { 3 } else { 4 }, at, thread, 0, &fields, Chain::default());
    }

    pub fn clock(&mut self, at: At, thread: Task, chain: Chain<'_>) {
        let ip = chain.kernel.first().or(chain.user.first()).copied().unwrap_or(0);
        let id = Self::id(CLOCK, at, thread);
        let sample = Sample {
            id,
            ip,
            kernel_frames: chain.kernel,
            user_frames: chain.user,
            ..Sample::default()
        };
        record::sample(&mut self.records, CLOCK_SAMPLE, &sample);
    }

    pub fn comm(&mut self, ns: u64, task: Task, exec: bool) {
        record::comm(
            &mut self.records,
            task.pid,
            task.tid,
            task.comm.as_bytes(),
            exec,
            &Self::side_band(ns),
        );
    }

    pub fn fork(&mut self, ns: u64, parent: Task, child: Task) {
        record::fork(
            &mut self.records,
            child.pid,
            parent.pid,
            child.tid,
            parent.tid,
            &Self::side_band(ns),
        );
    }

    pub fn exit(&mut self, ns: u64, task: Task) {
        record::exit(&mut self.records, task.pid, 1, task.tid, 1, &Self::side_band(ns));
    }

    pub fn lost(&mut self, at: At, events: u64) {
        record::lost(
            &mut self.records,
            events,
            &SampleId { cpu: at.cpu, id: 1, ..Self::side_band(at.ns) },
        );
    }

    pub fn map_data(&mut self, ns: u64, pid: u32, start_avma: u64, len: u64, path: &str) {
        let map = Mmap2 {
            pid,
            tid: pid,
            start_avma,
            len,
            file_offset: 0,
            prot: 3,
            flags: 2,
            path: path.as_bytes(),
            ..Mmap2::default()
        };
        record::mmap2(&mut self.records, &map, &Self::side_band(ns));
    }

    pub fn map(
        &mut self,
        ns: u64,
        pid: u32,
        start_avma: u64,
        len: u64,
        file_offset: u64,
        path: &str,
    ) {
        let map = Mmap2 {
            pid,
            tid: pid,
            start_avma,
            len,
            file_offset,
            prot: 5,
            flags: 2,
            path: path.as_bytes(),
            ..Mmap2::default()
        };
        record::mmap2(&mut self.records, &map, &Self::side_band(ns));
    }
}
