//! Where the thread that ended a wait for a lock is not the one that held it for long, the answer
//! names the one that did. A program of its own makes each case, and knows who held what and when.
//! Without BPF or a C compiler, that is printed as `SKIPPED`.
#![cfg(target_os = "linux")]

use serde_json::Value;
use std::io::{Write, stderr};
use std::path::Path;
use std::process::{Command, Output};

const TEST: &str = "live_the_holder_is_named_where_another_ended_the_wait";
const SOURCE: &str = include_str!("holders.c");
/// How often a case is tried: which waiter gets a mutex is for the scheduler to say.
const TRIES: usize = 20;
/// What `record` says if another thread got the mutex than was planned: the code of `holders.c`.
const OTHERWISE: &str = "the command ended with exit status: 3";
/// For how long the holder holds, and the thread that ends the wait, both in milliseconds.
const HELD_MS: u64 = 300;
const PASSED_ON_MS: u64 = 20;

fn unhitch(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_unhitch")).args(words).output().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Records a case. Returns what `why` says of the thread that waited; nothing without BPF.
fn answer(program: &Path, case: &str, trace: &Path) -> Option<Value> {
    for _ in 0..TRIES {
        let engine = ["record", "--engine", "bpf", "--stack-budget", "100"];
        let command = ["-o", text(trace), "--", text(program), case];
        let recorded = unhitch(&[&engine[..], &command].concat());
        let errors = String::from_utf8_lossy(&recorded.stderr);
        if errors.contains(OTHERWISE) {
            std::fs::remove_file(trace).unwrap();
            continue;
        }
        if !recorded.status.success() {
            let _ = writeln!(stderr(), "SKIPPED {TEST}: {}", errors.replace('\n', " "));
            return None;
        }
        let why = unhitch(&["why", text(trace), "--victim", "hungry", "--json"]);
        assert!(why.status.success(), "{}", String::from_utf8_lossy(&why.stderr));
        return Some(serde_json::from_slice(&why.stdout).unwrap());
    }
    panic!("{case}: in {TRIES} tries, the mutex never went as planned")
}

#[test]
fn live_the_holder_is_named_where_another_ended_the_wait() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("holders.c"), SOURCE).unwrap();
    let compiled = Command::new("cc")
        .args(["-O1", "-pthread", "-o"])
        .args([path("holders"), path("holders.c")])
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        let _ = writeln!(stderr(), "SKIPPED {TEST}: there is no C compiler");
        return;
    }
    // The last waker; how it is known that the two waits, or the two owners, are of one lock.
    for (case, last_waker, same_lock_by) in
        [("queue", "other", "address"), ("thief", "thief", "owner"), ("nested", "other", "")]
    {
        let trace = path(&format!("{case}.hitch"));
        let Some(why) = answer(&path("holders"), case, &trace) else { return };
        let cause = &why["stalls"][0]["cause"];
        let said = format!("{case}: {cause:#}");
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
