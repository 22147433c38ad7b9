//! The programs, really run: 3 s each, one after another, each in a process of its own (`examples/lab.rs`, which `cargo test` builds).
//!
//! They need no privilege. A hang is a race against the scheduler, so what is demanded of every run is honesty: either the hang
//! happened and the figures bear it out, or the outcome says why not. On a quiet machine all happen.

use std::ffi::OsStr;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use unhitch_lab::{Outcome, program};

/// Two hangs at once would spoil each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Starts a program, through the command `by` if there is one.
fn start(name: &str, by: &[&str]) -> Child {
    let this = std::env::current_exe().unwrap();
    let example = this.ancestors().nth(2).unwrap().join("examples/lab");
    assert!(example.exists(), "first run `cargo build -p unhitch-lab --example lab`");
    let mut words = by.iter().map(OsStr::new).chain([example.as_os_str()]);
    Command::new(words.next().unwrap()).args(words).args([name, "3"]).stdout(Stdio::piped()).spawn().unwrap()
}

fn outcome_of(mut child: Child) -> Outcome {
    let mut output = String::new();
    child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert!(child.wait().unwrap().success(), "{output}");
    eprintln!("{output}");
    serde_json::from_str(output.lines().last().unwrap()).unwrap()
}

/// Runs a program for 3 s and checks what holds for all of them.
fn play(name: &str) -> Outcome {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let started = Instant::now();
    let child = start(name, &[]);
    let pid = child.id();
    let outcome = outcome_of(child);
    assert!(started.elapsed() < Duration::from_secs(4), "took {:?}", started.elapsed());
    assert_eq!((outcome.program.as_str(), outcome.pid), (name, pid));
    assert_eq!(outcome.answer, (program(name).unwrap().answer)());
    let hang = outcome.measured.hang;
    assert_eq!(outcome.happened, outcome.reason.is_none(), "{:?}", outcome.reason);
    if outcome.happened {
        assert!(hang.duration_ns() >= outcome.answer.min_duration_ms * 1_000_000);
        let run = outcome.measured.run;
        assert!(run.start_ns + 500_000_000 < hang.start_ns && hang.end_ns < run.end_ns, "{hang:?} in {run:?}");
    }
    outcome
}

fn figure(outcome: &Outcome, name: &str) -> u64 {
    outcome.measured.figures[name]
}

#[test]
fn live_starve() {
    let outcome = play("starve");
    if outcome.happened {
        // One wake-up per millisecond, but far fewer where inspector or typing must wait for a CPU.
        assert!(figure(&outcome, "wakeups") >= 20, "woken again and again, in vain");
        assert!(figure(&outcome, "inspector_holds") >= figure(&outcome, "wakeups"), "because the lock was released as often");
    }
}

#[test]
fn live_long_hold() {
    let outcome = play("long-hold");
    if outcome.happened {
        let hang_ms = outcome.measured.hang.duration_ns() / 1_000_000;
        assert!(figure(&outcome, "hold_ms") * 2 > hang_ms, "the wait is one hold");
    }
}

#[test]
fn live_loop_stall() {
    let outcome = play("loop-stall");
    if outcome.happened {
        assert!((1..=3).contains(&figure(&outcome, "stalls")));
        assert!(figure(&outcome, "cpu_ms") * 2 >= outcome.measured.hang.duration_ns() / 1_000_000, "it computes");
    }
}

#[test]
fn live_idle_holder() {
    let outcome = play("idle-holder");
    if outcome.happened {
        let (hold_ms, cpu_ms) = (figure(&outcome, "hold_ms"), figure(&outcome, "holder_cpu_us") / 1_000);
        assert!(cpu_ms * 5 < hold_ms, "the holder had {cpu_ms} ms of CPU time in {hold_ms} ms");
    }
}

#[test]
fn live_stops_on_sigterm() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for name in ["starve", "long-hold", "idle-holder"] {
        let mut child = start(name, &[]);
        std::thread::sleep(Duration::from_millis(1_200));
        assert!(child.try_wait().unwrap().is_none());
        let started = Instant::now();
        assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
        let outcome = outcome_of(child);
        assert!(started.elapsed() < Duration::from_secs(1), "{name} took {:?} to stop", started.elapsed());
        assert!(outcome.reason.unwrap().contains("stopped by signal 15"));
    }
}

#[test]
fn live_starve_says_that_one_cpu_is_too_few() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let one_cpu = cpus.split([',', '-']).next().unwrap();
    let outcome = outcome_of(start("starve", &["taskset", "-c", one_cpu]));
    assert!(!outcome.happened);
    assert!(outcome.reason.unwrap().contains("two CPUs"));
}
