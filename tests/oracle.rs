//! `perf sched timehist` as the oracle: compares its run, wait and delay times of every thread with
//! [`Analysis`] on the same file, or on the trace that the file was exported from.
//!
//! The output is that of `tools/perf/builtin-sched.c` (perf 6.1 and later): a line per context
//! switch, about the thread that leaves, and sums per thread. Lines are truncated to whole
//! microseconds, so they are compared one by one, truncated likewise; sums are compared within 0.1
//! %. *Why comparing sums is not enough:* timehist and we answer slightly different questions. It
//! knows a CPU's last switch, a thread's last departure, and the first wake-up since:
//!
//! * run = this departure − the CPU's last switch, whichever thread it switched to;
//! * wait = the CPU's last switch − the thread's last departure; 0 if there was none;
//! * delay = the CPU's last switch − the first wake-up since that departure; 0 if there was none.
//!
//! If that is no answer, or not to our question, a [`Reason`] names the difference. Whether one
//! applies is derived only from the events, never from the figures, and it only excuses the columns
//! that it must: any other difference counts against the tolerance.
#![cfg(target_os = "linux")]

#[path = "../crates/formats/tests/synthetic/mod.rs"]
mod synthetic;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io::{Read, Write, stderr};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};
use synthetic::{At, Chain, IDLE, SyntheticTrace, Task};
use unhitch_analysis::{Analysis, Rules, State};
use unhitch_model::{ThreadId, Time, Trace, WakeFlags, Window};
use unhitch_record::{EngineChoice, Error, Options, Recorder};

/// Relative tolerance of a thread's sum, and the absolute tolerance for sums that are almost zero.
const TOLERANCE: (f64, f64) = (1e-3, 10_000.0);
/// Many processes that switch at the scheduler's discretion, then a pair on one CPU that must
/// switch thousands of times.
const LOAD: [&str; 3] = [
    "sh",
    "-c",
    "perf bench sched messaging -g 2 -l 100 && taskset -c 0 perf bench sched pipe -l 1000",
];
/// Wait, delay and run: the columns of timehist, here in nanoseconds.
type Columns = [u64; 3];
const NAMES: [&str; 3] = ["wait", "delay", "run"];
/// The id that timehist shows for every thread that lost its own by exiting.
const EXITED: i64 = -1;
/// Idle threads, and threads of which perf does not know the process, are shown without an id.
const WITHOUT_PROCESS: i64 = 0;

/// Why timehist and we differ about a thread's time off a CPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Reason {
    /// The CPU's first switch: timehist knows nothing about the time before, but we infer it.
    FirstOfCpu,
    /// The thread's first departure: timehist counts no wait before it, but we do, from the start
    /// of the trace or of the thread.
    FirstDeparture,
    /// After a thread's last departure, timehist counts nothing; we continue to the end of the
    /// trace.
    AfterLastDeparture,
    /// The ring of some CPU starts later: we only count what is inside the window that all CPUs
    /// cover.
    OutsideCommonWindow,
    /// A switch in between was not reported (see `repair`): to us the time is unknown, timehist
    /// takes the CPU's last switch for it.
    BrokenChain,
    /// The exiting thread's samples have no thread id any more: timehist counts them to a thread −1
    /// that all exiting threads share.
    IdGone,
    /// It left runnable. We count that wait separately as preempted; timehist shows a delay of 0
    /// (6.1), the whole wait (later versions), or counts from a wake-up that changed nothing.
    Preempted,
    /// Woken just before it left, and by nothing else: to us it never slept, timehist has forgotten
    /// the wake-up when it leaves.
    EarlyWake,
}

impl Reason {
    /// True if it excuses that column.
    fn excuses(self, column: usize) -> bool {
        match self {
            Self::FirstDeparture => NAMES[column] == "wait",
            Self::Preempted | Self::EarlyWake => NAMES[column] == "delay",
            _ => true,
        }
    }
}

/// A line of timehist: a thread leaves a CPU.
#[derive(Debug)]
struct Line {
    time_us: u64,
    tid: i64,
    columns_us: Columns,
    #[expect(dead_code, reason = "printed where a line is not the expected one")]
    text: String,
}

/// The whole output of timehist.
#[derive(Default)]
struct Timehist {
    lines: HashMap<u16, VecDeque<Line>>,
    sums: BTreeMap<i64, Columns>,
}

impl Timehist {
    fn of(file: &Path) -> Self {
        let out = perf(
            &["sched", "timehist", "--with-summary", "--state", "--no-call-graph", "-i"],
            file,
        );
        let text = String::from_utf8_lossy(&out.stdout);
        let mut timehist = Self::default();
        let (lines, sums) =
            text.split_once("Wait-time summary").expect("timehist prints a summary");
        for line in whole_lines(lines) {
            if let Some((cpu, line)) = read_line(&line) {
                timehist.lines.entry(cpu).or_default().push_back(line);
            }
        }
        for (tid, columns) in sums.lines().filter_map(read_sum) {
            let sum = timehist.sums.entry(tid).or_default();
            (0..3).for_each(|column| sum[column] += columns[column]);
        }
        timehist
    }
}

/// The lines of `text`, joined if a thread name broke them: a name may contain anything but NUL.
fn whole_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.split('\n') {
        match lines.last_mut().filter(|_| read_head(line).is_none()) {
            Some(broken) => *broken = format!("{broken}\n{line}"),
            None => lines.push(line.to_owned()),
        }
    }
    lines
}

/// `4663.508657 [0000] `: the time in µs and the CPU, and what follows.
fn read_head(line: &str) -> Option<(u64, u16, &str)> {
    let (time, line) = line.trim_start().split_once(" [")?;
    let (cpu, rest) = line.split_once("] ")?;
    Some((micros(time, 6)?, cpu.parse().ok()?, rest))
}

/// `4663.508657 [0000]  migration/0[18]   0.000   0.005   0.009   S`
fn read_line(line: &str) -> Option<(u16, Line)> {
    let (time_us, cpu, rest) = read_head(line)?;
    let (rest, _state) = last_word(rest)?;
    let (rest, run) = last_word(rest)?;
    let (rest, delay) = last_word(rest)?;
    let (thread, wait) = last_word(rest)?;
    let columns_us = [micros(wait, 3)?, micros(delay, 3)?, micros(run, 3)?];
    Some((
        cpu,
        Line {
            time_us,
            tid: tid(thread).unwrap_or(WITHOUT_PROCESS),
            columns_us,
            text: line.to_owned(),
        },
    ))
}

/// `rustc[18762/18758]   18758   34   105.277   0.000   0.000   253.101   0.000`: run, then the
/// wait by state, then the delay.
fn read_sum(line: &str) -> Option<(i64, Columns)> {
    let mut words = line.split_whitespace().rev();
    let [delay, preempt, io, sleep, run] =
        [(); 5].map(|()| words.next().and_then(|word| micros(word, 3)));
    let thread = &line[..=line.rfind(']')?];
    Some((tid(thread)?, [sleep? + io? + preempt?, delay?, run?].map(|us| us * 1000)))
}

/// Splits `a b ` into `a` and `b`.
fn last_word(text: &str) -> Option<(&str, &str)> {
    text.trim_end().rsplit_once(char::is_whitespace)
}

/// The id in `name[tid]` or `name[tid/pid]`; idle threads have none.
fn tid(thread: &str) -> Option<i64> {
    let (_, ids) = thread.trim_end().strip_suffix(']')?.rsplit_once('[')?;
    ids.split('/').next()?.parse().ok()
}

/// A decimal number with `digits` digits after the point, in units of the last digit.
fn micros(word: &str, digits: usize) -> Option<u64> {
    let (whole, fraction) =
        word.split_once('.').filter(|(_, fraction)| fraction.len() == digits)?;
    Some(whole.parse::<u64>().ok()? * 10u64.pow(digits as u32) + fraction.parse::<u64>().ok()?)
}

/// According to [`Analysis`]: the columns of each departure, by the switch, and what follows each
/// thread's last departure.
fn ours(trace: &Trace) -> (Vec<Columns>, Vec<Columns>) {
    let rules = Rules::default();
    let analysis = Analysis::new(trace, &rules);
    let mut departures = vec![Vec::new(); trace.threads.len()];
    for (switch, prev) in trace.switches.prev.iter().enumerate() {
        departures[prev.index()].push(switch);
    }
    let mut trips = vec![[0; 3]; trace.switches.len()];
    let mut tails = vec![[0; 3]; trace.threads.len()];
    for (thread, _) in trace.threads.iter() {
        let departures = &departures[thread.index()];
        for segment in analysis.segments(thread, analysis.timeline.window()) {
            let next = departures
                .partition_point(|&switch| trace.switches.time[switch] < segment.window.end);
            let sum = departures
                .get(next)
                .map_or(&mut tails[thread.index()], |&switch| &mut trips[switch]);
            let columns: &[usize] = match segment.state {
                State::Ran => &[2],
                State::Runnable { preempted: false } => &[0, 1],
                State::Runnable { preempted: true } | State::Sleeping(_) => &[0],
                State::Unknown => &[],
            };
            columns.iter().for_each(|&column| sum[column] += segment.window.duration_ns());
        }
    }
    (trips, tails)
}

/// What timehist remembers about a thread, and what we need to name a difference.
#[derive(Clone, Copy, Default, Debug)]
struct Known {
    left: Option<Time>,
    left_runnable: bool,
    ready: Option<Time>,
    running: bool,
    woken: Option<Time>,
    woken_running: bool,
    /// Woken while it ran, before the departure, or in the same nanosecond.
    early: bool,
    tied: bool,
    came_on: u32,
}

/// The account: sums and differences by thread id.
#[derive(Default)]
struct Account {
    ours: BTreeMap<i64, [f64; 3]>,
    explained: BTreeMap<i64, [f64; 3]>,
    by_reason: BTreeMap<Reason, (u64, [f64; 3])>,
    trips: u64,
    agreed: u64,
    unexplained: Vec<String>,
    /// Departures after a wait of less than the microsecond that timehist prints, where it may have
    /// counted the wait as a delay or not: that depends on its version.
    undecided: BTreeMap<i64, u64>,
    /// Threads that some line shows without an id, as the summary then does.
    without_id: BTreeSet<i64>,
}

impl Account {
    fn explain(&mut self, tid: i64, reason: Reason, difference: [f64; 3]) {
        let (count, sum) = self.by_reason.entry(reason).or_default();
        *count += 1;
        let explained = self.explained.entry(tid).or_default();
        for column in 0..3 {
            sum[column] += difference[column];
            explained[column] += difference[column];
        }
    }

    fn add_ours(&mut self, tid: i64, columns: Columns) {
        let sum = self.ours.entry(tid).or_default();
        (0..3).for_each(|column| sum[column] += columns[column] as f64);
    }
}

/// Compares every line and every sum that timehist prints of a file with our figures for the same
/// events; panics if they differ without a reason.
fn compare(what: &str, trace: &Trace, file: &Path) -> Account {
    assert!(
        trace.losses.is_empty(),
        "{what}: events were lost, timehist and we would both guess: {:?}",
        trace.losses
    );
    let Timehist { lines, sums } = Timehist::of(file);
    let account = account(what, trace, lines);
    let mut wrong = Vec::new();
    for tid in account
        .ours
        .keys()
        .chain(account.explained.keys())
        .chain(sums.keys())
        .collect::<BTreeSet<_>>()
    {
        let of = |sums: &BTreeMap<i64, [f64; 3]>| sums.get(tid).copied().unwrap_or_default();
        if account.without_id.contains(tid) && !sums.contains_key(tid) {
            continue;
        }
        let theirs = sums.get(tid).copied().unwrap_or_default().map(|ns| ns as f64);
        for column in 0..3 {
            let rest = theirs[column] - of(&account.ours)[column] - of(&account.explained)[column];
            let undecided_us = account.undecided.get(tid).copied().unwrap_or(0);
            let tolerance =
                (theirs[column] * TOLERANCE.0).max(TOLERANCE.1) + undecided_us as f64 * 1e3;
            if rest.abs() > tolerance {
                wrong.push(format!(
                    "tid {tid}: {} differs by {rest} of {} ns for no known reason",
                    NAMES[column], theirs[column]
                ));
            }
        }
    }
    let mut summary = format!(
        "{what}: {} threads, {} departures, {} agree to the nanosecond in all three columns, {} differ for no known reason\n",
        sums.len(),
        account.trips,
        account.agreed,
        account.unexplained.len()
    );
    let total = |sums: Vec<[f64; 3]>| {
        [0, 1, 2].map(|column| sums.iter().map(|sum| sum[column]).sum::<f64>() / 1e6)
    };
    let [theirs, ours] = [
        total(sums.values().map(|sum| sum.map(|ns| ns as f64)).collect()),
        total(account.ours.values().copied().collect()),
    ];
    summary += &format!(
        "  wait, delay, run: timehist {theirs:.3?} ms, ours {ours:.3?} ms; timehist − ours:\n"
    );
    for (reason, (count, sum)) in &account.by_reason {
        summary += &format!(
            "  {:<20} ×{count:<6} {:.3?} ms\n",
            format!("{reason:?}"),
            sum.map(|ns| ns / 1e6)
        );
    }
    report(summary.trim_end());
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), account.unexplained.join("\n"));
    account
}

/// Checks every line of timehist against its rule, and our result against the line.
fn account(what: &str, trace: &Trace, lines: HashMap<u16, VecDeque<Line>>) -> Account {
    let (trips, tails) = ours(trace);
    let mut replay = Replay::new(what, trace, lines);
    for (switch, trip) in trips.into_iter().enumerate() {
        replay.switch(switch, trip);
    }
    assert!(
        replay.lines.values().all(VecDeque::is_empty),
        "{what}: timehist has lines of switches that we did not read"
    );
    let mut account = replay.account;
    for ((_, thread), tail) in trace.threads.iter().zip(tails).filter(|(_, tail)| *tail != [0; 3]) {
        let tid = i64::from(thread.tid);
        account.add_ours(tid, tail);
        account.explain(tid, Reason::AfterLastDeparture, tail.map(|ns| -(ns as f64)));
    }
    account
}

/// Goes through the events as timehist does.
struct Replay<'t> {
    what: &'t str,
    trace: &'t Trace,
    common_window: Window,
    /// The lines of each CPU that are still to be compared.
    lines: HashMap<u16, VecDeque<Line>>,
    known: Vec<Known>,
    /// The thread −1 that all exiting threads share.
    exited: Known,
    /// The last switch of each CPU, and the thread that it switched to.
    last: HashMap<u16, (Time, ThreadId)>,
    /// The next wake-up.
    waking: usize,
    account: Account,
}

/// A thread leaves a CPU.
struct Departure {
    thread: ThreadId,
    tid: i64,
    time: Time,
    is_runnable: bool,
    /// The CPU's last switch, and the thread that it switched to.
    last: Option<(Time, ThreadId)>,
    line: Line,
}

impl<'t> Replay<'t> {
    fn new(what: &'t str, trace: &'t Trace, lines: HashMap<u16, VecDeque<Line>>) -> Self {
        Self {
            what,
            trace,
            common_window: trace.common_window(),
            lines,
            known: vec![Known::default(); trace.threads.len()],
            exited: Known::default(),
            last: HashMap::new(),
            waking: 0,
            account: Account::default(),
        }
    }

    /// Processes a switch, after the wake-ups before it.
    fn switch(&mut self, switch: usize, trip: Columns) {
        let switches = &self.trace.switches;
        let (time, cpu) = (switches.time[switch], switches.cpu[switch]);
        let (prev, next) = (switches.prev[switch], switches.next[switch]);
        self.wake_until(time);
        let tid = i64::from(self.trace.threads.get(prev).tid);
        let line = self.next_line(time, cpu, tid);
        let last = self.last.insert(cpu, (time, next));
        if !prev.is_idle() {
            let is_runnable = switches.prev_state[switch].is_runnable();
            let departure = Departure { thread: prev, tid, time, is_runnable, last, line };
            let (theirs, delay_is_wait) = self.apply_rule(&departure);
            let reasons = self.reasons(&departure, delay_is_wait);
            self.compare(&departure, theirs, trip, &reasons);
            self.leave(&departure);
        }
        let coming = &mut self.known[next.index()];
        *coming = Known { running: true, came_on: coming.came_on + 1, ..*coming };
    }

    /// Processes the wake-ups up to `time`.
    fn wake_until(&mut self, time: Time) {
        let wakings = &self.trace.wakings;
        while self.waking < wakings.len() && wakings.time[self.waking] <= time {
            let woken = wakings.time[self.waking];
            let wakee = &mut self.known[wakings.wakee[self.waking].index()];
            wakee.ready.get_or_insert(woken);
            wakee.woken = Some(woken);
            wakee.woken_running |= wakee.running;
            self.waking += 1;
        }
    }

    /// The next line of a CPU, which must be about this thread.
    fn next_line(&mut self, time: Time, cpu: u16, tid: i64) -> Line {
        let what = self.what;
        let line = self.lines.get_mut(&cpu).and_then(VecDeque::pop_front);
        let line = line
            .unwrap_or_else(|| panic!("{what}: timehist has no line for {time:?} on CPU {cpu}"));
        let is_thread = [tid, EXITED, WITHOUT_PROCESS].contains(&line.tid);
        let same = line.time_us == time.nanos() / 1000 && is_thread;
        assert!(same, "{what}: thread {tid} leaves CPU {cpu} at {time:?}; timehist has {line:?}");
        line
    }

    /// The exact columns according to timehist's rule, of which the line must be the truncation;
    /// and whether its delay is the whole wait.
    fn apply_rule(&mut self, departure: &Departure) -> (Columns, bool) {
        let Departure { thread, tid, time, line, last, .. } = departure;
        let of = if line.tid == EXITED { self.exited } else { self.known[thread.index()] };
        let mut theirs = match *last {
            None => [0; 3],
            Some((came_on, _)) => {
                let since = |from: Option<Time>| {
                    from.filter(|from| *from <= came_on).map_or(0, |from| came_on.since(from))
                };
                [since(of.left), since(of.ready), time.since(came_on)]
            }
        };
        let may_be_wait = (of.left_runnable || of.tied) && line.columns_us[1] == theirs[0] / 1000;
        let is_undecided = may_be_wait && line.columns_us[1] == 0 && theirs[0] > 0;
        if is_undecided {
            *self.account.undecided.entry(*tid).or_default() += 1;
        }
        let delay_is_wait = may_be_wait && !is_undecided;
        if delay_is_wait {
            theirs[1] = theirs[0];
        }
        assert_eq!(
            line.columns_us,
            theirs.map(|ns| ns / 1000),
            "{}: timehist's rule for thread {tid} at {time:?}, {of:?}",
            self.what
        );
        (theirs, delay_is_wait)
    }

    /// Why timehist and we may differ about this departure.
    fn reasons(&self, departure: &Departure, delay_is_wait: bool) -> Vec<Reason> {
        let (of, window) = (self.known[departure.thread.index()], self.common_window);
        let came_on = departure.last.map(|(came_on, _)| came_on);
        let was_on = departure.last.map(|(_, thread)| thread);
        let is_outside =
            of.left.or(of.ready).or(came_on) < Some(window.start) || departure.time >= window.end;
        let woken_early = of.tied && delay_is_wait
            || of.early && of.ready.is_none_or(|ready| came_on < Some(ready));
        let reasons = [
            (departure.line.tid == EXITED, Reason::IdGone),
            (came_on.is_none(), Reason::FirstOfCpu),
            (is_outside, Reason::OutsideCommonWindow),
            (of.came_on != 1 || was_on != Some(departure.thread), Reason::BrokenChain),
            (of.left.is_none(), Reason::FirstDeparture),
            (of.left_runnable, Reason::Preempted),
            (woken_early, Reason::EarlyWake),
        ];
        reasons.into_iter().filter(|(applies, _)| *applies).map(|(_, reason)| reason).collect()
    }

    /// Adds a departure to the account, where a reason must excuse each column that differs.
    fn compare(
        &mut self,
        departure: &Departure,
        theirs: Columns,
        ours: Columns,
        reasons: &[Reason],
    ) {
        let (account, tid) = (&mut self.account, departure.tid);
        account.trips += 1;
        account.add_ours(tid, ours);
        if departure.line.tid == WITHOUT_PROCESS {
            account.without_id.insert(tid);
        }
        let mut difference = [0, 1, 2].map(|column| theirs[column] as f64 - ours[column] as f64);
        if departure.line.tid == EXITED {
            account.explain(EXITED, Reason::IdGone, theirs.map(|ns| ns as f64));
            difference = ours.map(|ns| -(ns as f64));
        }
        let excuses = |reason: &&Reason| {
            (0..3).all(|column| difference[column] == 0.0 || reason.excuses(column))
        };
        match reasons.iter().find(excuses) {
            _ if difference == [0.0; 3] => account.agreed += 1,
            Some(reason) => account.explain(tid, *reason, difference),
            None => account.unexplained.push(format!(
                "thread {tid} at {:?}: timehist − ours = {difference:?} ns",
                departure.time
            )),
        }
    }

    fn leave(&mut self, departure: &Departure) {
        let left = Known {
            left: Some(departure.time),
            left_runnable: departure.is_runnable,
            ..Known::default()
        };
        if departure.line.tid == EXITED {
            self.exited = left;
        }
        let thread = &mut self.known[departure.thread.index()];
        let (early, tied) = (thread.woken_running, thread.woken == Some(departure.time));
        *thread = Known { early, tied, ..left };
    }
}

#[test]
fn live_perf_record_of_a_messaging_load() {
    let test = "live_perf_record_of_a_messaging_load";
    let Some(_alone) = ready(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    for stacks in [false, true] {
        let file = folder.path().join(format!("{stacks}.data"));
        // The rings are large enough that nothing is lost: after a loss there would only be guesses
        // to compare.
        let mut command = Command::new("perf");
        command
            .args(["record", "-q", "-a", "-m", if stacks { "64M" } else { "16M" }, "-o"])
            .arg(&file);
        command.args([
            "-e",
            "sched:sched_switch",
            "-e",
            "sched:sched_waking",
            "-e",
            "sched:sched_wakeup_new",
        ]);
        command.args(stacks.then_some("-g")).arg("--").args(LOAD);
        let out = command.output().unwrap();
        if !out.status.success() {
            return report(&format!("SKIPPED {test}: perf record: {}", first_line(&out.stderr)));
        }
        let what = if stacks { "perf record -g" } else { "perf record" };
        check(what, &unhitch_formats::open(&file).unwrap(), &file);
    }
}

#[test]
fn live_own_recording_of_a_messaging_load() {
    let test = "live_own_recording_of_a_messaging_load";
    let Some(_alone) = ready(test) else { return };
    match Recorder::start(&Options::default()) {
        Err(error @ (Error::NotPermitted { .. } | Error::Missing { .. })) => {
            return report(&format!("SKIPPED {test}: {}", error.to_string().replace('\n', " ")));
        }
        result => drop(result.unwrap()),
    }
    let folder = tempfile::tempdir().unwrap();
    let (container, file) = (folder.path().join("own.hitch"), folder.path().join("own.data"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_unhitch"));
    let out = command
        .args(["record", "--engine", "perf", "--buffer", "64M", "-o"])
        .arg(&container)
        .arg("--")
        .args(LOAD)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let mut zip = zip::ZipArchive::new(std::fs::File::open(&container).unwrap()).unwrap();
    let mut bytes = Vec::new();
    zip.by_name("perf.data").unwrap().read_to_end(&mut bytes).unwrap();
    std::fs::write(&file, bytes).unwrap();
    let (whole, part) =
        (unhitch_formats::open(&container).unwrap(), unhitch_formats::open(&file).unwrap());
    assert_eq!(
        (whole.switches.len(), whole.wakings.len()),
        (part.switches.len(), part.wakings.len()),
        "the container and its perf.data"
    );
    check("unhitch record", &part, &file);
}

/// What timehist says about an export equals our figures for the recording itself.
#[test]
fn live_export_of_a_recording_of_a_messaging_load() {
    let test = "live_export_of_a_recording_of_a_messaging_load";
    let Some(_alone) = ready(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    for engine in [EngineChoice::Bpf, EngineChoice::Perf] {
        let mut options = Options::default();
        options.engine = engine;
        if let Err(error) = Recorder::start(&options) {
            report(&format!("SKIPPED {test} {engine:?}: {}", error.to_string().replace('\n', " ")));
            continue;
        }
        let name = format!("{engine:?}").to_lowercase();
        let (container, file) = (
            folder.path().join(format!("{name}.hitch")),
            folder.path().join(format!("{name}.data")),
        );
        let unhitch = |words: &[&str], rest: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_unhitch"));
            let out = command.args(words).arg(&container).args(rest).output().unwrap();
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        };
        let load = [&["--"][..], &LOAD].concat();
        unhitch(&["record", "--engine", &name, "--buffer", "64M", "-o"], &load);
        unhitch(&["export", "--to", "perf.data", "-o", &file.to_string_lossy()], &[]);
        let mut trace = unhitch_formats::open(&container).unwrap();
        // What the kernel did not report is in the table and in the export.
        unhitch_analysis::repair(&mut trace);
        check(&format!("export of {name}"), &trace, &file);
    }
}

/// Checks that `perf script` reads as many events as we do, and that timehist agrees.
fn check(what: &str, trace: &Trace, file: &Path) {
    let script = perf(&["script", "-F", "event", "-i"], file);
    let (text, complaints) =
        (String::from_utf8_lossy(&script.stdout), String::from_utf8_lossy(&script.stderr));
    assert!(!complaints.contains("Error"), "{what}: perf script: {complaints}");
    let count = |event: &str| {
        text.lines().filter(|line| line.trim().trim_end_matches(':') == event).count() as u64
    };
    let is_new = |flags: &&WakeFlags| flags.has(WakeFlags::NEW);
    let new = trace.wakings.flags.iter().filter(is_new).count() as u64;
    let wakings = trace.wakings.len() as u64 - new;
    for (event, ours) in [
        ("sched:sched_switch", trace.switches.len() as u64),
        ("sched:sched_waking", wakings),
        ("sched:sched_wakeup_new", new),
    ] {
        assert_eq!(count(event), ours, "{what}: {event} according to perf script");
    }
    assert!(
        trace.switches.len() > 1_000,
        "{what}: this load switches thousands of times, not {}",
        trace.switches.len()
    );
    let account = compare(what, trace, file);
    assert!(account.agreed * 2 > account.trips, "{what}: explanations must stay the exception");
}

/// Has each difference once, with known figures. Times are in microseconds.
#[test]
fn a_synthetic_scenario_has_each_difference_once() {
    let test = "a_synthetic_scenario_has_each_difference_once";
    let Some(_alone) = ready(test) else { return };
    let [a, b] = [100, 200].map(|pid| Task { pid, tid: pid, comm: "task" });
    let none = Chain::default();
    let mut synthetic = SyntheticTrace::default();
    let at = |us: u64| At { ns: us * 1000, cpu: 0 };
    // Without the name, timehist would not print the id of a thread whose first event is a wake-up.
    [a, b].iter().for_each(|task| synthetic.comm(0, *task, false));
    synthetic.waking(at(900), a, 0, b, none);
    synthetic.switch(at(1_000), a, 1, IDLE, none); // FirstOfCpu: it ran since the trace began
    synthetic.waking(at(1_500), IDLE, 8, a, none);
    synthetic.switch(at(1_600), IDLE, 0, a, none);
    synthetic.switch(at(2_000), a, 1, b, none); // agrees: wait 600, delay 100, run 400
    synthetic.switch(at(2_300), b, 0x100, a, none); // FirstDeparture: it waited since the trace began
    synthetic.waking(at(2_400), a, 8, a, none);
    synthetic.switch(at(2_500), a, 1, b, none); // agrees
    synthetic.switch(at(2_700), b, 0, a, none); // agrees, preempted before
    synthetic.switch(at(2_900), a, 1, IDLE, none); // EarlyWake: woken at 2400, left at 2500
    synthetic.waking(at(3_000), IDLE, 8, b, none);
    synthetic.switch(at(3_400), b, 1, IDLE, none); // BrokenChain: nobody saw it come on
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("synthetic.data");
    std::fs::write(&file, synthetic.file()).unwrap();
    let account = compare("synthetic", &unhitch_formats::open(&file).unwrap(), &file);
    assert!(account.unexplained.is_empty(), "{:?}", account.unexplained);
    // The output for preempted threads depends on the version of perf.
    let found = account.by_reason.iter().filter(|(reason, _)| **reason != Reason::Preempted);
    let found: Vec<_> = found
        .map(|(reason, (count, sum))| (*reason, *count, sum.map(|ns| (ns / 1e3).round())))
        .collect();
    let expected = [
        (Reason::FirstOfCpu, 1, [0.0, 0.0, -100.0]),
        (Reason::FirstDeparture, 1, [-1100.0, 0.0, 0.0]),
        (Reason::AfterLastDeparture, 2, [-500.0, 0.0, 0.0]),
        (Reason::BrokenChain, 1, [200.0, 0.0, 500.0]),
        (Reason::EarlyWake, 1, [0.0, -200.0, 0.0]),
    ];
    assert_eq!(found, expected);
}

/// For two events in the same nanosecond, timehist uses their order in the file; our figures do not
/// depend on it.
#[test]
fn a_wake_up_in_the_nanosecond_of_leaving_agrees_in_either_order() {
    let Some(_alone) = ready("a_wake_up_in_the_nanosecond_of_leaving_agrees_in_either_order")
    else {
        return;
    };
    let task = Task { pid: 100, tid: 100, comm: "task" };
    let none = Chain::default();
    let at = |us: u64, cpu: u32| At { ns: us * 1000, cpu };
    let folder = tempfile::tempdir().unwrap();
    // If its arrival was not reported, we consider the second wake-up futile.
    for (arrives, woken_first, delay) in
        [(true, true, -600.0), (true, false, 0.0), (false, false, 600.0)]
    {
        let mut synthetic = SyntheticTrace::default();
        synthetic.comm(0, task, false);
        match arrives {
            true => synthetic.switch(at(500, 0), IDLE, 0, task, none),
            false => synthetic.waking(at(500, 1), IDLE, 0, task, none),
        }
        let leaves =
            |synthetic: &mut SyntheticTrace| synthetic.switch(at(1_000, 0), task, 1, IDLE, none);
        if !woken_first {
            leaves(&mut synthetic);
        }
        synthetic.waking(at(1_000, 1), IDLE, 0, task, none);
        if woken_first {
            leaves(&mut synthetic);
        }
        synthetic.switch(at(1_600, 0), IDLE, 0, task, none);
        synthetic.switch(at(2_000, 0), task, 1, IDLE, none);
        let file = folder.path().join("synthetic.data");
        std::fs::write(&file, synthetic.file()).unwrap();
        let account = compare("synthetic", &unhitch_formats::open(&file).unwrap(), &file);
        assert!(account.unexplained.is_empty(), "{:?}", account.unexplained);
        let early = account.by_reason.get(&Reason::EarlyWake).map_or(0.0, |(_, sum)| sum[1] / 1e3);
        assert_eq!(early, delay, "woken first: {woken_first}");
    }
}

/// Two system-wide recordings would disturb each other. Without perf there is nothing to compare
/// with.
fn ready(test: &str) -> Option<std::sync::MutexGuard<'static, ()>> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    match Command::new("perf").arg("--version").output() {
        Ok(out) if out.status.success() => {
            Some(ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner))
        }
        Ok(out) => {
            report_none(&format!("SKIPPED {test}: perf does not run: {}", first_line(&out.stderr)))
        }
        Err(error) => report_none(&format!("SKIPPED {test}: perf does not run: {error}")),
    }
}

fn perf(words: &[&str], file: &Path) -> Output {
    let out = Command::new("perf").args(words).arg(file).env("PAGER", "cat").output().unwrap();
    assert!(
        out.status.success(),
        "perf {}: {}",
        words.join(" "),
        String::from_utf8_lossy(&out.stderr)
    );
    out
}

fn first_line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("no reason given")
        .to_owned()
}

/// Prints past the test harness, which hides the output of passing tests.
fn report(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}

fn report_none<T>(line: &str) -> Option<T> {
    report(line);
    None
}
