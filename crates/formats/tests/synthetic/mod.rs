//! Synthetic traces, byte for byte as perf would write them, for the tests and the examples.
#![allow(dead_code, reason = "each test uses a part")]

use unhitch_formats::{
    perf_data::{
        ClockData, EventAttr, EventDesc, Features,
        attr::{self, flag, sample},
        record::{self, Mmap2, Sample, SampleId},
        write,
    },
    tracepoint::TracingData,
};
use unhitch_model::{Time, Window};

const COMMON: &str = "format:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";

const SWITCH: &str = "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
    \tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
    \tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\
    \tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n\nprint fmt: \"prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s \
    ==> next_comm=%s next_pid=%d next_prio=%d\", REC->prev_comm, REC->prev_pid, REC->prev_prio, (REC->prev_state & 0xff) ? \
    __print_flags(REC->prev_state & 0xff, \"|\", { 1, \"S\" }, { 2, \"D\" }, { 4, \"T\" }, { 8, \"t\" }, { 16, \"X\" }, { 32, \"Z\" }, \
    { 64, \"P\" }, { 128, \"I\" }) : \"R\", REC->prev_state & 0x100 ? \"+\" : \"\", REC->next_comm, REC->next_pid, REC->next_prio\n";

const WAKING: &str = "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\
    \tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;\n\tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;\n\n\
    print fmt: \"comm=%s pid=%d prio=%d target_cpu=%03d\", REC->comm, REC->pid, REC->prio, REC->target_cpu\n";

const BEGIN: &str = "\tfield:void * lock_addr;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:unsigned int flags;\toffset:16;\tsize:4;\tsigned:0;\n\n\
    print fmt: \"%p %x\", REC->lock_addr, REC->flags\n";

const END: &str = "\tfield:void * lock_addr;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:int ret;\toffset:16;\tsize:4;\tsigned:1;\n\n\
    print fmt: \"%p (ret=%d)\", REC->lock_addr, REC->ret\n";

/// Name, id, format text after the common fields.
const TRACEPOINTS: [(&str, &str, u16, &str); 5] = [
    ("sched", "sched_switch", 372, SWITCH),
    ("sched", "sched_waking", 375, WAKING),
    ("sched", "sched_wakeup_new", 373, WAKING),
    ("lock", "contention_begin", 40, BEGIN),
    ("lock", "contention_end", 41, END),
];
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
        let flags = flag::SAMPLE_ID_ALL | flag::USE_CLOCKID;
        let base = EventAttr { sample_period: 1, flags, clockid: 1, ..EventAttr::default() };
        let mut events: Vec<EventDesc> = TRACEPOINTS
            .iter()
            .enumerate()
            .map(|(index, (system, name, id, _))| EventDesc {
                name: format!("{system}:{name}"),
                attr: EventAttr {
                    kind: attr::TYPE_TRACEPOINT,
                    config: u64::from(*id),
                    sample_type: TRACEPOINT_SAMPLE,
                    ..base.clone()
                },
                ids: vec![index as u64 * 10 + 1, index as u64 * 10 + 2],
            })
            .collect();
        events.push(EventDesc {
            name: "cpu-clock".to_owned(),
            attr: EventAttr {
                kind: attr::TYPE_SOFTWARE,
                config: attr::SW_CPU_CLOCK,
                sample_period: 1_000_000,
                sample_type: CLOCK_SAMPLE,
                ..base.clone()
            },
            ids: vec![CLOCK as u64 * 10 + 1, CLOCK as u64 * 10 + 2],
        });
        let side_band = flag::MMAP | flag::MMAP2 | flag::COMM | flag::COMM_EXEC | flag::TASK;
        events.push(EventDesc {
            name: "dummy:HG".to_owned(),
            attr: EventAttr {
                kind: attr::TYPE_SOFTWARE,
                config: attr::SW_DUMMY,
                sample_type: CLOCK_SAMPLE,
                flags: base.flags | side_band,
                ..base
            },
            ids: vec![DUMMY_ID],
        });
        events
    }

    pub fn features() -> Features {
        let text = |(_, name, id, fields): &(&str, &str, u16, &str)| {
            format!("name: {name}\nID: {id}\n{COMMON}{fields}")
        };
        Features {
            host: "synthetic".to_owned(),
            kernel: "6.18.0".to_owned(),
            arch: "x86_64".to_owned(),
            producer: "unhitch test".to_owned(),
            cpus_online: 2,
            cpus_available: 2,
            memory_kib: 1 << 20,
            command_line: vec!["unhitch".to_owned(), "record".to_owned()],
            tracing_data: TracingData {
                page_size: 4096,
                header_page:
                    "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n"
                        .to_owned(),
                header_event: String::new(),
                events: TRACEPOINTS.iter().map(|event| (event.0.to_owned(), text(event))).collect(),
            },
            clock_id: Some(ClockData { clockid: 1, wall_ns: 1_700_000_000_000_000_000, clock_ns: 1_000 }),
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
        raw[..2].copy_from_slice(&TRACEPOINTS[index].2.to_le_bytes());
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
