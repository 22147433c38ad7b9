//! Rare cases in files: losses, headers that no available real file has, hardware counters next to
//! the payload, a rundown at the end alone. All of it is synthetic.

use unhitch_etl_writer::{
    Bytes, CSwitch, Guid, Header, Image, Interrupt, KernelEvent, Options, Process, ReadyThread,
    Rundown, ThreadFacts, Writer, metadata, win32k,
};
use unhitch_model::{Loss, Time, Trace, Window};

const PID: u32 = 100;
const TID: u32 = 200;
const MS: u64 = 1_000_000;
const CODE: u64 = 0x40_0000;

fn read(writer: Writer) -> Trace {
    unhitch_formats::read_bytes(&writer.finish()).unwrap()
}

/// CPU 0 and 1 with a wake-up every millisecond, from `from` to `to`.
fn wake_ups(writer: &mut Writer, cpu: u16, (from, to): (u64, u64)) {
    for ms in from..=to {
        writer.kernel(
            cpu,
            ms * MS,
            &KernelEvent::ReadyThread(ReadyThread { tid: TID, in_dpc: false }),
        );
    }
}

fn warnings(trace: &Trace) -> Vec<String> {
    trace.warnings.lines().filter(|line| !line.contains("names no process for")).collect()
}

fn loss(cpu: u16, from_ms: u64, to_ms: u64, events: u64) -> Loss {
    let time = |ms| Time::from_nanos(ms * MS);
    Loss { cpu, window: Window::new(time(from_ms), time(to_ms)), events }
}

const EVENTS: &str = "ETW lost 7 events: the session had no free buffer";
const BUFFERS: &str = "ETW lost 3 buffers: writing could not keep up";
const NEAR: &str = "waits and running times near missing events are wrong";

#[test]
fn a_buffer_that_says_so_tells_where_events_were_lost() {
    for lost in [(0, 0), (7, 3)] {
        let mut writer = Writer::new(Options { lost, ..Options::default() });
        wake_ups(&mut writer, 0, (1, 10));
        wake_ups(&mut writer, 1, (1, 3));
        writer.flush(1);
        writer.lose(1);
        wake_ups(&mut writer, 1, (8, 10));
        let trace = read(writer);
        let place = format!(
            "events are missing in 1 place; the first gap is on CPU 1 and ends 8.0 ms after the start: {NEAR}"
        );
        let mut expected = vec![EVENTS.to_owned(), BUFFERS.to_owned(), place];
        expected.retain(|line| lost.0 > 0 || line.contains("place"));
        assert_eq!(warnings(&trace), expected);
        assert_eq!(trace.losses, [loss(1, 3, 8, u64::from(lost.0))]);
    }
}

#[test]
fn a_session_that_lost_events_who_knows_where_says_that() {
    let mut writer = Writer::new(Options { lost: (7, 3), ..Options::default() });
    wake_ups(&mut writer, 0, (1, 10));
    let trace = read(writer);
    let nowhere =
        "events were lost, but the trace does not say where: waits and running times around the \
         gap are wrong"
            .to_owned();
    assert_eq!(warnings(&trace), [EVENTS.to_owned(), BUFFERS.to_owned(), nowhere]);
    assert_eq!(trace.losses.iter().map(|loss| loss.events).sum::<u64>(), 7);
}

#[test]
fn an_event_about_lost_events_is_a_loss() {
    let mut writer = Writer::new(Options::default());
    wake_ups(&mut writer, 0, (1, 4));
    metadata::lost_event(&mut writer, 0, 6 * MS, 32);
    wake_ups(&mut writer, 0, (7, 9));
    metadata::lost_event(&mut writer, 0, 12 * MS, 33);
    let trace = read(writer);
    assert_eq!(
        warnings(&trace),
        [format!(
            "events are missing in 2 places; the first gap is on CPU 0 and ends 6.0 ms after the start: {NEAR}"
        )]
    );
    assert_eq!(trace.losses, [loss(0, 4, 6, 0), loss(0, 9, 12, 0)]);
}

#[test]
fn a_rundown_at_the_end_names_what_was_there_all_along() {
    let mut writer = Writer::new(Options::default());
    writer.kernel(
        0,
        MS,
        &KernelEvent::CSwitch(CSwitch { new_tid: TID, old_state: 2, ..CSwitch::default() }),
    );
    writer.kernel(
        0,
        2 * MS,
        &KernelEvent::Sample { instruction: CODE + 0x10, tid: TID, in_dpc: false },
    );
    writer.kernel(
        0,
        9 * MS,
        &KernelEvent::Thread(
            Rundown::Last,
            ThreadFacts { pid: PID, tid: TID, name: Some("Late") },
            (4, 8),
        ),
    );
    let process =
        Process { pid: PID, parent: 4, image: "late.exe", command_line: "late.exe --now" };
    writer.kernel(0, 9 * MS, &KernelEvent::Process(Rundown::Last, process));
    let image = Image { base: CODE, size: 0x1000, pid: PID, timestamp: 1, path: "C:\\late.exe" };
    writer.kernel(0, 9 * MS, &KernelEvent::Image(Rundown::Last, image));
    let trace = read(writer);
    assert_eq!(trace.warnings.lines().collect::<Vec<_>>(), Vec::<String>::new());
    let thread = trace.switches.next[0];
    assert_eq!(
        (trace.thread_name(thread, Time::ZERO), trace.process_name(thread, Time::ZERO)),
        ("Late", "late.exe")
    );
    assert_eq!((trace.threads.get(thread).start, trace.threads.get(thread).end), (None, None));
    assert_eq!(trace.name(trace.threads.process_of(thread).command_line), "late.exe --now");
    assert_eq!(
        (trace.samples.thread[0], trace.stack_names(trace.samples.stack[0])),
        (thread, vec!["late.exe+0x10".to_owned()])
    );
}

/// Two words next to the payload, as the kernel puts them for two counters.
fn with_counters(payload: Bytes) -> Vec<u8> {
    payload.u64(1_000).u64(2_000).0
}

#[test]
fn events_with_hardware_counters_are_left_out_and_told() {
    const TWO_COUNTERS: u16 = 0x0200;
    let mut writer = Writer::new(Options::default());
    wake_ups(&mut writer, 0, (1, 2));
    for (hook, payload) in [
        (0x524, Bytes::new().u32(TID).u32(0).raw(&[0; 16])),
        (0x532, Bytes::new().u32(TID).u32(0)),
        (0xf2e, Bytes::new().u64(CODE).u32(TID).u32(1)),
    ] {
        writer.event(
            0,
            3 * MS,
            &Header::PerfInfo { hook, version: 2 | TWO_COUNTERS },
            &with_counters(payload),
        );
    }
    // Samples of the counters themselves are events like others.
    writer.event(
        0,
        4 * MS,
        &Header::PerfInfo { hook: 0xf2f, version: 2 },
        &Bytes::new().u64(CODE).u32(TID).u16(5).u16(0).0,
    );
    wake_ups(&mut writer, 0, (5, 6));
    let trace = read(writer);
    assert_eq!(
        warnings(&trace),
        [
            "cannot read 3 scheduling events with hardware counters; record without hardware counters"
        ]
    );
    assert_eq!((trace.switches.len(), trace.wakings.len(), trace.samples.len()), (0, 4, 0));
    let source = trace
        .events
        .field(0, trace.strings.find("ProfileSource").unwrap())
        .and_then(|value| value.as_u64());
    assert_eq!((trace.events.len(), source, trace.by_kind["PerfInfo/PMCSample"]), (1, Some(5), 1));
}

#[test]
fn samples_that_count_more_than_once_are_told() {
    let mut writer = Writer::new(Options::default());
    for (at, count) in [(1, 1), (2, 3), (3, 1)] {
        let payload = Bytes::new().u64(CODE).u32(TID).u16(count).u16(0);
        writer.event(0, at * MS, &Header::PerfInfo { hook: 0xf2e, version: 2 }, &payload.0);
    }
    let trace = read(writer);
    assert_eq!(
        warnings(&trace),
        ["1 CPU sample has a count other than 1; it counts as one sample"]
    );
    assert_eq!(trace.samples.len(), 3);
}

/// `Thread/DCStart`'s payload up to what names it.
fn thread(tid: u32) -> Vec<u8> {
    (0..7).fold(Bytes::new().u32(PID).u32(tid), |out, _| out.u64(0)).u32(0).u32(0).utf16("Named").0
}

#[test]
fn headers_of_every_kind_are_understood() {
    let class = Guid::new(0xabcd_ef01, 2, 3, [9; 8]);
    for pointer_width in [8, 4] {
        let mut writer = Writer::new(Options { pointer_width, ..Options::default() });
        if pointer_width == 8 {
            writer.event(
                0,
                MS,
                &Header::Compact { hook: 0x503, version: 3, pid: 4, tid: 8 },
                &thread(TID),
            );
        }
        writer.event(
            0,
            2 * MS,
            &Header::Compact { hook: 0x532, version: 2, pid: PID, tid: TID },
            &Bytes::new().u32(TID).u32(0).0,
        );
        writer.event(
            0,
            3 * MS,
            &Header::Instance { class, opcode: 11, version: 2, pid: PID, tid: TID },
            b"instance",
        );
        writer.event(
            0,
            4 * MS,
            &Header::Message { of: class, number: 10, pid: PID, tid: TID },
            b"arguments",
        );
        // The events behind each are still found.
        wake_ups(&mut writer, 0, (5, 6));
        let trace = read(writer);
        assert_eq!(warnings(&trace), Vec::<String>::new());
        assert_eq!(
            trace.wakings.time.iter().map(|time| time.nanos() / MS).collect::<Vec<_>>(),
            [2, 5, 6]
        );
        // The long header records who did it.
        assert_eq!(trace.threads.get(trace.wakings.waker[0]).tid, TID);
        if pointer_width == 8 {
            assert_eq!(trace.thread_name(trace.wakings.wakee[0], Time::MAX), "Named");
        }
        let kind = trace.events.kind_of(0).unwrap();
        assert_eq!(
            (kind.provider_guid, kind.opcode, trace.events.payload(0)),
            (class.0, 11, &b"instance"[..])
        );
        assert_eq!(
            (trace.events.time[0].nanos() / MS, trace.threads.get(trace.events.thread[0]).tid),
            (3, TID)
        );
        // The text of a message is in the PDB of the program: it is counted.
        assert_eq!((trace.events.len(), trace.by_kind["WPP/message"]), (1, 1));
    }
}

#[test]
fn transfers_tell_their_file_and_how_long_they_took() {
    const FILE: u64 = 0xffff_b00a_0000_1000;
    let mut writer = Writer::new(Options::default());
    writer.kernel(
        0,
        MS,
        &KernelEvent::FileName { file: FILE, path: "\\Device\\HarddiskVolume3\\hot.db" },
    );
    writer.kernel(
        0,
        MS,
        &KernelEvent::Thread(
            Rundown::First,
            ThreadFacts { pid: PID, tid: TID, name: None },
            (4, 8),
        ),
    );
    let read_ahead = KernelEvent::DiskRead {
        disk: 0,
        bytes: 4096,
        offset: 512,
        file: FILE,
        took_ns: 12 * MS,
        tid: TID,
    };
    writer.kernel(0, 20 * MS, &read_ahead);
    let fault = KernelEvent::HardFault {
        start_ns: 25 * MS,
        avma: CODE,
        file: FILE,
        offset: 512,
        tid: TID,
        bytes: 4096,
    };
    writer.kernel(0, 30 * MS, &fault);
    let trace = read(writer);
    assert_eq!(trace.events.len(), 2);
    for (event, name, ms) in [(0, "DiskIO/Read", 12.0), (1, "Memory/HardFault", 5.0)] {
        let field =
            |name: &str| trace.events.field(event, trace.strings.find(name).unwrap()).unwrap();
        assert_eq!(trace.name(trace.events.kind_of(event).unwrap().name), name);
        assert_eq!(
            (field("ElapsedMs").as_f64(), field("FileName").as_str()),
            (Some(ms), Some("\\Device\\HarddiskVolume3\\hot.db"))
        );
        assert_eq!(trace.threads.get(trace.events.thread[event]).tid, TID);
    }
}

#[test]
fn interrupts_and_the_focus_are_events() {
    let routine = 0xffff_f800_0000_4000;
    let mut writer = Writer::new(Options::default());
    writer.kernel(
        0,
        2 * MS,
        &KernelEvent::Isr(Interrupt { entry_ns: 2 * MS - 30_000, routine }, 81),
    );
    win32k::focus_change(&mut writer, 0, 3 * MS, (PID, TID), 7, 8);
    let trace = read(writer);
    let field = |event, name: &str| trace.events.field(event, trace.strings.find(name)?)?.as_f64();
    let name = |event| trace.name(trace.events.kind_of(event).unwrap().name);
    assert_eq!((name(0), name(1)), ("PerfInfo/ISR", "FocusChange"));
    assert_eq!(
        (field(0, "ElapsedMs"), field(0, "Vector"), field(0, "Routine")),
        (Some(0.03), Some(81.0), Some(routine as f64))
    );
    assert_eq!((field(1, "OldThreadId"), field(1, "NewThreadId")), (Some(7.0), Some(8.0)));
}
