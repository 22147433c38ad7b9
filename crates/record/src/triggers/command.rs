//! A command that is run again and again until it succeeds.

use super::hit::{Hit, Stop};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A command that runs for longer is killed.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How often to look whether it has ended.
const LOOK: Duration = Duration::from_millis(20);
/// Maximum length of the first line of its output that is used, bytes.
const MAX_OUTPUT: u64 = 256;

pub(super) fn source(
    command: String,
    every: Duration,
    stop: Arc<Stop>,
    report: impl Fn(Hit) + Send + 'static,
) -> Box<dyn FnOnce() + Send> {
    Box::new(move || {
        while !stop.sleep(every) {
            if let Some(output) = run(&command, &stop) {
                let said = if output.is_empty() { String::new() } else { format!(": {output}") };
                let text = format!("{command} succeeded{said}");
                report(Hit { text, ..Hit::default() });
            }
        }
    })
}

/// Runs the command once. Returns the first line of its output if it succeeded.
fn run(command: &str, stop: &Stop) -> Option<String> {
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // So that what the shell starts can be killed with it.
        .process_group(0)
        .spawn()
        .ok()?;
    let out = child.stdout.take()?;
    // A thread, because what the command starts may keep the pipe open.
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(first_line(out)));
    let success = ends(&mut child, stop)?;
    let output = receiver.recv_timeout(LOOK * 5).unwrap_or_default();
    success.then_some(output)
}

fn first_line(mut out: impl Read) -> String {
    let mut bytes = Vec::new();
    let _ = out.by_ref().take(MAX_OUTPUT).read_to_end(&mut bytes);
    // The rest is read so that the command does not wait for us.
    let _ = std::io::copy(&mut out, &mut std::io::sink());
    String::from_utf8_lossy(&bytes).lines().next().unwrap_or_default().trim().to_owned()
}

/// Whether the command succeeded; `None` if it was killed.
fn ends(child: &mut Child, stop: &Stop) -> Option<bool> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().ok()? {
            return Some(status.success());
        }
        if begun.elapsed() > TIMEOUT || stop.sleep(LOOK) {
            // The shell has not been waited for: its id is still its own.
            if let Some(group) = Pid::from_raw(child.id() as i32) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = child.wait();
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_success_counts_and_an_endless_command_ends_with_the_recorder() {
        let stop = |ended| {
            let stop = Stop::default();
            if ended {
                stop.set();
            }
            stop
        };
        assert_eq!(run("echo load is 9; echo more", &stop(false)).as_deref(), Some("load is 9"));
        assert_eq!(run("exit 1", &stop(false)), None);
        assert_eq!(run("no-such-command-at-all", &stop(false)), None);
        assert_eq!(run("sleep 1000", &stop(true)), None);
        // More output than a pipe holds.
        assert_eq!(run("yes | head -c 300000", &stop(false)).as_deref(), Some("y"));
    }

    #[test]
    fn a_command_is_killed_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let command = format!("sh -c 'echo $$ > {}; exec sleep 1000' | cat", file.display());
        let stop = Stop::default();
        let written = || std::fs::read_to_string(&file).ok()?.trim().parse::<u32>().ok();
        let pid = std::thread::scope(|scope| {
            let started = scope.spawn(|| {
                let pid = loop {
                    match written() {
                        Some(pid) => break pid,
                        None => std::thread::sleep(LOOK),
                    }
                };
                stop.set();
                pid
            });
            assert_eq!(run(&command, &stop), None);
            started.join().unwrap()
        });
        // It is gone, or waits for its new parent to ask how it ended.
        let lives = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
        };
        let since = Instant::now();
        while lives() {
            assert!(since.elapsed() < TIMEOUT, "{pid} still runs");
            std::thread::sleep(LOOK);
        }
    }
}
