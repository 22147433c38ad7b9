//! Written records are read back with the same meaning.

use crate::synthetic::{At, Chain, IDLE, SyntheticTrace, Task};
use unhitch_formats::{perf_data::record, read_bytes};
use unhitch_model::{
    ContentionKind, Format, ModuleKind, StackId, TaskState, ThreadId, Time, Trace, WakeFlags,
};

const A: Task = Task { pid: 100, tid: 100, comm: "alpha" };
const B: Task = Task { pid: 100, tid: 101, comm: "beta" };

fn read(synthetic: &SyntheticTrace) -> Trace {
    let trace = read_bytes(&synthetic.file()).unwrap();
    assert_eq!(trace.warnings.lines().collect::<Vec<_>>(), Vec::<String>::new());
    trace
}

fn at(ns: u64, cpu: u32) -> At {
    At { ns, cpu }
}

/// `path+offset` of each frame, leaf first.
fn frames(trace: &Trace, stack: StackId) -> Vec<String> {
    let frame = |id| {
        let frame = trace.stacks.frame(id).unwrap();
        format!("{}+{:#x}", trace.name(trace.modules.get(frame.module).unwrap().path), frame.offset)
    };
    trace.stacks.frames_of(stack).iter().map(|id| frame(*id)).collect()
}

/// Code that was built without frame pointers makes them point anywhere: an address in no
/// executable mapping is no return address, and neither is anything after it.
#[test]
fn regression_a_stack_is_cut_at_an_address_that_is_no_code() {
    let garbage: [&[u64]; 5] = [
        &[0x40_0010, u64::MAX, 0x40_0020],
        &[0x40_0010, 0x6c6c_6548_6f57_206f, 0x40_0020],
        // The first byte behind the code, and a mapping of data.
        &[0x40_0010, 0x40_1001, 0x40_0020],
        &[0x40_0010, 0x50_0010, 0x40_0020],
        &[0x10, 0x40_0020],
    ];
    for user in garbage {
        let mut synthetic = SyntheticTrace::default();
        synthetic.comm(0, A, false);
        synthetic.map(0, 100, 0x40_0000, 0x1000, 0x2000, "/bin/alpha");
        synthetic.map_data(0, 100, 0x50_0000, 0x1000, "/bin/alpha");
        synthetic.switch(at(10, 0), A, 1, B, Chain { kernel: &[0xffff_ffff_8100_0000], user });
        let trace = read(&synthetic);
        let printed = trace.stack_names(trace.switches.stack[0]);
        let expected: &[&str] = match user.len() {
            2 => &["(cut)", "[kernel]+0xffffffff81000000"],
            _ => &["(cut)", "alpha+0x200f", "[kernel]+0xffffffff81000000"],
        };
        assert_eq!(printed, expected, "{user:x?}");
    }
    // No code of this process is known, so its addresses remain unknown.
    let mut synthetic = SyntheticTrace::default();
    synthetic.comm(0, A, false);
    synthetic.switch(at(10, 0), A, 1, B, Chain { kernel: &[], user: &[0x40_0010, 0x77] });
    let trace = read(&synthetic);
    assert_eq!(trace.stack_names(trace.switches.stack[0]), ["[anon]+0x76", "[anon]+0x400010"]);
}

/// An address may be code at one time and not at another.
#[test]
fn stacks_are_cut_by_what_was_mapped_at_their_time() {
    let mut synthetic = SyntheticTrace::default();
    synthetic.comm(0, A, false);
    synthetic.map(0, 100, 0x40_0000, 0x1000, 0x2000, "/bin/alpha");
    let user = [0x40_0010, 0x50_0010, 0x40_0020];
    synthetic.switch(at(10, 0), A, 1, IDLE, Chain { kernel: &[], user: &user });
    synthetic.comm(50, A, true);
    synthetic.map(51, 100, 0x40_0000, 0x1000, 0x2000, "/bin/alpha");
    synthetic.map(52, 100, 0x50_0000, 0x1000, 0, "/lib/beta");
    synthetic.switch(at(60, 0), A, 1, IDLE, Chain { kernel: &[], user: &user });
    let trace = read(&synthetic);
    let names = |switch: usize| trace.stack_names(trace.switches.stack[switch]);
    // The first program's own mappings are known: the second one's do not affect it.
    assert_eq!(names(1), ["alpha+0x201f", "beta+0xf", "alpha+0x2010"]);
    assert_eq!(names(0).last().map(String::as_str), Some("alpha+0x2010"));
}

#[test]
fn events_of_all_kinds() {
    let mut synthetic = SyntheticTrace::default();
    synthetic.comm(0, A, false);
    synthetic.map(0, 100, 0x40_0000, 0x1000, 0x2000, "/bin/alpha");
    synthetic.map(0, 100, 0x7000, 0x1000, 0, "//anon");
    let chain = Chain {
        kernel: &[0xffff_ffff_8100_0000, 0xffff_ffff_8100_0010],
        user: &[0x40_0010, 0x7077],
    };
    // The second CPU's records come first in the file.
    synthetic.waking(at(40, 1), IDLE, 0x18, A, Chain::default());
    synthetic.switch(at(10, 0), IDLE, 0, A, Chain::default());
    synthetic.clock(at(20, 0), A, chain);
    synthetic.contention(at(25, 0), A, true, 0xffff_8880_0000_1000, 32);
    synthetic.switch(at(30, 0), A, 2, B, chain);
    synthetic.contention(at(32, 0), B, false, 0xffff_8880_0000_1000, 0);
    synthetic.wakeup_new(at(35, 0), B, Task { pid: 0, tid: 102, comm: "beta" });
    let trace = read(&synthetic);

    let (alpha, beta) =
        (trace.threads.at(100, Time::ZERO).unwrap(), trace.threads.at(101, Time::ZERO).unwrap());
    let switches = &trace.switches;
    assert_eq!(switches.time, [10, 30].map(Time::from_nanos));
    assert_eq!(
        (switches.prev.as_slice(), switches.next.as_slice()),
        (&[ThreadId::IDLE, alpha][..], &[alpha, beta][..])
    );
    assert_eq!(switches.prev_state, [TaskState::Runnable, TaskState::DiskSleep]);
    assert_eq!((switches.prev_prio[1], switches.next_prio[1]), (120, 19));
    let expected = [
        "[kernel]+0xffffffff81000000",
        "[kernel]+0xffffffff8100000f",
        "/bin/alpha+0x200f",
        "[anon]+0x7076",
    ];
    assert_eq!(frames(&trace, switches.stack[1]), expected);
    assert_eq!(trace.stacks.kernel_len(switches.stack[1]), 2);
    assert_eq!(trace.samples.stack, [switches.stack[1]]);
    assert!(
        trace.modules.iter().any(|(_, module)| module.kind == ModuleKind::Anonymous { pid: 100 })
    );

    let wakings = &trace.wakings;
    assert_eq!(wakings.flags, [WakeFlags::NEW, WakeFlags::HARDIRQ.with(WakeFlags::SOFTIRQ)]);
    assert_eq!(
        (wakings.waker.as_slice(), wakings.cpu.as_slice()),
        (&[beta, ThreadId::IDLE][..], &[0, 1][..])
    );
    assert_eq!(wakings.target_cpu, [1, 0]);

    assert_eq!(trace.contentions.kind, [ContentionKind::Begin, ContentionKind::End]);
    assert_eq!(
        (trace.contentions.thread.as_slice(), trace.contentions.flags[0]),
        (&[alpha, beta][..], 32)
    );
    assert_eq!(trace.process_name(beta, Time::from_nanos(30)), "alpha");
    assert_eq!(trace.thread_name(beta, Time::from_nanos(30)), "beta");

    assert_eq!(trace.meta.format, Format::PerfData);
    assert_eq!(
        (trace.meta.kernel.as_str(), trace.meta.cpus, trace.meta.memory_bytes),
        ("6.18.0", 2, 1 << 30)
    );
    assert_eq!(trace.meta.epoch_ns, Some(1_699_999_999_999_999_000));
    assert_eq!(trace.meta.sample_period_ns, 1_000_000);
    assert_eq!(trace.by_kind["sched:sched_switch"], 2);
    assert_eq!(trace.by_kind["COMM"], 1);
    let spans: Vec<_> = trace
        .spans
        .iter()
        .map(|span| (span.cpu, span.window.start.nanos(), span.window.end.nanos()))
        .collect();
    assert_eq!(spans, [(0, 10, 36), (1, 10, 41)]);
}

#[test]
fn a_reused_thread_id_is_another_thread() {
    let mut synthetic = SyntheticTrace::default();
    let other = Task { comm: "other", ..A };
    synthetic.comm(0, A, false);
    synthetic.switch(at(10, 0), IDLE, 0, A, Chain::default());
    synthetic.exit(20, A);
    synthetic.switch(at(21, 0), A, 0x20, IDLE, Chain::default());
    synthetic.fork(30, B, other);
    synthetic.wakeup_new(at(31, 0), B, other);
    synthetic.comm(32, other, true);
    synthetic.switch(at(40, 0), IDLE, 0, other, Chain::default());
    // A second FORK whose EXIT was lost.
    synthetic.fork(50, B, A);
    synthetic.switch(at(60, 0), IDLE, 0, A, Chain::default());
    let trace = read(&synthetic);
    let ids = trace.threads.incarnations(100);
    assert_eq!(ids.len(), 3);
    assert_eq!(trace.switches.next[0], ids[0]);
    assert_eq!(trace.switches.prev[1], ids[0]);
    assert_eq!(trace.switches.next[2..], ids[1..]);
    let first = trace.threads.get(ids[0]);
    assert_eq!((first.start, first.end), (None, Some(Time::from_nanos(20))));
    assert_eq!(trace.threads.get(ids[1]).start, Some(Time::from_nanos(30)));
    assert_eq!(trace.thread_name(ids[0], Time::from_nanos(10)), "alpha");
    assert_eq!(trace.thread_name(ids[1], Time::from_nanos(40)), "other");
    assert_eq!(trace.threads.process_of(ids[1]).leader, ids[1]);
    assert_eq!(trace.wakings.wakee[0], ids[1]);
}

#[test]
fn a_birth_without_a_record_is_seen_by_its_first_wake_up() {
    let mut synthetic = SyntheticTrace::default();
    synthetic.switch(at(10, 0), IDLE, 0, B, Chain::default());
    synthetic.switch(at(20, 0), B, 0x10, IDLE, Chain::default());
    synthetic.wakeup_new(at(30, 0), A, B);
    synthetic.switch(at(40, 0), IDLE, 0, B, Chain::default());
    synthetic.switch(at(50, 0), B, 1, IDLE, Chain::default());
    let trace = read(&synthetic);
    let ids = trace.threads.incarnations(B.tid);
    assert_eq!(ids.len(), 2);
    assert_eq!(trace.threads.get(ids[0]).end, Some(Time::from_nanos(20)));
    assert_eq!(trace.threads.get(ids[1]).start, Some(Time::from_nanos(30)));
    // The sample of its own switch-out names its process.
    assert_eq!(trace.threads.process_of(ids[1]).pid, B.pid);
    assert_eq!(trace.thread_name(ids[1], Time::from_nanos(45)), "beta");
}

#[test]
fn the_idle_thread_is_one() {
    let mut synthetic = SyntheticTrace::default();
    synthetic.switch(at(10, 0), IDLE, 0, A, Chain::default());
    synthetic.switch(at(11, 1), Task { comm: "swapper/1", ..IDLE }, 0, B, Chain::default());
    let trace = read(&synthetic);
    assert_eq!(trace.switches.prev, [ThreadId::IDLE; 2]);
    assert_eq!(trace.thread_name(ThreadId::IDLE, Time::ZERO), "idle");
    assert_eq!(trace.threads.len(), 3);
}

#[test]
fn an_exiting_thread_without_id_is_found_by_the_switches() {
    let mut synthetic = SyntheticTrace::default();
    let gone = Task { pid: u32::MAX, tid: u32::MAX, comm: "" };
    synthetic.switch(at(10, 0), IDLE, 0, A, Chain::default());
    synthetic.clock(at(20, 0), gone, Chain { kernel: &[0xffff_ffff_8100_0000], user: &[] });
    let trace = read(&synthetic);
    assert_eq!(trace.samples.thread, trace.switches.next);
    assert!(trace.threads.incarnations(u32::MAX).is_empty());
}

#[test]
fn addresses_mean_what_was_mapped_at_the_time() {
    let mut synthetic = SyntheticTrace::default();
    let child = Task { pid: 200, tid: 200, comm: "child" };
    let user = Chain { kernel: &[], user: &[0x40_0100] };
    synthetic.map(0, 100, 0x40_0000, 0x1000, 0, "/bin/alpha");
    synthetic.fork(10, A, child);
    synthetic.switch(at(20, 0), child, 1, IDLE, user);
    synthetic.comm(30, child, true);
    synthetic.map(31, 200, 0x40_0000, 0x1000, 0, "/bin/child");
    synthetic.switch(at(40, 0), child, 1, IDLE, user);
    // A library takes the place of the program.
    synthetic.map(50, 200, 0x40_0000, 0x1000, 0x5000, "/lib/late.so");
    synthetic.switch(at(60, 0), child, 1, IDLE, user);
    synthetic.switch(at(70, 0), A, 1, IDLE, user);
    let trace = read(&synthetic);
    let seen: Vec<String> =
        trace.switches.stack.iter().map(|stack| frames(&trace, *stack).concat()).collect();
    assert_eq!(
        seen,
        ["/bin/alpha+0x100", "/bin/child+0x100", "/lib/late.so+0x5100", "/bin/alpha+0x100"]
    );
    // The same place in the same file is the same, whichever process maps it.
    assert_eq!(trace.switches.stack[0], trace.switches.stack[3]);
}

#[test]
fn losses_have_their_window() {
    let mut synthetic = SyntheticTrace::default();
    synthetic.switch(at(10, 0), IDLE, 0, A, Chain::default());
    synthetic.switch(at(30, 1), IDLE, 0, B, Chain::default());
    synthetic.lost(at(50, 0), 12);
    synthetic.switch(at(60, 0), A, 1, IDLE, Chain::default());
    synthetic.lost(at(90, 0), 30);
    let trace = read_bytes(&synthetic.file()).unwrap();
    let losses: Vec<_> = trace
        .losses
        .iter()
        .map(|loss| (loss.cpu, loss.window.start.nanos(), loss.window.end.nanos(), loss.events))
        .collect();
    assert_eq!(losses, [(0, 10, 50, 12), (0, 60, 90, 30)]);
    assert!(trace.warnings.lines().any(|line| line.contains("CPU 0 lost 42 events")));
}

#[test]
fn packed_records_are_unpacked() {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    let mut plain = SyntheticTrace::default();
    for n in 0..5_000 {
        plain.switch(
            at(10 + n, 0),
            A,
            1,
            B,
            Chain { kernel: &[0xffff_ffff_8100_0000 + n], user: &[n] },
        );
    }
    let expected = read(&plain);
    let stream = compress_to_vec(&plain.records[..], CompressionLevel::Fastest);
    // In pieces of any length, some in the padded form.
    for (kind, pad) in [(record::kind::COMPRESSED, 0), (record::kind::COMPRESSED2, 3)] {
        let mut synthetic = SyntheticTrace::default();
        for piece in stream.chunks(1_001) {
            let mut body = Vec::new();
            if kind == record::kind::COMPRESSED2 {
                body.extend_from_slice(&(piece.len() as u64).to_le_bytes());
            }
            body.extend_from_slice(piece);
            body.resize(body.len() + pad, 0);
            synthetic.records.extend_from_slice(&kind.to_le_bytes());
            synthetic.records.extend_from_slice(&[0; 2]);
            synthetic.records.extend_from_slice(&(body.len() as u16 + 8).to_le_bytes());
            synthetic.records.extend_from_slice(&body);
        }
        let trace = read(&synthetic);
        assert_eq!(trace.switches.time, expected.switches.time);
        assert_eq!(trace.switches.stack, expected.switches.stack);

        // What comes before the damage is read.
        let whole = synthetic.records.len();
        synthetic.records[whole - 600] ^= 0xff;
        let damaged = read_bytes(&synthetic.file()).unwrap();
        assert!(damaged.switches.len() <= expected.switches.len());
        synthetic.records.truncate(whole / 2);
        let cut = read_bytes(&synthetic.file()).unwrap();
        assert!(!cut.warnings.is_empty());
    }
}
