//! Synthetic Windows traces: cases that no available real file contains.

use crate::etl_support;
use crate::etl_support::synthetic::{
    Buffer, METADATA, Pack, ZERO, classic, event_info, file, image, manifest, perf_info, process,
    raw_buffer, ready, repeated, sample, session, stack, switch, system, thread,
};
use std::io::Write;
use unhitch_model::{TaskState, Time, Trace, WakeFlags};

const READY: u8 = 1;
const WAITING: u8 = 5;
const KERNEL: u64 = 0xffff_f800_0010_0000;

/// The time `us` microseconds after the beginning, in ticks.
fn at(us: i64) -> i64 {
    ZERO + us * 10
}

/// A waits and is woken by B; meanwhile a DPC wakes C.
fn scenario() -> Vec<Buffer> {
    let names = [
        process(0x303, at(0), 100, "app.exe"),
        process(0x303, at(0), 200, "other.exe"),
        thread(0x503, at(0), (11, 100), "Main"),
        thread(0x503, at(0), (12, 100), ""),
        thread(0x503, at(0), (21, 200), ""),
        image(0x1403, at(0), 0, KERNEL, "\\SystemRoot\\system32\\ntoskrnl.exe"),
        image(0x1403, at(0), 100, 0x40_0000, "C:\\app.exe"),
    ];
    let first = [
        switch(at(10), 11, 0, 0),
        // Main falls asleep; 12 runs, and wakes it.
        switch(at(100), 12, 11, WAITING),
        ready(at(200), 11, false),
        stack(at(200), at(200), (12, 100), &[KERNEL + 0x500, KERNEL + 0x600]),
        stack(at(205), at(200), (12, 100), &[0x40_1000, 0x40_2000]),
        switch(at(300), 11, 12, READY),
        stack(at(300), at(300), (11, 100), &[KERNEL + 0x100, KERNEL + 0x200]),
        sample(at(350), 11, 0x40_3000),
        stack(at(400), at(300), (11, 100), &[0x40_4000]),
        switch(at(500), 0, 11, WAITING),
    ];
    let second = [
        switch(at(20), 21, 0, 0),
        switch(at(120), 0, 21, WAITING),
        ready(at(250), 21, true),
        switch(at(260), 21, 0, 0),
        perf_info(
            0xf44,
            2,
            at(255),
            &[&at(245).to_le_bytes()[..], &(KERNEL + 0x900).to_le_bytes()].concat(),
        ),
        thread(0x548, at(270), (21, 200), ""),
        switch(at(500), 0, 21, WAITING),
    ];
    let set_name = [
        &200_u32.to_le_bytes()[..],
        &21_u32.to_le_bytes(),
        &etl_support::synthetic::utf16("Worker"),
    ]
    .concat();
    let named = [system(0x548, 2, at(280), (21, 200), &set_name)];
    vec![
        Buffer { cpu: 0, events: names.concat() },
        Buffer { cpu: 1, events: [second[..4].concat(), second[4].clone()].concat() },
        Buffer { cpu: 0, events: first.concat() },
        Buffer { cpu: 1, events: [named.concat(), second[6].clone()].concat() },
    ]
}

fn read(pack: Pack) -> Trace {
    unhitch_formats::read_bytes(&file(8, &scenario(), pack)).unwrap()
}

#[test]
fn switches_wake_ups_and_stacks_become_the_same_trace() {
    for pack in [Pack::Plain, Pack::Copied] {
        let trace = read(pack);
        assert_eq!(
            (trace.switches.len(), trace.wakings.len(), trace.samples.len()),
            (8, 2, 1),
            "{:?}",
            trace.warnings
        );
        assert!(trace.warnings.is_empty(), "{:?}", trace.warnings);
        let us: Vec<u64> = trace.switches.time.iter().map(|time| time.nanos() / 1000).collect();
        assert_eq!(us, [10, 20, 100, 120, 260, 300, 500, 500]);
        let tid = |id| trace.threads.get(id).tid;
        let name = |id, us: u64| trace.thread_name(id, Time::from_nanos(us * 1000)).to_owned();
        let main = trace.switches.prev[2];
        assert_eq!(
            (tid(main), name(main, 0), trace.process_name(main, Time::ZERO)),
            (11, "Main".to_owned(), "app.exe")
        );
        assert_eq!(
            (trace.switches.prev_state[2], trace.switches.prev_reason[2].name()),
            (TaskState::Sleeping, "UserRequest")
        );
        assert!(trace.switches.prev_reason[2].is_user_mode());
        assert_eq!(
            (
                trace.switches.prev_prio[2],
                trace.switches.next_prio[2],
                trace.switches.prev_state[5]
            ),
            (131, 130, TaskState::Runnable)
        );
        // The stack with which Main came back is that of its wait.
        assert_eq!(
            trace.stack_names(trace.switches.stack[2]),
            ["app.exe+0x3fff", "ntoskrnl.exe+0x1ff", "ntoskrnl.exe+0x100"]
        );
        assert!(trace.switches.stack[5].is_empty());
        // A wake-up by a thread, and one by a DPC.
        assert_eq!((tid(trace.wakings.waker[0]), tid(trace.wakings.wakee[0])), (12, 11));
        let expected =
            ["app.exe+0x1fff", "app.exe+0xfff", "ntoskrnl.exe+0x5ff", "ntoskrnl.exe+0x500"];
        assert_eq!(trace.stack_names(trace.wakings.stack[0]), expected);
        assert_eq!(trace.wakings.flags[0], WakeFlags::default());
        assert!(trace.wakings.flags[1].has(WakeFlags::HARDIRQ) && trace.wakings.waker[1].is_idle());
        assert_eq!((trace.wakings.target_cpu[0], trace.wakings.target_cpu[1]), (0, 1));
        // A sample without a stack has its instruction.
        assert_eq!(trace.stack_names(trace.samples.stack[0]), ["app.exe+0x3000"]);
        // A later name applies from then on; nameless threads have their process's name.
        let worker = trace.switches.next[1];
        assert_eq!(
            (name(worker, 0), name(worker, 400)),
            ("Worker".to_owned(), "Worker".to_owned())
        );
        assert_eq!(name(trace.switches.next[2], 100), "app.exe");
        assert_eq!(trace.meta.cpus, 2);
        assert_eq!(
            trace.spans.iter().map(|span| span.window.start.nanos() / 1000).collect::<Vec<_>>(),
            [10, 20]
        );
    }
}

#[test]
fn other_events_keep_their_fields() {
    // 8c416c79-d49b-4f01-a467-e56d3aa8234c
    let guid = [
        0x79, 0x6c, 0x41, 0x8c, 0x9b, 0xd4, 0x01, 0x4f, 0xa4, 0x67, 0xe5, 0x6d, 0x3a, 0xa8, 0x23,
        0x4c,
    ];
    let delay =
        [0x800_u32, 2_000, 5, 7].iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let mut buffers = scenario();
    buffers[2].events.extend(manifest(guid, 38, at(600), (11, 100), &delay));
    let trace = unhitch_formats::read_bytes(&file(8, &buffers, Pack::Plain)).unwrap();
    let dpc = (0..trace.events.len())
        .find(|event| trace.name(trace.events.kind_of(*event).unwrap().name) == "PerfInfo/DPC")
        .unwrap();
    let number = |event, name| {
        trace
            .events
            .field(event, trace.strings.find(name).unwrap())
            .and_then(|value| value.as_f64())
    };
    assert_eq!(number(dpc, "ElapsedMs"), Some(0.01));
    let last = trace.events.len() - 1;
    let kind = trace.events.kind_of(last).unwrap();
    assert_eq!(
        (trace.name(kind.name), kind.id, trace.threads.get(trace.events.thread[last]).tid),
        ("MessageCheckDelay", 38, 11),
        "{kind:?}"
    );
    assert_eq!((number(last, "DelayTimeMs"), trace.events.fields(last).len()), (Some(2000.0), 4));
}

/// Two payloads of real traces, with the fields that another decoder gives them.
#[test]
fn real_context_switches() {
    let real: [(usize, [u8; 24], [i64; 12]); 2] = [
        (
            4,
            [0, 0, 0, 0, 0x2c, 0x11, 0, 0, 0, 9, 0, 0, 23, 0, 1, 0, 18, 0, 0, 0, 0x26, 0x48, 0, 0],
            [0, 4396, 0, 9, 0, 0, 23, 0, 1, 0, 18, 18470],
        ),
        (
            8,
            [0xcc, 8, 0, 0, 0, 0, 0, 0, 8, 0, 1, 0, 0, 0, 2, 4, 1, 0, 0, 0, 0x87, 0x6d, 0x88, 0x34],
            [2252, 0, 8, 0, 1, 0, 0, 0, 2, 4, 1, 881_356_167],
        ),
    ];
    for (pointer_bytes, payload, expected) in real {
        let events = perf_info(0x524, 2, at(10), &payload);
        let bytes = file(pointer_bytes, &[Buffer { cpu: 3, events }], Pack::Plain);
        let trace = unhitch_formats::etl::every_event(&[&bytes]).unwrap();
        let event = (0..trace.events.len())
            .find(|event| trace.events.kind_of(*event).unwrap().id == 0x524)
            .unwrap();
        let fields: Vec<i64> = trace
            .events
            .fields(event)
            .iter()
            .map(|(_, value)| {
                if let unhitch_model::Value::Signed(n) = value {
                    *n
                } else {
                    value.as_u64().unwrap() as i64
                }
            })
            .collect();
        assert_eq!(fields, expected);
        let tids = (
            trace.threads.get(trace.switches.next[0]).tid,
            trace.threads.get(trace.switches.prev[0]).tid,
        );
        assert_eq!(tids, (expected[0] as u32, expected[1] as u32));
        assert_eq!(
            (trace.switches.cpu[0], i64::from(trace.switches.prev_reason[0].number())),
            (3, expected[6])
        );
    }
}

#[test]
fn a_later_image_at_the_same_address_has_its_own_name() {
    let events = [
        process(0x303, at(0), 100, "app.exe"),
        thread(0x503, at(0), (11, 100), ""),
        image(0x30a, at(10), 100, 0x7000_0000, "C:\\first.dll"),
        sample(at(20), 11, 0x7000_1000),
        image(0x1402, at(30), 100, 0x7000_0000, "C:\\first.dll"),
        image(0x30a, at(40), 100, 0x7000_0000, "C:\\second.dll"),
        sample(at(50), 11, 0x7000_1000),
        // The same process id again, for another program.
        process(0x302, at(60), 100, "app.exe"),
        process(0x301, at(70), 100, "next.exe"),
        thread(0x501, at(71), (31, 100), ""),
        image(0x30a, at(72), 100, 0x7000_0000, "C:\\third.dll"),
        sample(at(80), 31, 0x7000_1000),
        sample(at(90), 31, 0x0012_3400),
        // No program has code in the lowest 64 KiB, nor between the halves of the addresses.
        sample(at(100), 31, 0x7000_1000),
        stack(at(100), at(100), (31, 100), &[0x7000_1000, 0x77, 0x7000_2000]),
    ];
    let bytes = file(8, &[Buffer { cpu: 0, events: events.concat() }], Pack::Plain);
    let trace = unhitch_formats::read_bytes(&bytes).unwrap();
    let names: Vec<String> =
        trace.samples.stack.iter().flat_map(|stack| trace.stack_names(*stack)).collect();
    assert_eq!(
        names,
        [
            "first.dll+0x1000",
            "second.dll+0x1000",
            "third.dll+0x1000",
            "[anon]+0x123400",
            "(cut)",
            "third.dll+0x1000"
        ]
    );
    let lives: Vec<(&str, Option<u64>, Option<u64>)> = trace
        .threads
        .processes()
        .filter(|(_, process)| process.pid == 100)
        .map(|(_, process)| (trace.name(process.name), process.start, process.end))
        .map(|(name, start, end)| {
            (name, start.map(|time| time.nanos() / 1000), end.map(|time| time.nanos() / 1000))
        })
        .collect();
    assert_eq!(lives, [("app.exe", None, Some(60)), ("next.exe", Some(70), None)]);
}

#[test]
fn files_of_one_recording_are_one_trace() {
    let mut buffers = scenario();
    let rest = buffers.split_off(2);
    let (kernel, user) = (file(8, &buffers, Pack::Plain), file(8, &rest, Pack::Copied));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("kernel.etl"), kernel).unwrap();
    std::fs::write(folder.path().join("user.etl"), user).unwrap();
    let trace = unhitch_formats::open(&folder.path().join("kernel.etl")).unwrap();
    assert_eq!((trace.switches.len(), trace.meta.buffers), (8, 6));
    assert_eq!(
        trace.warnings.lines().collect::<Vec<_>>(),
        ["read together with user.etl in the same folder"]
    );
    let whole = read(Pack::Plain);
    assert_eq!(
        (trace.switches.time.clone(), trace.wakings.time.clone()),
        (whole.switches.time, whole.wakings.time)
    );
}

/// Two sessions of one scenario; the second began 10 µs later.
fn sessions() -> (Vec<u8>, Vec<u8>) {
    let mut buffers = scenario();
    let rest = buffers.split_off(2);
    (session("Kernel", 0, 8, &buffers, Pack::Plain), session("User", 100, 8, &rest, Pack::Copied))
}

#[test]
fn sessions_given_together_are_one_trace_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (kernel, user) = sessions();
    std::fs::write(path("first.etl"), &kernel).unwrap();
    std::fs::write(path("second.etl"), &user).unwrap();
    let mut zip = zip::ZipWriter::new(std::fs::File::create(path("second.etl.zip")).unwrap());
    zip.start_file("second.etl", zip::write::SimpleFileOptions::default()).unwrap();
    zip.write_all(&user).unwrap();
    zip.finish().unwrap();
    let whole = read(Pack::Plain);
    for (one, other) in
        [("first.etl", "second.etl"), ("second.etl", "first.etl"), ("first.etl", "second.etl.zip")]
    {
        let trace = unhitch_formats::open_with(&path(one), &[path(other)]).unwrap();
        assert_eq!(
            (trace.switches.time.clone(), trace.wakings.time.clone()),
            (whole.switches.time.clone(), whole.wakings.time.clone())
        );
        assert_eq!(
            (trace.meta.epoch_ns, trace.meta.buffers),
            (whole.meta.epoch_ns, 6),
            "{one} {other}"
        );
        assert!(
            trace.meta.producer.starts_with("ETW sessions ")
                && trace.meta.producer.contains("Kernel"),
            "{}",
            trace.meta.producer
        );
        assert!(trace.warnings.is_empty(), "{:?}", trace.warnings);
    }
    // The caller names the files: sibling files are not searched.
    std::fs::write(path("kernel.etl"), file(8, &scenario()[..1], Pack::Plain)).unwrap();
    std::fs::write(path("user.etl"), &kernel).unwrap();
    let given = unhitch_formats::open_with(&path("kernel.etl"), &[path("second.etl")]).unwrap();
    assert_eq!((given.meta.buffers, given.warnings.is_empty()), (5, true));
}

/// A merging tool also writes sessions without events, which are needed to read their siblings.
#[test]
fn a_session_of_descriptions_alone_serves_its_siblings() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let events =
        manifest([7; 16], 5, at(100), (11, 100), &[1_u32, 2, 3].map(u32::to_le_bytes).concat());
    let user = [Buffer { cpu: 0, events }];
    let described = [Buffer { cpu: 0, events: classic(METADATA, 32, &event_info([7; 16], 5, 3)) }];
    std::fs::write(path("mine.etl"), session("User", 0, 8, &user, Pack::Plain)).unwrap();
    std::fs::write(path("metadata.etl"), session("Relogger", 0, 8, &described, Pack::Copied))
        .unwrap();
    let alone = unhitch_formats::open(&path("mine.etl")).unwrap();
    assert!(alone.events.fields(0).is_empty());
    for (first, other) in [("mine.etl", "metadata.etl"), ("metadata.etl", "mine.etl")] {
        let trace = unhitch_formats::open_with(&path(first), &[path(other)]).unwrap();
        let values: Vec<_> =
            trace.events.fields(0).iter().map(|(_, value)| value.as_u64()).collect();
        assert_eq!(values, [Some(1), Some(2), Some(3)], "{first}");
        assert!(trace.warnings.is_empty(), "{first}: {:?}", trace.warnings);
    }
}

/// To see that it holds descriptions alone, no more of it is unpacked than to read it.
#[test]
fn a_session_of_descriptions_may_claim_to_unpack_to_gigabytes() {
    let description = repeated(&classic(METADATA, 32, &event_info([7; 16], 5, 0)));
    let mut bytes = session("Relogger", 0, 8, &[], Pack::Plain);
    (0..4000).for_each(|_| bytes.extend(raw_buffer(0, &description, 16 << 20, 0x61, 0)));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("many.etl"), &bytes).unwrap();
    let trace = unhitch_formats::open(&folder.path().join("many.etl")).unwrap();
    let warnings = trace.warnings.lines().collect::<Vec<_>>().join("\n");
    assert!(warnings.contains("left out 3,999 buffers"), "{warnings}");
}

/// `info` counts them and `table events` lists them.
#[test]
fn images_that_come_and_go_are_events() {
    let events = [
        process(0x303, at(0), 100, "app.exe"),
        image(0x1403, at(0), 100, 0x6000_0000, "C:\\there.dll"),
        image(0x30a, at(10), 100, 0x7000_0000, "C:\\first.dll"),
        image(0x1402, at(30), 100, 0x7000_0000, "C:\\first.dll"),
    ];
    let bytes = file(8, &[Buffer { cpu: 0, events: events.concat() }], Pack::Plain);
    let trace = unhitch_formats::read_bytes(&bytes).unwrap();
    let name = |event| trace.name(trace.events.kind_of(event).unwrap().name).to_owned();
    let names: Vec<String> = (0..trace.events.len()).map(name).collect();
    assert_eq!(names, ["Image/Load", "Image/Unload"]);
    let file = trace.events.field(0, trace.strings.find("FileName").unwrap()).unwrap();
    assert_eq!(file.to_string(), "C:\\first.dll");
}

/// Who each event of this name is of: thread, its id, process, its id.
fn owners(trace: &Trace, name: &str) -> Vec<(String, u32, String, u32)> {
    let events = (0..trace.events.len())
        .filter(|event| trace.name(trace.events.kind_of(*event).unwrap().name) == name);
    let owner = |event: usize| {
        let (thread, time) = (trace.events.thread[event], trace.events.time[event]);
        let (tid, pid) = (trace.threads.get(thread).tid, trace.threads.process_of(thread).pid);
        (
            trace.thread_name(thread, time).to_owned(),
            tid,
            trace.process_name(thread, time).to_owned(),
            pid,
        )
    };
    events.map(owner).collect()
}

/// The network's events are written by a deferred procedure call, on whatever thread runs: the
/// payload names the process they are for.
#[test]
fn events_of_the_network_are_those_of_the_process_that_they_name() {
    let of = |pid: u32| [pid.to_le_bytes(), 84_u32.to_le_bytes()].concat();
    let udp = [&200_u32.to_le_bytes()[..], &[0; 28]].concat();
    let events = [
        process(0x303, at(0), 100, "app.exe"),
        process(0x303, at(0), 200, "other.exe"),
        thread(0x503, at(0), (11, 100), "Main"),
        thread(0x503, at(0), (7, 0), "DPC Delegate Thread"),
        switch(at(10), 11, 0, 0),
        // While another program's thread runs, and while none does.
        perf_info(0x60b, 2, at(20), &of(200)),
        system(0x60b, 2, at(21), (11, 100), &of(200)),
        switch(at(30), 0, 11, WAITING),
        perf_info(0x60b, 2, at(40), &of(100)),
        perf_info(0x60b, 2, at(41), &of(555)),
        // For a connection that no longer belongs to a process.
        perf_info(0x60b, 2, at(42), &of(0)),
        perf_info(0x80b, 0, at(43), &udp),
        system(0x611, 2, at(44), (0, 0), &[1, 0, 2, 0]),
        manifest([7; 16], 5, at(45), (0, 0), &[1]),
        sample(at(50), 7, 0x1234),
    ];
    let bytes = file(8, &[Buffer { cpu: 0, events: events.concat() }], Pack::Plain);
    let trace = unhitch_formats::read_bytes(&bytes).unwrap();
    let nobody = u32::MAX;
    let owner = |process: &str, pid: u32| ("(unknown)".to_owned(), nobody, process.to_owned(), pid);
    let unknown = owner("(unknown)", nobody);
    let other = owner("other.exe", 200);
    let received = [
        other.clone(),
        other.clone(),
        owner("app.exe", 100),
        owner("process 555", 555),
        unknown.clone(),
    ];
    assert_eq!(owners(&trace, "TcpIp/Recv"), received);
    assert_eq!(owners(&trace, "UdpIp/Recv"), [other]);
    assert_eq!(owners(&trace, "event 5"), [unknown]);
    assert!(trace.events.thread.iter().all(|thread| !thread.is_idle()));
    // Pid 0 has its own name, not that of one of its threads.
    let delegate = trace.samples.thread[0];
    assert_eq!(trace.process_name(delegate, Time::ZERO), "Idle");
    assert_eq!(trace.thread_name(delegate, Time::ZERO), "DPC Delegate Thread");
    // Unknown threads are in no list.
    assert!(trace.threads.iter().all(|(id, thread)| !id.is_unknown() && thread.tid != nobody));
}

#[test]
fn what_cannot_be_read_together_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (kernel, user) = sessions();
    std::fs::write(path("kernel.etl"), &kernel).unwrap();
    std::fs::write(path("again.etl"), &kernel).unwrap();
    std::fs::write(path("user.etl"), &user).unwrap();
    std::fs::write(path("merged.etl"), session("Relogger", 0, 8, &scenario(), Pack::Plain))
        .unwrap();
    std::fs::write(path("notes.txt"), "it hung").unwrap();
    std::fs::write(path("ours.hitch"), b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0").unwrap();
    for (one, other, wrong, message) in [
        (
            "kernel.etl",
            "notes.txt",
            "notes.txt",
            "only unmerged Windows sessions (.etl) can be read together, and this is not one",
        ),
        (
            "ours.hitch",
            "kernel.etl",
            "ours.hitch",
            "only unmerged Windows sessions (.etl) can be read together, and this is not one",
        ),
        (
            "kernel.etl",
            "merged.etl",
            "merged.etl",
            "this trace is merged and already holds its sessions: open it alone",
        ),
        ("kernel.etl", "again.etl", "again.etl", "the same session is given twice"),
        ("kernel.etl", ".", ".", "a directory"),
        ("kernel.etl", "none.etl", "none.etl", "cannot read"),
    ] {
        let error = unhitch_formats::open_with(&path(one), &[path("user.etl"), path(other)])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(&path(wrong).display().to_string()) && error.contains(message),
            "{one} {other}: {error}"
        );
    }
}

#[test]
fn rotated_buffers_are_put_in_order() {
    let switches = |from: i64| -> Vec<u8> {
        let one = |n: i64| {
            switch(
                at(from + n * 10),
                if n % 2 == 0 { 11 } else { 0 },
                if n % 2 == 0 { 0 } else { 11 },
                WAITING,
            )
        };
        (0..10).flat_map(one).collect()
    };
    let buffers: Vec<Buffer> =
        [300, 400, 100, 200].map(|from| Buffer { cpu: 0, events: switches(from) }).into();
    let trace = unhitch_formats::read_bytes(&file(8, &buffers, Pack::Plain)).unwrap();
    assert!(trace.switches.time.is_sorted() && trace.switches.len() == 40);
    assert!(
        trace.switches.prev.windows(2).all(|pair| pair[0] != pair[1]),
        "each thread leaves a CPU before it is on one again"
    );
}
