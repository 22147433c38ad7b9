//! What tables, flame graphs, marks and stalls make of a Windows trace's events: keys stay private,
//! idle CPUs do no work, frames of the kernel are known as such. The traces are synthetic.

use crate::seen::Seen;
use unhitch_analysis::flame::{Drawing, Flame};
use unhitch_analysis::lod::{Lane, Lanes, Screen, View};
use unhitch_analysis::table::{Name, Query, Selection, Stored, Table, Words};
use unhitch_analysis::user_marks::MarkKind;
use unhitch_analysis::{Analysis, Cancel, Rules, StackKind, answer};
use unhitch_analysis::{Query as Wanted, StallKind};
use unhitch_etl_writer::{
    Guid, Header, Image, KernelEvent, Options, Process, Rundown, ThreadFacts, Writer, clr,
    metadata::{self, in_type},
    uiforetw, win32k,
};
use unhitch_model::{Time, Trace, Window};

const UI: (u32, u32) = (100, 200);
const MS: u64 = 1_000_000;
const KERNEL_BASE: u64 = 0xffff_f800_0000_0000;
const USER_BASE: u64 = 0x40_0000;

/// A trace with one named process and thread, an image of the kernel and one of the program.
fn writer() -> Writer {
    let mut writer = Writer::new(Options { cpus: 2, ..Options::default() });
    let (pid, tid) = UI;
    writer.kernel(0, 0, &KernelEvent::SampleInterval { first: true, units: 10_000 });
    writer.kernel(
        0,
        0,
        &KernelEvent::Process(
            Rundown::First,
            Process { pid, parent: 4, image: "editor.exe", command_line: "" },
        ),
    );
    writer.kernel(
        0,
        0,
        &KernelEvent::Thread(Rundown::First, ThreadFacts { pid, tid, name: Some("UI") }, (4, 8)),
    );
    for (pid, base, path) in [
        (0, KERNEL_BASE, "\\SystemRoot\\system32\\ntoskrnl.exe"),
        (pid, USER_BASE, "C:\\editor.exe"),
    ] {
        writer.kernel(
            0,
            0,
            &KernelEvent::Image(
                Rundown::First,
                Image { base, size: 0x10_0000, pid, timestamp: 1, path },
            ),
        );
    }
    writer
}

fn read(writer: Writer) -> Trace {
    unhitch_formats::read_bytes(&writer.finish()).unwrap()
}

/// A table of the trace as text, as CSV and as JSON.
fn printed(trace: &Trace, name: Name, words: Words<'_>) -> [String; 3] {
    let rules = Rules::default();
    let analysis = Analysis::new(trace, &rules);
    let table = Table::new(
        &analysis,
        &Query::new(name, words).unwrap(),
        analysis.timeline.window(),
        usize::MAX,
    );
    [table.text(), table.csv(), serde_json::to_string(&table).unwrap()]
}

#[test]
fn no_key_of_a_golden_trace_is_shown() {
    let trace = Seen::on_windows(&unhitch_golden::type_an_email()).trace;
    let pressed = (0..trace.events.len()).filter(|&event| {
        let kind = trace.events.kind_of(event).unwrap();
        (kind.provider_guid, kind.id) == (uiforetw::INPUT.0, 404)
    });
    let pressed = pressed.count();
    assert!(pressed > 0);
    let words = Words { show: Some("event,fields"), ..Words::default() };
    let texts = printed(&trace, Name::Events, words);
    for text in &texts {
        assert_eq!(text.matches("Key_down").count(), pressed, "{text}");
        assert!(!text.contains("VirtualKey") && !text.contains("Key="), "{text}");
    }
    assert_eq!(
        texts[1].lines().filter(|line| *line == "Key_down,(private)").count(),
        pressed,
        "{}",
        texts[1]
    );
}

#[test]
fn no_key_is_shown_whatever_describes_it() {
    // Q, the third key of the letters' first row.
    const KEY: (u32, &str) = (7_351, "qwertz");
    const WM_KEYDOWN: u32 = 0x100;
    let described = |writer: &mut Writer, provider, id, fields: &[(&str, u16)]| {
        let description = metadata::Description {
            provider,
            provider_name: "Made-Up-Input",
            id,
            version: 0,
            opcode: 0,
            task: id,
            task_name: "Pressed",
            keyword: 1,
            fields,
        };
        metadata::event_info(writer, 1, 900 * MS, &description);
    };
    let renamed = [
        ("Alpha", in_type::U32),
        ("Beta", in_type::ANSI),
        ("Gamma", in_type::U32),
        ("Delta", in_type::U32),
    ];
    let late_fields = [
        ("Flags", in_type::U32),
        ("TimeSinceInputRemoveMs", in_type::U32),
        ("TimeSinceOldestInputMs", in_type::U32),
        ("ClassName", in_type::UTF16),
        ("TopLevelClassName", in_type::UTF16),
        ("ImagePath", in_type::UTF16),
        ("MessageId", in_type::U32),
        ("wParam", in_type::U64),
    ];
    let delay = [&late_fields[..1], &[("DelayTimeMs", in_type::U32)], &late_fields[1..]].concat();
    // By our table, by the file's own words, and by the file's word that there are no fields.
    type Fields<'a> = &'a [(&'a str, u16)];
    let descriptions: [Option<[Fields<'_>; 3]>; 3] =
        [None, Some([&renamed, &late_fields, &delay]), Some([&[]; 3])];
    for own in descriptions {
        let mut writer = writer();
        uiforetw::key_down(&mut writer, 0, 10 * MS, UI, KEY.0, KEY.1);
        let message = (WM_KEYDOWN, u64::from(KEY.0));
        let late = win32k::Delay {
            oldest_input_ms: 5,
            window: Some(("Edit", "C:\\editor.exe")),
            message,
            ..win32k::Delay::default()
        };
        win32k::input_process_delay(&mut writer, 0, 20 * MS, UI, &late);
        win32k::message_check_delay(&mut writer, 0, 30 * MS, UI, &late);
        if let Some([of_key, of_late, of_delay]) = own {
            described(&mut writer, uiforetw::INPUT, 404, of_key);
            described(&mut writer, win32k::PROVIDER, 37, of_late);
            described(&mut writer, win32k::PROVIDER, 38, of_delay);
        }
        let trace = read(writer);
        let texts = printed(&trace, Name::Events, Words::default());
        for text in &texts {
            assert!(text.contains("(private)"), "{text}");
            // As a number, in capitals and small hexadecimal digits, by bytes, as a name.
            for form in
                ["7351", "1cb7", "1CB7", "b71c", "b7 1c", "B71C", "qwertz", "71 77 65", "717765"]
            {
                assert!(!text.contains(form), "{form} is in\n{text}");
            }
        }
        assert_eq!(texts[0].matches("(private)").count(), 3, "{}", texts[0]);
        let rules = Rules::default();
        assert_eq!(
            Analysis::new(&trace, &rules)
                .marks
                .iter()
                .filter(|mark| mark.kind == MarkKind::Key)
                .count(),
            1
        );
    }
}

/// Eight samples of the thread in the kernel, of which half have a user part; sixteen of idle CPUs,
/// of which four in a DPC.
fn sampled() -> Trace {
    let mut writer = writer();
    let (pid, tid) = UI;
    for at in 1..=8 {
        let frames = [KERNEL_BASE + 0x100, KERNEL_BASE + 0x200, USER_BASE + 0x300];
        writer.kernel(
            0,
            at * MS,
            &KernelEvent::Sample { instruction: frames[0], tid, in_dpc: false },
        );
        let frames = if at % 2 == 0 { &frames[..] } else { &frames[..2] };
        writer.kernel(0, at * MS, &KernelEvent::StackWalk { of_ns: at * MS, pid, tid, frames });
    }
    for at in 1..=16 {
        writer.kernel(
            1,
            at * MS,
            &KernelEvent::Sample { instruction: KERNEL_BASE + 0x900, tid: 0, in_dpc: at % 4 == 0 },
        );
    }
    read(writer)
}

#[test]
fn idle_samples_are_no_work_but_those_in_interrupts_are() {
    let trace = sampled();
    assert_eq!(trace.samples.len(), 24);
    let [text, csv, json] = printed(&trace, Name::Samples, Words::default());
    assert!(text.ends_with("Left out: 12 samples of idle CPUs.\n"), "{text}");
    assert_eq!((csv.lines().count(), json.matches("\"cpu\":").count()), (13, 12), "{csv}");
    let all = printed(
        &trace,
        Name::Samples,
        Words { by: Some("cpu"), show: Some("cpu,count"), ..Words::default() },
    );
    assert_eq!(all[1], "cpu,count\r\n0,8\r\n1,4\r\n");
    let info = answer::Info::new(&trace).text();
    assert!(info.contains("24 (12 of them on idle CPUs)"), "{info}");
    let rules = Rules::default();
    let analysis = Analysis::new(&trace, &rules);
    let samples = Stored::new(&analysis, Name::Samples, Window::new(Time::ZERO, Time::MAX));
    assert_eq!(flame(&samples).all_count, 12);
    let screen = Screen::new(analysis.timeline.window(), 1_000);
    let lane = |cpu| {
        Lanes::new(&analysis)
            .view(&analysis, Lane::CpuSamples(cpu), &screen, &Cancel::never())
            .unwrap()
    };
    let shown = |view: View| {
        view.slices.len() + view.cells.iter().map(|cell| cell.samples as usize).sum::<usize>()
    };
    assert_eq!([0, 1].map(lane).map(shown), [8, 4]);
}

fn flame(samples: &Stored<'_>) -> Flame {
    let drawing = Drawing {
        selection: Selection::default(),
        modules: false,
        inverted: false,
        root: &[],
        pixels: 1_000,
    };
    Flame::new(samples, StackKind::Sample, drawing, &Cancel::default()).unwrap()
}

#[test]
fn frames_of_the_kernel_are_known_as_such() {
    let trace = sampled();
    let rules = Rules::default();
    let analysis = Analysis::new(&trace, &rules);
    let samples = Stored::new(&analysis, Name::Samples, Window::new(Time::ZERO, Time::MAX));
    let flame = flame(&samples);
    let mut sides: Vec<(&str, bool)> =
        flame.nodes.iter().skip(1).map(|node| (node.name.as_str(), node.kernel)).collect();
    sides.sort_unstable();
    sides.dedup();
    let expected = [
        ("editor.exe+0x2ff", false),
        ("ntoskrnl.exe+0x100", true),
        ("ntoskrnl.exe+0x1ff", true),
        ("ntoskrnl.exe+0x900", true),
    ];
    assert_eq!(sides, expected);
}

#[test]
fn marks_are_what_a_person_or_a_program_said() {
    let mut writer = writer();
    uiforetw::mark(&mut writer, 0, 10 * MS, UI, "Saving");
    writer.kernel(0, 20 * MS, &KernelEvent::Mark("xperf -m says so"));
    uiforetw::begin(&mut writer, 0, 30 * MS, UI, "Layout", 1);
    uiforetw::mark_ints(&mut writer, 0, 40 * MS, UI, "Lines", &[3, -4]);
    uiforetw::mark_floats(&mut writer, 0, 41 * MS, UI, "Zoom", &[0.5]);
    uiforetw::end(&mut writer, 0, 50 * MS, UI, ("Layout", 1), 20.0);
    uiforetw::mouse_button(&mut writer, 0, 60 * MS, UI, true, (10, 20));
    uiforetw::mouse_button(&mut writer, 0, 70 * MS, UI, false, (10, 20));
    uiforetw::mouse_move(&mut writer, 0, 80 * MS, UI, (11, 20));
    uiforetw::frame(&mut writer, 0, 90 * MS, UI, 7, 16.5);
    let trace = read(writer);
    let rules = Rules::default();
    let analysis = Analysis::new(&trace, &rules);
    let marks: Vec<(u64, MarkKind, &str)> = analysis
        .marks
        .iter()
        .map(|mark| (mark.time.nanos() / MS, mark.kind, mark.words.as_str()))
        .collect();
    let words = MarkKind::Words;
    let expected = [
        (10, words, "Saving"),
        (20, words, "xperf -m says so"),
        (30, words, "Layout: begins"),
        (40, words, "Lines: 3, -4"),
        (41, words, "Zoom: 0.5"),
        (50, words, "Layout: ends after 20.0 ms"),
        (60, MarkKind::Button, ""),
    ];
    assert_eq!(marks, expected);
}

#[test]
fn input_handled_late_is_a_stall_from_when_it_came() {
    for window in [None, Some(("Edit", "C:\\editor.exe"))] {
        let mut writer = writer();
        // So that the recording covers it.
        for at in 0..300 {
            writer.kernel(
                1,
                at * 10 * MS,
                &KernelEvent::Sample { instruction: KERNEL_BASE, tid: 0, in_dpc: false },
            );
        }
        let late = win32k::Delay {
            since_input_ms: 40,
            oldest_input_ms: 750,
            window,
            ..win32k::Delay::default()
        };
        win32k::input_process_delay(&mut writer, 0, 2_000 * MS, UI, &late);
        // Too short for anybody to notice.
        let short = win32k::Delay { oldest_input_ms: 90, ..late };
        win32k::input_process_delay(&mut writer, 0, 2_500 * MS, UI, &short);
        let trace = read(writer);
        let rules = Rules::default();
        let analysis = Analysis::new(&trace, &rules);
        let stalls = unhitch_analysis::diagnose(&analysis, &Wanted::default());
        let [stall] = &stalls[..] else { panic!("{} stalls", stalls.len()) };
        assert_eq!(
            (stall.candidate.kind, trace.threads.get(stall.candidate.victim).tid),
            (StallKind::UiDelay, UI.1)
        );
        let Window { start, end } = stall.explanation.window;
        assert_eq!([start, end].map(Time::nanos), [1_250 * MS, 2_000 * MS]);
        let text = answer::text(&analysis, &stalls, 1);
        assert!(text.contains("did not handle its oldest input for 750.0 ms"), "{text}");
        assert_eq!(text.contains("window class Edit"), window.is_some(), "{text}");
    }
}

/// The fields of the only event of `trace` that a description is known for, as tables show them.
fn shown(trace: &Trace, name: &str) -> Vec<(String, String)> {
    let is = |event: &usize| trace.name(trace.events.kind_of(*event).unwrap().name) == name;
    unhitch_analysis::user_marks::fields(trace, (0..trace.events.len()).find(is).unwrap())
}

#[test]
fn what_a_layout_does_not_cover_is_shown_as_bytes() {
    let event = |payload: &[u8], provider: Guid, id: u16| {
        let (pid, tid) = UI;
        let mut writer = writer();
        let header = Header::Manifest {
            provider,
            id,
            version: 9,
            level: 4,
            opcode: 0,
            task: 0,
            keyword: 0,
            pid,
            tid,
            extended: Vec::new(),
        };
        writer.event(0, MS, &header, payload);
        read(writer)
    };
    // GC/RestartEEStop of a version to come, and one that is cut off.
    let longer = shown(&event(&[9, 0, 1, 2, 3], clr::RUNTIME, 3), "GC/RestartEEStop");
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(longer, [pair("ClrInstanceID", "9"), pair("undecoded", "010203")]);
    assert_eq!(shown(&event(&[7], clr::RUNTIME, 3), "GC/RestartEEStop"), [pair("undecoded", "07")]);
    // What may hide which key was pressed stays hidden: a message's fields that were not reached.
    let short = shown(&event(&[1, 0, 0, 0, 2, 0], win32k::PROVIDER_7, 38), "MessageCheckDelay");
    assert_eq!(short, [pair("Flags", "0x1"), pair("undecoded", "(private)")]);
}

#[test]
fn info_counts_the_cpus_that_wrote_events() {
    let mut writer = Writer::new(Options { cpus: 20, ..Options::default() });
    for cpu in [0, 3, 5] {
        writer.kernel(cpu, 0, &KernelEvent::Mark("begins"));
        writer.kernel(cpu, 70 * MS, &KernelEvent::Mark("ends"));
    }
    let text = answer::Info::new(&read(writer)).text();
    assert!(text.contains("covered     70.0 ms by the 3 of 20 CPUs that wrote events"), "{text}");
}
