//! The whole of it: the recorder as a service, the agent, and a desktop session, from the hang of a
//! window to the notification that says why. All are real but the desktop's services on the message
//! bus.
//!
//! `UNHITCH_SOAK=N` runs each test N times with one recorder and session. A window then hangs with
//! rings that reach back 30 s; how long the notifications took is printed, and limited.

use desktop::Desktop;
use program::{Missing, Program, until};
use recorder::{Service, UNHITCH, skipped, text, unhitch};
use serde_json::{Value, json};
use std::time::Duration;

#[path = "../crates/agent/tests/session/desktop.rs"]
mod desktop;
#[path = "../crates/agent/tests/session/program.rs"]
mod program;
#[path = "service/recorder.rs"]
mod recorder;

/// Saves are made whenever the agent asks for one.
const SETTINGS: &str = "[retention]\nmin_free = \"0\"\n[limits]\nper_hour = 1000\nburst = 1000\n\
                        min_interval = \"0s\"\n";
/// How far back rings reach before a hang that is timed, nanoseconds.
const HELD_NS: u64 = 30_000_000_000;
/// How long the notification of a hang may take, half of the times.
const MAX_MEDIAN_MS: u64 = 3_000;

/// An agent, whose words are printed if its test fails.
struct Agent(Program);

impl Drop for Agent {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("agent: {:#?}", self.0.errors());
        }
    }
}

/// A recorder, and a session with its agent; `None` where that cannot be had. `settings` are the
/// recorder's, more than [`SETTINGS`].
fn start(test: &str, settings: &str, agent: &[&str]) -> Option<(Service, Desktop, Agent)> {
    let service = Service::start(test, &format!("{SETTINGS}{settings}"), "")?;
    let desktop = match Desktop::start() {
        Ok(desktop) => desktop,
        Err(Missing(what)) => {
            skipped(test, &format!("there is no {what}"));
            return None;
        }
    };
    let socket = service.socket();
    let arguments = [&["agent", "--socket", &socket][..], agent].concat();
    let agent = desktop.start_program(UNHITCH, &arguments);
    until("the agent", || agent.errors().into_iter().find(|line| line.contains("saves; input")));
    Some((service, desktop, Agent(agent)))
}

/// The time with which a line of the window's ends, nanoseconds.
fn time_of(line: &str) -> u64 {
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// The answer about a trace.
fn answer(trace: &str) -> Value {
    // All stalls: on a busy machine, other programs have longer ones.
    let output = unhitch(&["why", "--json", "--top", "1000", trace]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
}

/// The stall of this kind whose victim is the first thread of a process.
fn stall_of<'a>(answer: &'a Value, kind: &str, pid: u32) -> &'a Value {
    let mut stalls = answer["stalls"].as_array().unwrap().iter();
    let stall = stalls.find(|stall| stall["kind"] == kind && stall["victim"]["tid"] == pid);
    stall.unwrap_or_else(|| panic!("{answer:#}"))
}

/// The marks that a trace holds, as they are stored.
fn marks(trace: &str) -> Vec<Value> {
    let mut zip = zip::ZipArchive::new(std::fs::File::open(trace).unwrap()).unwrap();
    let file: Value = match zip.by_name("marks.json") {
        Ok(member) => serde_json::from_reader(member).unwrap(),
        Err(_) => return Vec::new(),
    };
    file["marks"].as_array().unwrap().clone()
}

/// Which marks of input a trace says that it holds.
fn input_marks(trace: &str) -> Value {
    let info = unhitch(&["info", "--json", trace]).stdout;
    serde_json::from_slice::<Value>(&info).unwrap()["input_marks"].clone()
}

/// What a notification shows of a text.
fn as_shown(line: &str) -> String {
    let cut: String = line.chars().take(400).collect();
    cut.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The times of one hang, nanoseconds.
struct Times {
    /// When the window began to hang.
    hung: u64,
    /// When the agent had seen enough of it.
    seen: u64,
    /// When its verdict was shown.
    shown: u64,
}

/// A window with the focus that has answered: the agent reports no other.
fn window_that_answers(service: &Service, desktop: &Desktop) -> Program {
    let window = desktop.window();
    let is_answer = |mark: &Value| mark["pid"] == window.pid() && mark["answered"] == true;
    until("an answer of the window", || {
        // The window of an earlier hang may have kept the focus for a moment.
        desktop.focus("victim");
        // It is asked twice a second while somebody types.
        for _ in 0..4 {
            desktop.xdotool(&["key", "a"]);
            std::thread::sleep(Duration::from_millis(250));
        }
        let saved = text(&unhitch(&["save", "--socket", &service.socket()]).stdout);
        marks(saved.trim()).iter().any(is_answer).then_some(())
    });
    // An automatic save while others are in work would only repeat those.
    until("the recorder to be done", || (service.status()["saving"] == false).then_some(()));
    window
}

/// A window hangs while keys are typed into it, until its verdict is there.
fn hang(service: &Service, desktop: &Desktop) -> Times {
    let mut window = window_that_answers(service, desktop);
    let pid = window.pid();
    window.tell("hang");
    let hung = time_of(&window.line("hangs"));
    let time = |value: &Value| value.as_u64().unwrap();
    let is_of_this =
        |trace: &Value| trace["trigger"]["pid"] == pid && time(&trace["trigger"]["to_ns"]) > hung;
    let is_judged = |trace: &Value| is_of_this(trace) && !trace["verdict"].is_null();
    let list = service.list_when(|list| {
        desktop.xdotool(&["key", "a"]);
        list.iter().any(is_judged)
    });
    let trace = list.into_iter().find(is_judged).unwrap();
    window.tell("go on");
    let (trigger, verdict) = (&trace["trigger"], &trace["verdict"]);
    assert_eq!((&trigger["kind"], &trigger["tid"]), (&json!("not_answering"), &json!(pid)));
    assert_eq!(trace["by_hand"], false);
    let stall = &verdict["stall"];
    assert_eq!((&stall["kind"], &stall["victim"]["tid"]), (&json!("ui_delay"), &json!(pid)));
    let shown = desktop.notification_since(hung, &as_shown(verdict["line"].as_str().unwrap()));
    let path = trace["path"].as_str().unwrap();
    stall_of(&answer(path), "ui_delay", pid);
    assert_eq!(input_marks(path), "off");
    Times { hung, seen: time(&trigger["to_ns"]), shown: time(&shown["time_ns"]) }
}

/// How often each test runs in a soak.
fn soak() -> Option<usize> {
    std::env::var("UNHITCH_SOAK").ok().and_then(|rounds| rounds.parse().ok())
}

/// Prints the median and the most of these times, nanoseconds. Returns the median, milliseconds.
fn print(what: &str, times: impl Iterator<Item = u64>) -> u64 {
    let mut sorted: Vec<u64> = times.map(|ns| ns / 1_000_000).collect();
    sorted.sort_unstable();
    let (median, most) = (sorted[sorted.len() / 2], sorted[sorted.len() - 1]);
    println!("{what}: {median} ms, at most {most} ms, of {}", sorted.len());
    median
}

#[test]
fn live_a_window_that_hangs_is_saved_judged_and_told() {
    let test = "live_a_window_that_hangs_is_saved_judged_and_told";
    let Some((service, desktop, _agent)) = start(test, "", &["--not-answering", "500"]) else {
        return;
    };
    let Some(rounds) = soak() else {
        hang(&service, &desktop);
        return;
    };
    let mut times = Vec::new();
    for _ in 0..rounds {
        while service.status()["held_ns"].as_u64() < Some(HELD_NS) {
            std::thread::sleep(Duration::from_secs(1));
        }
        times.push(hang(&service, &desktop));
        let last = &times[times.len() - 1];
        let ms = |from: u64| (last.shown - from) / 1_000_000;
        let load = std::fs::read_to_string("/proc/loadavg").unwrap();
        println!(
            "{} ms from the hang, {} ms from the save; load {}",
            ms(last.hung),
            ms(last.seen),
            load.trim_end()
        );
    }
    let whole = times.iter().map(|times| times.shown - times.hung);
    let median = print("from the hang to its verdict", whole);
    assert!(median <= MAX_MEDIAN_MS, "{median} ms");
    print("from the save to its verdict", times.iter().map(|times| times.shown - times.seen));
}

#[test]
fn a_wrong_setting_of_an_agent_that_the_session_starts_is_told() {
    let test = "a_wrong_setting_of_an_agent_that_the_session_starts_is_told";
    let desktop = match Desktop::start() {
        Ok(desktop) => desktop,
        Err(Missing(what)) => return skipped(test, &format!("there is no {what}")),
    };
    let folder = desktop.folder.path().join(".config/unhitch");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("agent.toml"), "notify = true\nhotkey = \"F9\"\n").unwrap();
    let mut agent = desktop.command(UNHITCH);
    let ended = agent.args(["agent", "--autostart"]).env_remove("XDG_CONFIG_HOME").output();
    assert_eq!(ended.unwrap().status.code(), Some(1));
    let shown = desktop.notification("agent.toml: line 2: ");
    assert!(shown["summary"].as_str().unwrap().contains("agent has ended"), "{shown}");
}

#[test]
fn live_keys_that_wait_are_marked_by_class_and_told_of() {
    let test = "live_keys_that_wait_are_marked_by_class_and_told_of";
    let agent = ["--not-answering", "0", "--input", "private"];
    let Some((service, desktop, _agent)) = start(test, "", &agent) else { return };
    (0..soak().unwrap_or(1)).for_each(|_| keys_wait(&service, &desktop));
}

/// Keys wait for a window, and the hot key has them told.
fn keys_wait(service: &Service, desktop: &Desktop) {
    let mut window = desktop.window();
    desktop.xdotool(&["key", "z"]);
    // It is not one of those that wait, also where all is slow.
    window.line("drawn");
    window.tell("hang");
    let hung = time_of(&window.line("hangs"));
    for key in ["a", "7", "space"] {
        desktop.xdotool(&["key", key]);
    }
    // Less than a user notices is no stall.
    std::thread::sleep(Duration::from_millis(300));
    window.tell("go on");
    window.line("hung");
    let known: Vec<Value> = service.list().iter().map(|trace| trace["path"].clone()).collect();
    desktop.xdotool(&["key", "ctrl+super+r"]);
    let list = service.list_when(|list| {
        list.first().is_some_and(|one| !known.contains(&one["path"]) && !one["verdict"].is_null())
    });
    let trace = &list[0];
    assert_eq!((&trace["trigger"]["kind"], &trace["by_hand"]), (&json!("hot_key"), &json!(true)));
    desktop.notification_since(hung, &as_shown(trace["verdict"]["line"].as_str().unwrap()));
    let path = trace["path"].as_str().unwrap();
    let answer = answer(path);
    let stall = stall_of(&answer, "input", window.pid());
    assert!(stall.to_string().contains("3 keys waited up to"), "{stall:#}");
    assert_eq!(input_marks(path), "private");
    // Modifiers, and the last letter, may be those of the hot key.
    let mut marks = marks(path);
    marks.retain(|mark| mark["pid"] == window.pid());
    let is_press = |mark: &&Value| mark["press"] == true && mark["class"] != "modifier";
    let classes: Vec<&Value> = marks.iter().filter(is_press).map(|mark| &mark["class"]).collect();
    assert_eq!(classes[..4], ["letter", "letter", "digit", "space"]);
    assert!(classes[4..].is_empty() || classes[4..] == ["letter"], "{classes:?}");
    for mark in &marks {
        assert_eq!((&mark["kind"], &mark["mode"]), (&json!("key"), &json!("private")), "{mark}");
        assert!(mark.get("code").is_none() && mark.get("text").is_none(), "{mark}");
    }
}

#[test]
fn live_full_marks_hold_each_key_and_the_trace_says_so() {
    let test = "live_full_marks_hold_each_key_and_the_trace_says_so";
    let agent = ["--not-answering", "0", "--input", "full", "--yes-keep-every-key"];
    let Some((service, desktop, _agent)) = start(test, "[marks]\ninput = \"full\"\n", &agent)
    else {
        return;
    };
    for _ in 0..soak().unwrap_or(1) {
        for open in [Desktop::window, Desktop::xterm] {
            let window = open(&desktop);
            each_key_is_held(&service, &desktop, window.pid());
        }
    }
}

/// Keys that are pressed in a window of this process are in a trace.
fn each_key_is_held(service: &Service, desktop: &Desktop, pid: u32) {
    let pressed = |mark: &&Value| mark["press"] == true && mark["pid"] == pid;
    let (path, marks) = until("a mark of each key", || {
        ["a", "7", "a"].iter().for_each(|key| desktop.xdotool(&["key", key]));
        // The agent sends what was pressed a few times a second.
        std::thread::sleep(Duration::from_millis(500));
        let path = text(&unhitch(&["save", "--socket", &service.socket()]).stdout);
        let marks: Vec<Value> = marks(path.trim()).iter().filter(pressed).cloned().collect();
        (marks.len() >= 3).then(|| (path.trim().to_owned(), marks))
    });
    assert_eq!(input_marks(&path), "full");
    let [.., first, second, third] = &marks[..] else { panic!("{marks:?}") };
    assert_eq!((&first["class"], &second["class"]), (&json!("letter"), &json!("digit")));
    for mark in [first, second, third] {
        assert_eq!((&mark["kind"], &mark["mode"]), (&json!("key"), &json!("full")), "{mark}");
    }
    // The codes of the keys, as the X server has them: the same key has the same.
    assert!(first["code"].as_u64().is_some_and(|code| (8..256).contains(&code)), "{first}");
    assert_eq!(first["code"], third["code"]);
    assert_ne!(first["code"], second["code"]);
}
