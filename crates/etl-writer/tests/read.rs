//! The reader reads what the encoder writes: every form of file and event that no public trace
//! contains. All of it is synthetic.

use unhitch_etl_writer::{
    CSwitch, Clock, Compression, Guid, Image, Interrupt, KernelEvent, Options, Process,
    ReadyThread, Rundown, StackCache, ThreadFacts, UsedLength, Writer,
    metadata::{self, in_type},
    uiforetw, wait_reason, win32k,
};
use unhitch_model::{ModuleKind, StackId, TaskState, Time, Trace, WakeFlags};

const PID: u32 = 100;
const KERNEL_BASE: u64 = 0xffff_f800_0000_0000;
const KERNEL_BASE_32: u64 = 0x8000_0000;
const USER_BASE: u64 = 0x40_0000;
const ROUNDS: u64 = 40;

/// Kernel and user part of a stack, innermost first.
fn stack(options: &Options, number: u64) -> (Vec<u64>, Vec<u64>) {
    let kernel = if options.pointer_width == 4 { KERNEL_BASE_32 } else { KERNEL_BASE };
    (
        vec![kernel + 0x1000 + number * 16, kernel + 0x9000],
        vec![USER_BASE + 0x1000 + number * 16, USER_BASE + 0x9000],
    )
}

/// A trace with one process of two named threads, which CPU 1 runs in turns: each round wakes one,
/// runs it, samples it.
fn rounds(options: &Options, cached: usize) -> Trace {
    let mut writer = Writer::new(options.clone());
    let mut stacks = StackCache::new(cached);
    let kernel_base = stack(options, 0).0[1] - 0x9000;
    writer.kernel(0, 0, &KernelEvent::SampleInterval { first: true, units: 10_000 });
    let process =
        Process { pid: PID, parent: 4, image: "hanger.exe", command_line: "hanger.exe --now" };
    writer.kernel(0, 0, &KernelEvent::Process(Rundown::First, process));
    for (tid, name) in [(200, "Main"), (300, "")] {
        writer.kernel(
            0,
            0,
            &KernelEvent::Thread(
                Rundown::First,
                ThreadFacts { pid: PID, tid, name: Some(name) },
                (4, 8),
            ),
        );
    }
    writer.kernel(
        0,
        50,
        &KernelEvent::ThreadName(ThreadFacts { pid: PID, tid: 300, name: Some("Worker") }),
    );
    for (pid, base, path) in [
        (0, kernel_base, "\\SystemRoot\\system32\\ntoskrnl.exe"),
        (PID, USER_BASE, "C:\\hanger.exe"),
    ] {
        writer.kernel(
            0,
            100,
            &KernelEvent::Image(
                Rundown::First,
                Image { base, size: 0x10_0000, pid, timestamp: 1, path },
            ),
        );
        let guid = Guid::new(0x1122_3344, 0x5566, 0x7788, [base as u8; 8]);
        writer.kernel(0, 100, &KernelEvent::ImageRsds { base, pid, guid, age: 3, pdb: "a.pdb" });
    }
    for round in 0..ROUNDS {
        let (ns, tid) = (1_000_000 + round * 100_000, tid_of(round));
        let (kernel, user) = stack(options, round);
        writer.kernel(
            0,
            ns,
            &KernelEvent::ReadyThread(ReadyThread { tid, in_dpc: round % 2 == 1 }),
        );
        let on = CSwitch { new_tid: tid, old_state: 2, new_priority: 8, ..CSwitch::default() };
        writer.kernel(1, ns + 10_000, &KernelEvent::CSwitch(on));
        stacks.log(&mut writer, 1, ns + 10_000, (PID, tid), &kernel, &user);
        writer.kernel(
            1,
            ns + 20_000,
            &KernelEvent::Sample { instruction: user[0], tid, in_dpc: false },
        );
        stacks.log(&mut writer, 1, ns + 20_000, (PID, tid), &[], &user);
        writer.kernel(
            1,
            ns + 30_000,
            &KernelEvent::Dpc(Interrupt { entry_ns: ns + 29_000, routine: kernel[0] }),
        );
        let off = CSwitch {
            old_tid: tid,
            old_priority: 8,
            old_state: 5,
            old_wait_reason: wait_reason::WR_PUSH_LOCK,
            ..CSwitch::default()
        };
        writer.kernel(1, ns + 50_000, &KernelEvent::CSwitch(off));
    }
    stacks.finish(&mut writer, 1, 1_000_000 + ROUNDS * 100_000);
    unhitch_formats::read_bytes(&writer.finish()).unwrap()
}

fn tid_of(round: u64) -> u32 {
    if round.is_multiple_of(2) { 200 } else { 300 }
}

fn offsets(trace: &Trace, stack: StackId) -> Vec<(u64, bool)> {
    let offset = |(at, frame): (usize, &_)| {
        (trace.stacks.frame(*frame).unwrap().offset, at < trace.stacks.kernel_len(stack))
    };
    trace.stacks.frames_of(stack).iter().enumerate().map(offset).collect()
}

/// Checks that `trace` holds the events of [`rounds`].
fn check(trace: &Trace, what: &str) {
    assert_eq!(trace.warnings.lines().collect::<Vec<_>>(), Vec::<String>::new(), "{what}");
    assert_eq!(
        (trace.switches.len(), trace.wakings.len(), trace.samples.len()),
        (80, 40, 40),
        "{what}"
    );
    assert_eq!((trace.meta.cpus, trace.meta.sample_period_ns), (2, 1_000_000), "{what}");
    let main = trace.threads.at(200, Time::ZERO).unwrap();
    let worker = trace.threads.at(300, Time::ZERO).unwrap();
    assert_eq!(
        (trace.thread_name(main, Time::MAX), trace.thread_name(worker, Time::MAX)),
        ("Main", "Worker"),
        "{what}"
    );
    assert_eq!(
        (trace.process_name(main, Time::ZERO), trace.threads.process_of(worker).pid),
        ("hanger.exe", PID),
        "{what}"
    );
    for round in 0..ROUNDS {
        let (ns, thread, at) =
            (1_000_000 + round * 100_000, [main, worker][(round % 2) as usize], round as usize);
        let (on, off) = (2 * at, 2 * at + 1);
        let switches = &trace.switches;
        assert_eq!(
            [switches.time[on], switches.time[off]].map(Time::nanos),
            [ns + 10_000, ns + 50_000],
            "{what}"
        );
        assert_eq!(
            (switches.cpu[on], switches.next[on], switches.prev[off]),
            (1, thread, thread),
            "{what}"
        );
        assert_eq!(
            (switches.prev_state[off], switches.prev_reason[off].name()),
            (TaskState::Sleeping, "WrPushLock"),
            "{what}"
        );
        assert_eq!(
            (trace.wakings.time[at].nanos(), trace.wakings.wakee[at], trace.wakings.cpu[at]),
            (ns, thread, 0),
            "{what}"
        );
        assert_eq!(trace.wakings.flags[at].has(WakeFlags::HARDIRQ), round % 2 == 1, "{what}");
        assert_eq!(
            (trace.samples.time[at].nanos(), trace.samples.thread[at]),
            (ns + 20_000, thread),
            "{what}"
        );
        // The stack of the arriving thread shows where it left; callers are told one byte before
        // their return address.
        let expected = |number: u64| {
            vec![
                (0x1000 + number * 16, true),
                (0x8fff, true),
                (0x1000 + number * 16 - 1, false),
                (0x8fff, false),
            ]
        };
        if round + 2 < ROUNDS {
            assert_eq!(offsets(trace, switches.stack[off]), expected(round + 2), "{what}");
        }
        assert_eq!(
            offsets(trace, trace.samples.stack[at]),
            [(0x1000 + round * 16, false), (0x8fff, false)],
            "{what}"
        );
    }
    let images: Vec<_> = trace
        .modules
        .iter()
        .filter(|(_, module)| matches!(module.kind, ModuleKind::Image { .. }))
        .collect();
    assert_eq!(images.len(), 2, "{what}");
    assert!(images.iter().all(|(_, module)| module.build_id.len() == 20 && module.build_id[16..] == [3, 0, 0, 0]), "{what}");
}

#[test]
fn every_form_of_file_tells_the_same() {
    let plain = Options::default();
    let small = Options { buffer_bytes: 1 << 10, ..plain.clone() };
    for (what, options) in [
        ("plain", plain.clone()),
        ("compressed", Options { compression: Compression::All, ..small.clone() }),
        ("mixed", Options { compression: Compression::Mixed, ..small.clone() }),
        ("unmerged", Options { merged: false, ..plain.clone() }),
        ("32 bits", Options { pointer_width: 4, ..plain.clone() }),
        ("wall clock", Options { clock: Clock::System, ..plain.clone() }),
        (
            "cycles",
            Options { clock: Clock::Cycles, ticks_per_second: 1_000_000_000, ..plain.clone() },
        ),
        ("wrapped", Options { rotated_by: 3, merged: false, ..small.clone() }),
        (
            "Windows 7",
            Options {
                used_length: UsedLength::OffsetAlone,
                build: 7601,
                merged: false,
                ..small.clone()
            },
        ),
        (
            "Vista, 32 bits",
            Options {
                used_length: UsedLength::OffsetAlone,
                build: 6001,
                pointer_width: 4,
                ..small
            },
        ),
    ] {
        check(&rounds(&options, 1_000), what);
    }
}

#[test]
fn keys_that_are_used_again_keep_their_stacks() {
    for cached in [1, 2, 7] {
        check(&rounds(&Options::default(), cached), &format!("{cached} stacks cached"));
    }
}

#[test]
fn a_part_told_later_belongs_to_all_that_wait_for_it() {
    let options = Options::default();
    let mut writer = Writer::new(options.clone());
    let (kernel, user) = stack(&options, 1);
    let at = [1_000_000, 1_200_000];
    for ns in at {
        writer.kernel(
            0,
            ns,
            &KernelEvent::Sample { instruction: kernel[0], tid: 200, in_dpc: false },
        );
        writer.kernel(
            0,
            ns,
            &KernelEvent::StackWalk { of_ns: ns, pid: PID, tid: 200, frames: &kernel },
        );
    }
    writer.kernel(
        1,
        1_300_000,
        &KernelEvent::StackWalk { of_ns: at[0], pid: PID, tid: 200, frames: &user },
    );
    let trace = unhitch_formats::read_bytes(&writer.finish()).unwrap();
    let lens = [0, 1].map(|at| {
        (
            trace.stacks.frames_of(trace.samples.stack[at]).len(),
            trace.stacks.kernel_len(trace.samples.stack[at]),
        )
    });
    assert_eq!(lens, [(4, 2); 2]);
}

/// The fields of event `number` as text.
fn fields(trace: &Trace, number: usize) -> Vec<(String, String)> {
    trace
        .events
        .fields(number)
        .into_iter()
        .map(|(name, value)| (trace.name(name).to_owned(), value.to_string()))
        .collect()
}

fn pairs(fields: &[(&str, &str)]) -> Vec<(String, String)> {
    fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn events_are_read_by_what_they_carry_or_what_is_known() {
    let provider = Guid::new(0xabcd_ef01, 2, 3, [9; 8]);
    let mut writer = Writer::new(Options::default());
    let description = metadata::Description {
        provider: win32k::PROVIDER_7,
        provider_name: "Made-Up-Win32k",
        id: 38,
        version: 0,
        opcode: 0,
        task: 38,
        task_name: "Check",
        keyword: 0x4_0000,
        fields: &[
            ("A", in_type::U32),
            ("DelayTimeMs", in_type::U32),
            ("C", in_type::U32),
            ("D", in_type::U32),
        ],
    };
    let thread = (PID, 200);
    let (window, message) = (Some(("Class", "C:\\a.exe")), (win32k::WM_PAINT, 0));
    let delay = win32k::Delay {
        flags: 6,
        delay_ms: 1_125,
        since_input_ms: 900,
        oldest_input_ms: 800,
        window,
        message,
    };
    win32k::message_check_delay(&mut writer, 0, 1_000_000, thread, &delay);
    win32k::message_check_delay(
        &mut writer,
        0,
        2_000_000,
        thread,
        &win32k::Delay { window: None, ..delay },
    );
    uiforetw::key_down(&mut writer, 0, 3_000_000, thread, 65, "A");
    let payload = unhitch_etl_writer::Bytes::new().u32(7).utf16("seven");
    let types = [("Number", in_type::U32), ("Word", in_type::UTF16)];
    metadata::trace_logging(
        &mut writer,
        (0, 4_000_000),
        thread,
        (provider, "Made.Up"),
        "Said",
        &types,
        &payload,
    );
    metadata::event_info(&mut writer, 0, 5_000_000, &description);
    let trace = unhitch_formats::read_bytes(&writer.finish()).unwrap();
    let of = |ns: u64| trace.events.time.iter().position(|time| time.nanos() == ns).unwrap();
    let known = fields(&trace, of(1_000_000));
    for wanted in
        pairs(&[("DelayTimeMs", "1125"), ("ClassName", "Class"), ("ImagePath", "C:\\a.exe")])
    {
        assert!(known.contains(&wanted), "{wanted:?} is not in {known:?}");
    }
    assert_eq!(
        fields(&trace, of(2_000_000)),
        pairs(&[("A", "6"), ("DelayTimeMs", "1125"), ("C", "900"), ("D", "800")])
    );
    assert_eq!(trace.events.kind_of(of(3_000_000)).unwrap().provider_guid, uiforetw::INPUT.0);
    assert_eq!(fields(&trace, of(4_000_000)), pairs(&[("Number", "7"), ("Word", "seven")]));
    let kind = trace.events.kind_of(of(4_000_000)).unwrap();
    assert_eq!((trace.name(kind.provider), trace.name(kind.name)), ("Made.Up", "Said"));
}
