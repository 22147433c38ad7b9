//! What a scan of an address space of 200,000 mappings costs, and what it costs the scanned
//! process, compared with `pmap -X` (smaps).
//!
//! The target is `unhitch lab address-space`, which also times its own mappings.

use crate::cost::{Cost, Spread};
use crate::table::Table;
use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use unhitch_scan::Options;

const MAPPINGS: u64 = 200_000;
const SCANS: u64 = 20;
const PMAPS: usize = 3;
const ROUNDS: usize = 3;
/// Together a hundred.
const SCANS_PER_ROUND: usize = 34;
const ALONE: Duration = Duration::from_secs(4);
const LIMIT: &str = "/proc/sys/vm/max_map_count";

/// Raises the system's maximum number of mappings of a process; restored when dropped, also after
/// Ctrl-C or SIGTERM.
struct Limit {
    before: Option<String>,
    stopped: Arc<AtomicBool>,
}

impl Limit {
    fn raise() -> anyhow::Result<Self> {
        let stopped = Arc::new(AtomicBool::new(false));
        let before = std::fs::read_to_string(LIMIT)?;
        let mut limit = Self { before: None, stopped };
        if before.trim().parse::<u64>()? < 2 * MAPPINGS {
            for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
                signal_hook::flag::register(signal, Arc::clone(&limit.stopped))?;
            }
            limit.before = Some(before);
            std::fs::write(LIMIT, (2 * MAPPINGS).to_string())
                .context("only root may raise vm.max_map_count")?;
        }
        Ok(limit)
    }

    fn check(&self) -> anyhow::Result<()> {
        if self.stopped.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        if let Some(before) = &self.before
            && let Err(error) = std::fs::write(LIMIT, before)
        {
            eprintln!("cannot set {LIMIT} back to {}: {error}", before.trim());
        }
        if self.stopped.load(Ordering::Relaxed) {
            std::process::exit(130);
        }
    }
}

/// A process with [`MAPPINGS`] mappings that maps 4 KiB every millisecond.
struct Target(Child, BufReader<ChildStdout>);

impl Target {
    fn start() -> anyhow::Result<Self> {
        let blocks = MAPPINGS.to_string();
        let mut child = Command::new(env!("CARGO_BIN_EXE_unhitch"))
            .args(["lab", "address-space", "--layout", "many-blocks", "--blocks", &blocks])
            .args(["--period", "1ms", "--limit", "10s", "--seconds", "300"])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut stdout = BufReader::new(child.stdout.take().context("no output")?);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        if !line.starts_with("ready") {
            let _ = child.kill();
            child.wait()?;
            bail!("the target could not be filled");
        }
        Ok(Self(child, stdout))
    }

    /// Stops it; returns the time of its slowest mapping, in microseconds.
    fn slowest_us(mut self) -> anyhow::Result<f64> {
        kill_process(Pid::from_child(&self.0), Signal::TERM)?;
        let mut end = String::new();
        self.1.read_to_string(&mut end)?;
        let slowest =
            end.split_once("slowest ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
        slowest.with_context(|| format!("the target printed {end:?}"))
    }

    fn scan(&self) -> anyhow::Result<unhitch_scan::AddressSpace> {
        Ok(unhitch_scan::scan(self.0.id(), &Options::default(), &mut |_| {})?)
    }

    fn pmap(&self) -> anyhow::Result<()> {
        let status = Command::new("pmap")
            .args(["-X", &self.0.id().to_string()])
            .stdout(Stdio::null())
            .status()
            .context("pmap")?;
        if status.success() { Ok(()) } else { bail!("pmap ended with {status}") }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Time per mapping, and compared with `pmap -X`.
pub fn scan(table: &mut Table) -> anyhow::Result<()> {
    let limit = Limit::raise()?;
    let target = Target::start()?;
    let (mut cpu_us, mut wall_us, mut pmap_s, mut pmap_cpu_s) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..PMAPS {
        let (mappings, cost) = Cost::of(|| {
            (0..SCANS).map(|_| Ok(target.scan()?.total.mappings)).sum::<anyhow::Result<u64>>()
        });
        let mappings = mappings?.max(1) as f64;
        cpu_us.push(cost.own_s * 1e6 / mappings);
        wall_us.push(cost.wall_s * 1e6 / mappings);
        limit.check()?;
        let (ended, cost) = Cost::of(|| target.pmap());
        limit.check()?;
        ended?;
        pmap_s.push(cost.wall_s);
        pmap_cpu_s.push(cost.children_s);
    }
    let (cpu, wall) = (Spread::of(cpu_us.iter().copied()), Spread::of(wall_us));
    table.ours(
        &format!("scan of {MAPPINGS} mappings: µs of CPU per mapping"),
        format!("{cpu:.3}"),
        "≤ 1",
        Some(cpu.median <= 1.0),
    );
    table.ours("  µs of wall time per mapping", format!("{wall:.3}"), "", None);
    let ratio = Spread::of(
        pmap_cpu_s.iter().zip(&cpu_us).map(|(pmap, ours)| pmap * 1e6 / (ours * MAPPINGS as f64)),
    );
    table.row(
        "  s of CPU for all, beside pmap -X",
        format!("{:.3}", Spread::of(cpu_us.iter().map(|us| us * MAPPINGS as f64 / 1e6))),
        format!("{:.2}", Spread::of(pmap_cpu_s)),
        format!("{ratio:.0}"),
        "≥ 5 ×",
        Some(ratio.median >= 5.0),
    );
    table.row(
        "  pmap -X, s of wall time",
        String::new(),
        format!("{:.2}", Spread::of(pmap_s)),
        String::new(),
        "",
        None,
    );
    Ok(())
}

/// Time of the target's slowest mapping: undisturbed, during a hundred scans, and during `pmap -X`.
pub fn stall(table: &mut Table) -> anyhow::Result<()> {
    let limit = Limit::raise()?;
    let (mut alone, mut scanned, mut longest_call) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let target = Target::start()?;
        std::thread::sleep(ALONE);
        alone.push(target.slowest_us()?);
        limit.check()?;
        let target = Target::start()?;
        for _ in 0..SCANS_PER_ROUND {
            longest_call.push(target.scan()?.method.calls.longest_call_ns as f64 / 1e3);
        }
        scanned.push(target.slowest_us()?);
        limit.check()?;
    }
    let target = Target::start()?;
    let ended = target.pmap();
    limit.check()?;
    ended?;
    let pmap_us = target.slowest_us()?;
    let (alone, scanned) = (Spread::of(alone), Spread::of(scanned));
    table.row(
        &format!("slowest mmap of the target, µs: {} scans / nobody", ROUNDS * SCANS_PER_ROUND),
        format!("{scanned:.0}"),
        format!("{alone:.0}"),
        format!("{:.1}", scanned.median / alone.median),
        "within noise",
        // The ranges overlap.
        Some(scanned.least <= alone.most),
    );
    table.row(
        "  during pmap -X, µs",
        String::new(),
        format!("{pmap_us:.0}"),
        format!("{:.0}", pmap_us / alone.median),
        "",
        None,
    );
    table.ours(
        "  longest call that a scan made, µs: as it reports",
        format!("{:.1}", Spread::of(longest_call)),
        "",
        None,
    );
    Ok(())
}
