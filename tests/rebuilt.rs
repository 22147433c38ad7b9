//! A program that is built anew while it is recorded: each process's functions are those of the build
//! that it ran, or they have no names.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{Write, stderr};
use std::path::Path;
use std::process::{Command, Stdio};

const TEST: &str = "live_a_program_that_is_built_anew_is_named_by_its_own_build";

fn skipped(reason: &str) {
    let _ = writeln!(stderr(), "SKIPPED {TEST}: {reason}");
}

/// Builds a program that computes so long in a function of that name. Without a build id, nothing
/// else tells one build from the other.
fn build(function: &str, ms: u32, program: &Path) -> bool {
    let source = program.with_extension("c");
    let text = format!(
        "#include <time.h>\n\
         __attribute__((noinline)) void {function}(void) {{\n\
             while (clock() < {ms} * CLOCKS_PER_SEC / 1000) {{}}\n\
         }}\n\
         int main(void) {{ {function}(); return 0; }}\n"
    );
    fs::write(&source, text).unwrap();
    let built = Command::new("cc")
        .args(["-O1", "-Wl,--build-id=none", "-o"])
        .args([program, &source])
        .status();
    built.is_ok_and(|status| status.success())
}

#[test]
fn live_a_program_that_is_built_anew_is_named_by_its_own_build() {
    // The old one has ended, or it still runs when the new one has ended.
    for (first_ms, then) in [(300, ";"), (2_000, "&")] {
        each_is_named_by_its_own_build(first_ms, then);
    }
}

fn each_is_named_by_its_own_build(first_ms: u32, then: &str) {
    let folder = tempfile::tempdir_in("/var/lib").or_else(|_| tempfile::tempdir()).unwrap();
    let path = |name: &str| folder.path().join(name);
    let (program, new, trace) = (path("program"), path("new"), path("trace.hitch"));
    if !build("first_build", first_ms, &program) || !build("second_build", 300, &new) {
        return skipped("there is no C compiler");
    }
    let run = format!(
        "cd {}; ./program {then} sleep 0.2; mv new program; ./program",
        folder.path().display()
    );
    let recorded = Command::new(env!("CARGO_BIN_EXE_unhitch"))
        .args(["record", "-o"])
        .arg(&trace)
        .args(["--", "sh", "-c", &run])
        .stdout(Stdio::null())
        .output()
        .unwrap();
    if !recorded.status.success() {
        let said = String::from_utf8_lossy(&recorded.stderr).replace('\n', " ");
        return skipped(&said);
    }
    let table = Command::new(env!("CARGO_BIN_EXE_unhitch"))
        .args(["table"])
        .arg(&trace)
        .args(["samples", "--where", "thread = program", "--json"])
        .output()
        .unwrap();
    let samples: serde_json::Value = serde_json::from_slice(&table.stdout).unwrap();
    let mut of_processes: Vec<(u64, String)> = samples["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["tid"].as_u64().unwrap(), row["stack"].to_string()))
        .collect();
    of_processes.sort();
    let pids = [of_processes.first(), of_processes.last()].map(|of| of.expect("samples").0);
    if pids[0] == pids[1] {
        return skipped("only one process was sampled");
    }
    let has = |pid: u64, function: &str| {
        of_processes.iter().any(|(of, stack)| *of == pid && stack.contains(function))
    };
    let (first, second) = (pids[0], pids[1]);
    assert!(!has(first, "second_build"), "{of_processes:?}");
    assert!(has(second, "second_build") && !has(second, "first_build"), "{of_processes:?}");
}
