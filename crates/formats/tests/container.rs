//! What a container adds to its perf.data.

mod synthetic;

use synthetic::{At, Chain, IDLE, SyntheticTrace, Task};
use unhitch_formats::{
    container::{
        ContainerMeta, ContainerParts, CpuLoss, CpuWindow, FutexWaiter, ProcessFacts, SymbolFile,
        ThreadFacts, trace_file_name, write_container,
    },
    open, read_bytes,
};
use unhitch_model::{Format, FrameId, Policy, Symbol, Time};

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
