//! An exported trace is read back with the same rows.

use crate::rows::{assert_same, round_trip, rows};
use crate::synthetic::{At, Chain, DUMMY_ID, IDLE, SyntheticTrace, Task};
use std::io::Cursor;
use unhitch_formats::perf_data::record::{self, Mmap2, SampleId};
use unhitch_formats::perf_data::{Selection, export};
use unhitch_formats::read_bytes;
use unhitch_model::{ThreadId, Time, Trace, Window};

const SHELL: Task = Task { pid: 100, tid: 100, comm: "shell" };
const WORKER: Task = Task { pid: 100, tid: 101, comm: "worker" };
const CHILD: Task = Task { pid: 200, tid: 200, comm: "shell" };
const PROGRAM: Task = Task { pid: 200, tid: 200, comm: "program" };

const KERNEL: u64 = 0xffff_ffff_8100_0000;

fn at(ns: u64, cpu: u32) -> At {
    At { ns, cpu }
}

/// A shell forks; the child runs another program, which maps a library over its old code, and dies.
/// Then its id is used again.
fn scenario() -> Trace {
    let mut synthetic = SyntheticTrace::default();
    let kernel = Mmap2 {
        pid: u32::MAX,
        start_avma: KERNEL,
        len: 0x10_0000,
        file_offset: KERNEL,
        path: b"[kernel.kallsyms]_text",
        build_id: Some(&[7; 20]),
        kernel: true,
        ..Mmap2::default()
    };
    let id = SampleId { id: DUMMY_ID, ..SampleId::default() };
    record::mmap2(&mut synthetic.records, &kernel, &id);
    synthetic.comm(0, SHELL, false);
    synthetic.comm(0, WORKER, false);
    synthetic.map(0, 100, 0x40_0000, 0x1000, 0x2000, "/bin/shell");
    synthetic.map(0, 100, 0x7000, 0x1000, 0, "//anon");
    let in_shell = Chain { kernel: &[KERNEL, KERNEL + 0x10], user: &[0x40_0010, 0x7077] };
    let in_user_code = Chain { kernel: &[], user: &[0x40_0020, 0x40_0030] };
    let in_no_code = Chain { kernel: &[KERNEL], user: &[0x40_0010, 0x1234_5678, 0x40_0020] };
    synthetic.switch(at(10, 0), IDLE, 0, SHELL, Chain::default());
    synthetic.clock(at(20, 0), SHELL, in_shell);
    synthetic.contention(at(25, 0), SHELL, true, 0xffff_8880_0000_1000, 32);
    synthetic.contention(at(26, 0), SHELL, false, 0xffff_8880_0000_1000, 0);
    synthetic.fork(30, SHELL, CHILD);
    synthetic.wakeup_new(at(31, 0), SHELL, CHILD);
    synthetic.switch(at(40, 0), SHELL, 0x100, CHILD, in_shell);
    synthetic.clock(at(45, 0), CHILD, in_user_code);
    synthetic.comm(50, PROGRAM, true);
    synthetic.map(51, 200, 0x40_0000, 0x1000, 0, "/bin/program");
    synthetic.clock(at(55, 0), PROGRAM, in_user_code);
    synthetic.map(60, 200, 0x40_0000, 0x1000, 0x8000, "/lib/library");
    synthetic.clock(at(65, 0), PROGRAM, in_user_code);
    synthetic.waking(at(70, 1), IDLE, 0x08, WORKER, Chain::default());
    synthetic.switch(at(80, 0), PROGRAM, 0x10, WORKER, in_no_code);
    synthetic.exit(81, PROGRAM);
    synthetic.switch(at(90, 0), WORKER, 1, IDLE, in_no_code);
    synthetic.fork(100, SHELL, CHILD);
    synthetic.wakeup_new(at(101, 1), SHELL, CHILD);
    synthetic.switch(at(110, 1), IDLE, 0, CHILD, Chain::default());
    synthetic.switch(at(120, 1), CHILD, 2, IDLE, in_user_code);
    read_bytes(&synthetic.file()).unwrap()
}

#[test]
fn everything_comes_back() {
    let trace = scenario();
    let (read, exported) = round_trip(&trace);
    assert_same(&rows(&trace), &rows(&read));
    assert_eq!((exported.switches, exported.wakings, exported.samples), (6, 3, 4));
    assert_eq!((exported.contentions, exported.frames_left_out, exported.stacks_cut), (2, 0, 0));
    let lives = |trace: &Trace| {
        let one = |(_, thread): (ThreadId, &unhitch_model::Thread)| {
            let process = trace.threads.process(thread.process);
            (thread.tid, process.pid, process.parent_pid, thread.start, thread.end)
        };
        trace.threads.iter().map(one).collect::<Vec<_>>()
    };
    assert_eq!(lives(&trace), lives(&read));
    let kernel = |trace: &Trace| {
        let mut modules = trace.modules.iter().map(|(_, module)| module.clone());
        let module = modules.find(|module| module.kind.is_kernel()).unwrap();
        (module.build_id, trace.address_spaces.kernel[0].start_avma)
    };
    assert_eq!(kernel(&read), (vec![7; 20], KERNEL));
    assert_eq!((&read.meta.host, read.meta.epoch_ns), (&trace.meta.host, trace.meta.epoch_ns));
    assert_eq!(read.meta.sample_period_ns, trace.meta.sample_period_ns);
    // What was read from an export is exported likewise.
    assert_same(&rows(&read), &rows(&round_trip(&read).0));
}

#[test]
fn only_the_selected_events_are_exported() {
    let trace = scenario();
    let mut file = Cursor::new(Vec::new());
    let worker = trace.threads.at(101, Time::ZERO).unwrap();
    let selection = Selection {
        window: Window::new(Time::from_nanos(0), Time::from_nanos(90)),
        threads: Some([worker].into_iter().collect()),
    };
    let exported = export(&trace, &selection, "unhitch test", &mut file).unwrap();
    assert_eq!((exported.switches, exported.wakings, exported.samples), (1, 1, 0));
    let read = read_bytes(file.get_ref()).unwrap();
    assert_eq!(read.switches.time, [Time::from_nanos(80)]);
    assert_eq!(read.thread_name(read.switches.next[0], Time::from_nanos(80)), "worker");
}

/// perf reads at most 127 frames of a stack.
#[test]
fn a_deep_stack_is_cut_and_counted() {
    let mut synthetic = SyntheticTrace::default();
    synthetic.comm(0, SHELL, false);
    synthetic.map(0, 100, 0x40_0000, 0x1000, 0, "/bin/shell");
    let user: Vec<u64> = (0..200).map(|n| 0x40_0010 + n).collect();
    synthetic.switch(at(10, 0), SHELL, 1, IDLE, Chain { kernel: &[KERNEL], user: &user });
    let trace = read_bytes(&synthetic.file()).unwrap();
    let (read, exported) = round_trip(&trace);
    assert_eq!(exported.stacks_cut, 1);
    assert_eq!(read.stacks.frames_of(read.switches.stack[0]).len(), 127);
}

/// A writer that is full after some bytes.
struct Full(Cursor<Vec<u8>>, usize);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.get_ref().len() + bytes.len() > self.1 {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl std::io::Seek for Full {
    fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
        self.0.seek(to)
    }
}

#[test]
fn a_full_disk_is_an_error_wherever_it_is_full() {
    let trace = scenario();
    let selection = Selection { window: trace.extent(), threads: None };
    let mut whole = Cursor::new(Vec::new());
    export(&trace, &selection, "unhitch test", &mut whole).unwrap();
    for len in (0..whole.get_ref().len()).step_by(97) {
        let mut out = Full(Cursor::new(Vec::new()), len);
        let error = export(&trace, &selection, "unhitch test", &mut out).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    }
}

#[test]
fn only_a_known_clock_is_named() {
    let mut trace = scenario();
    assert_eq!(round_trip(&trace).0.meta.clock_id, Some(1));
    trace.meta.clock_id = None;
    let read = round_trip(&trace).0;
    assert_eq!((read.meta.clock_id, read.meta.epoch_ns), (None, None));
}
