//! What makes the always-on recorder save by itself: each trigger fires for what it is about. Tests
//! that record are skipped where that is not permitted.

use recorder::{Service, TIMEOUT, UNHITCH, group_folder, skipped, text, unhitch};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[path = "service/recorder.rs"]
mod recorder;

/// Triggers do not hold each other back.
const SETTINGS: &str = "[retention]\nmin_free = \"0\"\n[limits]\nper_hour = 1000\nburst = 1000\n";

/// Waits until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < TIMEOUT, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A process whose first thread waits for a lock from one line of its input to the next, and so does
/// its thread `waits-as-thread`. It also has a name of its own. Before and after, it waits for events.
const WAITS: &str = "
import select, sys, threading, time
def name(words):
    open('/proc/thread-self/comm', 'w').write(words)
def line():
    select.select([sys.stdin], [], [])
    sys.stdin.buffer.raw.readline()
lock = threading.Lock()
def wait():
    with lock:
        pass
def other():
    name('waits-as-thread')
    wait()
def release():
    line()
    print(time.monotonic_ns(), flush=True)
    lock.release()
lock.acquire()
name('waits-for-lock')
line()
for run in (release, other):
    threading.Thread(target=run).start()
wait()
line()
";

/// A Python program that ends with the test.
struct Program(Child);

impl Program {
    /// `None`, and said, if there is no Python.
    fn start(test: &str, script: &str, user: Option<u32>) -> Option<Self> {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).current_dir("/");
        user.map(|user| command.uid(user));
        match command.spawn() {
            Ok(child) => Some(Self(child)),
            Err(error) => {
                skipped(test, &format!("python3: {error}"));
                None
            }
        }
    }

    fn name(&self) -> String {
        fs::read_to_string(format!("/proc/{}/comm", self.0.id())).unwrap_or_default()
    }

    fn tell(&mut self) {
        self.0.stdin.as_mut().unwrap().write_all(b"on\n").unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A control group that is removed at the end.
struct Group(std::path::PathBuf);

impl Group {
    fn with(path: &str, pids: impl IntoIterator<Item = u32>) -> Result<Self, String> {
        let folder = group_folder(path).ok_or("no control groups of version 2 are mounted")?;
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir(&folder).map_err(failed)?;
        let group = Self(folder.clone());
        for pid in pids {
            fs::write(folder.join("cgroup.procs"), pid.to_string()).map_err(failed)?;
        }
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let begun = Instant::now();
        // Its processes may not quite have ended.
        while fs::remove_dir(&self.0).is_err() && begun.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// How often each trigger has fired.
fn fired(service: &Service) -> Vec<u64> {
    let status = service.status();
    let triggers = status["triggers"].as_array().unwrap().iter();
    triggers.map(|trigger| trigger["fired"].as_u64().unwrap()).collect()
}

/// True, and said, if a trigger is not armed.
fn is_not_armed(test: &str, service: &Service) -> bool {
    let log = service.log();
    let reason = log.lines().find(|line| line.contains("is not armed"));
    reason.inspect(|reason| skipped(test, reason)).is_some()
}

/// Of several triggers that one wait is about, only the first fired while it went on.
#[test]
fn live_regression_a_wait_fires_all_its_triggers_by_thread_pid_user_and_control_group() {
    const USER: u32 = 4713;
    let test = "live_regression_a_wait_fires_all_its_triggers_by_thread_pid_user_and_control_group";
    if !rustix::process::geteuid().is_root() {
        return skipped(test, "only root can start a program as another user");
    }
    let path = format!("/unhitch-triggers-{}", std::process::id());
    let Some(program) = Program::start(test, WAITS, Some(USER)) else { return };
    let pid = program.0.id();
    until("the program", || program.name() == "waits-for-lock\n");
    let group = Group::with(&path, [pid]);
    // It has to end before its group.
    let mut program = program;
    let mut targets = vec![
        "thread = \"waits-as-thread\"".to_owned(),
        format!("pid = {pid}"),
        format!("user = \"{USER}\""),
        "thread = \"nobody-is-called\"".to_owned(),
    ];
    match &group {
        Ok(_) => targets.insert(0, format!("control_group = {path:?}")),
        Err(reason) => skipped(&format!("{test}_by_control_group"), reason),
    }
    let trigger = |target: &String| {
        format!("[[trigger]]\nkind = \"wait\"\nthreshold = \"300ms\"\ndelay = \"0s\"\n{target}\n")
    };
    let triggers: String = targets.iter().map(trigger).collect();
    let Some(service) = Service::start(test, SETTINGS, &triggers) else { return };
    if is_not_armed(test, &service) {
        return;
    }
    assert!(fired(&service).iter().all(|count| *count == 0), "it waits for events");
    program.tell();
    let all = targets.len() - 1;
    until("each trigger", || fired(&service)[..all].iter().all(|count| *count > 0));
    program.tell();
    assert_eq!(fired(&service)[all], 0, "of nobody");
    let list = service.list_when(|list| !list.is_empty());
    let trigger = &list.last().unwrap()["trigger"];
    assert_eq!((&trigger["kind"], &trigger["pid"]), (&json!("wait"), &json!(pid)), "{trigger}");
}

#[test]
fn live_the_time_after_a_trigger_is_in_the_trace() {
    const DELAY_NS: u64 = 4_000_000_000;
    let test = "live_the_time_after_a_trigger_is_in_the_trace";
    let Some(mut program) = Program::start(test, WAITS, None) else { return };
    let pid = program.0.id();
    let trigger = format!(
        "[[trigger]]\nkind = \"wait\"\nthreshold = \"300ms\"\ndelay = \"4s\"\npid = {pid}\n"
    );
    let Some(service) = Service::start(test, SETTINGS, &trigger) else { return };
    if is_not_armed(test, &service) {
        return;
    }
    program.tell();
    until("the trigger", || fired(&service)[0] > 0);
    // The wait goes on, and ends before the save does.
    program.tell();
    let mut line = String::new();
    BufReader::new(program.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let released: u64 = line.trim().parse().unwrap();
    let list = service.list_when(|list| !list.is_empty());
    let (trigger, trace) = (&list[0]["trigger"], list[0]["path"].as_str().unwrap());
    assert!(trigger["text"].as_str().unwrap().contains("has been waiting"), "{trigger}");
    let info = unhitch(&["info", "--json", trace]).stdout;
    let info: Value = serde_json::from_slice(&info).unwrap();
    let end = info["covered_end_ns"].as_u64().unwrap();
    assert!(end >= trigger["to_ns"].as_u64().unwrap() + DELAY_NS, "{trigger} {end}");
    if released + 1_000_000_000 > end {
        return skipped(&format!("{test}_to_its_end"), "too late on this machine");
    }
    let filter = format!("tid = {pid}");
    let table = unhitch(&["table", trace, "switches", "--where", &filter, "--json"]).stdout;
    let table: Value = serde_json::from_slice(&table).unwrap();
    let ended = |row: &Value| {
        row["off_cpu_ns"].as_u64() >= Some(300_000_000)
            && row["switched_in_ns"].as_u64() >= Some(released)
    };
    assert!(table["rows"].as_array().unwrap().iter().any(ended), "{table:#}");
}

#[test]
fn live_a_recorder_that_stood_still_knows_by_its_heartbeat() {
    use rustix::process::Signal;
    let test = "live_a_recorder_that_stood_still_knows_by_its_heartbeat";
    let trigger = "[[trigger]]\nkind = \"heartbeat\"\nthreshold = \"3s\"\n";
    let Some(service) = Service::start(test, SETTINGS, trigger) else { return };
    assert_eq!(fired(&service), [0]);
    service.signal(Signal::STOP);
    std::thread::sleep(Duration::from_secs(4));
    service.signal(Signal::CONT);
    let list = service.list_when(|list| !list.is_empty());
    let trigger = &list[0]["trigger"];
    assert_eq!(
        (&trigger["kind"], &trigger["pid"]),
        (&json!("heartbeat"), &json!(service.child.id()))
    );
    let time = |name: &str| trigger[name].as_u64().unwrap();
    assert!(time("to_ns") - time("from_ns") >= 3_000_000_000, "{trigger}");
    assert!(trigger["text"].as_str().unwrap().contains(" late"), "{trigger}");
}

#[test]
fn live_pressure_of_the_machine_and_of_a_control_group_trigger() {
    let test = "live_pressure_of_the_machine_and_of_a_control_group_trigger";
    if !Path::new("/proc/pressure/cpu").exists() {
        return skipped(test, "this kernel has no PSI (psi=1)");
    }
    let path = format!("/unhitch-pressure-{}", std::process::id());
    // More than there are CPUs.
    let count = std::thread::available_parallelism().map_or(2, usize::from) + 2;
    let busy = || Program::start(test, "while True: pass", None);
    let Some(programs) = (0..count).map(|_| busy()).collect::<Option<Vec<Program>>>() else {
        return;
    };
    let group = Group::with(&path, programs.iter().map(|program| program.0.id()));
    let trigger = |name: &str, more: &str| {
        format!(
            "[[trigger]]\nkind = \"pressure\"\nname = {name:?}\nresource = \"cpu\"\n\
             threshold = \"100ms\"\nwindow = \"2s\"\ndelay = \"0s\"\n{more}\n"
        )
    };
    let mut triggers = trigger("machine", "");
    match &group {
        Ok(group) if group.0.join("cpu.pressure").exists() => {
            triggers += &trigger("group", &format!("control_group = {path:?}"));
        }
        Ok(_) => skipped(&format!("{test}_of_a_group"), "groups have no account of pressure"),
        Err(reason) => skipped(&format!("{test}_of_a_group"), reason),
    }
    let Some(service) = Service::start(test, SETTINGS, &triggers) else { return };
    if is_not_armed(test, &service) {
        return;
    }
    until("each trigger", || fired(&service).iter().all(|count| *count > 0));
    drop(programs);
    let list = service.list_when(|list| !list.is_empty());
    let trigger = &list[0]["trigger"];
    assert_eq!(trigger["kind"], "pressure", "{trigger}");
    assert!(trigger["text"].as_str().unwrap().contains("waited for a CPU for 100"), "{trigger}");
}

/// An event loop that stays away from its wait for events while it computes.
const AWAY: &str = "
import select, sys, time
open('/proc/self/comm', 'w').write('away-a-lot')
poll = select.poll()
while True:
    for _ in range(20):
        poll.poll(30)
    end = time.monotonic() + 1
    while time.monotonic() < end:
        pass
";

/// `unhitch watch` as in a terminal: its socket is in a folder that only it sees.
struct Watch {
    child: Child,
    folder: tempfile::TempDir,
}

impl Watch {
    fn start(test: &str, options: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let command = "mount -t tmpfs none /run && exec \"$@\"";
        let child = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", command, "sh", UNHITCH])
            .args(["watch", "--output", folder.path().to_str().unwrap()])
            .args(options)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        let child = child.inspect_err(|error| skipped(test, &format!("unshare: {error}")));
        let mut watch = Self { child: child.ok()?, folder };
        let mut has_ended = false;
        until("the recorder", || {
            has_ended = watch.child.try_wait().unwrap().is_some();
            has_ended || watch.log().contains("watching;")
        });
        if has_ended {
            skipped(test, &watch.log());
            return None;
        }
        Some(watch)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Waits for a save, and returns why it was made.
    fn saved(&self) -> Value {
        let mut found = Value::Null;
        until("a save", || {
            let list = unhitch(&["list", "--json", self.folder.path().to_str().unwrap()]);
            assert!(list.status.success(), "{}", text(&list.stderr));
            let list: Value = serde_json::from_slice(&list.stdout).unwrap();
            found = list["traces"][0].clone();
            found.is_object()
        });
        found
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn live_an_event_loop_that_stays_away_triggers_by_an_option() {
    let test = "live_an_event_loop_that_stays_away_triggers_by_an_option";
    let Some(watch) = Watch::start(test, &["--on-stall", "500ms"]) else { return };
    if watch.log().contains("is not armed") {
        return skipped(test, &watch.log());
    }
    let Some(_program) = Program::start(test, AWAY, None) else { return };
    let trigger = &watch.saved()["trigger"];
    assert_eq!((&trigger["name"], &trigger["kind"]), (&json!("on-stall"), &json!("stall")));
    let length = trigger["to_ns"].as_u64().unwrap() - trigger["from_ns"].as_u64().unwrap();
    assert!(length >= 500_000_000, "{trigger}");
}

#[test]
fn live_a_command_that_succeeds_triggers_by_an_option_and_a_signal_saves() {
    let test = "live_a_command_that_succeeds_triggers_by_an_option_and_a_signal_saves";
    let folder = tempfile::tempdir().unwrap();
    let flag = folder.path().join("now");
    let when = format!("test -e {}", flag.display());
    let Some(watch) = Watch::start(test, &["--when", &when]) else { return };
    let pid = rustix::process::Pid::from_child(&watch.child);
    rustix::process::kill_process(pid, rustix::process::Signal::USR2).unwrap();
    let by_hand = watch.saved();
    assert_eq!((&by_hand["by_hand"], &by_hand["trigger"]), (&json!(true), &Value::Null));
    fs::remove_file(by_hand["path"].as_str().unwrap()).unwrap();
    fs::write(flag, "").unwrap();
    let automatic = watch.saved();
    let trigger = &automatic["trigger"];
    assert_eq!((&trigger["name"], &trigger["kind"]), (&json!("when"), &json!("command")));
    assert_eq!(automatic["by_hand"], false);
}
