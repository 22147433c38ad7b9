//! What the always-on service costs, with every trigger armed: on an idle machine, and beside a
//! synthetic desktop.
//!
//! The cost is the CPU time of the service and its children, and the run time of its BPF programs
//! as the kernel counts it (`kernel.bpf_stats_enabled`), which adds some 40 ns to each run. It is
//! not measured as a difference of two loads: it is smaller than their noise.

use crate::cost::Spread;
use crate::table::Table;
use anyhow::{Context, bail};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const STATS: &str = "/proc/sys/kernel/bpf_stats_enabled";
/// How long each measurement takes, and how many there are.
const TIME: Duration = Duration::from_secs(15);
const ROUNDS: usize = 3;
/// A start reads all processes; that is not what it costs all day.
const SETTLE: Duration = Duration::from_secs(5);

/// Everything but full input marks.
const CONFIG: &str = r#"
[retention]
min_free = "0"
[[trigger]]
kind = "pressure"
resource = "memory"
threshold = "1900ms"
window = "2s"
[[trigger]]
kind = "pressure"
resource = "io"
threshold = "1900ms"
window = "2s"
[[trigger]]
kind = "hung_task"
[[trigger]]
kind = "heartbeat"
threshold = "1h"
[[trigger]]
kind = "wait"
process = "no-such-program"
threshold = "1s"
[[trigger]]
kind = "stall"
user = "root"
threshold = "1h"
"#;

/// Counts the run time of BPF programs while it exists.
struct Counting(String);

impl Counting {
    fn start() -> anyhow::Result<Self> {
        let before = fs::read_to_string(STATS).context("the kernel counts no BPF run time")?;
        fs::write(STATS, "1").context("only root may count BPF run time")?;
        Ok(Self(before))
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let _ = fs::write(STATS, &self.0);
    }
}

struct Service {
    child: Child,
    socket: String,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Service {
    fn start(folder: &Path) -> anyhow::Result<Self> {
        let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
        fs::create_dir_all(path("service"))?;
        let config = format!(
            "[access]\nsocket_folder = {:?}\n[traces]\nfolder = {:?}\n[metrics]\nfile = {:?}\n{CONFIG}",
            path("control"),
            path("service"),
            path("service/unhitch.prom"),
        );
        fs::write(path("watch.toml"), config)?;
        let child = Command::new(env!("CARGO_BIN_EXE_unhitch"))
            .args(["watch", "--config", &path("watch.toml")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let service = Self { child, socket: path("control/control.sock") };
        let begun = Instant::now();
        while service.status().is_err() {
            if begun.elapsed() > SETTLE * 4 {
                bail!("the service does not start");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        std::thread::sleep(SETTLE);
        Ok(service)
    }

    fn status(&self) -> anyhow::Result<Value> {
        let output = Command::new(env!("CARGO_BIN_EXE_unhitch"))
            .args(["status", "--json", "--socket", &self.socket])
            .output()?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// The run time of its BPF programs so far, nanoseconds.
    fn bpf_ns(&self) -> u64 {
        let folder = format!("/proc/{}/fdinfo", self.child.id());
        let texts = fs::read_dir(folder).into_iter().flatten().flatten();
        let texts = texts.filter_map(|entry| fs::read_to_string(entry.path()).ok());
        // A program may have several descriptors: those of its links have no run time.
        let time = |text: String| {
            let line = text.lines().find_map(|line| line.strip_prefix("run_time_ns:"))?;
            let id = text.lines().find_map(|line| line.strip_prefix("prog_id:"))?;
            Some((id.trim().to_owned(), line.trim().parse::<u64>().ok()?))
        };
        let times: std::collections::BTreeMap<String, u64> = texts.filter_map(time).collect();
        times.values().sum()
    }

    /// Per cent of one CPU for the service and for its programs in the kernel, and events a second.
    fn cost(&self) -> anyhow::Result<(f64, f64, f64)> {
        let cpu = |status: &Value| status["cpu_ns"].as_f64().unwrap_or(f64::NAN);
        let (before, bpf_before, begun) = (self.status()?, self.bpf_ns(), Instant::now());
        std::thread::sleep(TIME);
        let (after, bpf) = (self.status()?, self.bpf_ns() - bpf_before);
        let percent = 100.0 / begun.elapsed().as_nanos() as f64;
        let own = (cpu(&after) - cpu(&before)) * percent;
        let rate = after["events_per_s"].as_f64().unwrap_or(f64::NAN);
        Ok((own, bpf as f64 * percent, rate))
    }
}

/// Threads that behave like the programs of a desktop in use: some draw sixty times a second, some
/// pass messages, one computes.
fn desktop(stop: &Arc<AtomicBool>) -> Vec<std::thread::JoinHandle<()>> {
    let spin = |time: Duration| {
        let begun = Instant::now();
        while begun.elapsed() < time {}
    };
    let mut threads = Vec::new();
    for number in 0..20 {
        let stop = Arc::clone(stop);
        let (period, work) = match number {
            0 => (20_000, 8_000),
            1..6 => (16_600, 900),
            _ => (4_000, 30),
        };
        threads.push(std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                spin(Duration::from_micros(work));
                std::thread::sleep(Duration::from_micros(period - work));
            }
        }));
    }
    threads
}

/// Measures the service.
pub fn cost(table: &mut Table, folder: &Path) -> anyhow::Result<()> {
    let _counting = Counting::start()?;
    let service = Service::start(folder)?;
    for (what, goal, busy) in [
        ("always on, every trigger, idle: % of one CPU", 0.3, false),
        ("always on, every trigger, desktop in use: % of one CPU", 2.0, true),
    ] {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = if busy { desktop(&stop) } else { Vec::new() };
        let rounds: anyhow::Result<Vec<_>> = (0..ROUNDS).map(|_| service.cost()).collect();
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            let _ = thread.join();
        }
        let rounds = rounds?;
        let spread = |part: fn(&(f64, f64, f64)) -> f64| Spread::of(rounds.iter().map(part));
        let all = spread(|(own, kernel, _)| own + kernel);
        let (own, kernel) = (spread(|round| round.0), spread(|round| round.1));
        let rate = spread(|round| round.2);
        let text = format!("{all}; service {own:.2}, kernel {kernel:.2}; {rate:.0} events/s");
        table.ours(what, text, &format!("≤ {goal}"), Some(all.median <= goal));
    }
    Ok(())
}
