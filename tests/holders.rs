//! Where the thread that ended a wait for a lock is not the one that held it for long, the answer
//! names the one that did. A program of its own makes each case, and knows who held what and when.
//! Without BPF or a C compiler, that is printed as `SKIPPED`.
#![cfg(target_os = "linux")]

use serde_json::Value;
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};
use unhitch_analysis::{Analysis, Rules, Segment};
use unhitch_model::{ThreadId, Time, Trace, Window};

const SOURCE: &str = include_str!("holders.c");
/// How often a case is tried: which waiter gets a mutex is for the scheduler to say.
const TRIES: usize = 20;
/// What `record` says if another thread got the mutex than was planned: the code of `holders.c`.
const OTHERWISE: &str = "the command ended with exit status: 3";
/// `futex(2)` on x86-64.
const SYS_FUTEX: u16 = 202;
/// For how long the holder holds, and the thread that ends the wait, both in milliseconds.
const HELD_MS: u64 = 300;
const PASSED_ON_MS: u64 = 20;

/// Each recording is of the whole machine: tests run one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unhitch(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_unhitch")).args(words).output().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Compiles the program; nothing without a compiler.
fn compiled(test: &str, folder: &Path) -> Option<PathBuf> {
    let (program, source) = (folder.join("holders"), folder.join("holders.c"));
    std::fs::write(&source, SOURCE).unwrap();
    let mut compiler = Command::new("cc");
    let status = compiler.args(["-O1", "-pthread", "-o"]).args([&program, &source]).status();
    if !status.is_ok_and(|status| status.success()) {
        let _ = writeln!(stderr(), "SKIPPED {test}: there is no C compiler");
        return None;
    }
    Some(program)
}

/// Records a case with a mutex of this kind, until it goes as planned; false without BPF.
fn record(test: &str, program: &Path, case: &str, kind: &str, trace: &Path) -> bool {
    for _ in 0..TRIES {
        let engine = ["record", "--engine", "bpf", "--stack-budget", "100"];
        let command = ["-o", text(trace), "--", text(program), case, kind];
        let recorded = unhitch(&[&engine[..], &command].concat());
        let errors = String::from_utf8_lossy(&recorded.stderr);
        if errors.contains(OTHERWISE) {
            std::fs::remove_file(trace).unwrap();
            continue;
        }
        if !recorded.status.success() {
            let _ = writeln!(stderr(), "SKIPPED {test}: {}", errors.replace('\n', " "));
        }
        return recorded.status.success();
    }
    panic!("{case}: in {TRIES} tries, the mutex never went as planned")
}

#[test]
fn live_the_holder_is_named_where_another_ended_the_wait() {
    let _alone = alone();
    let test = "live_the_holder_is_named_where_another_ended_the_wait";
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(test, folder.path()) else { return };
    // The last waker; how it is known that the two waits, or the two owners, are of one lock.
    for (case, kind, last_waker, same_lock_by) in [
        ("queue", "plain", "other", "address"),
        ("thief", "plain", "thief", "owner"),
        ("nested", "plain", "other", ""),
        ("queue", "robust", "other", "address"),
        ("thief", "robust", "thief", "owner"),
        ("queue", "inheriting", "other", "address"),
    ] {
        let trace = folder.path().join(format!("{case}-{kind}.hitch"));
        if !record(test, &program, case, kind, &trace) {
            return;
        }
        let why = unhitch(&["why", text(&trace), "--victim", "hungry", "--json"]);
        assert!(why.status.success(), "{}", String::from_utf8_lossy(&why.stderr));
        let why: Value = serde_json::from_slice(&why.stdout).unwrap();
        let cause = &why["stalls"][0]["cause"];
        let said = format!("{case} {kind}: {cause:#}");
        let readings = &cause["readings"];
        assert_eq!(cause["culprit"]["thread"], "holder", "{said}");
        assert_eq!(cause["evidence"], "direct", "{said}");
        assert_eq!(readings["last_waker"]["thread"], last_waker, "{said}");
        assert_eq!(readings["holder"]["thread"], "holder", "{said}");
        assert_eq!(readings["same_lock_by"].as_str().unwrap_or_default(), same_lock_by, "{said}");
        let held_ms = |who: &str| readings[who]["held_ns"].as_u64().unwrap() / 1_000_000;
        assert!(held_ms("holder") >= HELD_MS * 9 / 10, "{said}");
        assert!(held_ms("last_waker") >= PASSED_ON_MS * 9 / 10, "{said}");
        assert!(held_ms("holder") > held_ms("last_waker") * 2, "{said}");
    }
}

/// The only thread of this name.
fn thread(trace: &Trace, name: &str) -> ThreadId {
    let is_named = |id: &ThreadId| trace.thread_name(*id, Time::MAX) == name;
    trace.threads.iter().map(|(id, _)| id).find(is_named).expect("it ran")
}

/// The truth is in the switches and wake-ups: for whatever ended a wait of that length, it was the mutex,
/// if the holder did.
#[test]
fn live_every_wait_that_a_holder_ended_is_recorded_with_the_lock_and_its_owner() {
    let _alone = alone();
    let test = "live_every_wait_that_a_holder_ended_is_recorded_with_the_lock_and_its_owner";
    /// Longer than waits that need no record.
    const LONG_NS: u64 = 1_100_000;
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(test, folder.path()) else { return };
    for kind in ["plain", "robust", "inheriting"] {
        let path = folder.path().join(format!("{kind}.hitch"));
        if !record(test, &program, "often", kind, &path) {
            return;
        }
        let trace = unhitch_formats::open(&path).unwrap();
        let rules = Rules::default();
        let analysis = Analysis::new(&trace, &rules);
        let (hungry, holder) = (thread(&trace, "hungry"), thread(&trace, "holder"));
        let is_for_mutex = |segment: &Segment| {
            let waker = segment.wake().map(|wake| trace.wakings.waker[wake]);
            let is_long = segment.window.duration_ns() >= LONG_NS;
            segment.is_sleep() && is_long && waker == Some(holder)
        };
        let segments = analysis.segments(hungry, Window::new(Time::ZERO, Time::MAX));
        let waits: Vec<Time> = segments
            .iter()
            .filter(|segment| is_for_mutex(segment))
            .map(|segment| trace.switches.time[segment.out().unwrap()])
            .collect();
        // On a busy machine, some rounds are over before the thread is there.
        assert!(waits.len() >= 20, "{kind}: {} waits", waits.len());
        for time in waits {
            let mut kept = trace.kept_waits.iter();
            let kept = kept.find(|wait| (wait.thread, wait.time) == (hungry, time));
            let kept = kept.unwrap_or_else(|| panic!("{kind}: no record of the wait at {time:?}"));
            assert_eq!((kept.syscall, kept.owner), (Some(SYS_FUTEX), Some(holder)), "{kind}");
        }
    }
}
