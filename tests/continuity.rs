//! A recording by BPF lacks no switch without saying so. On each CPU, who leaves is who came on
//! before, but where a repair record stands; and as many switches are recorded as the kernel counts
//! for the machine (`ctxt` in `/proc/stat`) and for single threads. Where BPF does not load, the
//! test is skipped and prints `SKIPPED name: reason`.
#![cfg(target_os = "linux")]

use rustix::pipe::pipe;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io::{Read, Write, stderr};
use std::os::fd::OwnedFd;
use std::thread;
use unhitch_model::Trace;
use unhitch_record::{EngineChoice, Extras, Options, Recorder, SaveTarget};

/// Round trips of one pair of threads.
const TURNS: usize = 50_000;
/// Of so many switches one may be missing without a word.
const MAX_UNSAID_SHARE: u64 = 1000;
/// A number that grows is read so often; the quickest reading counts.
const READINGS: usize = 50;

/// A number that the kernel counts, and between which two times it was read.
#[derive(Clone, Copy)]
struct Reading {
    count: u64,
    before_ns: u64,
    after_ns: u64,
}

impl Reading {
    fn of(count: impl Fn() -> u64) -> Self {
        let read = || {
            let before_ns = now_ns();
            let count = count();
            Self { count, before_ns, after_ns: now_ns() }
        };
        let readings = (0..READINGS).map(|_| read());
        readings.min_by_key(|reading| reading.after_ns - reading.before_ns).unwrap()
    }
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The sum of the numbers in a file whose lines begin with one of `names`.
fn sum_of(path: &str, names: &[&str]) -> u64 {
    let text = std::fs::read_to_string(path).unwrap();
    let number = |line: &str| {
        let (name, number) = line.split_once(char::is_whitespace)?;
        names.contains(&name).then(|| number.trim().parse::<u64>().unwrap())
    };
    text.lines().filter_map(number).sum()
}

fn of_machine() -> Reading {
    Reading::of(|| sum_of("/proc/stat", &["ctxt"]))
}

fn of_this_thread() -> Reading {
    let names = ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"];
    Reading::of(|| sum_of("/proc/thread-self/status", &names))
}

/// The fewest and the most that can have been counted between two readings, by the times of the
/// recorded switches, which are sorted.
fn recorded(times: &[u64], [first, last]: [Reading; 2]) -> [u64; 2] {
    let between = |from: u64, to: u64| {
        let until = |ns: u64| times.partition_point(|time| *time < ns);
        until(to).saturating_sub(until(from)) as u64
    };
    [between(first.after_ns, last.before_ns), between(first.before_ns, last.after_ns)]
}

/// Passes a byte to and fro; half of the time on `cpu`, then on any. What the kernel counted
/// meanwhile for this thread.
fn play(cpu: usize, [from, to]: [OwnedFd; 2], begins: bool) -> (u32, [Reading; 2]) {
    let all = sched_getaffinity(None).unwrap();
    let mut one = CpuSet::new();
    one.set(cpu);
    sched_setaffinity(None, &one).unwrap();
    let first = of_this_thread();
    let (mut from, mut to) = (File::from(from), File::from(to));
    let mut byte = [0];
    if begins {
        to.write_all(&byte).unwrap();
    }
    for turn in 0..TURNS {
        from.read_exact(&mut byte).unwrap();
        if turn == TURNS / 2 {
            sched_setaffinity(None, &all).unwrap();
        }
        if turn + 1 < TURNS || !begins {
            to.write_all(&byte).unwrap();
        }
    }
    let last = of_this_thread();
    (rustix::thread::gettid().as_raw_nonzero().get() as u32, [first, last])
}

/// A pair of threads on each CPU; what the kernel counted for each thread.
fn play_on_each_cpu() -> Vec<(u32, [Reading; 2])> {
    let cpus = sched_getaffinity(None).unwrap();
    let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| cpus.is_set(*cpu));
    let mut players = Vec::new();
    for cpu in cpus {
        let (ping, pong) = (pipe().unwrap(), pipe().unwrap());
        players.push(thread::spawn(move || play(cpu, [ping.0, pong.1], true)));
        players.push(thread::spawn(move || play(cpu, [pong.0, ping.1], false)));
    }
    players.into_iter().map(|player| player.join().unwrap()).collect()
}

/// The number of switches of each CPU, and where who leaves is not who came on before.
fn links(trace: &Trace) -> Vec<(u64, u64)> {
    let switches = &trace.switches;
    let mut cpus = vec![(0, 0, None); trace.spans.len()];
    for at in 0..switches.len() {
        let (count, broken, on_cpu) = &mut cpus[usize::from(switches.cpu[at])];
        *count += 1;
        *broken += u64::from(on_cpu.is_some_and(|on_cpu| on_cpu != switches.prev[at]));
        *on_cpu = Some(switches.next[at]);
    }
    cpus.into_iter().map(|(count, broken, _)| (count, broken)).collect()
}

#[test]
fn live_no_switch_is_missing_without_a_word() {
    let mut options = Options::default();
    options.engine = EngineChoice::Bpf;
    let mut recorder = match Recorder::start(&options) {
        Ok(recorder) => recorder,
        Err(error) => {
            let test = "live_no_switch_is_missing_without_a_word";
            let _ = writeln!(stderr(), "SKIPPED {test}: {error}");
            return;
        }
    };
    let first = of_machine();
    let players = play_on_each_cpu();
    let last = of_machine();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("links.hitch");
    let prepared = recorder.snapshot().prepare(&Extras::default()).unwrap();
    prepared.save(&SaveTarget::File(path.clone())).unwrap();
    let trace = unhitch_formats::open(&path).unwrap();
    assert!(trace.losses.is_empty(), "{:?}", trace.losses);

    let links = links(&trace);
    let repairs = trace.by_kind.get("switch that was not reported").copied().unwrap_or(0);
    for (cpu, (count, broken)) in links.iter().enumerate() {
        report(&format!("CPU {cpu}: {count} switches, {broken} broken links"));
        assert!(*count > TURNS as u64, "CPU {cpu}: {count} switches");
    }
    let broken: u64 = links.iter().map(|(_, broken)| broken).sum();
    report(&format!("{broken} broken links, {repairs} repair records"));
    assert!(broken <= repairs, "{broken} broken links, {repairs} repair records");

    let times: Vec<u64> = trace.switches.time.iter().map(|time| time.nanos()).collect();
    let counted = last.count - first.count;
    let [fewest, most] = recorded(&times, [first, last]);
    let missing = counted.saturating_sub(most) + fewest.saturating_sub(counted);
    let is_said = trace.warnings.lines().any(|line| line.contains("reached no BPF program"));
    report(&format!(
        "/proc/stat counts {counted} switches, {fewest} to {most} are recorded: {missing} apart, {}",
        if is_said { "which is said" } else { "nothing is said" }
    ));
    assert!(is_said || missing <= counted / MAX_UNSAID_SHARE, "{missing} of {counted}");

    for (tid, readings) in players {
        let is_its = |at: &usize| trace.threads.get(trace.switches.prev[*at]).tid == tid;
        let its: Vec<u64> = (0..times.len()).filter(is_its).map(|at| times[at]).collect();
        let counted = readings[1].count - readings[0].count;
        let [fewest, most] = recorded(&its, readings);
        report(&format!("thread {tid}: {counted} switches, {fewest} to {most} are recorded"));
        assert!(counted > TURNS as u64 / 4, "thread {tid} hardly ever left its CPU");
        assert!((fewest..=most).contains(&counted), "thread {tid}: {counted}, {fewest}..={most}");
    }
}

/// Prints past the test harness, which hides the output of passing tests.
fn report(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}
