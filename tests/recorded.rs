//! Tables show what a file contains; what was not recorded is reported as such and never shown as
//! 0; and all times are relative to one origin.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use unhitch_etl_writer::{KernelEvent, Options, Process, Rundown, ThreadFacts, Writer};
use unhitch_formats::container::{ContainerMeta, ContainerParts, CpuWindow, write_container};

#[path = "../crates/formats/tests/synthetic/mod.rs"]
mod synthetic;
use synthetic::{At, Chain, IDLE, SyntheticTrace, Task};

/// `TRACE_FLAG_HARDIRQ`: an interrupt did it.
const HARDIRQ: u8 = 0x08;
const PING: Task = Task { pid: 100, tid: 100, comm: "ping" };
const PONG: Task = Task { pid: 200, tid: 200, comm: "pong" };

fn unhitch(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unhitch"));
    for variable in ["XDG_CONFIG_HOME", "XDG_CACHE_HOME", "HOME", "_NT_SYMBOL_PATH", "COLUMNS"] {
        command.env_remove(variable);
    }
    command.args(words);
    command
}

fn text(words: &[&str]) -> String {
    String::from_utf8(unhitch(words).output().unwrap().stdout).unwrap()
}

fn json(words: &[&str]) -> Value {
    serde_json::from_str(&text(&[words, &["--json"]].concat())).unwrap()
}

fn written(path: PathBuf, bytes: &[u8]) -> String {
    fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

/// CPU 1's ring reaches back to 5.6 ms and CPU 0's to 1 ms: everything before 5.6 ms is outside the
/// span that both cover.
fn uneven(folder: &Path) -> String {
    let mut synthetic = SyntheticTrace::default();
    synthetic.comm(1_000_000, PING, true);
    synthetic.comm(1_000_000, PONG, true);
    for ms in 1..20 {
        let at = |us: u64, cpu: u32| At { ns: ms * 1_000_000 + us * 1_000, cpu };
        synthetic.switch(at(0, 0), PING, 1, IDLE, Chain::default());
        synthetic.waking(at(400, 0), IDLE, HARDIRQ, PING, Chain::default());
        synthetic.switch(at(410, 0), IDLE, 0, PING, Chain::default());
        synthetic.clock(at(500, 0), PING, Chain { kernel: &[], user: &[0x1000] });
        if ms >= 5 {
            synthetic.switch(at(600, 1), IDLE, 0, PONG, Chain::default());
            synthetic.switch(at(700, 1), PONG, 1, IDLE, Chain::default());
        }
    }
    let spans = [(0, 1_000_000, 19_500_001), (1, 5_600_000, 19_700_001)];
    let spans = spans.map(|(cpu, start_ns, end_ns)| CpuWindow { cpu, start_ns, end_ns }).to_vec();
    let meta = ContainerMeta { version: 1, cpus: 2, spans, ..ContainerMeta::default() };
    let (file, path) = (synthetic.file(), folder.join("uneven.hitch"));
    let perf_data = &mut |out: &mut dyn std::io::Write| out.write_all(&file);
    let parts = ContainerParts {
        meta: &meta,
        perf_data,
        rings: None,
        symbols: None,
        notes: None,
        extra: Vec::new(),
    };
    write_container(&path, parts).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn rows_outside_the_covered_span_are_shown_and_counted_apart() {
    let folder = tempfile::tempdir().unwrap();
    let trace = uneven(folder.path());
    let info = json(&["info", &trace]);
    let ns = |value: &Value, key: &str| value[key].as_u64().unwrap();
    assert_eq!(
        (ns(&info, "origin_ns"), ns(&info, "covered_start_ns")),
        (1_000_000, 5_600_000),
        "{info}"
    );
    // Of 19 switch-ins, wake-ups and samples of ping on CPU 0, those at 1.4, 2.4, 3.4, 4.4 and 5.4
    // ms are before 5.6 ms.
    for (table, rows) in [("switches", 34), ("wakes", 19), ("samples", 19)] {
        let found = json(&["table", &trace, table, "--by", "none"]);
        assert_eq!(
            (ns(&found, "total_rows"), ns(&found, "outside_rows")),
            (rows, 5),
            "{table}: {found}"
        );
        let text = text(&["table", &trace, table, "--by", "none"]);
        let expected = format!(
            "5 of {rows} rows lie outside the span that was recorded on every CPU (0.005 s to 0.019 s)."
        );
        assert!(text.contains(&expected), "{text}");
        let inside = json(&["table", &trace, table, "--by", "none", "--from", "4.6ms"]);
        assert_eq!(
            (ns(&inside, "total_rows"), ns(&inside, "outside_rows")),
            (rows - 5, 0),
            "{table}"
        );
        let early = json(&["table", &trace, table, "--by", "none", "--to", "4.6ms"]);
        assert_eq!((ns(&early, "total_rows"), ns(&early, "outside_rows")), (5, 5), "{table}");
    }
    // What was before such a switch is unknown, not 0.
    let first = json(&["table", &trace, "switches", "--top", "1"])["rows"][0].clone();
    assert_eq!((ns(&first, "switched_in_ns"), &first["tid"]), (1_410_000, &100.into()), "{first}");
    for column in ["off_cpu_ns", "waited_ns", "runnable_ns", "ran_for_ns", "reason", "wait_stack"] {
        assert!(first[column].is_null(), "{column}: {first}");
    }
    // Sums of time only cover that span, and are exact there.
    let cpus = json(&["table", &trace, "cpus"]);
    assert_eq!(
        (ns(&cpus, "start_ns"), ns(&cpus, "end_ns")),
        (ns(&cpus, "covered_start_ns"), ns(&cpus, "covered_end_ns"))
    );
    for row in cpus["rows"].as_array().unwrap() {
        assert_eq!(
            ns(row, "busy_ns") + ns(row, "idle_ns"),
            ns(&cpus, "end_ns") - ns(&cpus, "start_ns"),
            "{row}"
        );
    }
    let printed = text(&["table", &trace, "cpus"]);
    assert!(
        printed.contains(
            "Sums of time cover only the span that was recorded on every CPU (0.005 s to 0.019 s); "
        ),
        "{printed}"
    );
}

#[test]
fn printed_and_requested_times_have_one_origin() {
    let folder = tempfile::tempdir().unwrap();
    let trace = uneven(folder.path());
    let info = json(&["info", &trace]);
    let origin = info["origin_ns"].as_u64().unwrap();
    assert!(
        text(&["info", &trace]).contains("times       count from the first event of the trace (")
    );
    assert_eq!(json(&["why", &trace])["trace"]["origin_ns"], origin);
    let clock = json(&["table", &trace, "samples"]);
    assert_eq!(clock["origin_ns"], origin);
    // The text, the seconds of the CSV and the nanoseconds of the clock agree.
    let shown = text(&["table", &trace, "samples", "--show", "time"]);
    let csv = text(&["table", &trace, "samples", "--show", "time", "--csv"]);
    assert!(csv.starts_with("time_ns,time_s\r\n1500000,0.000500000\r\n"), "{csv}");
    for ((line, seconds), row) in
        shown.lines().skip(1).zip(csv.lines().skip(1)).zip(clock["rows"].as_array().unwrap())
    {
        let since = row["time_ns"].as_u64().unwrap() - origin;
        assert_eq!(line.trim(), format!("0.{:06}", since / 1000), "{shown}");
        assert_eq!(seconds.split(',').nth(1), Some(format!("0.{since:09}").as_str()), "{csv}");
        // … and find that row again.
        let (from, to) = (format!("{}us", since / 1000), format!("{}us", since / 1000 + 1));
        for words in [
            ["--from", from.as_str(), "--to", to.as_str()],
            ["--top", "9", "--where", &format!("time = {from}")],
        ] {
            let found = json(&[&["table", &trace, "samples"][..], &words].concat());
            assert_eq!((&found["total_rows"], &found["rows"][0]), (&1.into(), row), "{words:?}");
        }
    }
    let window = text(&["why", &trace, "--victim", "ping", "--from", "6ms", "--to", "9ms"]);
    assert!(window.contains("from 0.006 s to 0.009 s"), "{window}");
}

/// Samples of a process on one of two CPUs, without anything about waits.
fn samples_only(folder: &Path) -> String {
    let mut writer = Writer::new(Options { cpus: 2, ..Options::default() });
    let (pid, tid) = (100, 200);
    writer.kernel(0, 0, &KernelEvent::SampleInterval { first: true, units: 10_000 });
    let process = Process { pid, parent: 4, image: "busy.exe", command_line: "busy.exe" };
    writer.kernel(0, 0, &KernelEvent::Process(Rundown::First, process));
    writer.kernel(
        0,
        0,
        &KernelEvent::Thread(Rundown::First, ThreadFacts { pid, tid, name: Some("UI") }, (4, 8)),
    );
    for sample in 1..=500 {
        writer.kernel(
            0,
            1_000_000 * sample,
            &KernelEvent::Sample { instruction: 0x1010, tid, in_dpc: false },
        );
        writer.kernel(
            1,
            1_000_000 * sample,
            &KernelEvent::Sample { instruction: 0x1010, tid: 0, in_dpc: false },
        );
    }
    written(folder.join("samples.etl"), &writer.finish())
}

#[test]
fn what_was_not_recorded_is_reported_and_never_zero() {
    let folder = tempfile::tempdir().unwrap();
    let trace = samples_only(folder.path());
    let why = "the trace holds no context switches, so nothing shows who waited for whom.";
    let advice = "Record context switches next time: in UIforETW";
    let check = |text: &str| assert!(text.contains(why) && text.contains(advice), "{text}");
    check(&text(&["why", &trace]));
    for table in ["switches", "waits", "stalls", "cpus", "threads"] {
        let text = text(&["table", &trace, table]);
        assert!(text.contains("Not recorded"), "{text}");
        check(&text);
    }
    let waits = text(&["waits", &trace]);
    assert!(!waits.contains("classifies every wait"), "{waits}");
    check(&waits);
    check(&text(&["callers", &trace]));
    // The list of waits has no place for it.
    let listed = unhitch(&["waits", &trace, "--json"]).output().unwrap();
    assert_eq!(listed.stdout, b"[]\n");
    check(&String::from_utf8_lossy(&listed.stderr));

    let cpus = json(&["table", &trace, "cpus", "--show", "all"]);
    for row in cpus["rows"].as_array().unwrap() {
        assert!(
            ["busy_ns", "idle_ns", "switches"].iter().all(|column| row[column].is_null()),
            "{row}"
        );
    }
    assert_eq!(
        (&cpus["not_recorded"][0]["what"], &cpus["not_recorded"][0]["columns"][0]),
        (&"switches".into(), &"busy_ns".into()),
        "{cpus}"
    );
    // Time by samples: 500 on CPU 0, 1 ms each, except for one at the edge of the covered span;
    // idle samples do not count as work.
    let sampled =
        |row: &Value| (row["samples"].as_u64().unwrap(), row["sampled_ns"].as_u64().unwrap());
    let (samples, sampled_ns) = sampled(&cpus["rows"][0]);
    assert!((499..=500).contains(&samples) && sampled_ns == samples * 1_000_000, "{cpus}");
    assert_eq!(sampled(&cpus["rows"][1]), (0, 0));
    let threads = json(&[
        "table",
        &trace,
        "threads",
        "--show",
        "tid,ran,runnable,slept,switches,samples,sampled",
    ]);
    let first = &threads["rows"][0];
    assert_eq!(
        (&first["tid"], sampled(first)),
        (&200.into(), (samples, sampled_ns)),
        "by samples, as nothing else is known: {threads}"
    );
    assert!(
        ["ran_ns", "runnable_ns", "slept_ns", "switches"]
            .iter()
            .all(|column| first[column].is_null()),
        "{first}"
    );
    let shown = text(&["table", &trace, "cpus"]);
    assert!(
        shown
            .lines()
            .nth(1)
            .is_some_and(|line| line.matches("not recorded").count() == 3 && line.contains("0.")),
        "{shown}"
    );
    assert!(!shown.contains("sum "), "{shown}");
}

/// Programs that rank stacks or compare recordings are told, too.
#[test]
fn regression_callers_and_diff_say_what_was_not_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let trace = samples_only(folder.path());
    let why = "the trace holds no context switches, so nothing shows who waited for whom.";
    let advice = "Record context switches next time: in UIforETW";
    let check = |text: &str| assert!(text.contains(why) && text.contains(advice), "{text}");
    let ranked = json(&["callers", &trace]);
    assert_eq!(
        (&ranked["all_count"], &ranked["not_recorded"][0]["what"]),
        (&0.into(), &"switches".into()),
        "{ranked}"
    );
    check(&format!(
        "{}.{}",
        ranked["not_recorded"][0]["why"].as_str().unwrap(),
        ranked["not_recorded"][0]["advice"]
    ));
    let differ = text(&["diff", &trace, &trace]);
    assert!(differ.starts_with("NOT RECORDED  before and after: "), "{differ}");
    assert!(!differ.contains("No stall") && !differ.contains("No wait"), "{differ}");
    check(&differ);
    let differ = json(&["diff", &trace, &trace]);
    assert_eq!(
        (&differ["is_noise"], &differ["before"][0]["not_recorded"][0]["what"]),
        (&false.into(), &"switches".into()),
        "{differ}"
    );
}

/// A pid means the main thread first, even where there is nothing to tell about it.
#[test]
fn regression_a_process_that_is_asked_about_begins_with_its_main_thread() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/starve.hitch");
    let of_main = text(&["why", example, "--victim", "29967"]);
    let main = "lab-starve 29967, the main thread, was idle.";
    assert!(
        of_main.starts_with(main) && of_main.contains("\nHANG 1.600 s  typing 29968"),
        "{of_main}"
    );
    let of_thread = text(&["why", example, "--victim", "29968"]);
    assert!(of_thread.starts_with("HANG "), "{of_thread}");
}

/// `gcevents` holds .NET's events: no switch, no sample.
#[test]
fn regression_a_trace_of_events_alone_claims_nothing_about_threads() {
    let Some(corpus) = std::env::var_os("UNHITCH_CORPUS") else {
        eprintln!(
            "SKIPPED regression_a_trace_of_events_alone_claims_nothing_about_threads: no corpus"
        );
        return;
    };
    let trace = Path::new(&corpus).join("etl/gcevents.etl.zip");
    let why = text(&["why", trace.to_str().unwrap(), "--victim", "168672"]);
    assert!(why.starts_with("WINDOW ") && why.contains("Nothing was recorded of what"), "{why}");
    for claim in ["it waited", "No CPU sample", "only CPU samples", "whole wait"] {
        assert!(!why.contains(claim), "{claim}: {why}");
    }
}

#[test]
fn missing_wake_ups_and_samples_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let mut synthetic = SyntheticTrace::default();
    synthetic.comm(1_000_000, PING, true);
    for ms in 1..20 {
        synthetic.switch(At { ns: ms * 1_000_000, cpu: 0 }, PING, 1, IDLE, Chain::default());
        synthetic.switch(
            At { ns: ms * 1_000_000 + 400_000, cpu: 0 },
            IDLE,
            0,
            PING,
            Chain::default(),
        );
    }
    let trace = written(folder.path().join("switches.data"), &synthetic.file());
    let threads = json(&["table", &trace, "threads", "--show", "all", "--where", "tid = 100"]);
    let row = &threads["rows"][0];
    assert!(row["ran_ns"].as_u64().unwrap() > 0 && row["slept_ns"].as_u64().unwrap() > 0, "{row}");
    assert!(
        ["runnable_ns", "samples", "sampled_ns"].iter().all(|column| row[column].is_null()),
        "{row}"
    );
    let switches = json(&["table", &trace, "switches", "--show", "all", "--top", "3"]);
    for row in switches["rows"].as_array().unwrap() {
        assert!(
            ["woken_by", "woken_at_ns", "runnable_ns", "wake_stack"]
                .iter()
                .all(|column| row[column].is_null()),
            "{row}"
        );
    }
    assert!(
        text(&["table", &trace, "wakes"]).starts_with("Not recorded: the trace holds no wake-ups,")
    );
    for words in [&["table", &trace, "samples"][..], &["callers", &trace, "--of", "sample"]] {
        assert!(
            text(words).starts_with("Not recorded: the trace holds no CPU samples,"),
            "{}",
            text(words)
        );
    }
    let hot = unhitch(&["hot", &trace]).output().unwrap();
    assert!(
        String::from_utf8_lossy(&hot.stderr)
            .contains("Not recorded: the trace holds no CPU samples,"),
        "{hot:?}"
    );
    let threads = text(&["table", &trace, "threads"]);
    assert!(threads.contains("Not recorded (runnable): the trace holds no wake-ups"), "{threads}");
    assert!(
        threads.contains("Not recorded (sampled): the trace holds no CPU samples"),
        "{threads}"
    );
}

#[test]
fn real_events_after_the_covered_span_are_rows_with_the_times_of_perfview() {
    let Some(corpus) = std::env::var_os("UNHITCH_CORPUS") else {
        return eprintln!(
            "SKIPPED real_events_after_the_covered_span…: UNHITCH_CORPUS names no folder with real Windows traces"
        );
    };
    let folder = Path::new(&corpus).join("etl");
    let trace = folder.join("net.4.5.2.x64.etl.zip");
    let trace = trace.to_str().unwrap();
    let rundown = json(&[
        "table",
        trace,
        "events",
        "--where",
        "event ~ MethodDCEndVerbose",
        "--show",
        "count",
    ]);
    assert_eq!(
        (&rundown["rows"][0]["count"], &rundown["outside_rows"]),
        (&16_702.into(), &16_702.into())
    );
    // The output of TraceEvent, on which PerfView is based: `EVENT 1,275.943: Windows
    // Kernel/DiskIO/Read …`, milliseconds.
    let baseline = fs::read_to_string(folder.join("net.4.5.2.x64.baseline.txt")).unwrap();
    for kind in ["DiskIO/Read", "TcpIp/SendIPV6"] {
        let line = |line: &str| {
            Some(
                line.strip_prefix("EVENT ")?
                    .split_once(&format!(": Windows Kernel/{kind} "))?
                    .0
                    .replace(',', ""),
            )
        };
        let theirs: Vec<f64> =
            baseline.lines().filter_map(line).map(|ms| ms.parse().unwrap()).collect();
        assert!(theirs.len() >= 5, "{kind}: {theirs:?}");
        let top = theirs.len().to_string();
        let ours = text(&[
            "table",
            trace,
            "events",
            "--where",
            &format!("event = {kind}"),
            "--show",
            "time",
            "--top",
            &top,
        ]);
        for (line, ms) in ours.lines().skip(1).zip(theirs) {
            let seconds: f64 = line.trim().parse().unwrap();
            assert!(
                (seconds * 1e3 - ms).abs() < 0.0011,
                "{kind}: {seconds} s is {ms} ms in PerfView"
            );
        }
    }
    let info = json(&["info", trace]);
    assert_eq!(
        (&info["origin_ns"], info["origin"].as_str().unwrap().contains("PerfView")),
        (&0.into(), true),
        "{info}"
    );
    // Switches were not recorded, but samples show how long CPUs were busy.
    let cpus = json(&["table", trace, "cpus"]);
    assert!(
        cpus["rows"]
            .as_array()
            .unwrap()
            .iter()
            .all(|row| row["busy_ns"].is_null() && row["sampled_ns"].as_u64().unwrap() > 0)
    );
}
