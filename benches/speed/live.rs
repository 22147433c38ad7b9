//! How long `unhitch why --live` takes, from the question to the answer, on a desktop in use whose
//! recorder has filled a good part of its ring.

use crate::cost::Spread;
use crate::desktop::Desktop;
use crate::table::Table;
use anyhow::{Context, ensure};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;
/// What the recorder has seen before it is asked.
const HISTORY: Duration = Duration::from_secs(30);

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(command: &mut Command) -> anyhow::Result<Ended> {
    Ok(Ended(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?))
}

/// A command waits for the lock on a file, which another one has, while the desktop is in use.
pub fn why(table: &mut Table, folder: &Path) -> anyhow::Result<()> {
    let folder = folder.join("live");
    std::fs::create_dir(&folder)?;
    let unhitch = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unhitch"));
        command.env("XDG_RUNTIME_DIR", &folder);
        command
    };
    let mut watch = start(unhitch().args(["watch", "-o"]).arg(&folder).stderr(Stdio::piped()))?;
    let said = BufReader::new(watch.0.stderr.take().context("no output")?);
    let mut said = said.lines().map_while(Result::ok);
    ensure!(said.any(|line| line.contains("watching")), "the recorder does not start");
    let _desktop = Desktop::start(&folder)?;
    let lock = folder.join("lock");
    let _holder = start(Command::new("flock").arg(&lock).args(["sleep", "600"]))?;
    std::thread::sleep(Duration::from_millis(200));
    let waiter = start(Command::new("flock").arg(&lock).arg("true"))?;
    std::thread::sleep(HISTORY);
    let victim = waiter.0.id().to_string();
    for (what, asked) in [("unasked", &[][..]), ("of a process", &["--victim", &victim])] {
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            let answer = unhitch().args(["why", "--live"]).args(asked).output()?;
            times.push(begun.elapsed().as_secs_f64() * 1e3);
            let text = String::from_utf8_lossy(&answer.stdout);
            ensure!(text.contains("file lock"), "not the answer: {text}");
        }
        let times = Spread::of(times);
        let met = Some(times.median < 1000.0);
        table.ours(&format!("why --live, {what}, ms"), format!("{times:.0}"), "< 1,000", met);
    }
    Ok(())
}
