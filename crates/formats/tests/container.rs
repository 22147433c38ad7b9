//! What a container adds to its perf.data.

use crate::synthetic::{At, Chain, IDLE, SyntheticTrace, Task};
use unhitch_formats::{
    container::{
        ContainerMeta, ContainerParts, CpuLoss, CpuWindow, FutexWaiter, Holder, ProcessFacts,
        SymbolFile, ThreadFacts, trace_file_name, write_container,
    },
    open, read_bytes,
    ring::{BLOCK_BYTES, RingPart, encode},
};
use unhitch_model::{Format, FrameId, Policy, Symbol, Time, Trace};

const A: Task = Task { pid: 100, tid: 100, comm: "alpha" };

#[test]
fn a_container_round_trips() {
    let mut synthetic = SyntheticTrace::default();
    synthetic.comm(0, A, false);
    synthetic.switch(At { ns: 10, cpu: 0 }, IDLE, 0, A, Chain::default());
    synthetic.switch(
        At { ns: 20, cpu: 0 },
        A,
        1,
        IDLE,
        Chain { kernel: &[0xffff_ffff_8100_0000], user: &[] },
    );
    let file = synthetic.file();
    let mut named = read_bytes(&file).unwrap();
    let function = named.strings.intern("schedule");
    named.symbols.set(FrameId(0), &[Symbol { function, ..Symbol::default() }]);

    let meta = ContainerMeta {
        version: 1,
        producer: "unhitch 0.1.0".to_owned(),
        host: "here".to_owned(),
        cpus: 2,
        epoch_ns: Some(5),
        spans: vec![
            CpuWindow { cpu: 1, start_ns: 3, end_ns: 30 },
            CpuWindow { cpu: 0, start_ns: 5, end_ns: 21 },
        ],
        losses: vec![CpuLoss { cpu: 0, start_ns: 11, end_ns: 12, events: 0 }],
        threads: vec![ThreadFacts {
            pid: 100,
            tid: 100,
            name: "alpha".to_owned(),
            policy: Some(3),
            nice: Some(19),
        }],
        processes: vec![ProcessFacts { pid: 100, command_line: "alpha --fast".to_owned() }],
        futex_waits: vec![FutexWaiter {
            time_ns: 25,
            tid: 100,
            word_avma: 0x1000,
            owner_tid: None,
        }],
        warnings: vec!["the ring is small".to_owned()],
        ..ContainerMeta::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(trace_file_name("2026-01-02_03-04-05", "test"));
    let symbols = SymbolFile::from_trace(&named);
    let parts = ContainerParts {
        meta: &meta,
        perf_data: &mut |out| out.write_all(&file),
        rings: None,
        symbols: Some(&symbols),
        notes: Some("it hung"),
        extra: vec![("lab.json".to_owned(), b"{}".to_vec())],
    };
    write_container(&path, parts).unwrap();

    let trace = open(&path).unwrap();
    assert_eq!(trace.meta.format, Format::Hitch);
    assert_eq!(
        (trace.meta.host.as_str(), trace.meta.notes.as_str(), trace.meta.epoch_ns),
        ("here", "it hung", Some(5))
    );
    assert_eq!(trace.switches.len(), 2);
    assert_eq!(trace.stack_names(trace.switches.stack[1]), ["schedule"]);
    let spans: Vec<_> =
        trace.spans.iter().map(|span| (span.cpu, span.window.start.nanos())).collect();
    assert_eq!(spans, [(0, 5), (1, 3)]);
    assert_eq!(trace.losses.len(), 1);
    let alpha = trace.threads.at(100, Time::ZERO).unwrap();
    assert_eq!(trace.threads.get(alpha).policy, Some(Policy::Batch));
    assert_eq!(trace.name(trace.threads.process_of(alpha).command_line), "alpha --fast");
    assert_eq!(trace.futex_waits[0].waiter, alpha);
    assert_eq!(trace.warnings.lines().collect::<Vec<_>>(), ["the ring is small"]);

    // The perf.data lies in the file as it is, on a border of eight bytes.
    let bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(file.len()).position(|window| window == file).unwrap();
    assert_eq!(at % 8, 0);
}

/// A ring of `count` blocks, each with one switch.
fn blocks(count: u64) -> Vec<u8> {
    let block = |number: u64| {
        let switch = 100 | 1 << 32 | (100 + number % 2) << 35;
        let words = [number + 1, 1_000 * (number + 1), 100, switch];
        let mut block: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        block.resize(BLOCK_BYTES, 0);
        block
    };
    (0..count).flat_map(block).collect()
}

#[test]
fn stored_rings_are_read_in_place_as_far_as_they_are_there() {
    let (count, block) = (40, BLOCK_BYTES as u64);
    let blocks = blocks(count);
    let part = RingPart { cpu: 0, end: (count - 1) * block + 32, blocks: &blocks };
    let rings = encode(&[part], &[]);
    let mut synthetic = SyntheticTrace::default();
    synthetic.comm(0, A, false);
    let file = synthetic.file();
    let parts = ContainerParts {
        meta: &ContainerMeta::default(),
        perf_data: &mut |out| out.write_all(&file),
        rings: Some(&rings),
        symbols: None,
        notes: None,
        extra: Vec::new(),
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.hitch");
    write_container(&path, parts).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let warnings = |trace: &Trace| trace.warnings.lines().collect::<Vec<_>>().join("\n");
    let trace = read_bytes(&whole).unwrap();
    assert_eq!((trace.switches.len() as u64, warnings(&trace)), (count, String::new()));
    assert_eq!((trace.meta.clock_id, trace.by_kind["switch"]), (Some(1), count));

    let at = whole.windows(8).position(|window| window == b"UNHRINGS").unwrap();
    let mut damaged = whole.clone();
    damaged[at + 48 + 10 * BLOCK_BYTES] ^= 1;
    let trace = read_bytes(&damaged).unwrap();
    assert_eq!(trace.switches.len() as u64, count - 1, "one block is left out");
    assert!(warnings(&trace).contains("rings.bin in the trace file is damaged (its checksum"));

    let trace = read_bytes(&whole[..at + 48 + 10 * BLOCK_BYTES]).unwrap();
    assert_eq!(trace.switches.len(), 10, "{}", warnings(&trace));
    assert!(warnings(&trace).contains("the trace file is cut off"));
}

/// Who had a pipe open, as told by `meta.json`.
#[test]
fn holders_of_a_pipe_are_complete_only_if_the_file_says_so() {
    let mut synthetic = SyntheticTrace::default();
    synthetic.comm(0, A, false);
    let file = synthetic.file();
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str, meta: &ContainerMeta| {
        let path = folder.path().join(name);
        let parts = ContainerParts {
            meta,
            perf_data: &mut |out| out.write_all(&file),
            rings: None,
            symbols: None,
            notes: None,
            extra: Vec::new(),
        };
        write_container(&path, parts).unwrap();
        let trace = open(&path).unwrap();
        let of = |holder: &unhitch_model::Holder| (holder.reads, holder.writes);
        (trace.holders.iter().map(of).collect::<Vec<_>>(), trace.has_all_holders)
    };
    let holder = Holder { inode: 7, pid: 100, fd: 3, writes: true, ..Holder::default() };
    let holders = vec![holder];
    let complete = ContainerMeta { holders, holders_complete: true, ..ContainerMeta::default() };
    assert_eq!(of("complete", &complete), (vec![(false, true)], true));
    let old = ContainerMeta { holders_complete: false, ..complete.clone() };
    assert_eq!(of("old", &old), (vec![(false, true)], false));
    let stranger = Holder { pid: 999, ..holder };
    let unknown = ContainerMeta { holders: vec![holder, stranger], ..complete };
    assert_eq!(of("unknown", &unknown), (vec![(false, true)], false));
}
