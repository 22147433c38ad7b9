//! What the always-on service costs, with every trigger armed and an agent that marks input in
//! private and asks windows whether they answer: on an idle machine, and beside a desktop in use.
//!
//! The cost is the CPU time of the service and its children, the run time of its BPF programs, and the
//! CPU time of the agent.
//! It is not measured as a difference of two loads: it is smaller than their noise.

use crate::bpf_time::{self, Counting};
use crate::cost::Spread;
use crate::desktop::Desktop;
use crate::program::Program;
use crate::session;
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
kind = "command"
command = "test -e /tmp/unhitch-save-now"
every = "5s"
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

    /// What it and the agent cost.
    fn cost(&self, agent: &Program) -> anyhow::Result<Percent> {
        let cpu = |status: &Value| status["cpu_ns"].as_f64().unwrap_or(f64::NAN);
        let pid = self.child.id();
        let (before, bpf_before, agent_before, begun) =
            (self.status()?, bpf_time::of_process(pid), ran_s(agent.pid()), Instant::now());
        std::thread::sleep(TIME);
        let (after, bpf_s) = (self.status()?, bpf_time::of_process(pid) - bpf_before);
        let agent_s = ran_s(agent.pid()) - agent_before;
        let percent = 100.0 / begun.elapsed().as_secs_f64();
        Ok(Percent {
            service: (cpu(&after) - cpu(&before)) / 1e9 * percent,
            kernel: bpf_s * percent,
            agent: agent_s * percent,
            events_per_s: after["events_per_s"].as_f64().unwrap_or(f64::NAN),
        })
    }
}

/// Per cent of one CPU, and events a second.
struct Percent {
    service: f64,
    kernel: f64,
    agent: f64,
    events_per_s: f64,
}

/// How long the threads of a process have run, seconds: the first number of `schedstat` is
/// nanoseconds.
fn ran_s(pid: u32) -> f64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let times = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    });
    times.sum::<f64>() / 1e9
}

/// A session with its agent, and a window that answers and has the focus.
struct Session {
    desktop: session::Desktop,
    agent: Program,
    _window: Program,
}

impl Session {
    fn start(service: &Service) -> anyhow::Result<Self> {
        let desktop = session::Desktop::start()
            .map_err(|missing| anyhow::anyhow!("there is no {}", missing.0))?;
        let options = ["agent", "--socket", &service.socket, "--input", "private"];
        let agent = desktop.start_program(env!("CARGO_BIN_EXE_unhitch"), &options);
        let window = desktop.window();
        Ok(Self { desktop, agent, _window: window })
    }

    /// Ten keys a second.
    fn typing(&self) -> Program {
        let text = "while :; do xdotool type --delay 100 'some words and 12 digits '; done";
        self.desktop.start_program("sh", &["-c", text])
    }
}

/// Measures the service.
pub fn cost(table: &mut Table, folder: &Path) -> anyhow::Result<()> {
    let _counting = Counting::start()?;
    let service = Service::start(folder)?;
    let session = Session::start(&service)?;
    std::thread::sleep(SETTLE);
    for (what, goal, busy) in [
        ("always on, every trigger, with agent, idle: % of one CPU", 0.3, false),
        ("always on, every trigger, with agent, desktop in use: % of one CPU", 2.0, true),
    ] {
        let _desktop = busy.then(|| Desktop::start(folder)).transpose()?;
        let _typing = busy.then(|| session.typing());
        let rounds = (0..ROUNDS).map(|_| service.cost(&session.agent));
        let rounds = rounds.collect::<anyhow::Result<Vec<_>>>()?;
        let spread = |part: fn(&Percent) -> f64| Spread::of(rounds.iter().map(part));
        let all = spread(|round| round.service + round.kernel + round.agent);
        let (own, kernel) = (spread(|round| round.service), spread(|round| round.kernel));
        let (agent, rate) = (spread(|round| round.agent), spread(|round| round.events_per_s));
        let text = format!(
            "{all}; service {own:.2}, kernel {kernel:.2}, agent {agent:.2}; {rate:.0} events/s"
        );
        table.ours(what, text, &format!("≤ {goal}"), Some(all.median <= goal));
    }
    Ok(())
}
