//! `unhitch table` against `perf script`: the longest waits in random windows of a recorded
//! parallel build, computed by this test from perf's reading of the same events. In each window,
//! the partition of each stall, and of the window itself for each of the threads that waited
//! longest, must also sum exactly.
//!
//! A wait starts when `sched_switch` takes a thread off the CPU in a state other than R, and ends
//! with the first `sched_waking` after that, or with the thread's return if there was none. Its
//! name is the first function of its stack that is not part of the scheduler. Sums and counts must
//! be equal, to the nanosecond. *Why some threads are left out:* the kernel does not report some
//! switches. We infer them from their neighbours (`repair`), but perf only has what was reported.
//! And perf prints no stack at all if it is deeper than 127 frames.
//!
//! `UNHITCH_WINDOWS=N` checks N windows (`make soak`: fifty).
#![cfg(target_os = "linux")]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{Read, Write, stderr};
use std::path::{Path, PathBuf};
use std::process::Command;
use unhitch_model::{TaskState, Trace};
use unhitch_record::{Error, Options, Recorder};

const UNHITCH: &str = env!("CARGO_BIN_EXE_unhitch");
const WINDOWS: usize = 6;
/// Threads that are left out may only have this fraction (one part in N) of all waiting time.
const LEFT_OUT_AT_MOST: u64 = 10;

/// A thread that waited, and the function in which it did.
type Wait = (i64, String);
/// Count and nanoseconds.
type Sum = (u64, u64);
/// Start and end, in nanoseconds.
type Range = (u64, u64);

/// An event as perf script prints it.
struct Event {
    time_ns: u64,
    kind: Kind,
}

enum Kind {
    Switch { prev: i64, sleeps: bool, next: i64, function: String },
    Waking { thread: i64, new: bool },
}

/// What is known about a thread while processing events.
#[derive(Default)]
struct Thread {
    seen: bool,
    /// When and where it started to wait.
    asleep: Option<(u64, String)>,
    /// True if it was woken while still running.
    early: bool,
}

#[test]
fn live_greatest_waits_are_those_of_perf_script() {
    if let Some(reason) = cannot_record() {
        let test = "live_greatest_waits_are_those_of_perf_script";
        return report(&format!("SKIPPED {test}: {reason}"));
    }
    let folder = tempfile::tempdir().unwrap();
    let recording = Recording::of_a_build(folder.path());
    let count = std::env::var("UNHITCH_WINDOWS")
        .map_or(WINDOWS, |windows| windows.parse().expect("UNHITCH_WINDOWS is a number"));
    let (mut stalls, mut windows_of_threads) = (0, 0);
    for window in recording.windows(count) {
        for thread in compare(&recording, window) {
            let explained = partitions(&recording, window, Some(thread));
            assert!(explained > 0, "thread {thread} waited in this window: nothing was explained");
            windows_of_threads += explained;
        }
        // On a machine with spare CPUs, a build may have none.
        stalls += partitions(&recording, window, None);
    }
    assert!(
        windows_of_threads >= count,
        "the threads that waited longest: {windows_of_threads} in {count} windows"
    );
    report(&format!(
        "the partitions of {stalls} stalls and of {windows_of_threads} windows of the longest \
         waiters are exact"
    ));
}

/// Why this machine does not permit the test.
fn cannot_record() -> Option<String> {
    match Command::new("perf").arg("--version").output() {
        Ok(out) if out.status.success() => {}
        _ => return Some("perf does not run".to_owned()),
    }
    match Recorder::start(&Options::default()) {
        Err(error @ (Error::NotPermitted { .. } | Error::Missing { .. })) => {
            Some(error.to_string().replace('\n', " "))
        }
        result => {
            drop(result.unwrap());
            None
        }
    }
}

/// Records a build of this project from scratch: compilers that wait for each other's output,
/// linkers, build scripts. Returns the recording and its `perf.data`.
fn record_build(folder: &Path) -> (PathBuf, PathBuf) {
    let (trace, data) = (folder.join("own.hitch"), folder.join("own.data"));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = ["build", "--offline", "--locked", "--package", "unhitch-lab", "--target-dir"];
    let out = Command::new(UNHITCH)
        .args(["record", "--engine", "perf", "--buffer", "128M", "-o"])
        .arg(&trace)
        .arg("--")
        .arg(cargo)
        .args(build)
        .arg(folder.join("target"))
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let mut bytes = Vec::new();
    let mut zip = zip::ZipArchive::new(std::fs::File::open(&trace).unwrap()).unwrap();
    zip.by_name("perf.data").unwrap().read_to_end(&mut bytes).unwrap();
    std::fs::write(&data, bytes).unwrap();
    (trace, data)
}

/// A recording, and the same events as perf script prints them.
struct Recording {
    trace: PathBuf,
    /// In order, with the switches that were not reported.
    events: Vec<Event>,
    left_out: BTreeSet<i64>,
    /// The filter that leaves them out of our table.
    filter: String,
    /// Start and end.
    whole: Range,
    /// The zero of times on the command line.
    origin_ns: u64,
}

impl Recording {
    fn of_a_build(folder: &Path) -> Self {
        let (trace, data) = record_build(folder);
        let mut events = events(&data);
        assert!(events.len() > 1_000, "a build has thousands of events, not {}", events.len());
        let inferred = inferred(&trace);
        let inferred_count = inferred.len();
        events.extend(inferred);
        report(&format!(
            "of {} events, {inferred_count} are switches that were inferred",
            events.len()
        ));
        events.sort_by_key(|event| event.time_ns);
        let left_out = threads_to_leave_out(&trace, &events);
        let named = std::iter::once("function != ''".to_owned());
        let filter: Vec<String> =
            named.chain(left_out.iter().map(|tid| format!("tid != {tid}"))).collect();
        let filter = filter.join(" and ");
        let table = table(&trace, &filter, &[]);
        let whole = (ns(&table["start_ns"]), ns(&table["end_ns"]));
        Self { trace, events, left_out, filter, whole, origin_ns: ns(&table["origin_ns"]) }
    }

    /// The whole recording, then random windows of it.
    fn windows(&self, count: usize) -> Vec<Range> {
        let (start, end) = self.whole;
        let (length, mut seed) = (end - start, end);
        let mut random = || {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % length
        };
        let window = |number: usize| {
            let (a, b) = if number == 0 { (0, length) } else { (random(), random()) };
            // A microsecond at least: perf and we cut windows at the same nanosecond, whatever
            // their length.
            let (from, to) = (a.min(b), a.max(b).max(a.min(b) + 1_000).min(length));
            (start + from, start + to)
        };
        (0..count).map(window).collect()
    }

    /// The options `--from` and `--to`.
    fn words_of(&self, window: Range) -> [String; 4] {
        let seconds = |ns: u64| {
            let ns = ns - self.origin_ns;
            format!("{}.{:09}s", ns / 1_000_000_000, ns % 1_000_000_000)
        };
        ["--from".to_owned(), seconds(window.0), "--to".to_owned(), seconds(window.1)]
    }
}

/// The threads that cannot be compared, which must not have waited for much of the time.
fn threads_to_leave_out(trace: &Path, events: &[Event]) -> BTreeSet<i64> {
    let left_out = threads_with_cut_stacks(trace, events);
    let (out_ns, all_ns) = waited_ns(events, &left_out);
    let percent = out_ns as f64 * 100.0 / all_ns as f64;
    report(&format!(
        "{} threads are left out, which waited {percent:.1} % of all time: perf shows no stack \
         where we have one",
        left_out.len()
    ));
    assert!(
        out_ns * LEFT_OUT_AT_MOST < all_ns,
        "threads that waited {out_ns} ns of all {all_ns} ns are left out: {left_out:?}"
    );
    left_out
}

/// Checks the partitions of all stalls in a window, or of the window itself for one thread; returns
/// how many.
fn partitions(recording: &Recording, window: Range, thread: Option<i64>) -> usize {
    let mut command = Command::new(UNHITCH);
    command
        .arg("why")
        .arg(&recording.trace)
        .args(["--json", "--top", "1000"])
        .args(recording.words_of(window));
    command.args(thread.map(|tid| format!("--victim={tid}")));
    let out = command.env_remove("XDG_CONFIG_HOME").env_remove("HOME").output().unwrap();
    assert!(matches!(out.status.code(), Some(0 | 3)), "{}", String::from_utf8_lossy(&out.stderr));
    let why: Value = serde_json::from_slice(&out.stdout).unwrap();
    let stalls = why["stalls"].as_array().unwrap();
    for stall in stalls {
        let sum = stall["partition"]
            .as_array()
            .unwrap()
            .iter()
            .map(|share| ns(&share["ns"]))
            .sum::<u64>();
        assert_eq!(sum, ns(&stall["duration_ns"]), "{stall}");
    }
    stalls.len()
}

/// Compares the top three of both, by thread and function, and only by function; returns the
/// threads.
fn compare(recording: &Recording, window: Range) -> BTreeSet<i64> {
    let mut longest = BTreeSet::new();
    let mut theirs = waits(&recording.events, recording.whole, window);
    theirs.retain(|(tid, function), _| !recording.left_out.contains(tid) && !function.is_empty());
    let times = recording.words_of(window);
    for by in ["tid,function", "function"] {
        let theirs = if by == "function" { by_function(&theirs) } else { theirs.clone() };
        let words: Vec<&str> = times.iter().map(String::as_str).chain(["--by", by]).collect();
        let table = table(&recording.trace, &recording.filter, &words);
        assert_eq!(
            (ns(&table["start_ns"]), ns(&table["end_ns"])),
            window,
            "windows are cut exactly"
        );
        let row = |row: &Value| {
            let wait = (
                row["tid"].as_i64().unwrap_or(0),
                row["function"].as_str().unwrap_or("").to_owned(),
            );
            (wait, (ns(&row["count"]), ns(&row["sum_waited_ns"])))
        };
        let ours: Vec<(Wait, Sum)> = table["rows"].as_array().unwrap().iter().map(row).collect();
        let mut ranked: Vec<(&Wait, &Sum)> = theirs.iter().collect();
        ranked.sort_by_key(|(wait, sum)| (std::cmp::Reverse(sum.1), *wait));
        for (place, (wait, sum)) in ours.iter().take(3).enumerate() {
            let alike: Vec<_> = theirs.iter().filter(|(other, _)| other.0 == wait.0).collect();
            assert_eq!(
                theirs.get(wait),
                Some(sum),
                "place {place} by {by}: {wait:?}; perf script has {alike:?}"
            );
            // Rows with equal sums may be in any order.
            assert_eq!(
                ranked.get(place).map(|(_, sum)| sum.1),
                Some(sum.1),
                "place {place} by {by}\n{ranked:?}\n{ours:?}"
            );
        }
        assert_eq!(ours.len().min(3), ranked.len().min(3), "by {by}\n{ranked:?}\n{ours:?}");
        let whole_build = window == recording.whole;
        assert!(
            !whole_build || ours.len() >= 3,
            "a build waits at three places at least: {ours:?}"
        );
        let exact = ours.iter().filter(|(wait, sum)| theirs.get(wait) == Some(sum)).count();
        report(&format!(
            "{:.6} s by {by}: of {} waits, {exact} are equal",
            (window.1 - window.0) as f64 / 1e9,
            ours.len()
        ));
        // In the table by function, rows have no thread.
        longest.extend(ours.iter().take(3).map(|(wait, _)| wait.0).filter(|tid| *tid != 0));
    }
    longest
}

/// The switches that were not reported.
fn inferred(file: &Path) -> Vec<Event> {
    let mut trace = unhitch_formats::open(file).unwrap();
    let switch = |trace: &Trace, at: usize| {
        let switches = &trace.switches;
        (switches.time[at], switches.cpu[at], switches.prev[at], switches.next[at])
    };
    let reported: BTreeSet<_> = (0..trace.switches.len()).map(|at| switch(&trace, at)).collect();
    unhitch_analysis::repair(&mut trace);
    let tid = |thread| i64::from(trace.threads.get(thread).tid);
    let inferred = (0..trace.switches.len()).filter(|at| !reported.contains(&switch(&trace, *at)));
    let event = |at: usize| {
        let (time, _, prev, next) = switch(&trace, at);
        let state = trace.switches.prev_state[at];
        let sleeps = !prev.is_idle() && !state.is_runnable() && state != TaskState::Dead;
        Event {
            time_ns: time.nanos(),
            kind: Kind::Switch {
                prev: tid(prev),
                sleeps,
                next: tid(next),
                function: String::new(),
            },
        }
    };
    inferred.map(event).collect()
}

/// The threads that started to wait with a stack that perf does not print.
fn threads_with_cut_stacks(file: &Path, events: &[Event]) -> BTreeSet<i64> {
    let trace = unhitch_formats::open(file).unwrap();
    let switches = &trace.switches;
    let has_stack = |at: &usize| !switches.stack[*at].is_empty();
    let with_stack: BTreeSet<(u64, i64)> = (0..switches.len())
        .filter(has_stack)
        .map(|at| (switches.time[at].nanos(), i64::from(trace.threads.get(switches.prev[at]).tid)))
        .collect();
    let cut = events.iter().filter_map(|event| match &event.kind {
        Kind::Switch { prev, sleeps: true, function, .. } if function.is_empty() => {
            Some((event.time_ns, *prev))
        }
        _ => None,
    });
    cut.filter(|event| with_stack.contains(event)).map(|(_, tid)| tid).collect()
}

/// How long the threads in `left_out` waited, and all threads, for anything; the time before a
/// thread's first event does not count.
fn waited_ns(events: &[Event], left_out: &BTreeSet<i64>) -> (u64, u64) {
    let ends = (
        events.first().map_or(0, |event| event.time_ns),
        events.last().map_or(0, |event| event.time_ns),
    );
    let waits = waits(events, ends, ends);
    let sum = |select: &dyn Fn(i64) -> bool| {
        waits.iter().filter(|((tid, _), _)| select(*tid)).map(|(_, (_, ns))| ns).sum()
    };
    (sum(&|tid| left_out.contains(&tid)), sum(&|_| true))
}

fn by_function(waits: &BTreeMap<Wait, Sum>) -> BTreeMap<Wait, Sum> {
    let mut sums = BTreeMap::new();
    for ((_, function), (count, ns)) in waits {
        let sum: &mut Sum = sums.entry((0, function.clone())).or_default();
        *sum = (sum.0 + count, sum.1 + ns);
    }
    sums
}

/// All waits inside `window`, clipped to it, derived from the events inside `whole`.
fn waits(events: &[Event], whole: Range, window: Range) -> BTreeMap<Wait, Sum> {
    let mut threads: HashMap<i64, Thread> = HashMap::new();
    let mut sums: BTreeMap<Wait, Sum> = BTreeMap::new();
    let mut wait = |thread: i64, (since, function): (u64, String), until: u64| {
        let inside = until.min(window.1).saturating_sub(since.max(window.0));
        if inside > 0 {
            let sum = sums.entry((thread, function)).or_default();
            *sum = (sum.0 + 1, sum.1 + inside);
        }
    };
    for event in events.iter().filter(|event| (whole.0..whole.1).contains(&event.time_ns)) {
        match &event.kind {
            Kind::Waking { thread: id, new } => {
                let thread = threads.entry(*id).or_default();
                match thread.asleep.take() {
                    Some(sleep) => wait(*id, sleep, event.time_ns),
                    None => thread.early |= thread.seen && !new,
                }
            }
            Kind::Switch { prev, sleeps, next, function } => {
                let leaving = threads.entry(*prev).or_default();
                leaving.asleep = sleeps.then(|| (event.time_ns, function.clone()));
                leaving.early &= sleeps;
                leaving.seen = true;
                let coming = threads.entry(*next).or_default();
                if let Some(sleep) = coming.asleep.take().filter(|_| !coming.early) {
                    wait(*next, sleep, event.time_ns);
                }
                (coming.early, coming.seen) = (false, true);
            }
        }
    }
    for (id, thread) in threads {
        if let Some(sleep) = thread.asleep {
            wait(id, sleep, whole.1);
        }
    }
    sums
}

/// Parses the output of perf script: `a 12 [001] 11320.284047123: sched:sched_waking: comm=a pid=12
/// …`, then the stack, one frame per line, leaf first: `ffffffff821facd8 __schedule+0x618
/// ([kernel.kallsyms])`.
fn events(data: &Path) -> Vec<Event> {
    let out = Command::new("perf")
        .args(["script", "--ns", "--no-inline", "-i"])
        .arg(data)
        .env("PAGER", "cat")
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8_lossy(&out.stdout);
    let mut lines = text.lines().peekable();
    let mut events = Vec::new();
    while let Some(line) = lines.next() {
        let mut line = line.to_owned();
        // A thread name may contain a newline.
        while let Some(more) = lines
            .next_if(|line| !line.is_empty() && !line.starts_with('\t') && head(line).is_none())
        {
            line = format!("{line} {more}");
        }
        let mut frames = Vec::new();
        while let Some(frame) = lines.next_if(|line| line.starts_with('\t') || line.is_empty()) {
            frames.push(frame);
        }
        events.extend(event(&line, &frames));
    }
    events.sort_by_key(|event| event.time_ns);
    events
}

/// The time of an event, and the rest of the line.
fn head(line: &str) -> Option<(u64, &str)> {
    let (before, rest) = line.split_once(": ")?;
    let (seconds, nanos) = before.split_whitespace().last()?.split_once('.')?;
    Some((seconds.parse::<u64>().ok()? * 1_000_000_000 + nanos.parse::<u64>().ok()?, rest))
}

fn event(line: &str, frames: &[&str]) -> Option<Event> {
    let (time_ns, rest) = head(line)?;
    let (event, rest) = rest.trim_start().split_once(": ")?;
    let word = |key: &str| rest.split_once(key)?.1.split_whitespace().next();
    let number = |key: &str| word(key)?.parse::<i64>().ok();
    let kind = match event {
        "sched:sched_switch" => {
            let (prev, next) = (number("prev_pid=")?, number("next_pid=")?);
            let sleeps =
                prev != 0 && !matches!(word("prev_state=")?, "R" | "R+" | "X" | "Z" | "X|Z");
            Kind::Switch { prev, sleeps, next, function: function(frames) }
        }
        "sched:sched_waking" | "sched:sched_wakeup_new" => {
            Kind::Waking { thread: number(" pid=")?, new: event.ends_with("new") }
        }
        _ => return None,
    };
    Some(Event { time_ns, kind })
}

/// The first function of a stack that belongs neither to the tracer nor to the scheduler.
fn function(frames: &[&str]) -> String {
    let names = frames.iter().filter_map(|frame| {
        frame.trim().split_once(' ')?.1.rsplit_once("+0x").map(|(name, _)| name)
    });
    let noise = [
        "schedule",
        "__schedule",
        "schedule_timeout",
        "schedule_preempt_disabled",
        "schedule_rtlock",
    ];
    let starts =
        ["schedule_hrtimeout", "__traceiter", "perf_trace", "preempt_schedule", "io_schedule"];
    let mut names = names.filter(|name| {
        !noise.contains(name) && !starts.iter().any(|start| name.starts_with(start))
    });
    names.next().unwrap_or("").to_owned()
}

fn table(trace: &Path, filter: &str, words: &[&str]) -> Value {
    let mut command = Command::new(UNHITCH);
    command
        .arg("table")
        .arg(trace)
        .args(["waits", "--json", "--show", "count,sum:waited", "--where", filter])
        .args(words);
    let out = command.env_remove("XDG_CONFIG_HOME").env_remove("HOME").output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

fn ns(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number of nanoseconds, not {value}"))
}

/// Prints past the test harness, which hides the output of passing tests.
fn report(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}
