//! Writes events to a `perf.data`, with the recorder's writer.

use crate::code::{Chain, IMAGE_LEN};
use crate::machine::{Action, Event, Left, Machine, Thread};
use std::collections::BTreeSet;
use unhitch_formats::perf_data::{
    ClockData, EventAttr, EventDesc, Features,
    attr::sample,
    record::{self, Mmap2, Sample, SampleId},
    tracepoints::{self, SWITCH, Tracepoint, WAKEUP_NEW, WAKING},
    write,
};
use unhitch_model::linux::{CLOCK_MONOTONIC, USUAL_PRIO};
use unhitch_model::{TaskState, Time, WakeFlags, Window};

/// The producer that the traces name.
pub(crate) const PRODUCER: &str = concat!("unhitch-golden ", env!("CARGO_PKG_VERSION"));

const TRACEPOINTS: [Tracepoint; 3] = [SWITCH, WAKING, WAKEUP_NEW];
const CLOCK_ID: u64 = 101;
const SIDE_BAND_ID: u64 = 102;
const TRACEPOINT_SAMPLE: u64 =
    sample::IDENTIFIER | sample::TID | sample::TIME | sample::CPU | sample::CALLCHAIN | sample::RAW;
const CLOCK_SAMPLE: u64 =
    sample::IDENTIFIER | sample::IP | sample::TID | sample::TIME | sample::CPU | sample::CALLCHAIN;

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
    let base = EventAttr::on_clock(CLOCK_MONOTONIC);
    let of = |of: &Tracepoint| {
        EventDesc::tracepoint(&base, (of.system, of.name), of.id, TRACEPOINT_SAMPLE)
    };
    let others = [
        EventDesc::cpu_clock(&base, machine.period_ns, CLOCK_SAMPLE, CLOCK_ID),
        EventDesc::side_band(&base, CLOCK_SAMPLE, SIDE_BAND_ID),
    ];
    TRACEPOINTS.iter().map(of).chain(others).collect()
}

fn features(machine: &Machine) -> Features {
    Features {
        host: machine.host.clone(),
        kernel: machine.kernel.clone(),
        arch: "x86_64".to_owned(),
        producer: PRODUCER.to_owned(),
        cpus_online: machine.cpus() as u32,
        cpus_available: machine.cpus() as u32,
        memory_kib: 96 << 20,
        command_line: vec!["unhitch-golden".to_owned()],
        tracing_data: tracepoints::tracing_data(&TRACEPOINTS),
        kernel_build_id: Vec::new(),
        clock_id: Some(ClockData {
            clockid: CLOCK_MONOTONIC,
            wall_ns: machine.wall_ns,
            clock_ns: machine.start,
        }),
        sample_window: Some(Window::new(
            Time::from_nanos(machine.start),
            Time::from_nanos(machine.end),
        )),
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
            build_id: machine.build_id(path).map(|id| &id[..]),
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
    let ids = |thread: Thread| {
        let task = &machine.tasks[thread.0];
        (task.pid, task.tid)
    };
    let task = |thread: Thread| {
        let task = &machine.tasks[thread.0];
        tracepoints::Task { comm: task.comm.as_bytes(), tid: task.tid, prio: i32::from(USUAL_PRIO) }
    };
    let mut raw = Vec::new();
    match event.action {
        Action::Switch { prev, left, next } => {
            tracepoints::switch(&mut raw, &task(prev), state(left), &task(next));
            let chain = machine.code.chain(left.stack());
            tracepoint(SWITCH, event, ids(prev), &raw, chain, out);
        }
        Action::Waking { waker, wakee, target_cpu, interrupt, new, stack } => {
            let mut context = WakeFlags::default();
            if interrupt {
                context = context.with(WakeFlags::HARDIRQ);
            }
            if new {
                context = context.with(WakeFlags::NEW);
            }
            let waker = ids(waker);
            tracepoints::waking(&mut raw, waker.1, context, &task(wakee), target_cpu as u16);
            let of = tracepoints::waking_tracepoint(context);
            tracepoint(of, event, waker, &raw, machine.code.chain(stack), out);
        }
        Action::Sample { thread, stack } => {
            let (chain, ip) = (machine.code.chain(stack), machine.code.leaf_avma(stack));
            let sample = Sample {
                id: sample_id(event, ids(thread), CLOCK_ID),
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
fn state(left: Left) -> TaskState {
    match left {
        Left::Preempted(_) => TaskState::Runnable,
        Left::Sleeping(_) => TaskState::Sleeping,
        Left::Blocked(_) => TaskState::DiskSleep,
        Left::Dead(_) => TaskState::Dead,
    }
}

fn sample_id(event: &Event, (pid, tid): (u32, u32), id: u64) -> SampleId {
    SampleId { pid, tid, time: Time::from_nanos(event.time), cpu: event.cpu as u32, id }
}

fn tracepoint(
    of: Tracepoint,
    event: &Event,
    current: (u32, u32),
    raw: &[u8],
    chain: &Chain,
    out: &mut Vec<u8>,
) {
    let sample = Sample {
        id: sample_id(event, current, u64::from(of.id)),
        kernel_frames: &chain.kernel,
        user_frames: &chain.user,
        raw,
        ..Sample::default()
    };
    record::sample(out, TRACEPOINT_SAMPLE, &sample);
}
