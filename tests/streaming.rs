//! `unhitch record` writes while it records: it holds the beginning however long it runs, and what
//! it has written opens whatever becomes of it. Where this kernel does not let an engine record, the
//! tests are skipped and print `SKIPPED name: reason` to stderr.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{Write, stderr};
use std::path::Path;
use std::process::{Command, Output};
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
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{engine}: {text}{}", errors(&output));
        let took = text.lines().find(|line| line.contains(" took ")).unwrap_or_default();
        assert!(
            took.starts_with("sleep ") && took.contains(" asleep by its own timer"),
            "{engine}: {text}{}",
            errors(&output)
        );
    }
}
