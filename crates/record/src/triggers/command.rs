//! A command that is run again and again until it succeeds.

use super::hit::{Hit, Stop, Trouble};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A command that runs for longer is killed.
const TIMEOUT: Duration = Duration::from_secs(30);
/// What a shell ends with if it cannot start a command.
const NOT_STARTED: [i32; 2] = [126, 127];
/// How often to look whether it has ended.
const LOOK: Duration = Duration::from_millis(20);
/// Maximum length of the first line of its output that is used, bytes.
const MAX_OUTPUT: u64 = 256;

pub(super) fn source(
    command: String,
    every: Duration,
    stop: Arc<Stop>,
    report: impl Fn(Hit) + Send + 'static,
    mut trouble: Trouble,
) -> Box<dyn FnOnce() + Send> {
    Box::new(move || {
        while !stop.sleep(every) {
            let output = run(&command, &stop);
            trouble.tell(output.as_ref().err().cloned());
            if let Ok(Some(output)) = output {
                let said = if output.is_empty() { String::new() } else { format!(": {output}") };
                let text = format!("{command} succeeded{said}");
                report(Hit { text, ..Hit::default() });
            }
        }
    })
}

/// Runs the command once. Returns the first line of its output if it succeeded; an error if it
/// could neither succeed nor fail.
fn run(command: &str, stop: &Stop) -> Result<Option<String>, String> {
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // So that what the shell starts can be killed with it.
        .process_group(0)
        .spawn()
        .map_err(|error| format!("/bin/sh: {error}"))?;
    let out = child.stdout.take().ok_or("no pipe")?;
    // A thread, because what the command starts may keep the pipe open.
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(first_line(out)));
    let Some(status) = ends(&mut child, stop)? else { return Ok(None) };
    if let Some(code) = status.code().filter(|code| NOT_STARTED.contains(code)) {
        return Err(format!("its shell cannot start a command (exit status {code})"));
    }
    let output = receiver.recv_timeout(LOOK * 5).unwrap_or_default();
    Ok(status.success().then_some(output))
}

fn first_line(mut out: impl Read) -> String {
    let mut bytes = Vec::new();
    let _ = out.by_ref().take(MAX_OUTPUT).read_to_end(&mut bytes);
    // The rest is read so that the command does not wait for us.
    let _ = std::io::copy(&mut out, &mut std::io::sink());
    String::from_utf8_lossy(&bytes).lines().next().unwrap_or_default().trim().to_owned()
}

/// How the command ended; `None` if it was killed because the recorder stops.
fn ends(child: &mut Child, stop: &Stop) -> Result<Option<ExitStatus>, String> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return Ok(Some(status));
        }
        let took_too_long = begun.elapsed() > TIMEOUT;
        if took_too_long || stop.sleep(LOOK) {
            // The shell has not been waited for: its id is still its own.
            if let Some(group) = Pid::from_raw(child.id() as i32) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = child.wait();
            let why = || format!("it ran for more than {} s and was killed", TIMEOUT.as_secs());
            return if took_too_long { Err(why()) } else { Ok(None) };
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
        let said = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(run("echo load is 9; echo more", &stop(false)), said("load is 9"));
        assert_eq!(run("exit 1", &stop(false)), Ok(None));
        assert!(run("no-such-command-at-all", &stop(false)).is_err());
        assert_eq!(run("sleep 1000", &stop(true)), Ok(None));
        // More output than a pipe holds.
        assert_eq!(run("yes | head -c 300000", &stop(false)), said("y"));
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
            assert_eq!(run(&command, &stop), Ok(None));
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
