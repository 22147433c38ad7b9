//! Runs the programs for real: 3 s each, one after another, each in its own process
//! (`examples/lab.rs`, which `cargo test` builds).
//!
//! They need no privilege. A hang is a race against the scheduler, so the tests only require that
//! the outcome is honest: either the hang happened and the figures confirm it, or the outcome says
//! why not. On a quiet machine all hangs happen. The tests make no demands on how long anything
//! takes, as a busy machine may keep a program off its CPUs for any time.

use std::ffi::OsStr;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use unhitch_lab::{Outcome, PROGRAMS, program};

/// Two hangs at the same time would spoil each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Time limit for anything that must happen eventually, however busy the machine is.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Starts a program for 3 s, with the command `by` as a prefix.
fn start(name: &str, by: &[&str]) -> Child {
    start_for("3", name, by)
}

fn start_for(seconds: &str, name: &str, by: &[&str]) -> Child {
    let this = std::env::current_exe().unwrap();
    let example = this.ancestors().nth(2).unwrap().join("examples/lab");
    assert!(example.exists(), "first run `cargo build -p unhitch-lab --example lab`");
    let mut words = by.iter().map(OsStr::new).chain([example.as_os_str()]);
    Command::new(words.next().unwrap())
        .args(words)
        .args([name, seconds])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn outcome_of(mut child: Child) -> Outcome {
    let mut output = String::new();
    child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert!(child.wait().unwrap().success(), "{output}");
    eprintln!("{output}");
    serde_json::from_str(output.lines().last().unwrap()).unwrap()
}

/// Runs a program for 3 s and checks what must hold for all programs.
fn play(name: &str) -> Outcome {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let child = start(name, &[]);
    let pid = child.id();
    let outcome = outcome_of(child);
    assert_eq!((outcome.program.as_str(), outcome.pid), (name, pid));
    assert_eq!(outcome.answer, (program(name).unwrap().answer)());
    let hang = outcome.measured.hang;
    assert_eq!(outcome.happened, outcome.reason.is_none(), "{:?}", outcome.reason);
    if outcome.happened {
        assert!(hang.duration_ns() >= outcome.answer.min_duration_ms * 1_000_000);
        let run = outcome.measured.run;
        assert!(
            run.start_ns + 500_000_000 < hang.start_ns && hang.end_ns < run.end_ns,
            "{hang:?} in {run:?}"
        );
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
        // There is one wake-up per millisecond, but far fewer if inspector or typing must wait for
        // a CPU.
        assert!(figure(&outcome, "wakeups") >= 20, "many futile wake-ups");
        assert!(
            figure(&outcome, "inspector_holds") >= figure(&outcome, "wakeups"),
            "because the lock was released as often"
        );
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
        assert!(
            figure(&outcome, "cpu_ms") * 2 >= outcome.measured.hang.duration_ns() / 1_000_000,
            "it computes"
        );
    }
}

#[test]
fn live_idle_holder() {
    let outcome = play("idle-holder");
    if outcome.happened {
        let (hold_ms, cpu_ms) =
            (figure(&outcome, "hold_ms"), figure(&outcome, "holder_cpu_us") / 1_000);
        assert!(cpu_ms * 5 < hold_ms, "the holder had {cpu_ms} ms of CPU time in {hold_ms} ms");
    }
}

#[test]
fn live_saturate() {
    let outcome = play("saturate");
    if outcome.happened {
        let (waited_ms, longest_us) =
            (figure(&outcome, "waited_ms"), figure(&outcome, "longest_wait_us"));
        assert!(
            waited_ms * 2 >= outcome.measured.hang.duration_ns() / 1_000_000,
            "it waited for the lock"
        );
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
        assert!(
            figure(&outcome, "report_cpu_ms") * 2
                >= outcome.measured.hang.duration_ns() / 1_000_000,
            "the server computes"
        );
    }
}

#[test]
fn live_stopped() {
    let outcome = play("stopped");
    if outcome.happened {
        assert!(
            figure(&outcome, "stopped_ms") * 2 >= outcome.measured.hang.duration_ns() / 1_000_000,
            "the holder was stopped"
        );
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
        // After the wait for the lock, a compiler may also have to wait for a CPU.
        assert!(
            figure(&outcome, "hold_ms") * 2 > outcome.measured.hang.duration_ns() / 1_000_000,
            "the wait is one hold"
        );
    }
}

#[test]
fn live_scan_stall() {
    let outcome = play("scan-stall");
    if outcome.happened {
        let (scan_ms, cpu_ms) =
            (figure(&outcome, "scan_ms"), figure(&outcome, "scanner_cpu_us") / 1_000);
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

/// All descendants of a process.
fn descendants(pid: u32) -> Vec<u32> {
    let listed = Command::new("ps")
        .args(["-o", "pid=", "--ppid", &pid.to_string()])
        .output()
        .unwrap()
        .stdout;
    let children: Vec<u32> = String::from_utf8(listed)
        .unwrap()
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect();
    children.iter().copied().chain(children.iter().flat_map(|&child| descendants(child))).collect()
}

/// Waits until the condition holds; false after the time limit.
fn eventually(mut is_so: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < TIMEOUT {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

#[test]
fn live_leaves_no_process_behind_when_killed() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut child = start_for("60", "build-stall", &[]);
    let mut started = Vec::new();
    let both = eventually(|| {
        started = descendants(child.id());
        started.len() >= 2
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(both, "make and the indexer at least: {started:?}");
    let alive = |pid: &&u32| {
        std::fs::read_to_string(format!("/proc/{pid}/status"))
            .is_ok_and(|status| !status.contains("State:\tZ"))
    };
    assert!(
        eventually(|| started.iter().filter(alive).count() == 0),
        "some of {started:?} are still alive"
    );
}

/// True if a process has blocked SIGTERM in order to handle it; before that, SIGTERM would kill it.
fn handles_sigterm(pid: u32) -> bool {
    const SIGTERM: u64 = 15;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).map(str::trim);
    blocked
        .and_then(|mask| u64::from_str_radix(mask, 16).ok())
        .is_some_and(|mask| mask >> (SIGTERM - 1) & 1 == 1)
}

#[test]
fn live_stops_on_sigterm() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for name in PROGRAMS.iter().map(|program| program.name) {
        let mut child = start_for("60", name, &[]);
        assert!(eventually(|| handles_sigterm(child.id())), "{name} never started");
        // Stop it somewhere in the middle of its run.
        std::thread::sleep(Duration::from_millis(1_000));
        assert!(child.try_wait().unwrap().is_none());
        let start = Instant::now();
        assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
        let outcome = outcome_of(child);
        assert!(start.elapsed() < TIMEOUT, "{name} did not stop early");
        assert!(outcome.reason.unwrap().contains("stopped by signal 15"));
    }
}

#[test]
fn live_starve_says_that_one_cpu_is_too_few() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let cpus =
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let one_cpu = cpus.split([',', '-']).next().unwrap();
    let outcome = outcome_of(start("starve", &["taskset", "-c", one_cpu]));
    assert!(!outcome.happened);
    assert!(outcome.reason.unwrap().contains("two CPUs"));
}
