//! The programs, really run: 3 s each, one after another, each in a process of its own
//! (`examples/lab.rs`, which `cargo test` builds).
//!
//! They need no privilege. A hang is a race against the scheduler, so what is demanded of every run
//! is honesty: either the hang happened and the figures bear it out, or the outcome says why not.
//! On a quiet machine all happen. Nothing is demanded of how long anything takes: a busy machine
//! may keep a program from its CPUs for as long as it likes.

use std::ffi::OsStr;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use unhitch_lab::{Outcome, PROGRAMS, program};

/// Two hangs at once would spoil each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Long enough for whatever must come at last, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a program for 3 s, through the command `by` if there is one.
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

/// Runs a program for 3 s and checks what holds for all of them.
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
        // One wake-up per millisecond, but far fewer where inspector or typing must wait for a CPU.
        assert!(figure(&outcome, "wakeups") >= 20, "woken again and again, in vain");
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
        // Who has waited for the lock waits for a CPU, too, where others want it.
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

/// The processes that `pid` started, and those that they started.
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

/// Whether it comes to be so.
fn at_last(mut is_so: impl FnMut() -> bool) -> bool {
    let asked = Instant::now();
    while asked.elapsed() < PATIENCE {
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
    let both = at_last(|| {
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
    assert!(at_last(|| started.iter().filter(alive).count() == 0), "some of {started:?} live on");
}

/// Whether a process has blocked SIGTERM, to be asked about it in its own time; before that it
/// would just die.
fn takes_sigterm(pid: u32) -> bool {
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
        assert!(at_last(|| takes_sigterm(child.id())), "{name} never began");
        // Into the middle of its life; wherever that is, it must stop.
        std::thread::sleep(Duration::from_millis(1_000));
        assert!(child.try_wait().unwrap().is_none());
        let asked = Instant::now();
        assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
        let outcome = outcome_of(child);
        assert!(asked.elapsed() < PATIENCE, "{name} played on to its end");
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
