//! `unhitch diff` of real recordings: the lab's `long-hold` with a slow and a fast search, and of a
//! recording with itself.
#![cfg(target_os = "linux")]

use std::io::{Write, stderr};
use std::path::Path;
use std::process::{Command, Output};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/starve.hitch");

fn unhitch(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_unhitch")).args(words).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_recording_does_not_differ_from_itself() {
    let output = unhitch(&["diff", EXAMPLE, EXAMPLE]);
    let text = stdout(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.starts_with("NO DIFFERENCE ABOVE NOISE"), "{text}");
    assert!(text.contains("The chain is the same"), "{text}");
    assert!(text.contains("NOISE  not measured"), "{text}");
}

#[test]
fn folders_hold_recordings_and_nothing_else_counts() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other, empty] = ["one", "other", "empty"].map(|name| folder.path().join(name));
    for folder in [&one, &other, &empty] {
        std::fs::create_dir(folder).unwrap();
    }
    for name in ["a", "b", "c"] {
        for folder in [&one, &other] {
            std::fs::copy(EXAMPLE, folder.join(format!("{name}.hitch"))).unwrap();
        }
    }
    std::fs::write(one.join("notes.txt"), "not a recording").unwrap();
    let words = |path: &Path| path.to_str().unwrap().to_owned();
    let output = unhitch(&["diff", &words(&one), &words(&other), "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["before"].as_array().unwrap().len(), 3);
    assert_eq!(json["stall"]["ranks"]["p"].as_f64(), Some(1.0));
    assert_eq!(json["is_noise"].as_bool(), Some(true));
    let output = unhitch(&["diff", &words(&one), &words(&empty)]);
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("there is no recording in this folder"), "{errors}");
}

/// Both numbers are measured: the lab says how long the lock was held, we say by how much less.
#[test]
fn live_a_faster_search_is_named_with_its_function_and_its_milliseconds() {
    let test = "live_a_faster_search_is_named_with_its_function_and_its_milliseconds";
    let folder = tempfile::tempdir().unwrap();
    let record = |way: &str| {
        let trace = folder.path().join(format!("{way}.hitch")).to_str().unwrap().to_owned();
        let words = ["lab", "long-hold", "--record", "--search", way, "-o", &trace];
        (unhitch(&words), trace)
    };
    let (output, slow) = record("bit");
    if !Path::new(&slow).exists() {
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let why = errors.lines().next().unwrap_or_default();
        let _ = writeln!(stderr(), "SKIPPED {test}: {why}");
        return;
    }
    let (_, fast) = record("loop32");
    let output = unhitch(&["diff", &slow, &fast, "--victim", "ui", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let stall = &json["stall"];
    assert!(stall["before"]["function"].as_str().unwrap().contains("find_clear_run"), "{stall}");
    let ns = |value: &serde_json::Value| value.as_i64().unwrap();
    let parts = stall["partition"].as_array().unwrap();
    let sum: i64 = parts.iter().map(|part| ns(&part["difference_ns"])).sum();
    assert_eq!(sum, ns(&stall["difference_ns"]), "exactly");
    let lengths = |side: &str| ns(&stall[side]["duration_ns"]);
    assert_eq!(lengths("after") - lengths("before"), sum);
    let held = parts
        .iter()
        .find(|part| part["what"] == "lock" && part["who"]["thread"] == "checkpoint")
        .unwrap_or_else(|| panic!("{stall}"));
    assert!(ns(&held["difference_ns"]) < -100_000_000, "{held}");
}
