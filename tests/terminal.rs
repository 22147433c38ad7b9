//! Output to a terminal: no name, path, payload or note of a trace moves its cursor or breaks a
//! line, and tables fit its width.
//!
//! Traces are synthetic, with names that contain escape sequences, line breaks and bidirectional
//! controls; two tests use a live thread that gave itself such a name.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use unhitch_etl_writer::{
    Image, KernelEvent, Options, Process, Rundown, ThreadFacts, Writer, uiforetw, win32k,
};
use unhitch_model::is_control;

#[path = "../crates/formats/tests/synthetic/mod.rs"]
mod synthetic;

/// As long as the kernel allows for a thread name.
const NAME: &str = "e\x1b[2J\u{202e}\nx";
const SHOWN: &str = "e\\x1b[2J\\u{202e}\\nx";
const OTHER: &str = "p\r\x07\u{9b}5n\x7f";
const PATH: &str = "/opt/\x1b]0;owned\x07/li\nb\u{2066}.so";
const FUNCTION: &str = "wait\x1b[31m_for\n_paint\u{2028}";
const NOTES: &str = "first\x1b[2J line\nsecond\u{200f}";
const TABLES: [&str; 11] = [
    "switches",
    "waits",
    "wakes",
    "samples",
    "events",
    "marks",
    "stalls",
    "lifetimes",
    "threads",
    "cpus",
    "counters",
];

fn unhitch(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unhitch"));
    for variable in [
        "XDG_CONFIG_HOME",
        "XDG_CACHE_HOME",
        "HOME",
        "_NT_SYMBOL_PATH",
        "COLUMNS",
        "CLICOLOR_FORCE",
    ] {
        command.env_remove(variable);
    }
    command.args(words);
    command
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command and checks that its output has no control characters; returns standard output.
fn harmless(words: &[&str]) -> String {
    let Output { stdout, stderr, .. } = unhitch(words).output().unwrap();
    for text in [&stdout, &stderr] {
        let text = lossy(text);
        let found = text.chars().find(|c| *c != '\n' && is_control(*c));
        assert_eq!(found, None, "{words:?}: {text:?}");
        // A line break in a name is never one in the output.
        assert!(
            !text.lines().any(|line| ["x", "_paint", "second", "next"]
                .iter()
                .any(|rest| line.starts_with(rest))),
            "{words:?}: {text}"
        );
    }
    assert!(!lossy(&stderr).contains("panicked"), "{words:?}: {}", lossy(&stderr));
    lossy(&stdout)
}

/// A container with only hostile names: one thread waits for the other, and is sampled in a
/// library.
fn linux(folder: &Path) -> String {
    use synthetic::{At, Chain, IDLE, SyntheticTrace, Task};
    use unhitch_formats::container::{ContainerMeta, ContainerParts, SymbolFile, write_container};
    use unhitch_model::{FrameId, Symbol};
    const TEXT: u64 = 0xffff_ffff_8100_0000;
    const LIBRARY: u64 = 0x7f00_0000_0000;
    let (ping, pong) =
        (Task { pid: 100, tid: 100, comm: NAME }, Task { pid: 200, tid: 200, comm: OTHER });
    let mut synthetic = SyntheticTrace::default();
    synthetic.comm(1_000_000, ping, true);
    synthetic.comm(1_000_000, pong, true);
    synthetic.map(1_000_001, 100, LIBRARY, 0x10000, 0, PATH);
    for round in 0..10 {
        let at = |us: u64, cpu: u32| At { ns: 1_000_000 + round * 400_000_000 + us * 1_000, cpu };
        synthetic.switch(
            at(10, 0),
            ping,
            1,
            IDLE,
            Chain { kernel: &[TEXT + 0x10], user: &[LIBRARY + 0x100] },
        );
        synthetic.switch(at(100_000, 1), IDLE, 0, pong, Chain::default());
        synthetic.clock(at(100_100, 1), pong, Chain { kernel: &[TEXT + 0x40], user: &[] });
        synthetic.waking(
            at(300_000, 1),
            pong,
            0,
            ping,
            Chain { kernel: &[TEXT + 0x20], user: &[] },
        );
        synthetic.switch(at(300_010, 0), IDLE, 0, ping, Chain::default());
        synthetic.switch(
            at(300_020, 1),
            pong,
            1,
            IDLE,
            Chain { kernel: &[TEXT + 0x30], user: &[] },
        );
        synthetic.clock(at(300_100, 0), ping, Chain { kernel: &[], user: &[LIBRARY + 0x200] });
        synthetic.waking(
            at(300_200, 0),
            ping,
            0,
            pong,
            Chain { kernel: &[TEXT + 0x30], user: &[] },
        );
    }
    let file = synthetic.file();
    fs::write(folder.join("raw.data"), &file).unwrap();
    let mut named = unhitch_formats::read_bytes(&file).unwrap();
    let (function, source) = (named.strings.intern(FUNCTION), named.strings.intern(PATH));
    for frame in 0..named.stacks.frames().len() as u32 {
        named.symbols.set(FrameId(frame), &[Symbol { function, file: source, line: frame }]);
    }
    let path = folder.join("hostile.hitch");
    let meta = ContainerMeta { version: 1, cpus: 2, ..ContainerMeta::default() };
    let symbols = SymbolFile::from_trace(&named);
    let perf_data = &mut |out: &mut dyn std::io::Write| out.write_all(&file);
    let parts = ContainerParts {
        meta: &meta,
        perf_data,
        rings: None,
        symbols: Some(&symbols),
        notes: Some(NOTES),
        extra: Vec::new(),
    };
    write_container(&path, parts).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A Windows trace whose names and payloads are hostile: samples, a mark, a window that did not
/// answer.
fn windows(folder: &Path) -> String {
    let mut writer = Writer::new(Options { cpus: 1, ..Options::default() });
    let (pid, tid, base) = (100, 200, 0x7ff6_0000_0000);
    writer.kernel(0, 0, &KernelEvent::SampleInterval { first: true, units: 10_000 });
    let process =
        Process { pid, parent: 4, image: "ev\x1bil.exe", command_line: "evil.exe \u{202e}\nnext" };
    writer.kernel(0, 0, &KernelEvent::Process(Rundown::First, process));
    writer.kernel(
        0,
        0,
        &KernelEvent::Thread(Rundown::First, ThreadFacts { pid, tid, name: Some(NAME) }, (4, 8)),
    );
    let image = Image { base, size: 0x10_0000, pid, timestamp: 1, path: PATH };
    writer.kernel(0, 0, &KernelEvent::Image(Rundown::First, image));
    for sample in 0..2_000 {
        writer.kernel(
            0,
            1_000_000 * (sample + 1),
            &KernelEvent::Sample { instruction: base + 0x1010, tid, in_dpc: false },
        );
    }
    uiforetw::mark(&mut writer, 0, 2_000_000_000, (pid, tid), "mark\x1b[2J\nnext\u{2067}");
    let delay = win32k::Delay {
        delay_ms: 1_500,
        window: Some(("Class\x1b[5m\nnext", "C:\\\x07evil.exe")),
        ..win32k::Delay::default()
    };
    win32k::message_check_delay(&mut writer, 0, 2_000_000_000, (pid, tid), &delay);
    let path = folder.join("hostile.etl");
    fs::write(&path, writer.finish()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn no_name_of_a_trace_reaches_a_terminal_unescaped() {
    let folder = tempfile::tempdir().unwrap();
    // The name of the file was also chosen by somebody else.
    let odd = folder.path().join("fold\x1b[2Jer\n\u{202e}");
    fs::create_dir(&odd).unwrap();
    for trace in [linux(&odd), windows(&odd), odd.join("raw.data").to_str().unwrap().to_owned()] {
        let trace = trace.as_str();
        for table in TABLES {
            harmless(&["table", trace, table]);
            harmless(&["table", trace, table, "--wide", "--by", "none", "--show", "all"]);
            for json in ["--json", "--csv"] {
                assert!(unhitch(&["table", trace, table, json]).output().unwrap().status.success());
            }
        }
        harmless(&["diff", trace, trace]);
        harmless(&["why", trace, "--in-progress"]);
        // Fails on purpose (exit code 5), and says on what.
        harmless(&["why", trace, "--fail-on", "stall > 1ms"]);
        for format in ["folded", "perfetto"] {
            let exported = odd.join(format);
            harmless(&["export", trace, "--to", format, "-o", exported.to_str().unwrap()]);
        }
        let svg = folder.path().join("stall.svg");
        let svg = svg.to_str().unwrap();
        harmless(&["info", trace]);
        harmless(&["why", trace, "--top", "10", "--svg", svg]);
        harmless(&[
            "why", trace, "--victim", SHOWN, "--from", "0.1s", "--to", "1.4s", "--svg", svg,
        ]);
        let drawn = fs::read_to_string(svg).unwrap();
        assert!(!drawn.chars().any(|c| c != '\n' && is_control(c)), "{drawn:?}");
        harmless(&["waits", trace]);
        harmless(&["hot", trace]);
        harmless(&["hot", trace, "--function", "paint"]);
        harmless(&["hot", trace, "--function", "b\u{2066}.so+0x200"]);
        for of in ["wait", "wake", "sample"] {
            harmless(&["callers", trace, "--of", of]);
            harmless(&["callees", trace, "paint", "--of", of]);
            harmless(&["callers", trace, "--of", of, "--by", "module"]);
        }
        let report = folder.path().join("report.html");
        harmless(&["report", trace, "-o", report.to_str().unwrap()]);
        let report = fs::read_to_string(report).unwrap();
        assert!(!report.chars().any(|c| c != '\n' && is_control(c)), "{report:?}");
    }
    // Errors: for missing files, files that are not traces, and invalid arguments.
    let (absent, junk) = (odd.join("\x1bnot\nthere"), odd.join("ju\u{202e}nk\n"));
    fs::write(&junk, "no trace\x1b\n").unwrap();
    for file in [absent, junk] {
        let file = file.to_str().unwrap();
        for words in [
            &["info", file][..],
            &["info", file, file],
            &["table", file, file],
            &["report", file],
            &["view", file, "--with", file],
        ] {
            harmless(words);
        }
    }
}

#[test]
fn a_row_is_a_line_and_programs_get_unescaped_names() {
    let folder = tempfile::tempdir().unwrap();
    let trace = linux(folder.path());
    let words = ["table", &trace, "threads", "--show", "tid,thread,process", "--sort", "tid:asc"];
    let text = harmless(&words);
    let rows: Vec<&str> = text.lines().take(3).collect();
    assert_eq!(rows[1], format!("100  {SHOWN}  {SHOWN}"), "{text}");
    assert_eq!(rows[2], r"200  p\r\x07\x9b5n\x7f    p\r\x07\x9b5n\x7f", "{text}");
    let notes = harmless(&["info", &trace]);
    assert!(notes.contains("notes       first\\x1b[2J line\\nsecond\\u{200f}\n"), "{notes}");
    assert!(
        harmless(&["table", &trace, "waits", "--wide"])
            .contains(r"wait\x1b[31m_for\n_paint\u{2028}")
    );

    let json = |words: &[&str]| {
        let out = lossy(&unhitch(&[words, &["--json"]].concat()).output().unwrap().stdout);
        assert!(
            !out.chars().any(|c| c != '\n' && is_control(c)),
            "JSON has a way of its own to write them: {out:?}"
        );
        serde_json::from_str::<Value>(&out).unwrap()
    };
    let rows = json(&words)["rows"].clone();
    assert_eq!((&rows[0]["thread"], &rows[1]["process"]), (&NAME.into(), &OTHER.into()), "{rows}");
    assert_eq!(json(&["info", &trace])["notes"], NOTES);
    let csv = lossy(&unhitch(&[&words[..], &["--csv"]].concat()).output().unwrap().stdout);
    assert!(
        csv.starts_with(&format!("tid,thread,process\r\n100,\"{NAME}\",\"{NAME}\"\r\n")),
        "{csv:?}"
    );
    // A name can be selected as recorded and as printed.
    for name in [NAME, SHOWN] {
        for format in ["--json", "--top=20"] {
            let filter = format!("thread = '{name}'");
            let out = lossy(
                &unhitch(&["table", &trace, "threads", "--where", &filter, format])
                    .output()
                    .unwrap()
                    .stdout,
            );
            assert!(
                out.contains("100") && !out.contains("\n200") && !out.contains("\"tid\":200"),
                "{name:?} {format}: {out}"
            );
        }
    }
}

/// A thread of this process with that name, until the test ends.
fn live_thread<R>(test: impl FnOnce() -> R) -> R {
    let stop = AtomicBool::new(false);
    let (named, is_named) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        // A thread takes its name before it does anything else.
        let tick = || {
            named.send(()).unwrap();
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        };
        std::thread::Builder::new().name(NAME.to_owned()).spawn_scoped(scope, tick).unwrap();
        is_named.recv().unwrap();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test));
        stop.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(target_os = "linux")]
#[test]
fn live_a_thread_that_names_itself_with_escapes() {
    live_thread(|| {
        let pid = std::process::id().to_string();
        let text = harmless(&["threads", &pid]);
        assert!(text.lines().any(|line| line.contains(SHOWN)), "{text}");
        harmless(&["scan", &pid]);
        harmless(&["scan", "\x1bno such\nprogram"]);

        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("live.hitch");
        let trace = trace.to_str().unwrap();
        let recorded =
            unhitch(&["record", "--for", "300ms", "--buffer", "4M", "-o", trace]).output().unwrap();
        if !recorded.status.success() {
            let why = lossy(&recorded.stderr).replace('\n', " ");
            eprintln!("SKIPPED live_a_thread_that_names_itself_with_escapes (recording): {why}");
            return;
        }
        assert!(!lossy(&recorded.stderr).chars().any(|c| c != '\n' && is_control(c)));
        let text = harmless(&[
            "table",
            trace,
            "threads",
            "--where",
            &format!("thread = '{SHOWN}'"),
            "--show",
            "pid,thread",
        ]);
        assert!(text.contains(&pid) && text.contains(SHOWN), "{text}");
        for words in [
            &["why", trace][..],
            &["why", trace, "--victim", SHOWN, "--from", "0.05"],
            &["waits", trace],
            &["info", trace],
        ] {
            harmless(words);
        }
    });
}

const STARVE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/starve.hitch");

/// A table fitted to `columns` columns, and its number of rows.
fn table(words: &[&str], columns: Option<usize>) -> (String, usize) {
    let words = [&["table", STARVE][..], words].concat();
    let mut command = unhitch(&words);
    command.envs(columns.map(|columns| ("COLUMNS", columns.to_string())));
    let text = lossy(&command.output().unwrap().stdout);
    let json = unhitch(&[&words[..], &["--json"]].concat()).output().unwrap().stdout;
    let total = serde_json::from_slice::<Value>(&json).unwrap()["total_rows"].as_u64().unwrap();
    (text, total.min(20) as usize)
}

#[test]
fn a_table_is_as_wide_as_the_terminal() {
    for name in TABLES {
        for columns in [40, 80, 120, 200] {
            for words in
                [&[name][..], &[name, "--by", "none"], &[name, "--by", "none", "--show", "all"]]
            {
                let (text, rows) = table(words, Some(columns));
                if rows > 0 {
                    let widest =
                        text.lines().take(rows + 1).map(|line| line.chars().count()).max().unwrap();
                    assert!(widest <= columns, "{words:?}: {widest} of {columns}\n{text}");
                }
            }
        }
    }
}

#[test]
fn a_cut_is_reported_and_keeps_rows_apart() {
    let words = ["samples", "--by", "function", "--show", "count"];
    let rows = |(text, rows): (String, usize)| {
        text.lines().skip(1).take(rows).map(str::to_owned).collect::<Vec<String>>()
    };
    let (whole, narrow) = (rows(table(&words, None)), rows(table(&words, Some(24))));
    let distinct = |rows: &[String]| rows.iter().collect::<BTreeSet<_>>().len();
    assert!(
        whole.len() > 5 && whole.iter().all(|row| !row.contains('…')),
        "nothing is cut for a pipe: {whole:?}"
    );
    assert!(narrow.iter().any(|row| row.contains('…')), "{narrow:?}");
    assert_eq!(distinct(&whole), distinct(&narrow), "{narrow:?}");
    let (narrow, _) = table(&["switches", "--top", "1"], Some(40));
    assert!(
        narrow.contains("Too narrow for: ") && narrow.contains("(--wide shows all)"),
        "{narrow}"
    );
    // Whole stacks, whatever the width.
    let wide = lossy(
        &unhitch(&["table", STARVE, "waits", "--wide"])
            .env("COLUMNS", "40")
            .output()
            .unwrap()
            .stdout,
    );
    assert!(
        !wide.lines().take(5).any(|line| line.contains('…'))
            && wide.lines().any(|line| line.chars().count() > 120),
        "{wide}"
    );
}

#[test]
fn the_help_lists_every_table() {
    let help = lossy(&unhitch(&["table", "--help"]).output().unwrap().stdout);
    for table in unhitch_analysis::table::TABLES {
        let entry = format!("- {}:", table.word);
        assert!(help.contains(&entry), "{entry} {help}");
    }
}

/// Without `COLUMNS`, a table is as wide as the terminal that it is printed to.
#[cfg(target_os = "linux")]
#[test]
fn a_table_fits_the_terminal_that_it_is_printed_to() {
    // `script` runs a command on a terminal of its own, whose width `stty` sets.
    let width = |columns: usize| {
        let program = env!("CARGO_BIN_EXE_unhitch");
        let command = format!("stty rows 24 cols {columns}; '{program}' table '{STARVE}' switches");
        let output = Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .env_remove("COLUMNS")
            .stdin(std::process::Stdio::null())
            .output();
        match output {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            output => {
                let text = lossy(&output.unwrap().stdout);
                let rows = text.lines().take(20).map(|line| line.trim_end().chars().count());
                Some(rows.max().unwrap_or_default())
            }
        }
    };
    let (Some(narrow), Some(wide)) = (width(60), width(160)) else {
        eprintln!("SKIPPED a_table_fits_the_terminal_that_it_is_printed_to: there is no script");
        return;
    };
    assert!(narrow <= 60 && narrow > 40, "{narrow}");
    assert!(wide <= 160 && wide > 100, "{wide}");
}

#[test]
fn the_documentation_lists_every_table() {
    let page =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tables.md")).unwrap();
    for table in unhitch_analysis::table::TABLES {
        assert!(
            page.contains(&format!("\n| `{}` | ", table.word)),
            "{} in docs/tables.md",
            table.word
        );
    }
    assert_eq!(
        TABLES.map(str::to_owned).to_vec(),
        unhitch_analysis::table::TABLES.iter().map(|table| table.word).collect::<Vec<_>>()
    );
}
