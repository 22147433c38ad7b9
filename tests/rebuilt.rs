//! A program that is built anew while it is recorded, or deleted before: each process's functions are
//! those of the build that it ran, or they have no names.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{Write, stderr};
use std::path::Path;
use std::process::{Command, Stdio};

fn skipped(reason: &str) {
    let _ = writeln!(stderr(), "SKIPPED programs that are built anew: {reason}");
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

/// Records a shell command; false if that is not possible here.
fn record(run: &str, trace: &Path) -> bool {
    let recorded = Command::new(env!("CARGO_BIN_EXE_unhitch"))
        .args(["record", "-o"])
        .arg(trace)
        .args(["--", "sh", "-c", run])
        .stdout(Stdio::null())
        .output()
        .unwrap();
    if !recorded.status.success() {
        skipped(&String::from_utf8_lossy(&recorded.stderr).replace('\n', " "));
    }
    recorded.status.success()
}

/// The thread and the stack of each sample of `program`.
fn samples(trace: &Path) -> Vec<(u64, String)> {
    let table = Command::new(env!("CARGO_BIN_EXE_unhitch"))
        .arg("table")
        .arg(trace)
        .args(["samples", "--where", "thread = program", "--json"])
        .output()
        .unwrap();
    let samples: serde_json::Value = serde_json::from_slice(&table.stdout).unwrap();
    let rows = samples["rows"].as_array().unwrap().iter();
    let mut samples: Vec<(u64, String)> =
        rows.map(|row| (row["tid"].as_u64().unwrap(), row["stack"].to_string())).collect();
    samples.sort();
    samples
}

#[test]
fn live_a_program_that_is_built_anew_is_named_by_its_own_build() {
    let folder = tempfile::tempdir_in("/var/lib").or_else(|_| tempfile::tempdir()).unwrap();
    let path = |name: &str| folder.path().join(name);
    let (program, new, trace) = (path("program"), path("new"), path("trace.hitch"));
    // The old one has ended, or still runs at the save: then the recorder reaches its file, too.
    for (first_ms, then) in [(300, ";"), (60_000, "2>/dev/null & echo $! >old;")] {
        if !build("first_build", first_ms, &program) || !build("second_build", 300, &new) {
            return skipped("there is no C compiler");
        }
        let run = format!(
            "cd {}; ./program {then} sleep 0.2; mv new program; ./program; sleep 1",
            folder.path().display()
        );
        let _ = fs::remove_file(&trace);
        let is_recorded = record(&run, &trace);
        let still_runs = fs::read_to_string(path("old")).is_ok_and(|pid| kill(&pid));
        if !is_recorded {
            return;
        }
        let samples = samples(&trace);
        let pids = [samples.first(), samples.last()].map(|of| of.expect("samples").0);
        if pids[0] == pids[1] {
            return skipped("only one process was sampled");
        }
        let named = |pid: u64| {
            ["first_build", "second_build"].map(|function| {
                samples.iter().any(|(of, stack)| *of == pid && stack.contains(function))
            })
        };
        assert_eq!(pids.map(named), [[still_runs, false], [false, true]]);
    }
}

fn kill(pid: &str) -> bool {
    let pid = pid.trim().parse().ok().and_then(rustix::process::Pid::from_raw);
    let kill = |pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    pid.is_some_and(|pid| kill(pid).is_ok())
}

/// As after the upgrade of a library.
#[test]
fn live_a_program_that_was_deleted_is_named_by_its_own_build() {
    let folder = tempfile::tempdir_in("/var/lib").or_else(|_| tempfile::tempdir()).unwrap();
    let path = |name: &str| folder.path().join(name);
    let (program, new, trace) = (path("program"), path("new"), path("trace.hitch"));
    if !build("first_build", 60_000, &program) || !build("second_build", 300, &new) {
        return skipped("there is no C compiler");
    }
    let mut old = Command::new(&program).spawn().unwrap();
    fs::remove_file(&program).unwrap();
    fs::rename(&new, &program).unwrap();
    let is_recorded = record("sleep 1", &trace);
    let _ = (old.kill(), old.wait());
    if is_recorded {
        let samples = samples(&trace);
        let of_it = || samples.iter().filter(|(tid, _)| *tid == u64::from(old.id()));
        let is_named = |function| of_it().any(|(_, stack)| stack.contains(function));
        assert_eq!((is_named("first_build"), is_named("second_build")), (true, false));
    }
}
