//! Writes events to a `perf.data`, with the recorder's writer.
//!
//! The descriptions of the tracepoints are those of Linux 6.18 (`events/sched/*/format` in
//! tracefs). A file without them cannot be read.

use crate::code::{Chain, IMAGE_LEN};
use crate::machine::{Action, Event, Left, Machine, Thread};
use std::collections::BTreeSet;
use unhitch_formats::perf_data::{
    ClockData, EventAttr, EventDesc, Features,
    attr::{self, flag, sample},
    record::{self, Mmap2, Sample, SampleId},
    write,
};
use unhitch_formats::tracepoint::TracingData;
use unhitch_model::{Time, Window};

/// The producer that the traces name.
pub(crate) const PRODUCER: &str = concat!("unhitch-golden ", env!("CARGO_PKG_VERSION"));

const COMMON: &str = "format:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";
const SWITCH: &str = "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
    \tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
    \tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\
    \tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n\nprint fmt: \"prev_pid=%d prev_state=%ld next_pid=%d\", REC->prev_pid, \
    REC->prev_state, REC->next_pid\n";
const WAKING: &str = "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\
    \tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;\n\tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;\n\n\
    print fmt: \"comm=%s pid=%d prio=%d target_cpu=%03d\", REC->comm, REC->pid, REC->prio, REC->target_cpu\n";

/// Name, id, fields after the common ones.
const TRACEPOINTS: [(&str, u16, &str); 3] = [
    ("sched_switch", 372, SWITCH),
    ("sched_waking", 375, WAKING),
    ("sched_wakeup_new", 373, WAKING),
];
const CLOCK_ID: u64 = 101;
const SIDE_BAND_ID: u64 = 102;
const TRACEPOINT_SAMPLE: u64 =
    sample::IDENTIFIER | sample::TID | sample::TIME | sample::CPU | sample::CALLCHAIN | sample::RAW;
const CLOCK_SAMPLE: u64 =
    sample::IDENTIFIER | sample::IP | sample::TID | sample::TIME | sample::CPU | sample::CALLCHAIN;
/// A normal thread's priority.
const PRIO: i32 = 120;
/// `common_flags`: in a hardware interrupt.
const HARDIRQ: u8 = 0x08;

/// The whole file.
pub(crate) fn perf_data(machine: &Machine, events: &[Event]) -> Vec<u8> {
    let mut records = Vec::new();
    side_band(machine, events, &mut records);
    events.iter().for_each(|event| put(machine, event, &mut records));
    let mut out = Vec::new();
    write(&mut out, &descriptions(machine), &features(machine), &[&records])
        .expect("a vector takes everything");
    out
}

fn descriptions(machine: &Machine) -> Vec<EventDesc> {
    let base = EventAttr {
        sample_period: 1,
        flags: flag::SAMPLE_ID_ALL | flag::USE_CLOCKID,
        clockid: 1,
        ..EventAttr::default()
    };
    let mut events: Vec<EventDesc> = TRACEPOINTS
        .iter()
        .map(|(name, id, _)| EventDesc {
            name: format!("sched:{name}"),
            attr: EventAttr {
                kind: attr::TYPE_TRACEPOINT,
                config: u64::from(*id),
                sample_type: TRACEPOINT_SAMPLE,
                ..base.clone()
            },
            ids: vec![u64::from(*id)],
        })
        .collect();
    let software = |name: &str, config, sample_period, more_flags, id| EventDesc {
        name: name.to_owned(),
        attr: EventAttr {
            kind: attr::TYPE_SOFTWARE,
            config,
            sample_period,
            sample_type: CLOCK_SAMPLE,
            flags: base.flags | more_flags,
            ..base.clone()
        },
        ids: vec![id],
    };
    events.push(software("cpu-clock", attr::SW_CPU_CLOCK, machine.period_ns, 0, CLOCK_ID));
    let side_band = flag::MMAP | flag::MMAP2 | flag::COMM | flag::COMM_EXEC | flag::TASK;
    events.push(software("dummy:HG", attr::SW_DUMMY, 1, side_band, SIDE_BAND_ID));
    events
}

fn features(machine: &Machine) -> Features {
    let text = |(name, id, fields): &(&str, u16, &str)| {
        ("sched".to_owned(), format!("name: {name}\nID: {id}\n{COMMON}{fields}"))
    };
    Features {
        host: "made-up".to_owned(),
        kernel: "made-up".to_owned(),
        arch: "x86_64".to_owned(),
        producer: PRODUCER.to_owned(),
        cpus_online: machine.cpus() as u32,
        cpus_available: machine.cpus() as u32,
        memory_kib: 96 << 20,
        command_line: vec!["unhitch-golden".to_owned()],
        tracing_data: TracingData {
            page_size: 4096,
            header_page:
                "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n"
                    .to_owned(),
            header_event: String::new(),
            events: TRACEPOINTS.iter().map(text).collect(),
        },
        clock_id: Some(ClockData { clockid: 1, wall_ns: 1_500_000_000_000_000_000, clock_ns: machine.start }),
        sample_window: Some(Window::new(Time::from_nanos(machine.start), Time::from_nanos(machine.end))),
    }
}

fn side_band_id(ns: u64) -> SampleId {
    SampleId { time: Time::from_nanos(ns), id: SIDE_BAND_ID, ..SampleId::default() }
}

/// Names, mappings, births and exits.
fn side_band(machine: &Machine, events: &[Event], out: &mut Vec<u8>) {
    for task in machine.tasks.iter().skip(1).filter(|task| task.born == 0) {
        record::comm(out, task.pid, task.tid, task.comm.as_bytes(), false, &side_band_id(0));
    }
    for &(time, parent, child) in &machine.births {
        let (parent, child) = (&machine.tasks[parent.0], &machine.tasks[child.0]);
        record::fork(out, child.pid, parent.pid, child.tid, parent.tid, &side_band_id(time));
        record::comm(
            out,
            child.pid,
            child.tid,
            child.comm.as_bytes(),
            true,
            &side_band_id(time + 1),
        );
    }
    let mut mapped = BTreeSet::new();
    for event in events {
        let (current, stack) = match event.action {
            Action::Switch { prev, left, .. } => (prev, left.stack()),
            Action::Waking { waker, stack, .. } => (waker, stack),
            Action::Sample { thread, stack } => (thread, stack),
            Action::Note { .. } => continue,
        };
        let task = &machine.tasks[current.0];
        let from = if task.born == 0 { 0 } else { task.born + 2 };
        mapped.extend(
            machine.code.user_images(stack).map(|(path, avma)| (from, task.pid, avma, path)),
        );
    }
    for (from, pid, start_avma, path) in &mapped {
        let map = Mmap2 {
            pid: *pid,
            tid: *pid,
            start_avma: *start_avma,
            len: IMAGE_LEN,
            prot: 5,
            flags: 2,
            path: path.as_bytes(),
            ..Mmap2::default()
        };
        record::mmap2(out, &map, &side_band_id(*from));
    }
    for &(time, thread) in &machine.exits {
        let task = &machine.tasks[thread.0];
        record::exit(out, task.pid, 1, task.tid, 1, &side_band_id(time));
    }
}

fn put(machine: &Machine, event: &Event, out: &mut Vec<u8>) {
    let task = |thread: Thread| &machine.tasks[thread.0];
    let comm = |thread: Thread| {
        let mut bytes = [0; 16];
        let text = task(thread).comm.as_bytes();
        let len = text.len().min(15);
        bytes[..len].copy_from_slice(&text[..len]);
        bytes
    };
    match event.action {
        Action::Switch { prev, left, next } => {
            let mut fields = comm(prev).to_vec();
            fields.extend_from_slice(&task(prev).tid.to_le_bytes());
            fields.extend_from_slice(&PRIO.to_le_bytes());
            fields.extend_from_slice(&state(left).to_le_bytes());
            fields.extend_from_slice(&comm(next));
            fields.extend_from_slice(&task(next).tid.to_le_bytes());
            fields.extend_from_slice(&PRIO.to_le_bytes());
            tracepoint(
                0,
                event,
                (task(prev).pid, task(prev).tid),
                0,
                &fields,
                machine.code.chain(left.stack()),
                out,
            );
        }
        Action::Waking { waker, wakee, target_cpu, interrupt, new, stack } => {
            let mut fields = comm(wakee).to_vec();
            fields.extend_from_slice(&task(wakee).tid.to_le_bytes());
            fields.extend_from_slice(&PRIO.to_le_bytes());
            fields.extend_from_slice(&(target_cpu as u32).to_le_bytes());
            let (index, flags) = (if new { 2 } else { 1 }, if interrupt { HARDIRQ } else { 0 });
            tracepoint(
                index,
                event,
                (task(waker).pid, task(waker).tid),
                flags,
                &fields,
                machine.code.chain(stack),
                out,
            );
        }
        Action::Sample { thread, stack } => {
            let (chain, ip) = (machine.code.chain(stack), machine.code.leaf_avma(stack));
            let id = sample_id(event, (task(thread).pid, task(thread).tid), CLOCK_ID);
            let sample = Sample {
                id,
                ip,
                kernel_frames: &chain.kernel,
                user_frames: &chain.user,
                ..Sample::default()
            };
            record::sample(out, CLOCK_SAMPLE, &sample);
        }
        Action::Note { .. } => {}
    }
}

/// The state in `sched_switch`.
fn state(left: Left) -> u64 {
    match left {
        Left::Preempted(_) => 0,
        Left::Sleeping(_) => 1,
        Left::Blocked(_) => 2,
        Left::Dead(_) => 16,
    }
}

fn sample_id(event: &Event, (pid, tid): (u32, u32), id: u64) -> SampleId {
    SampleId { pid, tid, time: Time::from_nanos(event.time), cpu: event.cpu as u32, id }
}

fn tracepoint(
    index: usize,
    event: &Event,
    current: (u32, u32),
    flags: u8,
    fields: &[u8],
    chain: &Chain,
    out: &mut Vec<u8>,
) {
    let number = TRACEPOINTS[index].1;
    let mut raw = number.to_le_bytes().to_vec();
    raw.extend_from_slice(&[flags, 0]);
    raw.extend_from_slice(&current.1.to_le_bytes());
    raw.extend_from_slice(fields);
    let id = sample_id(event, current, u64::from(number));
    let sample = Sample {
        id,
        kernel_frames: &chain.kernel,
        user_frames: &chain.user,
        raw: &raw,
        ..Sample::default()
    };
    record::sample(out, TRACEPOINT_SAMPLE, &sample);
}
