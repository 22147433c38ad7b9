//! What recording costs: per event in a storm beside `perf record -g`, and on an ordinary load.
//!
//! The load is pinned to one CPU, so that its threads wake and switch to each other all the time, and whatever else the machine does
//! is accounted to others. Each round measures alone, ours and theirs in turns, and is compared within itself.

use crate::cost::{Cost, Spread};
use crate::table::Table;
use anyhow::{Context, bail};
use std::path::Path;
use std::process::{Command, Stdio};
use unhitch_record::{Options, Recorder};

/// Round trips over a pipe; each is two switches and one or two wakings.
const ROUND_TRIPS: u32 = 150_000;
const ROUNDS: usize = 7;
const ORDINARY_ROUNDS: usize = 9;
const ORDINARY: &str = "for i in $(seq 400); do /bin/true; done; head -c 800M /dev/zero | sha256sum";
const EVENTS: [&str; 2] = ["sched:sched_switch", "sched:sched_waking"];

/// Starts a program that says nothing, and waits until it has ended well.
pub fn run(words: &[&str]) -> anyhow::Result<()> {
    let (program, arguments) = words.split_first().context("no program")?;
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().with_context(|| format!("{program} cannot be run"))?;
    if !output.status.success() {
        bail!("{}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// The words that make two threads of a process pass a byte to and fro on one CPU.
pub fn storm(cpu: &str, round_trips: u32) -> Vec<String> {
    let trips = round_trips.to_string();
    ["taskset", "-c", cpu, "perf", "bench", "sched", "pipe", "-T", "-l", &trips].map(str::to_owned).to_vec()
}

/// Runs these words under our recorder: how many events it recorded by all its tracepoints, and the cost without start and end.
fn under_ours(words: &[&str]) -> anyhow::Result<(f64, Cost)> {
    let mut recorder = Recorder::start(&Options::default())?;
    recorder.status();
    let (done, cost) = Cost::of(|| run(words));
    done?;
    let rate: f64 = recorder.status().rates.iter().map(|(_, rate)| rate).sum();
    Ok((rate * cost.wall_s, cost))
}

/// The same under `perf record -g`. Build ids are not collected, which is not recording.
fn under_perf(file: &str, words: &[&str]) -> anyhow::Result<Cost> {
    let mut all = vec!["perf", "record", "-B", "-g", "-a", "-o", file, "-e", EVENTS[0], "-e", EVENTS[1], "--"];
    all.extend(words);
    let (done, cost) = Cost::of(|| run(&all));
    done.map(|()| cost)
}

/// One round of the storm, seconds.
struct Round {
    alone: Cost,
    ours: Cost,
    /// Without perf's start and end.
    theirs: Cost,
    events: f64,
    their_events: u64,
    their_lost: u64,
}

impl Round {
    fn measure(file: &Path) -> anyhow::Result<Self> {
        let words = storm("1", ROUND_TRIPS);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let path = file.to_str().context("the folder for temporary files has a strange name")?;
        let (done, alone) = Cost::of(|| run(&words));
        done?;
        let (events, ours) = under_ours(&words)?;
        let idle = under_perf(path, &["true"])?;
        let mut theirs = under_perf(path, &words)?;
        theirs.children_s -= idle.children_s;
        theirs.machine_s -= idle.machine_s;
        let trace = unhitch_formats::open(file)?;
        let their_lost = trace.losses.iter().map(|loss| loss.events).sum();
        let their_events = EVENTS.iter().filter_map(|name| trace.by_kind.get(*name)).sum();
        Ok(Self { alone, ours, theirs, events, their_events, their_lost })
    }

    fn ours_us(&self) -> f64 {
        (self.ours.cpu_s() - self.alone.cpu_s()) / self.events * 1e6
    }

    /// What is lost was not written, but its stacks were walked.
    fn theirs_us(&self) -> f64 {
        (self.theirs.cpu_s() - self.alone.cpu_s()) / (self.their_events + self.their_lost) as f64 * 1e6
    }

    fn machine_us(&self) -> (f64, f64) {
        let theirs = (self.their_events + self.their_lost) as f64;
        ((self.ours.machine_s - self.alone.machine_s) / self.events * 1e6, (self.theirs.machine_s - self.alone.machine_s) / theirs * 1e6)
    }
}

/// The cost of an event. `file` is left for others to read.
pub fn storm_cost(table: &mut Table, file: &Path) -> anyhow::Result<()> {
    let rounds = (0..ROUNDS).map(|_| Round::measure(file)).collect::<anyhow::Result<Vec<Round>>>()?;
    let of = |value: fn(&Round) -> f64| Spread::of(rounds.iter().map(value));
    let (ours, theirs) = (of(Round::ours_us), of(Round::theirs_us));
    let ratio = of(|round| round.ours_us() / round.theirs_us());
    table.row(
        "recording: CPU µs per event, both stacks",
        ours.to_string(),
        format!("perf record -g: {theirs}"),
        ratio.to_string(),
        "≤ 0.8 of perf's",
        Some(ratio.median <= 0.8),
    );
    // The machine at its quietest: others can only add.
    let alone = of(|round| round.alone.cpu_s());
    let fewest = |value: fn(&Round) -> f64| of(value).least - alone.least;
    let least = fewest(|round| round.ours.cpu_s()) / of(|round| round.events).median * 1e6;
    let their_least = fewest(|round| round.theirs.cpu_s()) / of(|round| (round.their_events + round.their_lost) as f64).median * 1e6;
    table.row(
        "  the same from the quietest run of each",
        format!("{least:.2}"),
        format!("{their_least:.2}"),
        format!("{:.2}", least / their_least),
        "",
        None,
    );
    let (machine, their_machine) = (of(|round| round.machine_us().0), of(|round| round.machine_us().1));
    let machine_ratio = format!("{:.2}", machine.median / their_machine.median);
    table.row("  the same by the whole machine's busy time", machine.to_string(), their_machine.to_string(), machine_ratio, "", None);
    let slower = of(|round| round.ours.cpu_s() / round.alone.cpu_s());
    let their_slower = of(|round| round.theirs.cpu_s() / round.alone.cpu_s());
    table.row("  CPU time of the storm, times that alone", slower.to_string(), their_slower.to_string(), String::new(), "", None);
    let lost = of(|round| round.their_lost as f64 / (round.their_events + round.their_lost) as f64 * 100.0);
    let events = format!("{:.0} k", of(|round| round.events).median / 1e3);
    let their_events = format!("{:.0} k, {:.1} % lost", of(|round| round.their_events as f64).median / 1e3, lost.median);
    table.row("  events recorded", events, their_events, String::new(), "", None);
    table.ours("  noise: CPU s of the storm alone", alone.to_string(), "", None);
    Ok(())
}

/// The cost on a load that is no storm: small processes, then one that computes.
pub fn ordinary_cost(table: &mut Table) -> anyhow::Result<()> {
    let words = ["sh", "-c", ORDINARY];
    let mut extra = Vec::new();
    let mut alone = Vec::new();
    let mut events = 0.0;
    for _ in 0..ORDINARY_ROUNDS {
        let (done, without) = Cost::of(|| run(&words));
        done?;
        let (recorded, with) = under_ours(&words)?;
        alone.push(without.cpu_s());
        extra.push((with.cpu_s() / without.cpu_s() - 1.0) * 100.0);
        events += recorded / with.wall_s / ORDINARY_ROUNDS as f64;
    }
    let (extra, alone) = (Spread::of(extra), Spread::of(alone));
    let noise = (alone.most - alone.least) / alone.median * 100.0;
    table.ours("recording an ordinary load: extra CPU, %", extra.to_string(), "< 0.5, or lost in the noise", Some(extra.median < 0.5));
    table.ours("  noise: CPU s of the load alone", format!("{alone}, i.e. {noise:.1} %; {events:.0} events/s"), "", None);
    Ok(())
}
