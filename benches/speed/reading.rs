//! How fast traces are read and answered: a big real one by us alone, a smaller one compared with
//! `perf sched timehist`.

use crate::cost::{Cost, Spread};
use crate::drawing;
use crate::page;
use crate::recorder::{run, storm};
use crate::table::Table;
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use unhitch_model::Trace;

const UNHITCH: &str = env!("CARGO_BIN_EXE_unhitch");
/// On each of two CPUs; together some 4 million records.
pub const FOR_LOADING: u32 = 700_000;
/// On each of two CPUs; together 2 million switches.
pub const FOR_ANSWERING: u32 = 500_000;
/// On each of two CPUs; together 20 million switches.
pub const FOR_OPENING: u32 = 5_000_000;
/// What records, by the words of `--engine`. A recording by BPF has no switches in its `perf.data`,
/// so one that other programs are to read is made by performance events.
pub const ENGINES: [&str; 2] = ["bpf", "perf"];
const LOADS: usize = 7;
const OPENINGS: usize = 5;
const GOAL_USABLE_S: f64 = 1.0;
const ANSWERS: usize = 5;
const TIMEHISTS: usize = 3;

/// Records a storm on both CPUs with the real program, in rings that hold all of it. It is recorded
/// once by each engine, for all measurements.
pub fn record(folder: &Path, round_trips: u32, engine: &str) -> anyhow::Result<PathBuf> {
    let both = format!(
        "for cpu in 0 1; do {} >/dev/null & done; wait",
        storm("$cpu", round_trips).join(" ")
    );
    record_shell(folder.join(format!("{round_trips}-{engine}.hitch")), engine, &both)
}

/// Records half a minute of a parallel build of this project, with two processes next to it that
/// pass a byte back and forth a million times: a build alone switches too rarely.
pub fn record_build(folder: &Path, engine: &str) -> anyhow::Result<PathBuf> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
    // One of its own for each engine: nothing is built yet.
    let target = folder.join(format!("target-{engine}"));
    let build = format!(
        "{} build --workspace --manifest-path {manifest} --target-dir {}",
        env!("CARGO"),
        target.display()
    );
    let both = format!(
        "for load in '{build}' 'perf bench sched pipe -l 1000000'; do timeout 30 $load >/dev/null 2>&1 & done; wait"
    );
    record_shell(folder.join(format!("build-{engine}.hitch")), engine, &both)
}

fn record_shell(path: PathBuf, engine: &str, script: &str) -> anyhow::Result<PathBuf> {
    if !path.exists() {
        let file = path.to_str().context("path")?;
        let ours = [UNHITCH, "record", "--engine", engine, "--buffer", "1G", "-o", file];
        run(&[&ours[..], &["--", "sh", "-c", script]].concat())?;
    }
    Ok(path)
}

/// What a fresh process measured while loading a file: see [`load`].
#[derive(Clone, Copy, Default)]
pub struct Loaded {
    pub records: f64,
    switches: f64,
    pub seconds: f64,
    peak_bytes: f64,
}

/// Loads a file in this process, which does nothing else, and prints the result: `speed load-file
/// FILE`.
pub fn load(path: &Path) -> anyhow::Result<()> {
    let (trace, seconds) = opened(path)?;
    print_loaded(&trace, seconds)
}

/// The same as far as the first view of the page: `speed view-file FILE`.
pub fn view(path: &Path) -> anyhow::Result<()> {
    let (trace, load_seconds) = opened(path)?;
    let start = Instant::now();
    let _view = page::first_view(&trace);
    print_loaded(&trace, load_seconds + start.elapsed().as_secs_f64())
}

/// The same of the newest part: `speed view-newest FILE`.
pub fn view_newest(path: &Path) -> anyhow::Result<()> {
    let start = Instant::now();
    let trace = unhitch_formats::open_newest(path)?.context("it has no newest part")?;
    let _view = page::first_view(&trace);
    print_loaded(&trace, start.elapsed().as_secs_f64())
}

fn opened(path: &Path) -> anyhow::Result<(Trace, f64)> {
    let start = Instant::now();
    let trace = unhitch_formats::open(path)?;
    Ok((trace, start.elapsed().as_secs_f64()))
}

fn print_loaded(trace: &Trace, seconds: f64) -> anyhow::Result<()> {
    let records: u64 = trace.by_kind.values().sum();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|line| line.split_whitespace().next());
    let peak_bytes = peak.unwrap_or("0").parse::<u64>()? * 1024;
    println!("{records} {} {seconds} {peak_bytes}", trace.switches.len());
    Ok(())
}

/// Loads it in a separate process.
pub fn load_afresh(path: &Path) -> anyhow::Result<Loaded> {
    afresh("load-file", path)
}

fn afresh(how: &str, path: &Path) -> anyhow::Result<Loaded> {
    let output = Command::new(std::env::current_exe()?).arg(how).arg(path).output()?;
    let text = String::from_utf8(output.stdout)?;
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [records, switches, seconds, peak_bytes] = numbers[..] else {
        anyhow::bail!("{}", String::from_utf8_lossy(&output.stderr))
    };
    Ok(Loaded { records, switches, seconds, peak_bytes })
}

/// The time from opening a recording until the page can be used, in the browser; and to the first view
/// of its newest part and of all of it, in fresh processes.
pub fn opening(table: &mut Table, path: &Path, of: &str) -> anyhow::Result<()> {
    let fresh = |how| (0..OPENINGS).map(|_| afresh(how, path)).collect::<anyhow::Result<Vec<_>>>();
    let (whole, newest) = (fresh("view-file")?, fresh("view-newest")?);
    let usable = (0..OPENINGS).map(|_| drawing::usable_s(UNHITCH, path));
    let usable = usable.collect::<anyhow::Result<Vec<_>>>()?;
    let spread = |which: usize| Spread::of(usable.iter().map(|seconds| seconds[which]));
    let switches = |views: &[Loaded]| views.first().map_or(0.0, |view| view.switches / 1e6);
    let what = format!(
        "opening {:.1} M switches of {of}: usable in the browser after s",
        switches(&whole)
    );
    let (opened, started) = (spread(0), spread(1));
    let goal = format!("< {GOAL_USABLE_S}");
    table.ours(&what, opened.to_string(), &goal, Some(opened.median < GOAL_USABLE_S));
    table.ours("  from the start of `unhitch view`: s", started.to_string(), "", None);
    for (views, of) in [(&newest, "the newest"), (&whole, "all")] {
        let what = format!("  first view of {of} {:.1} M: s", switches(views));
        let seconds = Spread::of(views.iter().map(|view| view.seconds));
        table.ours(&what, seconds.to_string(), "", None);
    }
    Ok(())
}

/// Rate and memory of the loader, on both cores.
pub fn loader(table: &mut Table, path: &Path, of: &str) -> anyhow::Result<()> {
    let len = std::fs::metadata(path)?.len() as f64;
    let loads = (0..LOADS).map(|_| load_afresh(path)).collect::<anyhow::Result<Vec<Loaded>>>()?;
    let first = loads.first().copied().unwrap_or_default();
    let rate = Spread::of(loads.iter().map(|load| load.records / load.seconds / 1e6));
    let what = format!(
        "loading {:.1} M records of {of} ({:.0} MB): million records/s",
        first.records / 1e6,
        len / 1e6
    );
    table.ours(&what, rate.to_string(), "≥ 5", Some(rate.median >= 5.0));
    let peak = Spread::of(loads.iter().map(|load| load.peak_bytes / len));
    let per_record = Spread::of(loads.iter().map(|load| load.peak_bytes / load.records));
    table.ours(
        "  peak memory, times the file",
        format!("{peak}; {:.0} bytes per record", per_record.median),
        "≤ 1.5",
        Some(peak.median <= 1.5),
    );
    Ok(())
}

/// A complete answer in a fresh process; no stall (exit code 3) is an answer, too.
fn why(path: &Path) -> anyhow::Result<Cost> {
    let (status, cost) = Cost::of(|| {
        Command::new(UNHITCH)
            .arg("why")
            .arg(path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
    });
    let code = status?.code();
    anyhow::ensure!(
        matches!(code, Some(0 | 3)),
        "unhitch why {}: exit code {code:?}",
        path.display()
    );
    Ok(cost)
}

/// The time from the command to its answer, with the file in the page cache and without.
pub fn answer(table: &mut Table, path: &Path, of: &str) -> anyhow::Result<()> {
    let switches = load_afresh(path)?.switches / 1e6;
    for (how, cold) in [("file in memory", false), ("file on disk", true)] {
        let mut costs = Vec::new();
        for _ in 0..ANSWERS {
            if cold {
                let file = format!("of={}", path.display());
                run(&[
                    "dd",
                    &file,
                    "oflag=nocache",
                    "conv=notrunc,fdatasync",
                    "count=0",
                    "status=none",
                ])?;
            }
            costs.push(why(path)?);
        }
        let wall = Spread::of(costs.iter().map(|cost| cost.wall_s));
        let cpu = Spread::of(costs.iter().map(|cost| cost.cpu_s()));
        let what = format!("`why` on {switches:.1} M switches of {of}, {how}: s");
        table.ours(
            &what,
            format!("{wall}; CPU {:.2}", cpu.median),
            "< 0.5",
            Some(wall.median < 0.5),
        );
    }
    Ok(())
}

/// Both read the same `perf.data`, written by our recorder by performance events: a small one, where resolving function
/// names costs most, and one with two million switches.
pub fn timehist(table: &mut Table, folder: &Path) -> anyhow::Result<()> {
    for round_trips in [FOR_ANSWERING / 20, FOR_ANSWERING] {
        let mut container =
            zip::ZipArchive::new(std::fs::File::open(record(folder, round_trips, "perf")?)?)?;
        let path = folder.join("perf.data");
        std::io::copy(&mut container.by_name("perf.data")?, &mut std::fs::File::create(&path)?)?;
        beside_timehist(table, &path)?;
    }
    Ok(())
}

fn beside_timehist(table: &mut Table, path: &Path) -> anyhow::Result<()> {
    let mut rounds = Vec::new();
    let mut file = Loaded::default();
    for _ in 0..TIMEHISTS {
        file = load_afresh(path)?;
        anyhow::ensure!(file.switches > 0.0, "{} has no switches", path.display());
        let answer = why(path)?;
        let words = ["perf", "sched", "timehist", "-i", path.to_str().context("path")?];
        let (done, theirs) = Cost::of(|| run(&words));
        done?;
        rounds.push((file.seconds, answer.wall_s, theirs.wall_s));
    }
    let rate = |seconds: fn(&(f64, f64, f64)) -> f64| {
        Spread::of(rounds.iter().map(|round| file.records / seconds(round) / 1e6))
    };
    let theirs = format!("perf sched timehist: {}", rate(|round| round.2));
    for (what, seconds) in
        [("loading", (|round| round.0) as fn(&(f64, f64, f64)) -> f64), ("`why`", |round| round.1)]
    {
        let ratio = Spread::of(rounds.iter().map(|round| round.2 / seconds(round)));
        let what = format!(
            "{what}, {:.1} M switches, {:.1} M records of a perf.data: million/s",
            file.switches / 1e6,
            file.records / 1e6
        );
        table.row(
            &what,
            rate(seconds).to_string(),
            theirs.clone(),
            format!("{ratio:.1}"),
            "≥ 10 × perf's",
            Some(ratio.median >= 10.0),
        );
    }
    Ok(())
}
