//! `unhitch why --live` and `unhitch save --why`: hangs of this machine that have not ended. Where
//! recording is not possible, the tests are skipped and print `SKIPPED name: reason` to stderr.
#![cfg(target_os = "linux")]

use serde_json::Value;
use std::io::{BufRead, BufReader, Write, stderr};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};
use unhitch_record::{EngineChoice, Options, Recorder};

/// A process that is killed at the end.
struct Killed(Child);

impl Killed {
    fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn can_record_by_bpf(test: &str) -> bool {
    let mut options = Options::default();
    options.engine = EngineChoice::Bpf;
    match Recorder::start(&options) {
        Ok(_) => true,
        Err(error) => {
            let reason = error.to_string().replace('\n', " ");
            let _ = writeln!(stderr(), "SKIPPED {test}: {reason}");
            false
        }
    }
}

fn unhitch(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unhitch"));
    command.args(words).current_dir(folder).env("XDG_RUNTIME_DIR", folder);
    command.env_remove("XDG_CONFIG_HOME").env_remove("HOME").output().unwrap()
}

/// flock(1) holds a lock and sleeps; a second one waits for it. Both were there before anything was
/// recorded.
fn wait_for_a_file_lock(folder: &Path) -> [Killed; 2] {
    let start = |seconds: &str| {
        let mut flock = Command::new("flock");
        flock.arg("--no-fork").arg(folder.join("lock")).args(["sleep", seconds]);
        Killed::start(&mut flock)
    };
    let holder = start("600");
    until_asleep_in(&holder, "hrtimer_nanosleep");
    let waiter = start("0");
    until_asleep_in(&waiter, "locks_lock_inode_wait");
    [holder, waiter]
}

/// By `/proc/PID/stack`, which only root can read.
fn until_asleep_in(process: &Killed, function: &str) {
    let begun = Instant::now();
    let path = format!("/proc/{}/stack", process.0.id());
    while !fs::read_to_string(&path).unwrap().contains(function) {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not come to {function}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn check(output: &Output, holder: &Killed, waiter: &Killed) {
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{complaint}");
    let why: Value = serde_json::from_slice(&output.stdout).unwrap();
    let stalls = why["stalls"].as_array().unwrap();
    let stall = stalls.iter().find(|stall| stall["victim"]["tid"] == waiter.0.id());
    let stall = stall.unwrap_or_else(|| panic!("the waiter is no victim: {why}"));
    assert_eq!(stall["cause"]["pattern"], "long_hold", "{stall}");
    assert_eq!(stall["cause"]["culprit"]["tid"], holder.0.id(), "{stall}");
    let ns = |value: &Value, key: &str| value[key].as_u64().unwrap();
    let end_ns = ns(&why["trace"], "start_ns") + ns(&why["trace"], "duration_ns");
    assert!(ns(stall, "end_ns") + 200_000_000 >= end_ns, "{stall}");
}

/// Two threads take two mutexes of glibc, each in its own order.
const DEADLOCK: &str = "
import ctypes, threading, time
libc = ctypes.CDLL(None)
mutexes = [ctypes.create_string_buffer(64) for _ in range(2)]
def take(first, second):
    libc.pthread_mutex_lock(first)
    time.sleep(0.3)
    libc.pthread_mutex_lock(second)
threading.Thread(target=take, args=mutexes).start()
take(*reversed(mutexes))
";

#[test]
fn live_a_deadlock_is_told() {
    if !can_record_by_bpf("live_a_deadlock_is_told") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = Killed::start(Command::new("python3").args(["-c", DEADLOCK]));
    until_asleep_in(&program, "futex");
    let pid = program.0.id().to_string();
    let begun = Instant::now();
    let why: Value = loop {
        let output = unhitch(folder.path(), &["why", "--live", "--json", "--victim", &pid]);
        let why: Value = serde_json::from_slice(&output.stdout).unwrap();
        // Both take their first mutex before they want the second.
        if why["stalls"][0]["cause"]["pattern"] == "deadlock" {
            break why;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{why}");
    };
    let stall = &why["stalls"][0];
    let (victim, culprit) = (&stall["victim"], &stall["cause"]["culprit"]);
    assert_eq!([&victim["pid"], &culprit["pid"]], [program.0.id(), program.0.id()]);
    assert_ne!(victim["tid"], culprit["tid"], "{stall}");
    let text = stall["text"].as_str().unwrap();
    assert!(text.contains("each wait for a lock that the other owns"), "{text}");
}

#[test]
fn live_a_hang_is_explained_before_it_ends() {
    if !can_record_by_bpf("live_a_hang_is_explained_before_it_ends") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [holder, waiter] = wait_for_a_file_lock(folder.path());
    // Nothing records yet.
    check(&unhitch(folder.path(), &["why", "--live", "--json"]), &holder, &waiter);
    let pid = waiter.0.id().to_string();
    check(
        &unhitch(folder.path(), &["why", "--live", "--json", "--victim", &pid]),
        &holder,
        &waiter,
    );

    // A recorder has been running.
    let mut watch = Command::new(env!("CARGO_BIN_EXE_unhitch"));
    watch.args(["watch", "-o"]).arg(folder.path()).env("XDG_RUNTIME_DIR", folder.path());
    let mut watch = Killed::start(watch.stdout(Stdio::null()).stderr(Stdio::piped()));
    let ready = BufReader::new(watch.0.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(ready.take(20).any(|line| line.contains("watching")), "the recorder starts");
    // A stall has some length in the recording, too.
    thread::sleep(Duration::from_millis(500));
    let begun = Instant::now();
    check(&unhitch(folder.path(), &["why", "--live", "--json"]), &holder, &waiter);
    let _ = writeln!(stderr(), "why --live took {:?}", begun.elapsed());
    let saved = unhitch(folder.path(), &["save", "--why"]);
    let text = String::from_utf8_lossy(&saved.stdout);
    let (path, answer) = text.split_once('\n').unwrap();
    assert!(path.ends_with(".hitch") && folder.path().join(path).exists(), "{text}");
    assert!(answer.contains("a long lock hold"), "{text}");
}
