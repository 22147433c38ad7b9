//! Real hangs of the lab, through the command line: records each one, and compares the explanation
//! with what the program itself knows.
//!
//! In `lab.json`, a program states the victim and the culprit, and what it measured with its own
//! clock. *Why a run may be repeated:* a hang is a race against the scheduler, and the rings hold a
//! number of events, not of seconds. If a hang did not happen (exit code 4), or events of other
//! programs pushed it out of the rings, the test prints `NOISY name: reason` and tries again, so
//! that it never passes or fails by luck. If the machine does not permit a test, it prints `SKIPPED
//! name: reason`. It also does so if the hang never happened while the host of a virtual machine,
//! or other programs, took part of the CPU time: two CPUs that take turns on one are not two, and
//! then nothing starves.
//!
//! The expected answer is what the recording proves, not what the schedule would have been on a
//! quiet machine. For example, in `slow-disk` the ui may wait for the device itself, or for a
//! downloader or the journal that does. The culprit must be the thread that waited for it longest,
//! according to the partition.
//!
//! `exit-storm` is a thread group: a hundred processes exit at the same time and keep everything
//! off the CPUs, including themselves. Any other thread that needed a CPU then may be the first
//! victim, and no single wait is all of the hang. But the group must be named, and the waits
//! attributed to it must together cover half of the hang. The first victim may also be the pool,
//! whose loop stands still because it waits for the group: that is a stall of an event loop, by the
//! same cause.
//!
//! A wrong answer fails at once, unless the host or other programs took CPUs during that recording:
//! then the hang may not be the intended one. Such a recording is also `NOISY`, but only twice; the
//! third wrong answer fails on any machine.
//!
//! Every program is recorded by BPF, where this kernel allows it, and the programs of [`BY_BOTH`] by
//! performance events as well: the answer must not depend on what recorded.
//!
//! `UNHITCH_SOAK=N` (`make soak`) repeats every program by both engines, N times alone and N times
//! with a busy process, and prints a table. It also records the idle machine, and prints what is
//! reported for that: it must report nothing whose cause is unknown.
#![cfg(target_os = "linux")]

use serde_json::Value;
use std::fs::File;
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::{Mutex, PoisonError};
use unhitch_lab::{Outcome, Span};
use unhitch_record::{EngineChoice, Error, Options, Recorder};

/// The engines, the one that is preferred first.
const ENGINES: [(&str, EngineChoice); 2] =
    [("bpf", EngineChoice::Bpf), ("perf", EngineChoice::Perf)];

/// Programs that are always recorded by each engine: a lock, a chain of processes, a stopped process,
/// the network, a kernel lock. The soak does so with all.
const BY_BOTH: [&str; 5] = ["starve", "chain", "stopped", "tcp", "populate"];

/// Maximum number of retries of a hang that did not happen.
const TRIES: usize = 16;
/// Maximum share of the machine's time that its host may take before the CPUs count as not
/// available. *Why so little:* `starve` needs 500 releases in a row during which the host does not
/// take the CPU of the releasing thread, and waking the other CPU is just when it does. With 2 %
/// taken, on a machine that was half idle, the waits ended after 30 to 115 ms.
const STOLEN: f64 = 0.005;

/// Maximum share of the machine's time that other programs may take before the CPUs count as not
/// available: while a compiler runs, the waiter that should starve gets the lock whenever the owner
/// is not on a CPU.
const TAKEN_BY_OTHERS: f64 = 0.1;

/// Maximum share of a hang spent waiting for CPUs that run other programs, for the hang to count as
/// the program's own.
const CONTESTED: f64 = 0.2;

/// A test fails at this number of wrong answers about recordings that the host or other programs
/// disturbed.
const WRONG_TRIES: usize = 3;

/// How long to record an idle machine.
const IDLE_FOR: &str = "30s";

/// Two hangs at the same time would spoil each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn live_starve() {
    play("starve");
}

#[test]
fn live_long_hold() {
    play("long-hold");
}

#[test]
fn live_loop_stall() {
    play("loop-stall");
}

#[test]
fn live_idle_holder() {
    play("idle-holder");
}

#[test]
fn live_saturate() {
    play("saturate");
}

#[test]
fn live_convoy() {
    play("convoy");
}

#[test]
fn live_chain() {
    play("chain");
}

#[test]
fn live_tcp() {
    play("tcp");
}

#[test]
fn live_stopped() {
    play("stopped");
}

#[test]
fn live_slow_disk() {
    play("slow-disk");
}

#[test]
fn live_populate() {
    play("populate");
}

#[test]
fn live_build_stall() {
    play("build-stall");
}

#[test]
fn live_exit_storm() {
    play("exit-storm");
}

#[test]
fn live_scan_stall() {
    play("scan-stall");
}

#[test]
fn live_an_idle_machine_has_no_stall_that_cannot_be_defended() {
    if std::env::var_os("UNHITCH_SOAK").is_none() {
        return;
    }
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if permitted("live_an_idle_machine_has_no_stall_that_cannot_be_defended").is_empty() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("idle.hitch");
    let recorded = unhitch(&["record", "--for", IDLE_FOR, "-o"], &trace);
    assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
    let out = unhitch(&["why", "--json", "--top", "1000"], &trace);
    let why: Value = serde_json::from_slice(&out.stdout).unwrap();
    let seconds = ns(&why["trace"]["duration_ns"]) as f64 / 1e9;
    report(&format!(
        "IDLE {seconds:.1} s, {} switches: {} stalls",
        why["trace"]["switches"],
        items(&why["stalls"]).count()
    ));
    for stall in items(&why["stalls"]) {
        let word = |at: &str| stall.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let (ms, kind, thread, process) = (
            ns(&stall["duration_ns"]) / 1_000_000,
            word("/kind"),
            word("/victim/thread"),
            word("/victim/process"),
        );
        let (pattern, culprit, evidence) =
            (word("/cause/pattern"), word("/cause/culprit/thread"), word("/cause/evidence"));
        report(&format!(
            "IDLE {ms:6} ms {kind:<16} {thread} of {process}: {pattern} by {culprit:?}, {evidence}"
        ));
    }
    let whole = String::from_utf8(unhitch(&["why", "--top", "1000"], &trace).stdout).unwrap();
    let vague = |stall: &&Value| {
        matches!(
            stall.pointer("/cause/pattern").and_then(Value::as_str),
            None | Some("dead_end" | "unknown")
        )
    };
    let unknown = items(&why["stalls"]).filter(vague).count();
    let kept = (unknown > 0).then(|| folder.keep());
    assert_eq!(unknown, 0, "stalls whose cause is not known, in {kept:?}:\n{whole}");
}

/// Prints past the test harness, which hides the output of passing tests.
fn report(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}

fn play(program: &'static str) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let test = format!("live_{}", program.replace('-', "_"));
    let engines = permitted(&test);
    let runs = std::env::var("UNHITCH_SOAK")
        .map(|runs| runs.parse().expect("UNHITCH_SOAK is a number of runs"));
    for (at, engine) in engines.into_iter().enumerate() {
        let hang = Hang { program, engine };
        match runs {
            Ok(runs) => soak(hang, runs),
            Err(_) if at > 0 && !BY_BOTH.contains(&program) => {}
            Err(_) => match until_it_hangs(hang, WRONG_TRIES, &mut 0) {
                Ok(run) => assert!(run.complaints.is_empty(), "{run}"),
                Err(taken) => report(&format!("SKIPPED {test} by {engine}: {taken}")),
            },
        }
    }
}

/// The engines that this machine permits to record; the others are reported.
fn permitted(test: &str) -> Vec<&'static str> {
    let is_permitted = |(engine, choice): &(&str, EngineChoice)| {
        let mut options = Options::default();
        options.engine = *choice;
        match Recorder::start(&options) {
            Err(error @ (Error::NotPermitted { .. } | Error::Missing { .. })) => {
                let reason = error.to_string().replace('\n', " ");
                report(&format!("SKIPPED {test} by {engine}: {reason}"));
                false
            }
            result => {
                drop(result.unwrap());
                true
            }
        }
    };
    ENGINES.iter().filter(|engine| is_permitted(engine)).map(|(engine, _)| *engine).collect()
}

/// A program of the lab, and what records it.
#[derive(Clone, Copy)]
struct Hang {
    program: &'static str,
    engine: &'static str,
}

impl std::fmt::Display for Hang {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} by {}", self.program, self.engine)
    }
}

fn soak(hang: Hang, runs: usize) {
    let mut all_wrong = 0;
    for load in ["alone", "with a busy process"] {
        let _busy = (load != "alone").then(Busy::start);
        let (mut right, mut wrong, mut noisy, mut outranked) = (0, 0, 0, 0);
        for _ in 0..runs {
            let run = until_it_hangs(hang, 1, &mut noisy)
                .unwrap_or_else(|taken| panic!("{hang}: {taken}"));
            outranked += usize::from(run.outranked);
            match run.complaints.is_empty() {
                true => right += 1,
                false => {
                    wrong += 1;
                    report(&format!("WRONG {run}"));
                }
            }
        }
        report(&format!(
            "SOAK {:<12} {:<4} {load:<22} {right:3} right {wrong:3} wrong {noisy:3} noisy {outranked:3} outranked by other stalls",
            hang.program, hang.engine
        ));
        all_wrong += wrong;
    }
    assert_eq!(all_wrong, 0, "{hang}: wrong answers");
}

/// A process that computes on any CPU until dropped.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        Self(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A recorded hang that happened: what is wrong with the answer, and the answer.
struct Run {
    hang: Hang,
    complaints: Vec<String>,
    /// Something else on this machine hung, and longer.
    outranked: bool,
    /// The host or other programs took part of the CPU time.
    is_disturbed: bool,
    text: String,
    /// Where the recording is kept if something is wrong.
    trace: Option<PathBuf>,
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:\n  {}\n", self.hang, self.complaints.join("\n  "))?;
        self.trace
            .iter()
            .try_for_each(|trace| writeln!(f, "The recording is {}", trace.display()))?;
        write!(f, "The answer was\n{}", self.text)
    }
}

/// The hang never happened, and these shares of the machine's time were not ours.
struct Taken {
    by_host: f64,
    by_others: f64,
}

impl Taken {
    fn is_much(&self) -> bool {
        self.by_host >= STOLEN || self.by_others >= TAKEN_BY_OTHERS
    }
}

impl std::fmt::Display for Taken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [host, others] = [self.by_host, self.by_others].map(|share| share * 100.0);
        write!(
            f,
            "it did not hang in {TRIES} tries, in which the machine's host took {host:.1} % of its CPUs' time, other programs {others:.1} %"
        )
    }
}

/// CPU times of this machine, in clock ticks.
#[derive(Clone, Copy)]
struct Ticks {
    stolen: u64,
    busy: u64,
    all: u64,
    /// CPU time of this process and its exited children.
    ours: u64,
}

impl Ticks {
    fn now() -> Self {
        const STEAL: usize = 7;
        let stat = std::fs::read_to_string("/proc/stat").unwrap();
        // Guest times follow, but they are already part of the user times.
        let ticks: Vec<u64> = stat
            .lines()
            .next()
            .into_iter()
            .flat_map(str::split_whitespace)
            .skip(1)
            .take(STEAL + 1)
            .flat_map(str::parse)
            .collect();
        let [idle, iowait, stolen] =
            [3, 4, STEAL].map(|field| ticks.get(field).copied().unwrap_or(0));
        let all: u64 = ticks.iter().sum();
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        // utime, stime, cutime and cstime are fields 14 to 17; field 2 ends with the last
        // parenthesis.
        let after_name = own.rsplit_once(") ").map_or("", |(_, fields)| fields);
        let ours = after_name.split_whitespace().skip(11).take(4).flat_map(str::parse::<u64>).sum();
        Self { stolen, busy: all - idle - iowait - stolen, all, ours }
    }

    fn taken_since(before: Self) -> Taken {
        let now = Self::now();
        let all = (now.all - before.all).max(1) as f64;
        let others = (now.busy - before.busy).saturating_sub(now.ours - before.ours);
        Taken { by_host: (now.stolen - before.stolen) as f64 / all, by_others: others as f64 / all }
    }
}

fn until_it_hangs(hang: Hang, wrong_tries: usize, noisy: &mut usize) -> Result<Run, Taken> {
    let (mut reasons, mut wrong) = (Vec::new(), 0);
    let before = Ticks::now();
    for _ in 0..TRIES {
        let reason = match record(hang) {
            Ok(run)
                if run.is_disturbed && !run.complaints.is_empty() && wrong + 1 < wrong_tries =>
            {
                wrong += 1;
                format!("others had part of the CPUs' time; hence a wrong answer: {run}")
            }
            Ok(run) => return Ok(run),
            Err(reason) => reason,
        };
        *noisy += 1;
        report(&format!("NOISY {hang}: {reason}"));
        reasons.push(reason);
    }
    let taken = Ticks::taken_since(before);
    if taken.is_much() {
        return Err(taken);
    }
    panic!(
        "{hang} did not hang in {TRIES} tries, this machine is too small:\n  {}",
        reasons.join("\n  ")
    );
}

fn unhitch(words: &[&str], path: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_unhitch"))
        .args(words)
        .arg(path)
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("HOME")
        .output()
        .unwrap()
}

/// Records the program once and checks the answer; if it did not hang, returns why.
fn record(of: Hang) -> Result<Run, String> {
    let Hang { program, engine } = of;
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join(format!("{program}.hitch"));
    let before = Ticks::now();
    let recorded =
        unhitch(&["lab", program, "--record", "--engine", engine, "--json", "-o"], &trace);
    let code = recorded.status.code();
    assert!(
        matches!(code, Some(0 | 3 | 4)),
        "{code:?}: {}",
        String::from_utf8_lossy(&recorded.stderr)
    );
    let outcome = outcome(&trace);
    assert_eq!(
        outcome.happened,
        code != Some(4),
        "the exit code shows whether it hung: {outcome:?}"
    );
    if !outcome.happened {
        return Err(outcome.reason.unwrap_or_default());
    }
    let why: Value = serde_json::from_slice(&recorded.stdout).unwrap();
    let (begins_ns, hang) = (ns(&why["trace"]["start_ns"]), outcome.measured.hang);
    if begins_ns > hang.start_ns {
        let late_ms = (begins_ns - hang.start_ns) / 1_000_000;
        return Err(format!(
            "the machine is too busy: the hang began {late_ms} ms before what the rings still held, {} switches",
            why["trace"]["switches"]
        ));
    }
    let own = own_stall(&why, &outcome);
    let rank = own.map_or(0, |(rank, _)| rank);
    let text =
        String::from_utf8(unhitch(&["why", "--top", &(rank + 1).to_string()], &trace).stdout)
            .unwrap();
    let Complaints { mut broken, wrong } = complaints(&why, &text, &outcome);
    let taken = Ticks::taken_since(before);
    let is_shared = taken.by_others >= TAKEN_BY_OTHERS;
    let contested = own.map_or(0.0, |(_, stall)| contested(stall, &outcome, is_shared));
    if broken.is_empty() && !wrong.is_empty() && contested >= CONTESTED {
        let share = contested * 100.0;
        return Err(format!(
            "the machine is too busy: for {share:.0} % of the hang other programs had the CPUs; hence {}",
            wrong[0]
        ));
    }
    broken.extend(wrong);
    let complaints = broken;
    // Keep the recording of a wrong answer for inspection.
    let trace = (!complaints.is_empty()).then(|| folder.keep().join(trace.file_name().unwrap()));
    Ok(Run {
        hang: of,
        complaints,
        outranked: rank > 0,
        is_disturbed: taken.is_much(),
        text,
        trace,
    })
}

/// `lab.json` of the trace.
fn outcome(trace: &Path) -> Outcome {
    let mut zip = zip::ZipArchive::new(File::open(trace).unwrap()).unwrap();
    serde_json::from_reader(zip.by_name("lab.json").unwrap()).unwrap()
}

/// The stall of the program's own processes that is the hang it measured, with its rank among all
/// stalls; the program may have hung more than once. *Why not simply the worst:* other hangs on
/// this machine are also correct results, and not known in advance. The soak shows how often they
/// outrank the program's hang.
fn own_stall<'a>(why: &'a Value, outcome: &'a Outcome) -> Option<(usize, &'a Value)> {
    own_stalls(why, outcome).max_by_key(|(rank, stall)| {
        (covered_ns([(*rank, *stall)].into_iter(), outcome.measured.hang), std::cmp::Reverse(*rank))
    })
}

fn own_stalls<'a>(
    why: &'a Value,
    outcome: &'a Outcome,
) -> impl Iterator<Item = (usize, &'a Value)> {
    let own = [&outcome.answer.victim_process, &outcome.answer.culprit_process];
    let is_own = move |stall: &Value| match is_thread_group(outcome) {
        true => {
            stall["cause"]["culprit"]["process"] == own[1].as_str()
                && stall["cause"]["pattern"] == outcome.answer.pattern.as_str()
        }
        // In this program, every thread waits for the disk.
        false if outcome.program == "slow-disk" => {
            stall["victim"]["thread"] == outcome.answer.victim_thread.as_str()
        }
        false => own.iter().any(|process| stall["victim"]["process"] == process.as_str()),
    };
    items(&why["stalls"]).enumerate().filter(move |(_, stall)| is_own(stall))
}

/// How much of `hang` is covered by at least one of the stalls.
fn covered_ns<'a>(stalls: impl Iterator<Item = (usize, &'a Value)>, hang: Span) -> u64 {
    let mut windows: Vec<(u64, u64)> = stalls
        .map(|(_, stall)| (ns(&stall["start_ns"]), ns(&stall["end_ns"]).min(hang.end_ns)))
        .collect();
    windows.sort_unstable();
    let mut reached = hang.start_ns;
    windows.into_iter().fold(0, |covered, (start, end)| {
        let from = start.max(reached);
        reached = reached.max(end);
        covered + end.saturating_sub(from)
    })
}

/// True if a thread group is to blame, not a single thread.
fn is_thread_group(outcome: &Outcome) -> bool {
    outcome.program == "exit-storm"
}

/// The share of a stall spent waiting for CPUs that ran other programs than the lab's. Those
/// programs caused it, and what the lab program did in the rest is not what it intended. On a
/// shared machine, waiting for a CPU that runs the lab's own threads counts, too, because other
/// programs have the rest of the CPUs, except for a lab program that intends just that.
fn contested(stall: &Value, outcome: &Outcome, is_shared: bool) -> f64 {
    let own = [&outcome.answer.victim_process, &outcome.answer.culprit_process];
    let is_theirs = |share: &&Value| {
        let process = share.pointer("/who/process").and_then(Value::as_str);
        let is_own = own.iter().any(|own| process == Some(own.as_str()));
        share["what"] == "waited_for_cpu"
            && (!is_own || is_shared && outcome.answer.pattern != "cpu_starvation")
    };
    let theirs_ns: u64 =
        items(&stall["partition"]).filter(is_theirs).map(|share| ns(&share["ns"])).sum();
    theirs_ns as f64 / ns(&stall["duration_ns"]).max(1) as f64
}

/// What is wrong with the program's stall in `why`, or with the text; empty if all is correct.
#[derive(Default)]
struct Complaints {
    /// The answer contradicts itself, which is wrong on any machine.
    broken: Vec<String>,
    /// The verdict is not that of the program's hang.
    wrong: Vec<String>,
}

impl Complaints {
    fn must(&mut self, is_right: bool, complaint: String) {
        if !is_right {
            self.broken.push(complaint);
        }
    }

    fn expect(&mut self, is_right: bool, complaint: String) {
        if !is_right {
            self.wrong.push(complaint);
        }
    }

    fn expect_str(&mut self, stall: &Value, at: &str, wanted: &[&str]) {
        let found = stall.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let complaint = format!("{at} is {found:?}, not {}", wanted.join(" or "));
        self.expect(wanted.contains(&found), complaint);
    }
}

fn complaints(why: &Value, text: &str, outcome: &Outcome) -> Complaints {
    let mut complaints = Complaints::default();
    let Some((_, stall)) = own_stall(why, outcome) else {
        complaints.wrong.push("no stall of the program was found".to_owned());
        return complaints;
    };
    check_verdict(&mut complaints, stall, outcome);
    check_window(&mut complaints, why, stall, outcome);
    check_sums(&mut complaints, stall);
    check_functions(&mut complaints, stall, text, outcome);
    if is_thread_group(outcome) {
        complaints.expect(
            text.contains(&format!(" threads named {} had the CPU", outcome.answer.culprit_thread)),
            "the text does not name the thread group".to_owned(),
        );
    }
    if outcome.program == "starve" {
        check_wakes_in_vain(&mut complaints, stall);
    }
    check_names(&mut complaints, text, outcome);
    complaints
}

/// Victim, culprit, pattern and kind.
fn check_verdict(complaints: &mut Complaints, stall: &Value, outcome: &Outcome) {
    let answer = &outcome.answer;
    if !is_thread_group(outcome) {
        complaints.expect_str(stall, "/victim/thread", &[&answer.victim_thread]);
        complaints.expect_str(stall, "/victim/process", &[&answer.victim_process]);
    } else if stall["kind"] == "event_loop" {
        // Of all victims of the group, only the pool runs a loop.
        complaints.expect_str(stall, "/victim/process", &[&outcome.program]);
    }
    let (thread, process) = if outcome.program == "slow-disk" {
        let waited_longest = items(&stall["partition"])
            .filter(|share| share["what"] == "io")
            .max_by_key(|share| ns(&share["ns"]));
        let name = |key: &str| {
            waited_longest.and_then(|share| share["who"][key].as_str()).unwrap_or("nobody")
        };
        (name("thread"), name("process"))
    } else {
        (answer.culprit_thread.as_str(), answer.culprit_process.as_str())
    };
    complaints.expect_str(stall, "/cause/culprit/thread", &[thread]);
    complaints.expect_str(stall, "/cause/culprit/process", &[process]);
    complaints.expect_str(stall, "/cause/pattern", &[&answer.pattern]);
    let kinds: Vec<&str> = answer.kinds.iter().map(String::as_str).collect();
    complaints.expect_str(stall, "/kind", &kinds);
}

/// The stall covers most of the measured hang, and is within the run.
fn check_window(complaints: &mut Complaints, why: &Value, stall: &Value, outcome: &Outcome) {
    let (start_ns, end_ns) = (ns(&stall["start_ns"]), ns(&stall["end_ns"]));
    let (hang, run) = (outcome.measured.hang, outcome.measured.run);
    let is_group = is_thread_group(outcome);
    let covered_ns =
        covered_ns(own_stalls(why, outcome).filter(|(_, other)| is_group || *other == stall), hang);
    complaints.expect(
        covered_ns >= hang.duration_ns() / 10 * if is_group { 5 } else { 8 },
        format!(
            "the stall {start_ns}..{end_ns} covers {covered_ns} ns of the measured hang: {hang:?}"
        ),
    );
    complaints.expect(
        run.start_ns <= start_ns && end_ns <= run.end_ns,
        format!("the stall {start_ns}..{end_ns} is not within the run: {run:?}"),
    );
}

/// The wait chain has no gaps, and both it and the partition sum to the stall.
fn check_sums(complaints: &mut Complaints, stall: &Value) {
    let (start_ns, end_ns, duration_ns) =
        (ns(&stall["start_ns"]), ns(&stall["end_ns"]), ns(&stall["duration_ns"]));
    complaints.must(
        duration_ns == end_ns.saturating_sub(start_ns),
        format!("duration_ns is {duration_ns}, from {start_ns} to {end_ns}"),
    );
    let mut links: Vec<(u64, u64)> =
        items(&stall["chain"]).map(|link| (ns(&link["from_ns"]), ns(&link["to_ns"]))).collect();
    links.sort_unstable();
    let chained_ns: u64 = links.iter().map(|(from_ns, to_ns)| to_ns.saturating_sub(*from_ns)).sum();
    complaints.must(
        chained_ns == duration_ns,
        format!("the chain sums to {chained_ns} ns, not {duration_ns}"),
    );
    let gaps = links.windows(2).filter(|pair| pair[0].1 != pair[1].0).count();
    let ends = (links.first().map(|link| link.0), links.last().map(|link| link.1));
    complaints.must(
        gaps == 0 && ends == (Some(start_ns), Some(end_ns)),
        format!("the chain has {gaps} gaps and spans {ends:?}: {links:?}"),
    );
    let shared_ns: u64 = items(&stall["partition"]).map(|share| ns(&share["ns"])).sum();
    complaints.must(
        shared_ns == duration_ns,
        format!("the partition sums to {shared_ns} ns, not {duration_ns}"),
    );
}

/// The functions of victim and culprit are on the stacks and named as the cause.
fn check_functions(complaints: &mut Complaints, stall: &Value, text: &str, outcome: &Outcome) {
    let answer = &outcome.answer;
    let on_a_stack = |at: &str, function: &str| {
        let mut frames = items(&stall["chain"])
            .filter_map(|link| link.pointer(at))
            .flat_map(items)
            .filter_map(Value::as_str);
        function.is_empty() || frames.any(|frame| frame.contains(function))
    };
    complaints.expect(
        on_a_stack("/stack", &answer.victim_function),
        format!("no stack of the chain holds {}", answer.victim_function),
    );
    complaints.expect(
        on_a_stack("/wake/stack", &answer.release_function),
        format!("no wake stack holds {}", answer.release_function),
    );
    // For exiting processes, the answer says that they exit and what takes most of the time, which
    // is far below `do_exit`.
    let culprit_function =
        if is_thread_group(outcome) { "ending their processes" } else { &answer.culprit_function };
    let function = stall["cause"]["function"].as_str().unwrap_or_default();
    complaints.expect(
        function.contains(culprit_function) || text.contains(culprit_function),
        format!("neither cause.function, {function:?}, nor the text names {culprit_function}"),
    );
}

/// Every wake-up was in vain, possibly except the last, and the evidence is direct.
fn check_wakes_in_vain(complaints: &mut Complaints, stall: &Value) {
    let (wakes, in_vain) = (ns(&stall["figures"]["wakes"]), ns(&stall["figures"]["wakes_in_vain"]));
    complaints.expect(
        wakes > 0 && (in_vain == wakes || in_vain + 1 == wakes),
        format!("{in_vain} of {wakes} wake-ups were in vain"),
    );
    let evidence = &stall["cause"]["evidence"];
    complaints.expect(
        evidence == "direct",
        format!("the evidence is {evidence}, though every wake-up was recorded"),
    );
}

fn check_names(complaints: &mut Complaints, text: &str, outcome: &Outcome) {
    let answer = &outcome.answer;
    let named = [
        &answer.victim_thread,
        &answer.culprit_thread,
        &answer.victim_function,
        &answer.release_function,
    ];
    for name in named.into_iter().chain(&answer.also_named) {
        complaints.expect(text.contains(name.as_str()), format!("the text does not name {name}"));
    }
}

/// A count or a time; zero if it is missing.
fn ns(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
