//! perf and trace-cmd record the same hang at the same time as we do: context switches, wake-ups and
//! the answer are the same.
//!
//! Linux reports switches of its idle threads to BPF, but not all of them to tracepoints, so both
//! files are compared after `repair`, which infers what is missing. Each CPU's switches are then the
//! same, one after the other; the times of those that were inferred are estimates.
#![cfg(target_os = "linux")]

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;
use unhitch_model::{ThreadId, Time, Trace, Window};

const EVENTS: [&str; 3] = ["sched:sched_switch", "sched:sched_waking", "sched:sched_wakeup_new"];
/// How far the times may differ that two recorders give an event, nanoseconds: an interrupt may come
/// between.
const TOLERANCE_NS: u64 = 5_000_000;
/// Of a thousand events, so many may be reported to the one and not to the other, as measured: 0 to 4
/// of the switches, 0 to 6 of the wake-ups; in moments when Linux reports nothing of a CPU to BPF and
/// no stacks to ftrace.
const MAX_DIFFERENT_PER_MILLE: usize = 20;

/// Two recordings of the whole machine at a time are enough.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn skipped(test: &str, reason: &str) {
    let _ = writeln!(stderr(), "SKIPPED {test}: {reason}");
}

/// Another recorder at work.
trait Other: Sized {
    /// Starts it; a reason if it cannot record here.
    fn start(file: &Path) -> Result<Self, String>;
    /// Ends it, with the file written.
    fn finish(self) -> Result<(), String>;
}

struct Perf(Child);

impl Drop for Perf {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether perf can record anything here: Debian's and Ubuntu's may be there without their kernel's.
fn perf_runs(folder: &Path) -> Result<(), String> {
    let file = folder.join("trial.data");
    let mut command = Command::new("perf");
    command.args(["record", "-q", "-e", "cpu-clock", "-o"]).arg(&file).args(["--", "true"]);
    match command.output() {
        Err(error) => Err(format!("perf does not run: {error}")),
        Ok(out) if out.status.success() => Ok(()),
        Ok(out) => {
            Err(format!("perf record: {}", String::from_utf8_lossy(&out.stderr).replace('\n', " ")))
        }
    }
}

impl Other for Perf {
    fn start(file: &Path) -> Result<Self, String> {
        perf_runs(file.parent().unwrap())?;
        let mut command = Command::new("perf");
        command.args(["record", "-q", "-a", "-g", "-m", "16M", "-k", "CLOCK_MONOTONIC"]);
        command.args(["-e", "cpu-clock"]);
        let events = EVENTS.iter().flat_map(|event| ["-e", event]);
        let child = command.args(events).arg("-o").arg(file).stderr(Stdio::null()).spawn();
        let mut child = child.map_err(|error| format!("perf does not run: {error}"))?;
        sleep(Duration::from_secs(1));
        match child.try_wait() {
            Ok(Some(status)) => Err(format!("perf record: {status}")),
            _ => Ok(Self(child)),
        }
    }

    fn finish(mut self) -> Result<(), String> {
        let pid = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        let status = self.0.wait().unwrap();
        // perf ends itself with the signal, or with what a shell makes of it.
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        match (status.code(), signal) {
            (Some(0 | 130), _) | (_, Some(libc::SIGINT)) => Ok(()),
            _ => Err(format!("perf record: {status}")),
        }
    }
}

/// trace-cmd, which takes what an instance of the kernel's buffers holds: to record by itself, it
/// wants more of tracefs than some machines allow.
struct TraceCmd {
    instance: PathBuf,
    file: PathBuf,
}

impl TraceCmd {
    fn set(&self, name: &str, value: &str) -> Result<(), String> {
        let path = self.instance.join(name);
        fs::write(&path, value).map_err(|error| format!("{}: {error}", path.display()))
    }
}

impl Other for TraceCmd {
    fn start(file: &Path) -> Result<Self, String> {
        let version = Command::new("trace-cmd").arg("--version").output();
        version.map_err(|error| format!("trace-cmd does not run: {error}"))?;
        let name = format!("unhitch-test-{}", std::process::id());
        let instance = Path::new("/sys/kernel/tracing/instances").join(name);
        fs::create_dir(&instance).map_err(|error| format!("tracefs: {error}"))?;
        let this = Self { instance, file: file.to_owned() };
        this.set("tracing_on", "0")?;
        this.set("buffer_size_kb", "32768")?;
        this.set("trace_clock", "mono")?;
        this.set("trace_options", "stacktrace")?;
        let lives = ["task:task_newtask", "task:task_rename", "sched:sched_process_exit"];
        for event in EVENTS.iter().chain(&lives) {
            this.set(&format!("events/{}/enable", event.replace(':', "/")), "1")?;
        }
        this.set("tracing_on", "1")?;
        Ok(this)
    }

    fn finish(self) -> Result<(), String> {
        self.set("tracing_on", "0")?;
        let out = Command::new("trace-cmd")
            .args(["extract", "-B"])
            .arg(self.instance.file_name().unwrap())
            .arg("-o")
            .arg(&self.file)
            .current_dir(self.file.parent().unwrap())
            .output()
            .unwrap();
        match out.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&out.stderr).trim().replace('\n', " ")),
        }
    }
}

impl Drop for TraceCmd {
    fn drop(&mut self) {
        // Without this it would go on recording. trace-cmd may have removed it.
        let _ = fs::write(self.instance.join("tracing_on"), "0");
        let _ = fs::remove_dir(&self.instance);
    }
}

/// A repaired trace, and what all its CPUs cover.
fn read(path: &Path) -> (Trace, Window) {
    let mut trace = unhitch_formats::open(path).unwrap();
    unhitch_analysis::repair(&mut trace);
    let window = unhitch_analysis::Analysis::new(&trace, &unhitch_analysis::Rules::default())
        .timeline
        .window();
    (trace, window)
}

/// Who kept the thread called `ui` waiting, and its longest wait: from when to when, nanoseconds.
fn answer(path: &Path) -> Option<(u64, [u64; 2])> {
    let why = Command::new(env!("CARGO_BIN_EXE_unhitch"))
        .args(["why", "--json", "--victim", "ui"])
        .arg(path)
        .output()
        .unwrap();
    let why: Value = serde_json::from_slice(&why.stdout).unwrap();
    let stall = &why["stalls"][0];
    let times = [stall["start_ns"].as_u64()?, stall["end_ns"].as_u64()?];
    Some((stall["cause"]["culprit"]["tid"].as_u64()?, times))
}

fn tid(trace: &Trace, thread: ThreadId) -> u32 {
    trace.threads.get(thread).tid
}

type Events = BTreeMap<u16, Vec<(Time, [u32; 2])>>;

/// By CPU: each switch, with the threads that it was from and to.
fn switches(trace: &Trace, window: Window) -> Events {
    let of = &trace.switches;
    let mut events = Events::new();
    for row in of.range(window) {
        let threads = [tid(trace, of.prev[row]), tid(trace, of.next[row])];
        events.entry(of.cpu[row]).or_default().push((of.time[row], threads));
    }
    events
}

/// By CPU: each wake-up while a thread was on the CPU, with that thread and the one that was woken.
/// *Why not those of idle CPUs*: of them, perf misses a third.
fn wakings(trace: &Trace, window: Window) -> Events {
    let mut events = all_wakings(trace, window);
    events.values_mut().for_each(|events| events.retain(|(_, [waker, _])| *waker != 0));
    events
}

/// By CPU: each wake-up, with the thread that was on the CPU and the one that was woken.
fn all_wakings(trace: &Trace, window: Window) -> Events {
    let of = &trace.wakings;
    let mut events = Events::new();
    for row in of.range(window) {
        let threads = [tid(trace, of.waker[row]), tid(trace, of.wakee[row])];
        events.entry(of.cpu[row]).or_default().push((of.time[row], threads));
    }
    events
}

/// Those of `events` inside of `inside` that have no partner in `others` at about their time: with
/// their CPUs.
fn alone(
    events: &Events,
    others: &Events,
    inside: Window,
    tolerance_ns: u64,
) -> Vec<(u16, Time, [u32; 2])> {
    let mut alone = Vec::new();
    for (cpu, events) in events {
        let others = others.get(cpu).map_or(&[][..], Vec::as_slice);
        let mut partners: BTreeMap<[u32; 2], Vec<Time>> = BTreeMap::new();
        for (time, threads) in others.iter().rev() {
            partners.entry(*threads).or_default().push(*time);
        }
        for (time, threads) in events {
            let mut found = false;
            let times = partners.entry(*threads).or_default();
            while let Some(other) = times.last().copied() {
                let too_late = other > Time::from_nanos(time.nanos() + tolerance_ns);
                if too_late {
                    break;
                }
                times.pop();
                if other.nanos() + tolerance_ns >= time.nanos() {
                    found = true;
                    break;
                }
            }
            if !found && inside.contains(*time) {
                alone.push((*cpu, *time, *threads));
            }
        }
    }
    alone
}

fn count(events: &Events) -> usize {
    events.values().map(Vec::len).sum()
}

fn compare<O: Other>(test: &str, file: &str) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let (own, theirs) = (folder.path().join("own.hitch"), folder.path().join(file));
    let other = match O::start(&theirs) {
        Err(reason) => return skipped(test, &reason),
        Ok(other) => other,
    };
    let out = Command::new(env!("CARGO_BIN_EXE_unhitch"))
        .args(["lab", "long-hold", "--record", "--json", "-o"])
        .arg(&own)
        .output()
        .unwrap();
    let finished = other.finish();
    match out.status.code() {
        Some(0) => {}
        Some(4) => return skipped(test, "the program did not hang"),
        _ => return skipped(test, &String::from_utf8_lossy(&out.stderr).replace('\n', " ")),
    }
    if let Err(reason) = finished {
        return skipped(test, &reason);
    }
    let ((ours, our_window), (others, window)) = (read(&own), read(&theirs));
    for (who, of) in [("we", &ours), ("the other", &others)] {
        if of.losses.iter().any(|loss| loss.window.overlaps(our_window)) {
            return skipped(test, &format!("{who} lost events: the machine is too busy"));
        }
    }
    let window = our_window.intersect(window);
    assert!(2 * window.duration_ns() > our_window.duration_ns(), "{window:?}");
    for (what, events) in [
        ("context switches", switches as fn(&Trace, Window) -> Events),
        ("wake-ups", wakings as fn(&Trace, Window) -> Events),
    ] {
        let (of_us, of_others) = (events(&ours, window), events(&others, window));
        let alone = |events, others| alone(events, others, window, TOLERANCE_NS).len();
        let different = alone(&of_us, &of_others) + alone(&of_others, &of_us);
        let all = count(&of_us) + count(&of_others);
        println!("{what}: {different} of {all} differ");
        assert!(1_000 * different <= MAX_DIFFERENT_PER_MILLE * all, "{what}: {different} of {all}");
    }
    let Some((our_culprit, our_times)) = answer(&own) else {
        return skipped(test, "the machine is too busy for this hang");
    };
    let (culprit, times) = answer(&theirs).expect("an answer");
    assert_eq!(our_culprit, culprit);
    for (our, their) in our_times.into_iter().zip(times) {
        assert!(our.abs_diff(their) <= TOLERANCE_NS, "{our_times:?} {times:?}");
    }
}

/// Linux tells performance events of a task about its mappings after those of a CPU, as ours are.
#[test]
fn live_perf_records_a_command_while_we_record() {
    let test = "live_perf_records_a_command_while_we_record";
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let (own, theirs) = (folder.path().join("own.hitch"), folder.path().join("perf.data"));
    if let Err(reason) = perf_runs(folder.path()) {
        return skipped(test, &reason);
    }
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_unhitch"))
        .args(["record", "-o"])
        .arg(&own)
        .args(["--", "sleep", "3"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    sleep(Duration::from_secs(1));
    let perf = Command::new("perf")
        .args(["record", "-q", "-e", "cpu-clock", "-o"])
        .arg(&theirs)
        .args(["--", "sh", "-c", "ls / && ls /"])
        .output()
        .unwrap();
    if !recorder.wait().unwrap().success() {
        return skipped(test, "we cannot record here");
    }
    assert!(perf.status.success(), "{:?}: {}", perf.status, String::from_utf8_lossy(&perf.stderr));
}

#[test]
fn live_perf_records_what_we_record() {
    compare::<Perf>("live_perf_records_what_we_record", "perf.data");
}

#[test]
fn live_trace_cmd_records_what_we_record() {
    compare::<TraceCmd>("live_trace_cmd_records_what_we_record", "trace.dat");
}

/// By thread: how often it left a CPU, or was woken.
fn by_thread(events: &Events, inside: Window, which: usize) -> BTreeMap<u32, usize> {
    let mut counts = BTreeMap::new();
    for (_, threads) in events.values().flatten().filter(|(time, _)| inside.contains(*time)) {
        *counts.entry(threads[which]).or_default() += 1;
    }
    counts
}

/// Compares `NAME.hitch` with `NAME.lttng`, the folder of LTTng's session.
fn compare_with_lttng(own: &Path, theirs: &Path) {
    /// Emulated CPUs take their time between one recorder and the other.
    const SLOW_NS: u64 = 100_000_000;
    let ((ours, our_window), (others, window)) = (read(own), read(theirs));
    assert!(ours.losses.is_empty() && others.losses.is_empty(), "lost events");
    let both = our_window.intersect(window);
    assert!(2 * both.duration_ns() > our_window.duration_ns(), "{both:?}");
    let inner = Window::new(
        Time::from_nanos(both.start.nanos() + SLOW_NS),
        Time::from_nanos(both.end.nanos() - SLOW_NS),
    );
    let mut different = 0;
    for (what, events, which) in [
        ("context switches", switches as fn(&Trace, Window) -> Events, 0),
        ("wake-ups", all_wakings as fn(&Trace, Window) -> Events, 1),
    ] {
        let (of_us, of_lttng) = (events(&ours, both), events(&others, both));
        let counts = [by_thread(&of_us, inner, which), by_thread(&of_lttng, inner, which)];
        let all = counts.each_ref().map(|counts| counts.values().sum::<usize>());
        println!("{what}: {} and {}, of {} threads", all[0], all[1], counts[0].len());
        let only = [("us", &of_us, &of_lttng), ("LTTng", &of_lttng, &of_us)];
        for (who, events, others) in only {
            for (cpu, time, threads) in alone(events, others, inner, SLOW_NS) {
                let names = threads.map(|tid| {
                    let thread = ours.threads.incarnations(tid).first();
                    thread.map_or("?", |thread| ours.thread_name(*thread, time))
                });
                println!("  only {who}, CPU {cpu}, {time:?}: {threads:?} {names:?}");
                different += 1;
            }
        }
    }
    assert_eq!(different, 0, "events that only one of both recorded");

    let ((our_culprit, our_times), (culprit, times)) =
        (answer(own).expect("an answer"), answer(theirs).expect("an answer"));
    println!("culprit: thread {our_culprit} and thread {culprit}; {our_times:?} and {times:?}");
    assert_eq!(our_culprit, culprit);
    // LTTng names no functions, so waits for a next event are not known as such. Then the stall may
    // begin with the one before it.
    assert!(our_times[1].abs_diff(times[1]) <= TOLERANCE_NS, "{our_times:?} {times:?}");
    assert!(times[0] <= our_times[0] + TOLERANCE_NS, "{our_times:?} {times:?}");
}

#[test]
#[ignore = "tools/test-lttng makes the recordings and sets UNHITCH_LTTNG"]
fn lttng_recorded_what_we_recorded() {
    let folder = std::env::var_os("UNHITCH_LTTNG").expect("UNHITCH_LTTNG");
    let mut compared = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let own = entry.unwrap().path();
        if own.extension().is_some_and(|extension| extension == "hitch") {
            println!("{}", own.file_name().unwrap().to_string_lossy());
            compare_with_lttng(&own, &own.with_extension("lttng"));
            compared += 1;
        }
    }
    assert!(compared > 0, "nothing to compare");
}
