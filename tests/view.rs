//! `unhitch view` and `unhitch report` from the user's point of view: the address on the first
//! line, real instructions on the routes of the page, a report on disk.

mod viewer;

use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use unhitch_etl_writer::{KernelEvent, Options, Writer};
use viewer::Viewer;

const UNHITCH: &str = env!("CARGO_BIN_EXE_unhitch");

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/starve.hitch")
}

fn view<Word: AsRef<OsStr>>(words: impl IntoIterator<Item = Word>) -> Viewer {
    Viewer::start(Command::new(UNHITCH).arg("view").args(words))
}

/// What the page gets from this path.
fn got(viewer: &Viewer, path: &str) -> Value {
    let answer = viewer.ask(&format!("GET {path}"), b"");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn a_trace_is_served_at_the_printed_address() {
    let viewer = view([example()]);
    assert_eq!(got(&viewer, "/api/server")["single"], "starve.hitch");
    let hot = got(&viewer, "/api/t/starve.hitch/hot?function=count_pages");
    assert!(hot["function"].as_str().unwrap().ends_with("count_pages"), "{hot}");
    let (samples, lines) = (hot["samples"].as_u64().unwrap(), hot["lines"].as_array().unwrap());
    assert!(
        samples > 100
            && lines.iter().all(|line| line["address"].as_str().unwrap().starts_with("0x")),
        "{hot}"
    );
    assert_eq!(lines.iter().map(|line| line["samples"].as_u64().unwrap()).sum::<u64>(), samples);
    assert_eq!(got(&viewer, "/api/t/starve.hitch/stall/1")["cause"]["pattern"], "lock_starvation");
}

#[test]
fn sessions_given_together_are_served_as_one_trace() {
    let folder = tempfile::tempdir().unwrap();
    let session = |name: &str, later: u64| {
        let whole = Options::default();
        let (start_ticks, start_filetime) =
            (whole.start_ticks + later, whole.start_filetime + later);
        let mut writer =
            Writer::new(Options { merged: false, start_ticks, start_filetime, ..whole });
        (1..100).for_each(|ms| {
            writer.kernel(
                0,
                ms * 1_000_000,
                &KernelEvent::Sample { instruction: 0x1000, tid: 200, in_dpc: false },
            )
        });
        std::fs::write(folder.path().join(name), writer.finish()).unwrap();
        folder.path().join(name)
    };
    let (one, other) = (session("one.etl", 0), session("other.etl", 10));
    let with =
        |path: &Path| [path.as_os_str(), "--with".as_ref(), other.as_os_str()].map(OsStr::to_owned);
    assert_eq!(got(&view(with(&one)), "/api/t/one.etl/summary")["samples"], 198);
    let refused = Command::new(UNHITCH).arg("view").args(with(folder.path())).output().unwrap();
    let printed = String::from_utf8_lossy(&refused.stderr);
    assert!(
        refused.status.code() == Some(1)
            && printed.contains("--with needs a trace, and this is a folder"),
        "{printed}"
    );
}

#[test]
fn what_cannot_be_served_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let out =
        Command::new(UNHITCH).arg("view").arg(folder.path().join("none.hitch")).output().unwrap();
    assert_eq!((out.status.code(), out.stdout.is_empty()), (Some(1), true));
    assert!(
        String::from_utf8_lossy(&out.stderr).contains("none.hitch"),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let out =
        Command::new(UNHITCH).args(["view", "--port", &port]).arg(folder.path()).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
}

#[test]
fn the_report_of_a_fleet_is_shown_above_its_traces() {
    let folder = tempfile::tempdir().unwrap();
    let traces = folder.path().join("traces");
    std::fs::create_dir(&traces).unwrap();
    std::fs::copy(example(), traces.join("starve.hitch")).unwrap();
    let report = folder.path().join("report.json");
    std::fs::write(
        &report,
        r#"{"version": 1, "fleet": {"traces": 1, "hosts": 1, "first_day": "2026-09-01",
            "last_day": "2026-09-01", "stalls": 0, "with_stalls": 0, "with_losses": 0,
            "total_ns": 0}, "since": null, "causes": [], "coverage": [], "regressions": [],
            "contrast": [], "clusters": []}"#,
    )
    .unwrap();
    let words = |path: &Path| {
        [path.as_os_str(), "--fleet".as_ref(), report.as_os_str()].map(OsStr::to_owned)
    };
    assert_eq!(got(&view(words(&traces)), "/api/fleet")["fleet"]["traces"], 1);
    let refused = |words: &[&OsStr]| {
        let out = Command::new(UNHITCH).arg("view").args(words).output().unwrap();
        assert_eq!(out.status.code(), Some(1));
        String::from_utf8(out.stderr).unwrap()
    };
    let one = example();
    let single = refused(&[one.as_os_str(), "--fleet".as_ref(), report.as_os_str()]);
    assert!(single.contains("--fleet needs a folder of traces"), "{single}");
    let no_report = refused(&[traces.as_os_str(), "--fleet".as_ref(), one.as_os_str()]);
    assert!(no_report.contains("no report of a fleet"), "{no_report}");
    // The tables of a fleet are no traces.
    std::fs::write(folder.path().join("fleet.json"), "{}").unwrap();
    let tables = refused(&[folder.path().as_os_str()]);
    assert!(tables.contains("unhitch fleet report DIR --json"), "{tables}");
}

#[test]
fn a_report_is_written_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    let out =
        Command::new(UNHITCH).arg("report").arg(example()).arg("-o").arg(&path).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stdout).trim_end(), path.display().to_string());
    let html = std::fs::read_to_string(&path).unwrap();
    assert!(html.contains("lock starvation") && html.contains("<svg") && !html.contains("<script"));
}

/// The example with one bit flipped in the middle of its largest member.
fn damaged(folder: &Path) -> PathBuf {
    let mut bytes = std::fs::read(example()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let path = folder.join("damaged.hitch");
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Every way to look at a trace reports that it is damaged, on standard output or, where the format
/// has no place for that, on standard error.
#[test]
fn regression_one_flipped_bit_is_reported_wherever_a_trace_is_read() {
    const DAMAGE: &str = "perf.data in the trace file is damaged";
    let folder = tempfile::tempdir().unwrap();
    let trace = damaged(folder.path());
    let trace = trace.to_str().unwrap();
    let run = |words: &[&str]| {
        let output = Command::new(UNHITCH).args(words).output().unwrap();
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(output.status.success(), "{words:?}: {stderr}");
        (stdout, stderr)
    };
    let commands: [&[&str]; 11] = [
        &["info", trace],
        &["why", trace],
        &["why", trace, "--victim", "21"],
        &["table", trace, "waits"],
        &["waits", trace],
        &["hot", trace],
        &["hot", trace, "--function", "count_pages"],
        &["callers", trace],
        &["callers", trace, "schedule"],
        &["callees", trace, "schedule"],
        &["callees", trace, "--of", "sample"],
    ];
    for words in commands {
        let (text, _) = run(words);
        assert!(text.contains(&format!("WARNING  {DAMAGE}")), "{words:?}: {text}");
        let (json, notes) = run(&[words, &["--json"]].concat());
        let answer: Value = serde_json::from_str(&json).unwrap();
        let lists = [&answer["warnings"], &answer["trace"]["warnings"]];
        let warnings: Vec<Value> =
            lists.into_iter().filter_map(Value::as_array).flatten().cloned().collect();
        let is_named = |warning: &Value| warning.as_str().unwrap().contains(DAMAGE);
        let is_list = answer.is_array();
        assert!(
            warnings.iter().any(is_named) || (is_list && notes.contains(DAMAGE)),
            "{words:?}: {json} {notes}"
        );
    }
    let exported = folder.path().join("damaged.folded");
    for words in [
        &["table", trace, "waits", "--csv"][..],
        &["diff", trace, trace],
        &["export", trace, "--to", "folded", "-o", exported.to_str().unwrap()],
    ] {
        let (_, notes) = run(words);
        assert!(notes.contains("warning: ") && notes.contains(DAMAGE), "{words:?}: {notes}");
    }
    let report = folder.path().join("report.html");
    run(&["report", trace, "-o", report.to_str().unwrap()]);
    assert!(std::fs::read_to_string(report).unwrap().contains(DAMAGE));
    let viewer = view([trace]);
    let summary = got(&viewer, "/api/t/damaged.hitch/summary");
    assert!(summary["warnings"][0].as_str().unwrap().contains(DAMAGE), "{summary}");
}
