//! Perfetto.

use super::proto::{Message, bundle, switch, trace, wake};
use super::rows::{switches, wakes};
use unhitch_formats::read_bytes;
use unhitch_model::{Format, Lack, StackId, TaskState, Time, Trace, WakeFlags};

const WAKING: u64 = 20;
const WAKEUP: u64 = 17;

fn read(packets: impl IntoIterator<Item = Message>) -> Trace {
    read_bytes(&trace(packets)).unwrap()
}

fn names(trace: &Trace, stack: StackId) -> String {
    trace.stack_names(stack).join(";")
}

#[test]
fn switches_and_wake_ups() {
    let trace = read([
        bundle(1, [switch(300, (7, "worker"), 1, (0, "swapper/1"))]),
        bundle(
            0,
            [
                switch(100, (0, "swapper/0"), 0, (5, "main")),
                wake(WAKING, 200, 5, Some(0), 7),
                wake(WAKING, 250, 5, Some(0x08), 8),
                wake(WAKEUP, 251, 5, Some(0), 8),
            ],
        ),
    ]);
    assert_eq!(trace.meta.format, Format::Perfetto);
    assert_eq!(switches(&trace), [(100, 0, "R", 5), (300, 7, "S", 0)]);
    assert_eq!(wakes(&trace), [(200, 5, 7), (250, 5, 8)], "sched_wakeup repeats sched_waking");
    assert_eq!(trace.wakings.flags, [WakeFlags::default(), WakeFlags::HARDIRQ]);
    assert_eq!(trace.wakings.target_cpu, [1, 1]);
    assert_eq!((trace.switches.prev_prio[1], trace.switches.next_prio[1]), (120, 98));
    let worker = trace.threads.incarnations(7)[0];
    assert_eq!(trace.thread_name(worker, Time::ZERO), "woken");
    assert_eq!(trace.thread_name(worker, Time::from_nanos(300)), "worker");
    assert_eq!(trace.spans.iter().map(|span| span.cpu).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(trace.meta.lacks, [Lack::WaitStacks, Lack::WakeStacks, Lack::Processes]);
    let warnings: Vec<String> = trace.warnings.lines().collect();
    assert!(
        warnings.iter().any(|it| it == "no wake stacks: releasing functions are unknown"),
        "{warnings:?}"
    );
    assert_eq!(trace.by_kind["sched:sched_wakeup"], 1);
}

#[test]
fn wakeups_stand_in_where_there_is_no_waking() {
    let trace =
        read([bundle(0, [wake(WAKEUP, 200, 5, None, 7), switch(210, (5, "a"), 0x100, (7, "b"))])]);
    assert_eq!(wakes(&trace), [(200, 5, 7)]);
    assert_eq!(trace.switches.prev_state, [TaskState::Preempted]);
    assert!(trace.meta.lacks.contains(&Lack::Wakers));
    assert!(trace.meta.lacks.contains(&Lack::WakeContexts));
}

#[test]
fn compact_events_take_the_waker_from_the_switches() {
    let compact = Message::new()
        .text(5, "alpha")
        .text(5, "beta")
        .packed(1, &[1000, 10, 20])
        .packed(2, &[0, 1, 2])
        .packed(3, &[11, 12, 11])
        .packed(4, &[120, 100, 120])
        .packed(6, &[0, 1, 0])
        .packed(7, &[1005, 15])
        .packed(8, &[12, 13])
        .packed(9, &[0, 3])
        .packed(10, &[120, 120])
        .packed(11, &[1, 1])
        .packed(12, &[0, 0x10]);
    let bundle = Message::new().number(1, 0).message(4, compact);
    let trace = read([Message::new().message(1, bundle)]);
    assert_eq!(switches(&trace), [(1010, 11, "S", 12), (1030, 12, "D", 11)]);
    assert_eq!(trace.arrivals.time, [Time::from_nanos(1000)], "who left then is not known");
    assert_eq!(wakes(&trace), [(1005, 11, 12), (1020, 12, 13)]);
    assert_eq!(trace.wakings.flags, [WakeFlags::default(), WakeFlags::SOFTIRQ]);
    assert_eq!(trace.wakings.target_cpu, [0, 3]);
    assert_eq!(trace.thread_name(trace.threads.incarnations(12)[0], Time::MAX), "beta");
}

#[test]
fn losses_are_where_the_file_says() {
    let lost = |time: u64| {
        let bundle = Message::new()
            .number(1, 0)
            .number(3, 1)
            .message(2, switch(time, (7, "b"), 1, (0, "swapper/0")));
        Message::new().message(1, bundle)
    };
    let trace =
        read([bundle(0, [switch(100, (0, "swapper/0"), 0, (5, "a"))]), lost(500), lost(900)]);
    let losses: Vec<(u64, u64, u64)> = trace
        .losses
        .iter()
        .map(|loss| (loss.window.start.nanos(), loss.window.end.nanos(), loss.events))
        .collect();
    assert_eq!(losses, [(100, 500, 0), (500, 900, 0)]);
    // A packet before this one was dropped.
    let dropped = bundle(0, [switch(300, (5, "a"), 1, (0, "x"))]).number(42, 1);
    let trace = read([bundle(0, [switch(100, (0, "x"), 0, (5, "a"))]), dropped]);
    assert_eq!(trace.losses.len(), 1);
}

#[test]
fn clocks_are_converted() {
    // boot = mono + 1,000,000; the wall clock is at 5 s when boot is at 2,000,000.
    let clock = |id: u64, time: u64| Message::new().number(1, id).number(2, time);
    let snapshot = Message::new()
        .message(1, clock(6, 2_000_000))
        .message(1, clock(3, 1_000_000))
        .message(1, clock(1, 5_000_000_000));
    let sample = Message::new().number(1, 0).number(2, 7).number(3, 7);
    let sample = Message::new().number(8, 1_500_000).number(58, 3).message(66, sample);
    let raw = Message::new().number(1, 0).number(5, 4).number(6, 700).number(7, 2_400_700);
    let raw = Message::new().message(1, raw.message(2, switch(800, (7, "a"), 1, (0, "x"))));
    let trace = read([sample, raw, Message::new().message(6, snapshot)]);
    assert_eq!(trace.samples.time, [Time::from_nanos(2_500_000)]);
    assert_eq!(trace.switches.time, [Time::from_nanos(2_400_800)]);
    assert_eq!(trace.meta.clock_id, Some(7));
    assert_eq!(trace.meta.epoch_ns, Some(5_000_000_000 - 2_000_000));
    let lone = Message::new().number(1, 0).number(2, 7).number(3, 7);
    let lone = Message::new().number(8, 1).number(58, 77).message(66, lone);
    let trace = read([lone, bundle(0, [switch(800, (7, "a"), 1, (0, "x"))])]);
    assert!(trace.samples.is_empty());
    assert!(trace.warnings.lines().any(|line| line.contains("clock")));
}

#[test]
fn processes_threads_and_their_names() {
    let process = Message::new().number(1, 40).number(2, 1).text(3, "/usr/bin/app").text(3, "-x");
    let thread = |tid: u64, name: &str| Message::new().number(1, tid).number(3, 40).text(2, name);
    let tree = Message::new()
        .message(1, process)
        .message(2, thread(41, "io"))
        .message(2, thread(42, "quiet"));
    let of_thread =
        Message::new().number(1, 40).number(2, 43).text(5, "a name longer than comm has");
    let track = Message::new().number(1, 99).message(4, of_thread);
    let trace = read([
        Message::new().number(8, 50).message(2, tree),
        Message::new().message(60, track),
        bundle(0, [switch(100, (41, "io"), 1, (40, "app"))]),
    ]);
    let id = |tid: u32| trace.threads.incarnations(tid)[0];
    for tid in [40, 41, 42, 43] {
        assert_eq!(trace.threads.process_of(id(tid)).pid, 40, "{tid}");
    }
    assert_eq!(trace.name(trace.threads.process_of(id(41)).command_line), "/usr/bin/app -x");
    assert_eq!(trace.threads.process_of(id(41)).parent_pid, Some(1));
    assert_eq!(trace.thread_name(id(42), Time::ZERO), "quiet");
    assert_eq!(trace.thread_name(id(43), Time::ZERO), "a name longer than comm has");
    assert!(!trace.meta.lacks.contains(&Lack::Processes));
}

/// Interned data: two functions of a library, one of them inlined into the other, and the kernel.
fn interned() -> Message {
    let text = |iid: u64, text: &str| Message::new().number(1, iid).text(2, text);
    let frame = |iid: u64, function: u64, mapping: u64, rel_pc: u64| {
        Message::new().number(1, iid).number(2, function).number(3, mapping).number(4, rel_pc)
    };
    Message::new()
        .message(16, Message::new().number(1, 1).bytes(2, &[0xab; 20]))
        .message(17, text(1, "usr"))
        .message(17, text(2, "lib.so"))
        .message(17, text(3, "kernel"))
        .message(5, text(1, "outer"))
        .message(5, text(2, "inlined"))
        .message(5, text(3, "schedule"))
        .message(
            19,
            Message::new().number(1, 1).number(2, 1).number(6, 0x1000).number(7, 1).number(7, 2),
        )
        .message(19, Message::new().number(1, 2).number(7, 3))
        .message(6, frame(1, 2, 1, 0x3000))
        .message(6, frame(2, 1, 1, 0x3000))
        .message(6, frame(3, 3, 2, 0))
        .message(7, Message::new().number(1, 1).number(2, 2).number(2, 1).number(2, 3))
}

#[test]
fn perf_samples_have_their_stacks() {
    let sample = Message::new().number(1, 1).number(2, 40).number(3, 41).number(4, 1);
    let timebase = Message::new().number(2, 100);
    let defaults = Message::new().message(12, Message::new().message(1, timebase));
    let packet = |time: u64, sample: Message| {
        Message::new().number(8, time).number(10, 5).message(66, sample)
    };
    let first =
        packet(100, sample.clone()).number(13, 3).message(12, interned()).message(59, defaults);
    let cleared = packet(300, sample.clone()).number(13, 1);
    let trace = read([first, packet(200, sample), cleared]);
    assert_eq!(trace.samples.len(), 3);
    assert_eq!(trace.meta.sample_period_ns, 10_000_000);
    assert_eq!(names(&trace, trace.samples.stack[0]), "outer;inlined;schedule");
    assert_eq!(trace.samples.stack[0], trace.samples.stack[1]);
    assert!(trace.samples.stack[2].is_empty(), "what was interned is forgotten");
    let stack = trace.samples.stack[0];
    assert_eq!(trace.stacks.kernel_frames(stack).len(), 1);
    let user = trace.stacks.frame(trace.stacks.user_frames(stack)[0]).unwrap();
    let module = trace.modules.get(user.module).unwrap();
    assert_eq!((trace.name(module.path), user.offset), ("/usr/lib.so", 0x2000));
    assert_eq!(module.build_id, [0xab; 20]);
    assert_eq!(trace.threads.process_of(trace.samples.thread[0]).pid, 40);
}

#[test]
fn stacks_of_tracepoints_and_of_waits_find_their_events() {
    let of_sequence = |id: u64, time: u64| Message::new().number(8, time).number(10, id);
    let head = |id: u64, time: u64, defaults: Message| {
        of_sequence(id, time).number(13, 3).message(12, interned()).message(59, defaults)
    };
    let tracepoint = Message::new().message(3, Message::new().text(1, "sched:sched_switch"));
    let perf = Message::new().message(12, Message::new().message(1, tracepoint));
    let left = Message::new().number(1, 0).number(2, 5).number(3, 5).number(4, 1);
    let source = |name: &str| Message::new().message(100, Message::new().text(1, name));
    let sample = |tid: u64| {
        let task = Message::new().number(2, tid).number(3, tid);
        Message::new().message(1, task).number(6, 1).number(11, 77)
    };
    let trace = read([
        bundle(
            0,
            [
                switch(1000, (5, "a"), 1, (7, "b")),
                switch(5000, (7, "b"), 1, (0, "x")),
                wake(WAKING, 6000, 9, Some(0), 7),
                switch(8000, (0, "x"), 0, (7, "b")),
            ],
        ),
        head(1, 1007, perf).message(66, left),
        head(2, 8000, source("unhitch.wait")).message(135, sample(7)),
        head(3, 6000, source("unhitch.wake")).message(135, sample(9)),
        head(4, 8100, source("unhitch.cpu")).message(135, sample(7)),
        of_sequence(3, 900_000).message(135, sample(9)),
    ]);
    let stacks: Vec<String> =
        trace.switches.stack.iter().map(|stack| names(&trace, *stack)).collect();
    let stack = "outer;inlined;schedule";
    assert_eq!(stacks, [stack, stack, ""]);
    assert_eq!(names(&trace, trace.wakings.stack[0]), stack);
    assert_eq!((trace.samples.len(), trace.samples.cpu[0]), (1, 0), "the CPU by the switches");
    let lost = trace.warnings.lines().find(|line| line == "left out 1 unplaced stack");
    assert!(lost.is_some(), "{:?}", trace.warnings);
}

#[test]
fn chromes_profiles_are_samples() {
    let thread = Message::new().number(1, 40).number(2, 41).number(6, 1000).text(5, "CrMain");
    let profile = Message::new().number(1, 1).number(1, 1).number(2, 5).number(2, 10);
    let packets = [
        Message::new().number(10, 3).number(13, 1).message(44, thread),
        Message::new().number(10, 3).message(12, interned()).message(54, profile),
    ];
    let clock = |id: u64| Message::new().number(1, id).number(2, 1);
    let snapshot = Message::new().message(1, clock(6)).message(1, clock(3));
    let trace = read(packets.into_iter().chain([Message::new().message(6, snapshot)]));
    let times: Vec<u64> = trace.samples.time.iter().map(|time| time.nanos()).collect();
    assert_eq!(times, [1_005_000, 1_015_000]);
    assert_eq!(names(&trace, trace.samples.stack[0]), "outer;inlined;schedule");
}

#[test]
fn compressed_packets_and_files_are_unpacked() {
    use std::io::Write;
    let plain = trace([bundle(0, [switch(100, (5, "a"), 1, (7, "b"))])]);
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    zlib.write_all(&plain).unwrap();
    let packed = Message::new().bytes(50, &zlib.finish().unwrap());
    let after = bundle(0, [switch(200, (7, "b"), 1, (5, "a"))]);
    let whole = trace([packed, after]);
    let read = read_bytes(&whole).unwrap();
    assert_eq!(switches(&read), [(100, 5, "S", 7), (200, 7, "S", 5)]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&whole).unwrap();
    let read = read_bytes(&gzip.finish().unwrap()).unwrap();
    assert_eq!(read.switches.len(), 2);
    // A single raw block of zstd.
    let mut zstd = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0x58];
    zstd.extend_from_slice(&(plain.len() as u32 * 8 + 1).to_le_bytes()[..3]);
    zstd.extend_from_slice(&plain);
    let read = read_bytes(&trace([Message::new().bytes(133, &zstd)])).unwrap();
    assert_eq!(read.switches.len(), 1);
    let damaged = trace([Message::new().bytes(50, b"nonsense"), bundle(0, [])]);
    let warnings = read_bytes(&damaged).unwrap().warnings;
    assert!(warnings.lines().any(|line| line.contains("compressed")), "{warnings:?}");
}

#[test]
fn other_files_are_not_taken_for_perfetto() {
    for bytes in [&b"\n\nhello"[..], b"\n", b"\x0a\x00", b"\x0a\x05abc", b"PERFILE2"] {
        let error = read_bytes(bytes).unwrap_err().to_string();
        assert!(!error.is_empty(), "{bytes:?}");
    }
}

/// The trace of an Android phone, with its counts.
#[test]
fn a_real_trace_of_android_has_its_counts() {
    let Some(corpus) = std::env::var_os("UNHITCH_CORPUS") else {
        eprintln!("SKIPPED a real Perfetto trace: UNHITCH_CORPUS is not set");
        return;
    };
    let path = std::path::Path::new(&corpus).join("perfetto/android-sched-wakeup.perfetto-trace");
    let trace = unhitch_formats::open(&path).unwrap();
    assert_eq!((trace.switches.len(), trace.wakings.len()), (15_267, 8_743));
    assert_eq!(trace.spans.len(), 6);
    assert_eq!(trace.meta.kernel, "4.19.113-22067904");
    assert_eq!(trace.meta.clock_id, Some(7));
    assert!(trace.meta.lacks.contains(&Lack::Wakers));
    assert!(trace.switches.time.is_sorted() && trace.losses.is_empty());
    // On each CPU, whoever came last leaves next: nothing is missing.
    let mut current = std::collections::BTreeMap::new();
    for at in 0..trace.switches.len() {
        let before = current.insert(trace.switches.cpu[at], trace.switches.next[at]);
        assert!(before.is_none_or(|before| before == trace.switches.prev[at]), "{at}");
    }
}
