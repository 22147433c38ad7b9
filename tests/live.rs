//! The lab's hangs through the command line, for real: record each, and compare the answer with
//! what the program itself knows.
//!
//! A program tells in `lab.json` who hangs because of whom, and what it measured with its own
//! clock. *Why a run may be repeated:* a hang is a race against the scheduler, and the rings hold
//! so many events, not so many seconds. A hang that did not come about (exit code 4), or that
//! others' events drove out of the rings, prints `NOISY name: reason` and is tried again, so that a
//! test never passes or fails by luck. What the machine does not permit prints `SKIPPED name:
//! reason`. So does a hang that never came about while the host took part of a virtual machine's
//! CPU time, or other programs did: two CPUs that take turns on one are not two, and nobody starves
//! there.
//!
//! What an answer must be is what its recording proves, not what the schedule would have been on a
//! quiet machine. `slow-disk` is the example: who waits for the device is the ui, or a downloader
//! or the journal that the ui waits for. The culprit must be whoever the partition says waited for
//! it longest.
//!
//! `exit-storm` is a crowd: a hundred processes end at once and keep everybody from the CPUs,
//! themselves included. Whoever else wanted one then may be the first victim, and no one's wait is
//! the whole of it; but the crowd must be named, and the waits that it is blamed for must together
//! cover half of the hang.
//!
//! A wrong answer fails at once, unless the host or other programs took CPUs during that very
//! recording: then what hung may not be what the program set out to do. Such a recording is
//! `NOISY`, too, but only twice; the third wrong answer fails on any machine.
//!
//! `UNHITCH_SOAK=N` (`make soak`) repeats every program N times alone and N times beside a busy
//! process, and prints a table. It also records the machine while it has nothing to do, and prints
//! what is reported of that: nothing whose cause is not known.
#![cfg(target_os = "linux")]

use serde_json::Value;
use std::fs::File;
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::{Mutex, PoisonError};
use unhitch_lab::{Outcome, Span};
use unhitch_record::{Error, Options, Recorder};

/// How often a hang that did not happen is tried again.
const TRIES: usize = 16;
/// The share of the machine's time that its host may take before it counts as not having its CPUs.
/// *Why so little:* `starve` needs 500 releases in a row, in none of which the host takes the CPU
/// of the one who releases; waking the other CPU is just when it does. With 2 % taken, on a machine
/// half idle, the waits broke off after 30 to 115 ms.
const STOLEN: f64 = 0.005;

/// The share of the machine's time that programs other than the test's may take before it counts as
/// not having its CPUs: beside a compiler, who should starve gets the lock whenever the one that
/// takes it from it is not on a CPU.
const TAKEN_BY_OTHERS: f64 = 0.1;

/// The part of a hang that it may wait for CPUs which other programs have, and still be the
/// program's own.
const CONTESTED: f64 = 0.2;

/// How many wrong answers about recordings that the host or other programs disturbed are one too
/// many.
const WRONG_TRIES: usize = 3;

/// How long a machine that has nothing to do is looked at.
const IDLE_FOR: &str = "30s";

/// Two hangs at once would spoil each other.
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
    if !may_record("live_an_idle_machine_has_no_stall_that_cannot_be_defended") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("idle.hitch");
    let recorded = unhitch(&["record", "--for", IDLE_FOR, "-o"], &trace);
    assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
    let out = unhitch(&["why", "--json", "--top", "1000"], &trace);
    let why: Value = serde_json::from_slice(&out.stdout).unwrap();
    let seconds = ns(&why["trace"]["duration_ns"]) as f64 / 1e9;
    say(&format!(
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
        say(&format!(
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

/// Past the test harness, which hides what passing tests print.
fn say(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}

fn play(program: &str) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let test = format!("live_{}", program.replace('-', "_"));
    if !may_record(&test) {
        return;
    }
    match std::env::var("UNHITCH_SOAK")
        .map(|runs| runs.parse().expect("UNHITCH_SOAK is a number of runs"))
    {
        Ok(runs) => soak(program, runs),
        Err(_) => match until_it_hangs(program, WRONG_TRIES, &mut 0) {
            Ok(run) => assert!(run.complaints.is_empty(), "{run}"),
            Err(taken) => say(&format!("SKIPPED {test}: {taken}")),
        },
    }
}

/// Says so, if this machine does not permit it.
fn may_record(test: &str) -> bool {
    match Recorder::start(&Options::default()) {
        Err(error @ (Error::NotPermitted { .. } | Error::Missing { .. })) => {
            say(&format!("SKIPPED {test}: {}", error.to_string().replace('\n', " ")));
            false
        }
        result => {
            drop(result.unwrap());
            true
        }
    }
}

fn soak(program: &str, runs: usize) {
    let mut all_wrong = 0;
    for beside in ["alone", "beside a busy process"] {
        let _busy = (beside != "alone").then(Busy::start);
        let (mut right, mut wrong, mut noisy, mut outranked) = (0, 0, 0, 0);
        for _ in 0..runs {
            let run = until_it_hangs(program, 1, &mut noisy)
                .unwrap_or_else(|taken| panic!("{program}: {taken}"));
            outranked += usize::from(run.outranked);
            match run.complaints.is_empty() {
                true => right += 1,
                false => {
                    wrong += 1;
                    say(&format!("WRONG {run}"));
                }
            }
        }
        say(&format!(
            "SOAK {program:<12} {beside:<22} {right:3} right {wrong:3} wrong {noisy:3} noisy {outranked:3} outranked by other stalls"
        ));
        all_wrong += wrong;
    }
    assert_eq!(all_wrong, 0, "{program}: wrong answers");
}

/// A process that computes on whatever CPU it is given, until dropped.
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
    program: String,
    complaints: Vec<String>,
    /// Something else hung on this machine, and worse.
    outranked: bool,
    /// The host or other programs had part of the CPUs' time.
    is_disturbed: bool,
    text: String,
    /// Where the recording is kept, if something is wrong.
    trace: Option<PathBuf>,
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:\n  {}\n", self.program, self.complaints.join("\n  "))?;
        self.trace
            .iter()
            .try_for_each(|trace| writeln!(f, "The recording is {}", trace.display()))?;
        write!(f, "The answer was\n{}", self.text)
    }
}

/// The hang never came about, and these shares of the machine's time were not ours.
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

/// Times of this machine's CPUs, in clock ticks.
#[derive(Clone, Copy)]
struct Ticks {
    stolen: u64,
    busy: u64,
    all: u64,
    /// This process's, and its ended children's.
    ours: u64,
}

impl Ticks {
    fn now() -> Self {
        const STEAL: usize = 7;
        let stat = std::fs::read_to_string("/proc/stat").unwrap();
        // After these come guests' times, which are among the user's already.
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
        // utime, stime, cutime, cstime: the 14th field and those after it, of which the second ends
        // with the last parenthesis.
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

fn until_it_hangs(program: &str, wrong_tries: usize, noisy: &mut usize) -> Result<Run, Taken> {
    let (mut reasons, mut wrong) = (Vec::new(), 0);
    let before = Ticks::now();
    for _ in 0..TRIES {
        let reason = match record(program) {
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
        say(&format!("NOISY {program}: {reason}"));
        reasons.push(reason);
    }
    let taken = Ticks::taken_since(before);
    if taken.is_much() {
        return Err(taken);
    }
    panic!(
        "{program} did not hang in {TRIES} tries, this machine is too small:\n  {}",
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

/// Records the program once and judges the answer; if it did not hang, why.
fn record(program: &str) -> Result<Run, String> {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join(format!("{program}.hitch"));
    let before = Ticks::now();
    let recorded = unhitch(&["lab", program, "--record", "--json", "-o"], &trace);
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
        "the exit code tells whether it hung: {outcome:?}"
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
    // A wrong answer is worth a look at what it was given to.
    let trace = (!complaints.is_empty()).then(|| folder.keep().join(trace.file_name().unwrap()));
    Ok(Run {
        program: program.to_owned(),
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

/// The stall of the program's own processes that is the hang it measured, with its rank among all;
/// it may have hung more than once. *Why not simply the worst:* what else hung on this machine
/// meanwhile is true, too, and nobody knows beforehand what it is; how often that outranks the
/// program's hang, the soak tells.
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
    let is_own = move |stall: &Value| match is_crowd(outcome) {
        true => {
            stall["cause"]["culprit"]["process"] == own[1].as_str()
                && stall["cause"]["pattern"] == outcome.answer.pattern.as_str()
        }
        // Everybody waits for the disk there.
        false if outcome.program == "slow-disk" => {
            stall["victim"]["thread"] == outcome.answer.victim_thread.as_str()
        }
        false => own.iter().any(|process| stall["victim"]["process"] == process.as_str()),
    };
    items(&why["stalls"]).enumerate().filter(move |(_, stall)| is_own(stall))
}

/// How much of `hang` lies in one of the stalls at least.
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

fn is_crowd(outcome: &Outcome) -> bool {
    outcome.program == "exit-storm"
}

/// The part of a stall that was spent waiting for CPUs on which programs ran that are not the
/// lab's: that part is theirs, and what the lab's program did in the rest is not what it set out to
/// do. On a machine that is shared with others, so is waiting for a CPU that the lab's own threads
/// have, because the others have the rest; but for a program that sets out to do just that.
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

/// What is wrong with the program's stall in `why`, or with the text; nothing when all is right.
struct Complaints {
    /// The answer contradicts itself: that is wrong on any machine.
    broken: Vec<String>,
    /// The verdict is not the one of the program's hang.
    wrong: Vec<String>,
}

fn complaints(why: &Value, text: &str, outcome: &Outcome) -> Complaints {
    let answer = &outcome.answer;
    let (mut broken, mut complaints) = (Vec::new(), Vec::new());
    let Some(stall) = own_stall(why, outcome).map(|(_, stall)| stall) else {
        return Complaints { broken, wrong: vec!["no stall of the program was found".to_owned()] };
    };
    let mut must = |is_right: bool, complaint: String| {
        if !is_right {
            broken.push(complaint);
        }
    };
    let mut expect = |is_right: bool, complaint: String| {
        if !is_right {
            complaints.push(complaint);
        }
    };
    let mut expect_str = |what: &str, wanted: &[&str]| {
        let told = stall.pointer(what).and_then(Value::as_str).unwrap_or_default();
        expect(wanted.contains(&told), format!("{what} is {told:?}, not {}", wanted.join(" or ")));
    };
    if !is_crowd(outcome) {
        expect_str("/victim/thread", &[&answer.victim_thread]);
        expect_str("/victim/process", &[&answer.victim_process]);
    }
    if outcome.program == "slow-disk" {
        let waited_longest = items(&stall["partition"])
            .filter(|share| share["what"] == "io")
            .max_by_key(|share| ns(&share["ns"]));
        let culprit = waited_longest.map_or(&Value::Null, |share| &share["who"]);
        let word =
            |at: &str| culprit.pointer(at).and_then(Value::as_str).unwrap_or("nobody").to_owned();
        expect_str("/cause/culprit/thread", &[&word("/thread")]);
        expect_str("/cause/culprit/process", &[&word("/process")]);
    } else {
        expect_str("/cause/culprit/thread", &[&answer.culprit_thread]);
        expect_str("/cause/culprit/process", &[&answer.culprit_process]);
    }
    expect_str("/cause/pattern", &[&answer.pattern]);
    expect_str("/kind", &answer.kinds.iter().map(String::as_str).collect::<Vec<_>>());

    let (start_ns, end_ns, duration_ns) =
        (ns(&stall["start_ns"]), ns(&stall["end_ns"]), ns(&stall["duration_ns"]));
    let hang = outcome.measured.hang;
    let covered_ns = covered_ns(
        own_stalls(why, outcome).filter(|(_, other)| is_crowd(outcome) || *other == stall),
        hang,
    );
    expect(
        covered_ns >= hang.duration_ns() / 10 * if is_crowd(outcome) { 5 } else { 8 },
        format!(
            "the stall {start_ns}..{end_ns} covers {covered_ns} ns of the hang that was measured: {hang:?}"
        ),
    );
    let run = outcome.measured.run;
    expect(
        run.start_ns <= start_ns && end_ns <= run.end_ns,
        format!("the stall {start_ns}..{end_ns} is not within the run: {run:?}"),
    );
    must(
        duration_ns == end_ns.saturating_sub(start_ns),
        format!("duration_ns is {duration_ns}, from {start_ns} to {end_ns}"),
    );

    let mut links: Vec<(u64, u64)> =
        items(&stall["chain"]).map(|link| (ns(&link["from_ns"]), ns(&link["to_ns"]))).collect();
    links.sort_unstable();
    let chained_ns: u64 = links.iter().map(|(from_ns, to_ns)| to_ns.saturating_sub(*from_ns)).sum();
    must(
        chained_ns == duration_ns,
        format!("the chain sums to {chained_ns} ns, not {duration_ns}"),
    );
    let gaps = links.windows(2).filter(|pair| pair[0].1 != pair[1].0).count();
    let ends = (links.first().map(|link| link.0), links.last().map(|link| link.1));
    must(
        gaps == 0 && ends == (Some(start_ns), Some(end_ns)),
        format!("the chain has {gaps} gaps and spans {ends:?}: {links:?}"),
    );
    let shared_ns: u64 = items(&stall["partition"]).map(|share| ns(&share["ns"])).sum();
    must(
        shared_ns == duration_ns,
        format!("the partition sums to {shared_ns} ns, not {duration_ns}"),
    );

    let on_a_stack = |at: &str, function: &str| {
        let mut frames = items(&stall["chain"])
            .filter_map(|link| link.pointer(at))
            .flat_map(items)
            .filter_map(Value::as_str);
        frames.any(|frame| frame.contains(function))
    };
    let (victim_function, release_function) = (&answer.victim_function, &answer.release_function);
    expect(
        on_a_stack("/stack", victim_function) || victim_function.is_empty(),
        format!("no stack of the chain holds {victim_function}"),
    );
    expect(
        on_a_stack("/wake/stack", release_function) || release_function.is_empty(),
        format!("no wake stack holds {release_function}"),
    );
    // Of processes that end it is told that they do, and what most of their time goes to, which is
    // far below `do_exit`.
    let culprit_function =
        if is_crowd(outcome) { "to end processes" } else { &answer.culprit_function };
    let function = stall["cause"]["function"].as_str().unwrap_or_default();
    expect(
        function.contains(culprit_function) || text.contains(culprit_function),
        format!("neither cause.function, {function:?}, nor the text names {culprit_function}"),
    );

    if is_crowd(outcome) {
        expect(
            text.contains(&format!(" threads named {} had the CPU", answer.culprit_thread)),
            "the text does not name the crowd".to_owned(),
        );
    }
    if outcome.program == "starve" {
        let (wakes, in_vain) =
            (ns(&stall["figures"]["wakes"]), ns(&stall["figures"]["wakes_in_vain"]));
        expect(
            wakes > 0 && (in_vain == wakes || in_vain + 1 == wakes),
            format!("{in_vain} of {wakes} wake-ups were in vain"),
        );
        let evidence = &stall["cause"]["evidence"];
        expect(
            evidence == "direct",
            format!("the evidence is {evidence}, though every wake-up was recorded"),
        );
    }
    let named = [&answer.victim_thread, &answer.culprit_thread, victim_function, release_function]
        .into_iter()
        .chain(&answer.also_named);
    for name in named {
        expect(text.contains(name.as_str()), format!("the text does not name {name}"));
    }
    Complaints { broken, wrong: complaints }
}

/// A count or a time; zero when it is missing.
fn ns(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
