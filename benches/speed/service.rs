//! What the always-on service costs, with every trigger armed: on an idle machine, and beside a
//! desktop in use.
//!
//! The cost is the CPU time of the service and its children, and the run time of its BPF programs.
//! It is not measured as a difference of two loads: it is smaller than their noise.

use crate::bpf_time::{self, Counting};
use crate::cost::Spread;
use crate::desktop::Desktop;
use crate::table::Table;
use anyhow::bail;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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

    /// Per cent of one CPU for the service and for its programs in the kernel, and events a second.
    fn cost(&self) -> anyhow::Result<(f64, f64, f64)> {
        let cpu = |status: &Value| status["cpu_ns"].as_f64().unwrap_or(f64::NAN);
        let pid = self.child.id();
        let (before, bpf_before, begun) =
            (self.status()?, bpf_time::of_process(pid), Instant::now());
        std::thread::sleep(TIME);
        let (after, bpf_s) = (self.status()?, bpf_time::of_process(pid) - bpf_before);
        let percent = 100.0 / begun.elapsed().as_secs_f64();
        let own = (cpu(&after) - cpu(&before)) / 1e9 * percent;
        let rate = after["events_per_s"].as_f64().unwrap_or(f64::NAN);
        Ok((own, bpf_s * percent, rate))
    }
}

/// Measures the service.
pub fn cost(table: &mut Table, folder: &Path) -> anyhow::Result<()> {
    let _counting = Counting::start()?;
    let service = Service::start(folder)?;
    for (what, goal, busy) in [
        ("always on, every trigger, idle: % of one CPU", 0.3, false),
        ("always on, every trigger, desktop in use: % of one CPU", 2.0, true),
    ] {
        let _desktop = busy.then(|| Desktop::start(folder)).transpose()?;
        let rounds = (0..ROUNDS).map(|_| service.cost()).collect::<anyhow::Result<Vec<_>>>()?;
        let spread = |part: fn(&(f64, f64, f64)) -> f64| Spread::of(rounds.iter().map(part));
        let all = spread(|(own, kernel, _)| own + kernel);
        let (own, kernel) = (spread(|round| round.0), spread(|round| round.1));
        let rate = spread(|round| round.2);
        let text = format!("{all}; service {own:.2}, kernel {kernel:.2}; {rate:.0} events/s");
        table.ours(what, text, &format!("≤ {goal}"), Some(all.median <= goal));
    }
    Ok(())
}
