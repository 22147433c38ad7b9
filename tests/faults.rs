//! What goes wrong with a recording by BPF: each fault is named once, performance events record
//! where they can, and what was recorded opens. Needs root; where a fault cannot be made, the test
//! is skipped and prints `SKIPPED name: reason` to stderr.
//!
//! Others: a full disk (`full_disk.rs`), mappings of another user (`hostile`), a verifier that refuses and
//! programs that cannot be attached (`crates/record`), lockdown (`tools/test-kernels`).
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Write, stderr};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use unhitch_model::{FrameId, KeptWait, ModuleKind, ThreadId, Time, Trace};
use unhitch_record::{EngineChoice, Options, Recorder};

/// `clock_nanosleep(2)` on x86-64.
const SYS_CLOCK_NANOSLEEP: u16 = 230;
const UNHITCH: &str = env!("CARGO_BIN_EXE_unhitch");

/// True if BPF records here: only then can it be kept from it.
fn has_bpf(test: &str) -> bool {
    let mut options = Options::default();
    options.engine = EngineChoice::Bpf;
    match Recorder::start(&options) {
        Ok(_) => true,
        Err(error) => {
            skipped(test, &error);
            false
        }
    }
}

fn skipped(test: &str, reason: &dyn std::fmt::Display) {
    let _ = writeln!(stderr(), "SKIPPED {test}: {reason}");
}

/// The outputs of `prelude` followed by a recording by `engine`; `None` if the prelude is not
/// possible here.
fn record_after(test: &str, prelude: &[&str], engine: &str, path: &Path) -> Option<Output> {
    let (program, arguments) = prelude.split_first().unwrap();
    let script = "[ \"$1\" = . ] || exec \"$@\"";
    let run = |last: &[&str]| {
        Command::new(program).args(arguments).args(["sh", "-c", script, "sh"]).args(last).output()
    };
    match run(&["."]) {
        Ok(out) if out.status.success() => {}
        Ok(out) => {
            skipped(test, &String::from_utf8_lossy(&out.stderr));
            return None;
        }
        Err(error) => {
            skipped(test, &format!("{program}: {error}"));
            return None;
        }
    }
    let path = path.to_str().unwrap();
    let command = ["--", "sleep", "0.2"];
    let recorder = [UNHITCH, "record", "--engine", engine, "-o", path];
    Some(run(&[&recorder[..], &command[..]].concat()).unwrap())
}

fn messages(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// What recorded the trace, by its `meta.json`.
fn engine_of(path: &Path) -> String {
    let file = std::fs::File::open(path).unwrap();
    let mut archive = zip::ZipArchive::new(file).unwrap();
    let meta: serde_json::Value =
        serde_json::from_reader(archive.by_name("meta.json").unwrap()).unwrap();
    meta["recorder"]["engine"].as_str().unwrap().to_owned()
}

fn open(path: &Path) -> Trace {
    let trace = unhitch_formats::open(path).unwrap();
    assert!(!trace.switches.time.is_empty());
    trace
}

/// With `--engine auto`, performance events record, and one warning, also in the trace, says why
/// (`reason`) and what helps (`remedy`). With `--engine bpf`, the same is an error.
fn falls_back(test: &str, prelude: &[&str], reason: &str, remedy: &str) {
    if !has_bpf(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("auto.hitch");
    let Some(out) = record_after(test, prelude, "auto", &path) else { return };
    let said = messages(&out);
    assert!(out.status.success(), "{said}");
    let warnings: Vec<&str> = said.lines().filter(|line| line.contains("BPF cannot")).collect();
    assert!(
        matches!(warnings[..], [one] if one.contains(reason) && one.contains(remedy)),
        "{said}"
    );
    assert_eq!(engine_of(&path), "perf");
    assert!(open(&path).warnings.lines().any(|warning| warning.contains(reason)));

    let path = folder.path().join("bpf.hitch");
    let out = record_after(test, prelude, "bpf", &path).unwrap();
    let said = messages(&out);
    assert!(!out.status.success() && !path.exists(), "{said}");
    assert_eq!(said.matches(reason).count(), 1, "{said}");
    assert!(said.contains(remedy) && said.contains("--engine perf"), "{said}");
}

#[test]
fn live_without_type_information_performance_events_record() {
    let hide = "mount -t tmpfs tmpfs /sys/kernel/btf && exec \"$@\"";
    falls_back(
        "live_without_type_information_performance_events_record",
        &["unshare", "--mount", "sh", "-c", hide, "sh"],
        "/sys/kernel/btf/vmlinux is missing",
        "CONFIG_DEBUG_INFO_BTF",
    );
}

#[test]
fn live_without_cap_bpf_performance_events_record() {
    falls_back(
        "live_without_cap_bpf_performance_events_record",
        &["capsh", "--drop=cap_bpf,cap_sys_admin", "--", "-c", "exec \"$@\"", "sh"],
        "does not have CAP_BPF",
        "setcap",
    );
}

/// No memory may be locked, and none of the capabilities that lift this limit is there.
#[test]
fn live_a_limit_of_locked_memory_does_not_keep_bpf_from_recording() {
    let test = "live_a_limit_of_locked_memory_does_not_keep_bpf_from_recording";
    if !has_bpf(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limited.hitch");
    let limit = "ulimit -l 0 && exec \"$@\"";
    let drop = "--drop=cap_ipc_lock,cap_sys_admin,cap_sys_resource";
    let prelude = ["capsh", drop, "--", "-c", limit, "sh"];
    let Some(out) = record_after(test, &prelude, "bpf", &path) else { return };
    assert!(out.status.success(), "{}", messages(&out));
    assert_eq!(engine_of(&path), "bpf");
    open(&path);
}

/// Their stacks are wanted when they wait, and their mappings are read when they may be gone.
#[test]
fn live_processes_that_die_while_their_tables_are_read_are_left_out() {
    let test = "live_processes_that_die_while_their_tables_are_read_are_left_out";
    if !has_bpf(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dying.hitch");
    let die = "i=0; while [ $i -lt 300 ]; do sleep 0.002 & i=$((i + 1)); done; wait";
    let out = Command::new(UNHITCH)
        .args(["record", "--engine", "bpf", "--stack-budget", "0", "-o"])
        .arg(&path)
        .args(["--", "sh", "-c", die])
        .output()
        .unwrap();
    let said = messages(&out);
    assert!(out.status.success(), "{said}");
    assert!(!said.contains("/proc"), "{said}");
    let trace = open(&path);
    let threads = (0..trace.threads.len() as u32).map(ThreadId);
    let dead = threads.filter(|&thread| trace.thread_name(thread, Time::MAX) == "sleep");
    assert!(dead.count() >= 300, "{said}");
}

/// A program that maps 10,000 times the code of a file, in vain, and then naps.
const MANY_MAPPINGS: &str = r#"
import mmap, sys, time
file = open(sys.argv[1], 'rb')
maps = [mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
    for _ in range(10000)]
print('mapped', flush=True)
for _ in range(4000): time.sleep(.005)
"#;

/// The kernel's part can search 511 mappings of a process: those of the program and its libraries
/// must be among them.
#[test]
fn live_10000_mappings_do_not_cost_the_stacks_of_a_program() {
    let test = "live_10000_mappings_do_not_cost_the_stacks_of_a_program";
    if !has_bpf(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (path, mapped) = (folder.path().join("mapped.hitch"), folder.path().join("mapped"));
    std::fs::copy("/bin/true", &mapped).unwrap();
    let mut program = Command::new("/usr/bin/python3")
        .args(["-c", MANY_MAPPINGS])
        .arg(&mapped)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let out = Command::new(UNHITCH)
        .args(["record", "--engine", "bpf", "--stack-budget", "0", "--for", "3s", "-o"])
        .arg(&path)
        .output()
        .unwrap();
    program.kill().unwrap();
    program.wait().unwrap();
    let said = messages(&out);
    assert!(out.status.success(), "{said}");
    assert_eq!(said.matches("no room for the unwind tables of").count(), 1, "{said}");
    if !said.contains("no room for the unwind tables of 1 program") {
        return skipped(test, &"other programs of this machine take the room for unwind tables");
    }
    let trace = open(&path);
    let naps = trace.kept_waits.iter().filter(|wait| {
        wait.syscall == Some(SYS_CLOCK_NANOSLEEP)
            && trace.thread_name(wait.thread, Time::MAX) == "python3"
    });
    let stack_of = |wait: &KeptWait| {
        let switches = &trace.switches;
        let is_its =
            |at: &usize| switches.prev[*at] == wait.thread && switches.time[*at] == wait.time;
        (0..switches.len()).find(is_its).map(|at| trace.stacks.user_frames(switches.stack[at]))
    };
    let is_cut = |frame: &FrameId| {
        let module = trace.stacks.frame(*frame).and_then(|frame| trace.modules.get(frame.module));
        module.is_some_and(|module| module.kind == ModuleKind::Cut)
    };
    let stacks: Vec<&[FrameId]> =
        naps.filter_map(stack_of).filter(|user| !user.is_empty()).collect();
    // The first ones are from before its mappings were read.
    let last: Vec<&&[FrameId]> = stacks.iter().rev().take(10).collect();
    let whole = last.iter().filter(|user| !user.iter().any(is_cut)).count();
    assert!(whole >= 9, "{whole} of the last {} stacks: {said}", last.len());
}
