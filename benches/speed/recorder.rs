//! What recording costs: per event in a storm, by BPF and by performance events, compared with
//! `perf record -g`; on an ordinary load; and beside a desktop in use, with how much of the past it
//! keeps there.
//!
//! The storm of one pair is measured twice. Pinned to one CPU, its threads always switch to each
//! other, and the work of other programs is accounted to them. If it may use all CPUs, half of its
//! switches are those of idle CPUs, which only the busy time of the whole machine includes. Each
//! round measures the storm alone, then each recorder in turn, and ratios are computed within the
//! round.

use crate::bpf_time::{self, Counting};
use crate::cost::{Cost, Spread};
use crate::desktop::Desktop;
use crate::table::Table;
use anyhow::{Context, bail};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use unhitch_record::{EngineChoice, Options, Recorder};

/// Round trips over a pipe; each is two switches and one or two wakings.
const ROUND_TRIPS: u32 = 40_000;
const GROUPS: usize = 7;
const ROUNDS_PER_GROUP: usize = 4;
/// Maximum range of a ratio over the rounds, relative to its median; beyond it, the ratio is too
/// noisy.
const MAX_NOISE: f64 = 0.5;
const ORDINARY_ROUNDS: usize = 7;
const ORDINARY: &str =
    "for i in $(seq 200); do /bin/true; done; head -c 400M /dev/zero | sha256sum";
/// Two groups of 20 senders and 20 receivers. *Why so long:* the budget for stacks lets a second of
/// saved-up time be spent at once; what recording costs is what it costs after that.
const MESSAGING: [&str; 8] = ["perf", "bench", "sched", "messaging", "-g", "2", "-l", "2000"];
/// A recorder has started when it needs less CPU time than this in `SETTLE_STEP`.
const SETTLED_S: f64 = 0.011;
const SETTLE_STEP: Duration = Duration::from_millis(300);
const MAX_SETTLE_STEPS: usize = 30;
/// A recorder beside a desktop: measurements, and how long each is.
const HISTORY_ROUNDS: usize = 5;
const HISTORY_STEP: Duration = Duration::from_secs(15);
const EVENTS: [&str; 2] = ["sched:sched_switch", "sched:sched_waking"];

/// Runs a program without its output, which must succeed.
pub fn run(words: &[&str]) -> anyhow::Result<()> {
    let (program, arguments) = words.split_first().context("no program")?;
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{program} cannot be run"))?;
    if !output.status.success() {
        bail!("{}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// The command whose two threads pass a byte back and forth on one CPU.
pub fn storm(cpu: &str, round_trips: u32) -> Vec<String> {
    let trips = round_trips.to_string();
    ["taskset", "-c", cpu, "perf", "bench", "sched", "pipe", "-T", "-l", &trips]
        .map(str::to_owned)
        .to_vec()
}

/// Runs a command under our recorder. Returns the number of switches and wake-ups, and the cost
/// without start and end.
fn under_ours(words: &[&str], engine: EngineChoice) -> anyhow::Result<(f64, Cost)> {
    let mut options = Options::default();
    options.engine = engine;
    let mut recorder = Recorder::start(&options)?;
    settle();
    recorder.status();
    let (done, cost) = Cost::of(|| run(words));
    done?;
    let rate: f64 = recorder.status().rates.iter().map(|(_, rate)| rate).sum();
    Ok((rate * cost.wall_s, cost))
}

/// Waits until a recorder that was just started has read the processes that run.
fn settle() {
    for _ in 0..MAX_SETTLE_STEPS {
        let ((), cost) = Cost::of(|| std::thread::sleep(SETTLE_STEP));
        if cost.own_s < SETTLED_S {
            break;
        }
    }
}

/// The same under `perf record -g`, without collecting build ids, which is not recording.
fn under_perf(file: &str, words: &[&str]) -> anyhow::Result<Cost> {
    let mut all = vec![
        "perf", "record", "-B", "-g", "-a", "-o", file, "-e", EVENTS[0], "-e", EVENTS[1], "--",
    ];
    all.extend(words);
    let (done, cost) = Cost::of(|| run(&all));
    done.map(|()| cost)
}

/// Rounds of a storm, summed: single ones vary by more than the difference.
#[derive(Default)]
struct Rounds {
    alone_s: f64,
    /// By BPF.
    bpf_s: f64,
    bpf_events: f64,
    /// By performance events.
    ours_s: f64,
    events: f64,
    /// Without perf's start and end.
    theirs_s: f64,
    their_events: f64,
    their_lost: f64,
}

impl Rounds {
    fn measure(words: &[&str], time: fn(&Cost) -> f64, folder: &Path) -> anyhow::Result<Self> {
        let file = folder.join("perf.data");
        let path = file.to_str().context("the folder for temporary files has a strange name")?;
        let mut sum = Self::default();
        for _ in 0..ROUNDS_PER_GROUP {
            let (done, alone) = Cost::of(|| run(words));
            done?;
            let (bpf_events, bpf) = under_ours(words, EngineChoice::Bpf)?;
            let (events, ours) = under_ours(words, EngineChoice::Perf)?;
            let idle = under_perf(path, &["true"])?;
            let theirs = under_perf(path, words)?;
            let trace = unhitch_formats::open(&file)?;
            sum.alone_s += time(&alone);
            sum.bpf_s += time(&bpf);
            sum.bpf_events += bpf_events;
            sum.ours_s += time(&ours);
            sum.theirs_s += time(&theirs) - time(&idle);
            sum.events += events;
            sum.their_events +=
                EVENTS.iter().filter_map(|name| trace.by_kind.get(*name)).sum::<u64>() as f64;
            sum.their_lost += trace.losses.iter().map(|loss| loss.events).sum::<u64>() as f64;
        }
        Ok(sum)
    }

    fn bpf_us(&self) -> f64 {
        (self.bpf_s - self.alone_s) / self.bpf_events * 1e6
    }

    fn ours_us(&self) -> f64 {
        (self.ours_s - self.alone_s) / self.events * 1e6
    }

    /// Lost events were not written, but their stacks were walked.
    fn theirs_us(&self) -> f64 {
        (self.theirs_s - self.alone_s) / (self.their_events + self.their_lost) * 1e6
    }
}

/// The time that BPF programs ran for each event, in microseconds, as the kernel counts it. What a
/// storm of many processes costs more than without a recorder is less than it varies by itself.
fn program_us(words: &[&str]) -> anyhow::Result<f64> {
    let mut options = Options::default();
    options.engine = EngineChoice::Bpf;
    let mut recorder = Recorder::start(&options)?;
    settle();
    let _counting = Counting::start()?;
    recorder.status();
    let before = bpf_time::of_process(std::process::id());
    let (done, cost) = Cost::of(|| run(words));
    done?;
    let ran_s = bpf_time::of_process(std::process::id()) - before;
    let rate: f64 = recorder.status().rates.iter().map(|(_, rate)| rate).sum();
    Ok(ran_s / (rate * cost.wall_s) * 1e6)
}

/// The cost of an event: many processes on all CPUs, one pair on all CPUs, one pair on one CPU.
pub fn storm_cost(table: &mut Table, folder: &Path) -> anyhow::Result<()> {
    one_storm(
        table,
        "recording 80 processes' messages: machine's CPU µs per event",
        &MESSAGING,
        0.6,
        |cost| cost.machine_s,
        folder,
    )?;
    let pinned = storm("0", ROUND_TRIPS);
    let pinned: Vec<&str> = pinned.iter().map(String::as_str).collect();
    one_storm(
        table,
        "recording a storm on all CPUs: machine's CPU µs per event",
        &pinned[3..],
        0.35,
        |cost| cost.machine_s,
        folder,
    )?;
    let what = "recording a storm on one CPU: CPU µs per event";
    one_storm(table, what, &pinned, 0.35, Cost::cpu_s, folder)
}

fn one_storm(
    table: &mut Table,
    what: &str,
    words: &[&str],
    bpf_goal_us: f64,
    time: fn(&Cost) -> f64,
    folder: &Path,
) -> anyhow::Result<()> {
    let groups = (0..GROUPS)
        .map(|_| Rounds::measure(words, time, folder))
        .collect::<anyhow::Result<Vec<Rounds>>>()?;
    let of = |value: fn(&Rounds) -> f64| Spread::of(groups.iter().map(value));
    let ratio = of(|rounds| rounds.ours_us() / rounds.theirs_us());
    let theirs = format!("perf record -g: {}", of(Rounds::theirs_us));
    let met = (ratio.noise() < MAX_NOISE).then_some(ratio.median <= 0.8);
    table.row(
        what,
        of(Rounds::ours_us).to_string(),
        theirs,
        ratio.to_string(),
        "≤ 0.8 of perf's",
        met,
    );
    let bpf = of(Rounds::bpf_us);
    let goal = format!("≤ {bpf_goal_us}");
    let met = (bpf.noise() < MAX_NOISE).then_some(bpf.median <= bpf_goal_us);
    let ratio = of(|rounds| rounds.bpf_us() / rounds.theirs_us());
    table.row("  by BPF", bpf.to_string(), String::new(), ratio.to_string(), &goal, met);
    let saved = of(|rounds| rounds.ours_us() / rounds.bpf_us());
    let met = (saved.noise() < MAX_NOISE).then_some(saved.median >= 8.0);
    table.ours("  performance events, times BPF", saved.to_string(), "≥ 8 on one CPU", met);
    let programs = (0..GROUPS).map(|_| program_us(words)).collect::<anyhow::Result<Vec<_>>>()?;
    let programs = Spread::of(programs);
    let met = Some(programs.median <= bpf_goal_us);
    table.ours("  BPF programs' own time per event, µs", programs.to_string(), &goal, met);
    let [bpf, ours, theirs] = [
        of(|rounds| rounds.bpf_s / rounds.alone_s),
        of(|rounds| rounds.ours_s / rounds.alone_s),
        of(|rounds| rounds.theirs_s / rounds.alone_s),
    ];
    table.row(
        "  CPU time, times that of the storm alone (by performance events; by BPF)",
        format!("{ours}; {bpf}"),
        theirs.to_string(),
        String::new(),
        "",
        None,
    );
    let their_events = of(|rounds| rounds.their_events + rounds.their_lost).median;
    let lost =
        of(|rounds| rounds.their_lost / (rounds.their_events + rounds.their_lost) * 100.0).median;
    let ours = format!("{:.0} k", of(|rounds| rounds.events).median / 1e3);
    table.row(
        "  events",
        ours,
        format!("{:.0} k, {lost:.1} % of them lost", their_events / 1e3),
        String::new(),
        "",
        None,
    );
    table.ours("  noise: CPU s alone", of(|rounds| rounds.alone_s).to_string(), "", None);
    Ok(())
}

/// The cost on an ordinary load: short processes, then one that computes.
pub fn ordinary_cost(table: &mut Table) -> anyhow::Result<()> {
    let words = ["sh", "-c", ORDINARY];
    let mut extra = Vec::new();
    let mut alone = Vec::new();
    let mut events = 0.0;
    for _ in 0..ORDINARY_ROUNDS {
        let (done, without) = Cost::of(|| run(&words));
        done?;
        let (recorded, with) = under_ours(&words, EngineChoice::Auto)?;
        alone.push(without.cpu_s());
        extra.push((with.cpu_s() / without.cpu_s() - 1.0) * 100.0);
        events += recorded / with.wall_s / ORDINARY_ROUNDS as f64;
    }
    let (extra, alone) = (Spread::of(extra), Spread::of(alone));
    // Half a percent is only visible if the load alone varies by little more.
    let met = (alone.noise() < 0.02).then_some(extra.median < 0.5);
    table.ours("recording an ordinary load: extra CPU, %", extra.to_string(), "< 0.5", met);
    table.ours(
        "  noise: CPU s of the load alone",
        format!("{alone}; {events:.0} events/s"),
        "",
        None,
    );
    Ok(())
}

/// What the recorder costs beside a desktop in use, and how much of the past its rings hold there.
pub fn history(table: &mut Table, folder: &Path) -> anyhow::Result<()> {
    let _desktop = Desktop::start(folder)?;
    let _counting = Counting::start()?;
    let mut options = Options::default();
    options.engine = EngineChoice::Bpf;
    let mut recorder = Recorder::start(&options)?;
    settle();
    let (mut kernel, mut own, mut switches) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..HISTORY_ROUNDS {
        recorder.status();
        let before = bpf_time::of_process(std::process::id());
        // The desktop's programs go on, so that no time of theirs is in that of children.
        let ((), cost) = Cost::of(|| std::thread::sleep(HISTORY_STEP));
        let ran_s = bpf_time::of_process(std::process::id()) - before;
        kernel.push(ran_s / cost.wall_s * 100.0);
        own.push(cost.cpu_s() / cost.wall_s * 100.0);
        let rates = recorder.status().rates;
        switches.extend(rates.iter().find(|(name, _)| name.contains("switch")).map(|(_, n)| *n));
    }
    let all = Spread::of(kernel.iter().zip(&own).map(|(kernel, own)| kernel + own));
    let (kernel, own) = (Spread::of(kernel), Spread::of(own));
    let text = format!(
        "{all}; programs {kernel}, process {own}; {:.0} switches/s",
        Spread::of(switches).median
    );
    table.ours("recording a desktop in use: % of one CPU", text, "≤ 1.5", Some(all.median <= 1.5));
    let status = recorder.status();
    let held_s = status.common.duration_ns() as f64 / 1e9;
    let bytes: usize = status.cpus.iter().map(|cpu| cpu.ring_bytes).sum();
    table.ours(
        "  held by its rings",
        format!("{held_s:.0} s in {} MiB of all CPUs", bytes >> 20),
        "≥ 60 s in 16 MiB",
        Some(held_s >= 60.0),
    );
    Ok(())
}
