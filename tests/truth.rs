//! No sentence contradicts its trace: compares answers about real recordings with the content of
//! the recording.
//!
//! Records hangs of the lab, every other one with an unrelated load. For each recording, asks what
//! hung, what each thread waited for, and what it did inside, across and after its longest wait. Everything that the answers say about samples, frames,
//! timers, pieces and names is checked against the trace, with rules that are independent of how
//! answers are made. `UNHITCH_TRUTH=N` makes N recordings (default 4); the last line has the number
//! of answers.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::io::{Write, stderr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use unhitch_analysis::answer::{ClauseKind, Why, clauses, text_for};
use unhitch_analysis::patterns::{Evidence, Pattern};
use unhitch_analysis::{Analysis, Cause, Rules};
use unhitch_analysis::{Query, Stall};
use unhitch_model::{ModuleKind, StackId, TaskState, ThreadId, Time, Trace, WakeFlags, Window};
use unhitch_record::{Error, Options, Recorder};

const UNHITCH: &str = env!("CARGO_BIN_EXE_unhitch");
/// The hangs, used in turn.
const PROGRAMS: [&str; 14] = [
    "starve",
    "long-hold",
    "chain",
    "tcp",
    "loop-stall",
    "convoy",
    "idle-holder",
    "saturate",
    "slow-disk",
    "stopped",
    "build-stall",
    "exit-storm",
    "populate",
    "scan-stall",
];
/// Number of stalls asked for, as with `why --top 10`.
const TOP: usize = 10;
/// Minimum answers per recording: 500 of 20.
const MIN_ANSWERS: usize = 25;
/// Threads with shorter waits are asked about only as a whole, nanoseconds.
const MIN_WAIT_NS: u64 = 1_000_000;

#[test]
fn live_answers_do_not_contradict_their_traces() {
    if let Err(error @ (Error::NotPermitted { .. } | Error::Missing { .. })) =
        Recorder::start(&Options::default())
    {
        skipped(&error.to_string());
        return;
    }
    let recordings: usize =
        std::env::var("UNHITCH_TRUTH").ok().and_then(|count| count.parse().ok()).unwrap_or(4);
    let folder = tempfile::tempdir().unwrap();
    let (mut answers, mut contradictions) = (0, Vec::new());
    for turn in 0..recordings {
        let program = PROGRAMS[turn % PROGRAMS.len()];
        let path = folder.path().join(format!("{turn}-{program}.hitch"));
        let load = (turn % 2 == 1).then(Load::start);
        // It does not matter whether the hang happened: everything said about the recording must be
        // true.
        let _ = Command::new(UNHITCH)
            .args(["lab", program, "--record", "-o"])
            .arg(&path)
            .output()
            .unwrap();
        drop(load);
        if !path.exists() {
            println!("NOISY {program}: not recorded");
            continue;
        }
        let (count, found) = examine(&path);
        answers += count;
        contradictions.extend(found.into_iter().map(|one| format!("{program} ({turn}): {one}")));
        std::fs::remove_file(&path).unwrap();
    }
    println!(
        "{answers} answers about {recordings} recordings, {} contradictions",
        contradictions.len()
    );
    assert!(answers >= recordings * MIN_ANSWERS, "{answers} answers about {recordings} recordings");
    assert!(contradictions.is_empty(), "{}", contradictions.join("\n\n"));
}

/// What was not tested, where it is seen whether or not output is captured.
fn skipped(why: &str) {
    let _ = writeln!(stderr(), "SKIPPED live_answers_do_not_contradict_their_traces: {why}");
}

/// An unrelated load: processes that start, compress and exit.
struct Load(Child);

impl Load {
    fn start() -> Self {
        let script = "while :; do gzip -9 -c /proc/self/exe | gzip -d | md5sum; done";
        Self(
            Command::new("sh")
                .args(["-c", script])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        )
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Asks everything about a recording; returns how many answers there were, and what is wrong with
/// them.
fn examine(path: &Path) -> (usize, Vec<String>) {
    let mut trace = unhitch_formats::open(path).unwrap();
    let (times, switches) = (trace.switches.time.len(), trace.switches.stack.clone());
    unhitch_analysis::repair(&mut trace);
    assert!(trace.switches.time.len() >= times && !switches.is_empty());
    let analysis = Analysis::new(&trace, &Rules::default());
    let mut contradictions = frames_outside_mappings(path, &trace);
    let mut answers = 0;
    let whole = analysis.timeline.window();
    let halves = Window::new(whole.start, whole.start.plus(whole.duration_ns() / 2));
    let all = (1..trace.threads.len() as u32)
        .map(ThreadId)
        .filter(|&thread| !analysis.timeline.life(thread).is_empty());
    let sleeps = Sleeps::of(&trace, whole);
    let of_thread = |thread: ThreadId| {
        let life = analysis.timeline.life(thread);
        let windows = sleeps.windows(thread).into_iter();
        let windows = windows.map(|window| window.intersect(life)).filter(|it| !it.is_empty());
        let windows: Vec<_> = std::iter::once(None).chain(windows.map(Some)).collect();
        let ask = move |window| Query { victims: vec![thread], window, ..Query::default() };
        windows.into_iter().map(ask)
    };
    let of_threads = all.flat_map(of_thread);
    for query in
        [Query::default(), Query { victims: Vec::new(), window: Some(halves), ..Query::default() }]
            .into_iter()
            .chain(of_threads)
    {
        let stalls = unhitch_analysis::diagnose(&analysis, &query);
        let text = text_for(&analysis, &query, &stalls, TOP);
        if query.is_about_something() && stalls.is_empty() {
            contradictions.push(format!("what was asked about is not mentioned:\n{text}"));
        }
        if query.is_about_something() && text.contains("--victim") {
            contradictions.push(format!("the advice is to ask what was just asked:\n{text}"));
        }
        for stall in stalls.iter().take(TOP) {
            answers += 1;
            contradictions.extend(of_stall(&analysis, &sleeps, stall).into_iter().map(|one| {
                let lines: Vec<String> =
                    clauses(&analysis, stall).into_iter().map(|clause| clause.text()).collect();
                format!("{one}\n{}", lines.join("\n"))
            }));
        }
        contradictions.extend(of_json(&analysis, &stalls));
    }
    (answers, contradictions)
}

/// The false statements in the answer about one stall.
fn of_stall(analysis: &Analysis<'_>, sleeps: &Sleeps, stall: &Stall) -> Vec<String> {
    let all = clauses(analysis, stall);
    let text = |kinds: &[ClauseKind]| {
        let of_kind = all.iter().filter(|clause| kinds.contains(&clause.kind));
        of_kind.map(|clause| clause.text()).collect::<Vec<_>>().join("\n")
    };
    let sentences = text(&[
        ClauseKind::Headline,
        ClauseKind::Story,
        ClauseKind::Cause,
        ClauseKind::Evidence,
        ClauseKind::Remedy,
    ]);
    let mut contradictions = about_samples(analysis, stall, &sentences);
    contradictions.extend(about_cause(stall));
    contradictions.extend(about_timers(sleeps, stall));
    contradictions.extend(about_the_end(sleeps, stall, &sentences));
    contradictions.extend(percentages(&text(&[ClauseKind::Partition])));
    let shares = unhitch_analysis::explain::partition(analysis, &stall.explanation);
    let largest_ns = shares.first().map_or(0, |share| share.ns);
    let window = stall.explanation.window;
    if sentences.contains("no single cause") && largest_ns * 2 >= window.duration_ns() {
        contradictions.push("\"no single cause\", but one has half of the time".to_owned());
    }
    if sentences.contains("larger buffers")
        && analysis.trace.losses.is_empty()
        && window.start > analysis.timeline.window().start
    {
        contradictions.push("larger buffers are advised where nothing was overwritten".to_owned());
    }
    contradictions.extend(missing_names(&sentences));
    contradictions
}

fn about_samples(analysis: &Analysis<'_>, stall: &Stall, sentences: &str) -> Vec<String> {
    let trace = analysis.trace;
    let mut contradictions = Vec::new();
    let thread = stall.finding.culprit.unwrap_or(stall.candidate.victim);
    let samples = analysis.samples.of_thread(trace, thread, stall.explanation.window).len();
    if sentences.contains("were not recorded")
        && sentences.contains("CPU samples")
        && !trace.samples.is_empty()
    {
        let all = trace.samples.len();
        contradictions
            .push(format!("the answer claims that samples were not recorded; there are {all}"));
    }
    if (sentences.contains("No CPU sample") || sentences.contains("no CPU sample")) && samples > 0 {
        contradictions
            .push(format!("the answer claims that there are no samples; there are {samples}"));
    }
    if sentences.contains("and samples were seen") && samples == 0 {
        contradictions.push("the answer claims samples; there are none".to_owned());
    }
    contradictions
}

/// A timer of the victim itself is never direct evidence, and the tracer is never the cause.
fn about_cause(stall: &Stall) -> Vec<String> {
    let finding = &stall.finding;
    let mut contradictions = Vec::new();
    let own_timer =
        finding.pattern == Pattern::TimerSleep && finding.culprit == Some(stall.candidate.victim);
    if finding.evidence == Evidence::Direct && own_timer {
        contradictions.push("a timer of its own is direct evidence".to_owned());
    }
    // Not `perf_event_exit_task` and the like: the kernel itself calls those for each thread.
    let tracers = [
        "__traceiter_",
        "perf_trace_",
        "perf_tp_event",
        "perf_swevent_",
        "perf_event_output",
        "__perf_event_overflow",
        "trace_event_raw_",
        "bpf_trace_run",
        "bpf_prog_",
    ];
    if let Some(tracer) = tracers.iter().find(|tracer| finding.function.starts_with(**tracer)) {
        contradictions.push(format!("the tracer ({tracer}…) is named as a cause"));
    }
    contradictions
}

/// A sleep as the raw records have it: a switch away from the thread, then one to it.
struct Sleep {
    window: Window,
    /// When it was woken; after that, it waited for a CPU. The window's end without a wake-up.
    woken: Time,
    /// False if the recording ended first.
    came_back: bool,
    /// True if an interrupt issued the wake-up, whatever it is called, and a signal could have: a
    /// sleep that none ends is for a device, not until a time that the thread chose.
    by_interrupt: bool,
}

/// The sleeps of all threads, in order. They are made of the records, without the timeline that
/// answers are made of.
struct Sleeps(BTreeMap<ThreadId, Vec<Sleep>>);

impl Sleeps {
    fn of(trace: &Trace, whole: Window) -> Self {
        let (switches, wakings) = (&trace.switches, &trace.wakings);
        let mut sleeps: BTreeMap<ThreadId, Vec<Sleep>> = BTreeMap::new();
        let mut asleep: BTreeMap<ThreadId, (Time, TaskState, bool, Option<Time>)> = BTreeMap::new();
        let mut waking = 0;
        for at in 0..switches.time.len() {
            let time = switches.time[at];
            while wakings.time.get(waking).is_some_and(|woken| *woken <= time) {
                let is_interrupt = wakings.flags[waking].has(WakeFlags::HARDIRQ)
                    || wakings.waker[waking].is_idle();
                if let Some((_, state, by_interrupt, woken)) =
                    asleep.get_mut(&wakings.wakee[waking])
                {
                    *by_interrupt = is_interrupt && *state == TaskState::Sleeping;
                    woken.get_or_insert(wakings.time[waking]);
                }
                waking += 1;
            }
            if time >= whole.end {
                break;
            }
            if let Some((since, _, by_interrupt, woken)) = asleep.remove(&switches.next[at]) {
                let window = Window::new(since, time);
                let woken = woken.unwrap_or(time);
                let sleep = Sleep { window, woken, came_back: true, by_interrupt };
                sleeps.entry(switches.next[at]).or_default().push(sleep);
            }
            let state = switches.prev_state[at];
            if !state.is_runnable() && state != TaskState::Dead && !switches.prev[at].is_idle() {
                asleep.insert(switches.prev[at], (time, state, false, None));
            }
        }
        for (thread, (since, ..)) in asleep {
            let window = Window::new(since, whole.end);
            let woken = window.end;
            let sleep = Sleep { window, woken, came_back: false, by_interrupt: false };
            sleeps.entry(thread).or_default().push(sleep);
        }
        Self(sleeps)
    }

    fn of_thread(&self, thread: ThreadId) -> &[Sleep] {
        self.0.get(&thread).map_or(&[], Vec::as_slice)
    }

    /// Windows inside, across and after the longest sleep of a thread.
    fn windows(&self, thread: ThreadId) -> Vec<Window> {
        let longest = self.of_thread(thread).iter().max_by_key(|sleep| sleep.window.duration_ns());
        let Some(Window { start, end }) = longest.map(|sleep| sleep.window) else {
            return Vec::new();
        };
        let ns = end.since(start);
        if ns < MIN_WAIT_NS {
            return Vec::new();
        }
        vec![
            Window::new(start.plus(ns / 4), end.minus(ns / 4)),
            Window::new(start.minus(ns / 10), end.plus(ns / 10)),
            Window::new(end, end.plus(ns)),
        ]
    }
}

/// Where the victim slept for most of the time, and interrupts ended those sleeps, nothing is direct
/// evidence against the victim itself.
fn about_timers(sleeps: &Sleeps, stall: &Stall) -> Option<String> {
    let (victim, window) = (stall.candidate.victim, stall.explanation.window);
    let by_interrupt = sleeps.of_thread(victim).iter().filter(|sleep| sleep.by_interrupt);
    let asleep = by_interrupt.map(|sleep| Window::new(sleep.window.start, sleep.woken));
    let slept_ns: u64 = asleep.map(|asleep| asleep.intersect(window).duration_ns()).sum();
    let is_accused = stall.finding.evidence == Evidence::Direct
        && stall.finding.culprit == Some(victim)
        && slept_ns * 2 > window.duration_ns();
    is_accused.then(|| {
        format!("direct evidence against a thread that slept for {slept_ns} ns until an interrupt")
    })
}

/// A wait that the answer takes for ended was ended, and one that goes on was not.
fn about_the_end(sleeps: &Sleeps, stall: &Stall, sentences: &str) -> Option<String> {
    const ENDED: [&str; 4] = [
        "no thread ended the wait",
        "no thread was seen to end the wait",
        "the wake-up that ended the wait is not in the recording",
        "nothing shows who ended the wait",
    ];
    let unknown =
        stall.explanation.pieces.iter().filter(|piece| {
            matches!(piece.cause, Cause::UnknownWaker | Cause::Message | Cause::Lost)
        });
    let longest = unknown.max_by_key(|piece| piece.window.duration_ns())?;
    let mut of_thread = sleeps.of_thread(longest.thread).iter();
    let sleep = of_thread.find(|sleep| sleep.window.overlaps(longest.window))?;
    let is_said = |words: &str| sentences.contains(words);
    if sleep.came_back && is_said("still waiting when the recording ended") {
        return Some(format!("the wait ended at {:?}", sleep.window.end));
    }
    (!sleep.came_back && ENDED.into_iter().any(is_said))
        .then(|| "the wait never ended in this recording".to_owned())
}

/// Checks that the percentages of the partition, in tenths, sum to 100.0 %, which its last line
/// shows.
fn percentages(partition: &str) -> Option<String> {
    let tenths = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let percent = words.iter().position(|word| *word == "%")?;
        words.get(percent.checked_sub(1)?)?.replace('.', "").parse::<u64>().ok()
    };
    let parts: Vec<u64> = partition.lines().filter_map(tenths).collect();
    match parts.split_last() {
        Some((1000, parts)) if parts.iter().sum::<u64>() == 1000 => None,
        _ => Some(format!("percentages do not add up: {parts:?}")),
    }
}

/// The places in sentences where a name is empty.
fn missing_names(sentences: &str) -> Vec<String> {
    const HOLES: [&str; 9] = [",.", " ,", " .", ", ,", "\"\"", " in,", " of.", " by.", " in :"];
    // Stacks are on separate lines, which start with two spaces.
    let lines = sentences.lines().filter(|line| !line.starts_with("  "));
    lines
        .filter_map(|line| {
            let hole = HOLES.iter().find(|hole| line.contains(**hole))?;
            Some(format!("a name is empty ({hole:?}) in {line:?}"))
        })
        .collect()
}

/// Checks that the pieces in the JSON of each stall sum to its duration, and every thread has a
/// name.
fn of_json(analysis: &Analysis<'_>, stalls: &[Stall]) -> Vec<String> {
    let json = serde_json::to_value(Why::new(analysis, "trace", stalls, TOP)).unwrap();
    let mut contradictions = Vec::new();
    for stall in json["stalls"].as_array().unwrap() {
        let sum: u64 = stall["partition"]
            .as_array()
            .unwrap()
            .iter()
            .map(|share| share["ns"].as_u64().unwrap())
            .sum();
        if Some(sum) != stall["duration_ns"].as_u64() {
            contradictions.push(format!("the parts sum to {sum}: {stall}"));
        }
        for link in stall["chain"].as_array().unwrap() {
            let frames = link["stack"]
                .as_array()
                .unwrap()
                .iter()
                .chain(link["wake"]["stack"].as_array().into_iter().flatten());
            for frame in
                frames.filter(|frame| frame.as_str().is_none_or(|name| name.trim().is_empty()))
            {
                contradictions.push(format!("a frame without a name ({frame}) in {link}"));
            }
        }
    }
    contradictions
}

/// The frames in anonymous memory that are in no known executable mapping of their process,
/// according to perf.
fn frames_outside_mappings(path: &Path, trace: &Trace) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("perf.data");
    let unzipped = Command::new("unzip")
        .args(["-q", "-d"])
        .arg(folder.path())
        .arg(path)
        .arg("perf.data")
        .status();
    if !unzipped.is_ok_and(|status| status.success()) {
        skipped("frames outside mappings: unzip is missing");
        return Vec::new();
    }
    let Ok(script) = Command::new("perf")
        .args(["script", "--show-mmap-events", "-F", "comm", "-i"])
        .arg(&data)
        .output()
    else {
        skipped("frames outside mappings: perf is missing");
        return Vec::new();
    };
    assert!(script.status.success(), "{}", String::from_utf8_lossy(&script.stderr));
    // `… PERF_RECORD_MMAP2 4711/4711: [0x7f0000000000(0x1000) @ 0 00:00 0 0]: r-xp //anon`
    let mut mappings: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
    for line in String::from_utf8_lossy(&script.stdout).lines() {
        let parsed = || {
            let (_, rest) = line.split_once("PERF_RECORD_MMAP2 ")?;
            let (pid, rest) = rest.split_once('/')?;
            let (_, rest) = rest.split_once("[0x")?;
            let (start, rest) = rest.split_once("(0x")?;
            let (len, rest) = rest.split_once(')')?;
            let (_, rest) = rest.split_once("]: ")?;
            let executable = rest.as_bytes().get(2) == Some(&b'x');
            let hex = |text: &str| u64::from_str_radix(text, 16).ok();
            executable.then_some((pid.trim().parse().ok()?, hex(start)?, hex(len)?))
        };
        if let Some((pid, start, len)) = parsed() {
            mappings.entry(pid).or_default().push((start, start.saturating_add(len)));
        }
    }
    assert!(!mappings.is_empty(), "perf shows no mapping");
    let mut contradictions = Vec::new();
    let used = (0..trace.stacks.len() as u32)
        .flat_map(|stack| trace.stacks.frames_of(StackId(stack)).iter().copied());
    let mut frames: Vec<_> = used.collect();
    frames.sort_unstable();
    frames.dedup();
    for id in frames {
        let Some(frame) = trace.stacks.frame(id) else { continue };
        let Some(ModuleKind::Anonymous { pid }) =
            trace.modules.get(frame.module).map(|module| module.kind)
        else {
            continue;
        };
        if !mappings.contains_key(&pid) {
            continue;
        }
        // A forked process also has the mappings of its parents.
        if !mappings.values().flatten().any(|(start, end)| (*start..=*end).contains(&frame.offset))
        {
            contradictions.push(format!(
                "a frame of process {pid} at {:#x} is in no executable mapping",
                frame.offset
            ));
        }
    }
    contradictions
}
