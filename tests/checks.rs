//! `--fail-on`: exit codes, JUnit's XML and annotations, of a trace that is there and of a command
//! that hangs.
#![cfg(target_os = "linux")]

use std::io::{Write, stderr};
use std::path::Path;
use std::process::{Command, Output};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/starve.hitch");

fn unhitch(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_unhitch")).args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_condition_that_holds_is_exit_code_5() {
    let code = |condition: &str| {
        let output = unhitch(&["why", EXAMPLE, "--fail-on", condition]);
        (output.status.code(), text(&output.stdout))
    };
    let holds = [
        "stall > 1.5s",
        "pattern = lock_starvation",
        "victim = typing and stall > 1s",
        "culprit = inspector",
        "pattern != deadlock",
    ];
    for condition in holds {
        let (code, said) = code(condition);
        assert_eq!(code, Some(5), "{condition}");
        assert!(said.contains(&format!("FAILED  {condition}: typing 29968")), "{said}");
    }
    for condition in ["stall > 1.7s", "pattern = lock_convoy", "victim = inspector"] {
        let (code, said) = code(condition);
        assert_eq!(code, Some(0), "{condition}");
        assert!(said.contains(&format!("PASSED  {condition}: no stall")), "{said}");
    }
    let (code, _) = code("stall > soon");
    assert_eq!(code, Some(2), "wrong usage");
}

#[test]
fn the_outcome_is_written_for_machines() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.xml");
    let junit = file.to_str().unwrap();
    let conditions = ["--fail-on", "stall > 1s", "--fail-on", "pattern = deadlock"];
    let words = [&["why", EXAMPLE, "--github", "--junit", junit][..], &conditions].concat();
    let output = unhitch(&words);
    assert_eq!(output.status.code(), Some(5));
    let said = text(&output.stdout);
    let annotation =
        "::error title=unhitch%3A stall > 1s::typing 29968 (lab-starve 29967) hung for";
    assert!(said.lines().any(|line| line.starts_with(annotation)), "{said}");
    assert_eq!(said.matches("::error").count(), 1, "{said}");
    let xml = std::fs::read_to_string(&file).unwrap();
    assert!(xml.contains("<testsuite name=\"unhitch\" tests=\"2\" failures=\"1\">"), "{xml}");
    assert!(xml.contains("lock starvation (unfair lock)") && xml.contains("HANG 1.600 s"), "{xml}");
    let python = "import sys, xml.dom.minidom as m; m.parse(sys.argv[1])";
    if let Ok(status) = Command::new("python3").args(["-c", python, junit]).status() {
        assert!(status.success(), "{xml}");
    }
}

/// A command whose threads wait a second for its own lock, and one that does not; and a command
/// that fails.
#[test]
fn live_a_command_is_judged() {
    let test = "live_a_command_is_judged";
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let record = |name: &str, condition: &str, command: &[&str]| {
        let (trace, report) = (path(name), path(&format!("{name}.html")));
        let words = ["record", "--fail-on", condition, "--report", &report, "-o", &trace, "--"];
        unhitch(&[&words[..], command].concat())
    };
    let program = env!("CARGO_BIN_EXE_unhitch");
    let hang = [program, "lab", "long-hold", "--seconds", "3"];
    let output = record("hang.hitch", "stall > 500ms", &hang);
    if !Path::new(&path("hang.hitch")).exists() {
        let why = text(&output.stderr).lines().next().unwrap_or_default().to_owned();
        let _ = writeln!(stderr(), "SKIPPED {test}: {why}");
        return;
    }
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("FAILED  stall > 500ms"), "{said}");
    let report = std::fs::read_to_string(path("hang.hitch.html")).unwrap();
    assert!(report.contains("<html"), "the report is kept");

    let output = record("quiet.hitch", "stall > 20s", &["sleep", "0.2"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let output = record("fails.hitch", "stall > 20s", &["sh", "-c", "sleep 0.1; exit 3"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("exit status: 3"));
    for (ending, code) in [("exit 3", 3), ("exit 0", 0), ("kill -TERM $$", 128 + 15)] {
        let output =
            unhitch(&["record", "-o", &path(&format!("{code}.hitch")), "--", "sh", "-c", ending]);
        assert_eq!(output.status.code(), Some(code), "{ending}: {}", text(&output.stderr));
    }
}
