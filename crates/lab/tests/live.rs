//! The programs, really run: 3 s each, one after another, each in a process of its own (`examples/lab.rs`, which `cargo test` builds).
//!
//! They need no privilege. A hang is a race against the scheduler, so what is demanded of every run is honesty: either the hang
//! happened and the figures bear it out, or the outcome says why not. On a quiet machine all happen.

use std::ffi::OsStr;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use unhitch_lab::{Outcome, PROGRAMS, program};

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
    assert!(started.elapsed() < Duration::from_secs(5), "took {:?}", started.elapsed());
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
fn live_saturate() {
    let outcome = play("saturate");
    if outcome.happened {
        let (waited_ms, longest_us) = (figure(&outcome, "waited_ms"), figure(&outcome, "longest_wait_us"));
        assert!(waited_ms * 2 >= outcome.measured.hang.duration_ns() / 1_000_000, "it waited for the lock");
        assert!(longest_us < waited_ms * 1_000, "more than once");
        assert!(figure(&outcome, "closed_in_hang") > 100, "because others had it");
    }
}

#[test]
fn live_convoy() {
    let outcome = play("convoy");
    if outcome.happened {
        assert!(figure(&outcome, "hops") >= 15, "many held the lock, one after another");
    }
}

#[test]
fn live_chain() {
    let outcome = play("chain");
    if outcome.happened {
        assert!(outcome.measured.hang.duration_ns() < 1_500_000_000, "one cold start only");
    }
}

#[test]
fn live_tcp() {
    let outcome = play("tcp");
    if outcome.happened {
        assert!(figure(&outcome, "report_cpu_ms") * 2 >= outcome.measured.hang.duration_ns() / 1_000_000, "the server computes");
    }
}

#[test]
fn live_stopped() {
    let outcome = play("stopped");
    if outcome.happened {
        assert!(figure(&outcome, "stopped_ms") * 2 >= outcome.measured.hang.duration_ns() / 1_000_000, "the holder was stopped");
    }
}

#[test]
fn live_slow_disk() {
    let outcome = play("slow-disk");
    if outcome.happened {
        assert!(figure(&outcome, "written_mib") > 0, "others wrote");
    }
}

#[test]
fn live_populate() {
    let outcome = play("populate");
    if outcome.happened {
        let hang_ms = outcome.measured.hang.duration_ns() / 1_000_000;
        assert!(figure(&outcome, "load_ms") * 2 > hang_ms, "the wait is one call of the loader");
    }
}

#[test]
fn live_build_stall() {
    let outcome = play("build-stall");
    if outcome.happened {
        assert!(figure(&outcome, "stuck") > 10, "not one compiler, but the build");
        assert!(figure(&outcome, "hold_ms") + 200 > outcome.measured.hang.duration_ns() / 1_000_000, "the wait is one hold");
    }
}

#[test]
fn live_scan_stall() {
    let outcome = play("scan-stall");
    if outcome.happened {
        let (scan_ms, cpu_ms) = (figure(&outcome, "scan_ms"), figure(&outcome, "scanner_cpu_us") / 1_000);
        assert!(cpu_ms * 5 < scan_ms, "the scanner had {cpu_ms} ms of CPU time in {scan_ms} ms");
    }
}

#[test]
fn live_exit_storm() {
    let outcome = play("exit-storm");
    if outcome.happened {
        assert_eq!(figure(&outcome, "workers"), 100);
    }
}

/// The processes that `pid` started, and those that they started.
fn descendants(pid: u32) -> Vec<u32> {
    let listed = Command::new("ps").args(["-o", "pid=", "--ppid", &pid.to_string()]).output().unwrap().stdout;
    let children: Vec<u32> = String::from_utf8(listed).unwrap().split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    children.iter().copied().chain(children.iter().flat_map(|&child| descendants(child))).collect()
}

#[test]
fn live_leaves_no_process_behind_when_killed() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut child = start("build-stall", &[]);
    std::thread::sleep(Duration::from_millis(1_500));
    let descendants = descendants(child.id());
    assert!(descendants.len() >= 2, "make and the indexer at least: {descendants:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let alive = |pid: &&u32| std::fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|status| !status.contains("State:\tZ"));
    assert_eq!(descendants.iter().filter(alive).count(), 0);
}

#[test]
fn live_stops_on_sigterm() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for name in PROGRAMS.iter().map(|program| program.name) {
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
