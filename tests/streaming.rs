//! `unhitch record` writes while it records: it holds the beginning however long it runs, and what
//! it has written opens whatever becomes of it. Where this kernel does not let an engine record, the
//! tests are skipped and print `SKIPPED name: reason` to stderr.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{Write, stderr};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;
use unhitch_model::{Time, Trace};

const ENGINES: [&str; 2] = ["perf", "bpf"];
/// The smallest ring of one CPU, which is also what the rings are asked to have.
const RING_BYTES: u64 = 256 << 10;

fn unhitch(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unhitch"));
    command.env_remove("COLUMNS").args(words);
    command
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// True if the machine lets this engine record.
fn permitted(test: &str, engine: &str, folder: &Path) -> bool {
    let path = folder.join(format!("try-{engine}.hitch"));
    let words = ["record", "--engine", engine, "--for", "10ms", "-o", path.to_str().unwrap()];
    let output = unhitch(&words).output().unwrap();
    if !output.status.success() {
        let errors = errors(&output);
        let reason = errors.lines().next().unwrap_or("it cannot record");
        let _ = writeln!(stderr(), "SKIPPED {test} by {engine}: {reason}");
    }
    output.status.success()
}

/// Processes that began while recording, by their names.
fn waits_of(trace: &Trace, name: &str) -> u64 {
    let is_named = |thread| trace.thread_name(thread, Time::MAX) == name;
    trace.switches.prev.iter().filter(|&&thread| is_named(thread)).count() as u64
}

#[test]
fn live_a_recording_that_is_longer_than_the_rings_holds_its_beginning() {
    let test = "live_a_recording_that_is_longer_than_the_rings_holds_its_beginning";
    let folder = tempfile::tempdir().unwrap();
    for engine in ENGINES {
        if !permitted(test, engine, folder.path()) {
            continue;
        }
        let mut turns = 50_000;
        loop {
            let path = folder.path().join(format!("{engine}-{turns}.hitch"));
            // A nap, which no other part of the command takes; then many switches.
            let load = format!(
                "sleep 0.03; head -c {turns} /dev/zero | dd bs=1 2>/dev/null | dd bs=1 2>/dev/null \
                 | cat > /dev/null"
            );
            let output = unhitch(&["record", "--engine", engine, "--buffer", "256K", "-o"])
                .arg(&path)
                .args(["--", "sh", "-c", &load])
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", errors(&output));
            let trace = unhitch_formats::open(&path).unwrap();
            let rings = RING_BYTES * u64::from(trace.meta.cpus.max(1));
            if fs::metadata(&path).unwrap().len() < 4 * rings && turns < 3_200_000 {
                turns *= 4;
                continue;
            }
            assert!(waits_of(&trace, "sleep") > 0, "{engine}: no beginning\n{}", errors(&output));
            assert!(waits_of(&trace, "dd") > 10 && waits_of(&trace, "cat") > 0, "{engine}: no end");
            assert!(!trace.meta.is_interrupted);
            break;
        }
    }
}

#[test]
fn live_what_a_killed_recorder_has_written_opens() {
    let test = "live_what_a_killed_recorder_has_written_opens";
    let folder = tempfile::tempdir().unwrap();
    for engine in ENGINES {
        if !permitted(test, engine, folder.path()) {
            continue;
        }
        let path = folder.path().join(format!("{engine}.hitch"));
        let trace = path.to_str().unwrap();
        let mut recorder = unhitch(&["record", "--engine", engine, "-o", trace]).spawn().unwrap();
        // It can be read while it grows.
        while unhitch_formats::open(&path).map_or(0, |trace| trace.switches.len()) < 500 {
            assert!(recorder.try_wait().unwrap().is_none(), "{engine}: it has ended");
            sleep(Duration::from_millis(20));
        }
        recorder.kill().unwrap();
        recorder.wait().unwrap();
        for (words, codes) in [
            (&["info", trace][..], &[0][..]),
            (&["why", trace], &[0, 3]),
            (&["table", trace, "switches"], &[0]),
            (&["waits", trace], &[0]),
        ] {
            let output = unhitch(words).output().unwrap();
            let code = output.status.code().unwrap_or(-1);
            let text =
                String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
            assert!(codes.contains(&code), "{words:?}: {code}\n{text}");
            assert!(
                words[0] != "info" || text.contains("the recording was interrupted"),
                "{words:?}\n{text}"
            );
        }
        let read = unhitch_formats::open(&path).unwrap();
        let recorded = |cpu: &unhitch_model::CpuSpan| cpu.window.duration_ns() > 0;
        assert!(read.meta.is_interrupted && read.spans.iter().all(recorded));
        // Function names come from this machine's kernel: without them, no wait is classified.
        let words = ["table", trace, "switches", "--by", "none", "--json"];
        let words = [&words[..], &["--where", "wait stack ~ do_"]].concat();
        let table = unhitch(&words).output().unwrap();
        let table: serde_json::Value = serde_json::from_slice(&table.stdout).unwrap();
        let kallsyms = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        let has_names = kallsyms.lines().any(|line| !line.starts_with("0000000000000000"));
        assert!(!has_names || table["total_rows"].as_u64() > Some(0), "{engine}: {table}");
    }
}

/// Killed before anything is written, while it starts, or after a few blocks: there is no file, or
/// it opens, and says that it was interrupted.
#[test]
fn live_a_recorder_can_be_killed_at_any_moment() {
    let test = "live_a_recorder_can_be_killed_at_any_moment";
    let folder = tempfile::tempdir().unwrap();
    for engine in ENGINES {
        if !permitted(test, engine, folder.path()) {
            continue;
        }
        let mut opened = 0;
        for attempt in 0..12 {
            let path = folder.path().join(format!("{engine}-{attempt}.hitch"));
            let trace = path.to_str().unwrap();
            let mut command = unhitch(&["record", "--engine", engine, "-o", trace]);
            let mut recorder = command.stderr(Stdio::null()).spawn().unwrap();
            if attempt >= 6 {
                // There is a file; BPF takes longest to begin, on a busy machine above all.
                while !path.exists() {
                    assert!(recorder.try_wait().unwrap().is_none(), "{engine}: it has ended");
                    sleep(Duration::from_millis(1));
                }
            }
            sleep(Duration::from_millis(attempt % 6 * 40));
            recorder.kill().unwrap();
            recorder.wait().unwrap();
            if path.exists() {
                let output = unhitch(&["info", trace]).output().unwrap();
                let text = String::from_utf8_lossy(&output.stdout);
                let said = errors(&output);
                assert!(output.status.success(), "{engine}, {attempt}: {said}");
                assert!(text.contains("the recording was interrupted"), "{text}\n{said}");
                opened += 1;
            }
        }
        assert!(opened >= 5, "{engine}: {opened}");
    }
}

/// What a command writes to its terminal.
fn on_terminal(command: &str) -> Option<String> {
    let output = Command::new("script").args(["-qec", command, "/dev/null"]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn live_a_line_on_the_terminal_shows_how_far_a_recording_is() {
    let test = "live_a_line_on_the_terminal_shows_how_far_a_recording_is";
    let folder = tempfile::tempdir().unwrap();
    for engine in ENGINES {
        if !permitted(test, engine, folder.path()) {
            continue;
        }
        let path = folder.path().join(format!("{engine}.hitch"));
        let unhitch = env!("CARGO_BIN_EXE_unhitch");
        let command = format!("{unhitch} record --engine {engine} --for 3s -o {}", path.display());
        let Some(shown) = on_terminal(&command) else {
            let _ = writeln!(stderr(), "SKIPPED {test}: `script` gives no terminal");
            return;
        };
        let lines = shown.split(['\r', '\n']).filter_map(|line| line.split_once("recording: "));
        // `1.2 s, 3,456 events, 0.7 MiB, none lost`
        let read = |line: &str| -> Option<[f64; 3]> {
            let (seconds, rest) = line.split_once(" s, ")?;
            let (events, rest) = rest.split_once(" events, ")?;
            let (mebibytes, lost) = rest.split_once(" MiB, ")?;
            assert!(lost.contains("lost"), "{line}");
            let number = |text: &str| text.replace(',', "").parse().ok();
            Some([number(seconds)?, number(events)?, number(mebibytes)?])
        };
        let read: Vec<[f64; 3]> = lines.filter_map(|(_, line)| read(line)).collect();
        assert!(read.len() >= 2, "{engine}: {shown:?}");
        let grows = |at: usize| read.windows(2).all(|pair| pair[0][at] <= pair[1][at]);
        assert!(grows(0) && grows(1) && grows(2), "{engine}: {read:?}");
        let [seconds, events, mebibytes] = *read.last().unwrap();
        assert!((1.0..=30.0).contains(&seconds) && events > 0.0, "{engine}: {read:?}");
        // What is said last is nearly all that is there, but for names, which come after it.
        let written = fs::metadata(&path).unwrap().len() as f64 / f64::from(1 << 20);
        assert!(mebibytes <= written + 0.1, "{engine}: {mebibytes} MiB of {written}");
    }
}

#[test]
fn live_a_recording_ends_at_its_maximum_size() {
    let test = "live_a_recording_ends_at_its_maximum_size";
    let folder = tempfile::tempdir().unwrap();
    for engine in ENGINES {
        if !permitted(test, engine, folder.path()) {
            continue;
        }
        let path = folder.path().join(format!("{engine}.hitch"));
        let words = ["record", "--engine", engine, "--max-size", "200K", "--rate", "2000", "-o"];
        let output = unhitch(&words).arg(&path).output().unwrap();
        assert!(output.status.success(), "{}", errors(&output));
        let errors = errors(&output);
        assert_eq!(
            errors.matches("the trace has reached 200 KiB (--max-size)").count(),
            1,
            "{errors}"
        );
        let trace = unhitch_formats::open(&path).unwrap();
        assert!(!trace.meta.is_interrupted && !trace.switches.is_empty());
        let warnings: Vec<String> = trace.warnings.lines().collect();
        assert!(warnings.iter().any(|line| line.contains("--max-size")), "{warnings:?}");
    }
}

#[test]
fn live_a_recorded_command_is_told_with_what_its_time_went_to() {
    let test = "live_a_recorded_command_is_told_with_what_its_time_went_to";
    let folder = tempfile::tempdir().unwrap();
    for engine in ENGINES {
        if !permitted(test, engine, folder.path()) {
            continue;
        }
        let path = folder.path().join(format!("{engine}.hitch"));
        let output = unhitch(&["record", "--engine", engine, "-o", path.to_str().unwrap()])
            .args(["--", "sleep", "0.5"])
            .output()
            .unwrap();
        let said = errors(&output);
        assert!(output.status.success(), "{engine}: {said}");
        let took = said.lines().find(|line| line.contains(" took ")).unwrap_or_default();
        assert!(
            took.starts_with("sleep ") && took.contains(" asleep by its own timer"),
            "{engine}: {said}"
        );
    }
}
