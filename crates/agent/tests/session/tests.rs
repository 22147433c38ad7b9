//! The tests.

use crate::program::{Missing, Program, have, until};
use crate::recorder::Session;
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};

pub type Test = fn() -> Result<(), Missing>;

pub const TESTS: &[(&str, Test)] = &[
    ("a_hot_key_saves_and_the_answer_is_shown", hot_key),
    ("a_hot_key_that_the_recorder_refuses_is_told", refused),
    ("regression_a_hot_key_is_held_while_the_keyboard_changes", keyboard_changes),
    ("a_note_on_a_save_by_hot_key_is_asked_for_and_stored", note),
    ("without_a_dialog_the_page_takes_the_note", note_on_page),
    ("a_hot_key_that_is_taken_is_said_and_not_stolen", taken),
    ("private_marks_are_classes_and_no_keycode_crosses_the_socket", private),
    ("a_key_is_of_the_window_that_had_the_focus", focus),
    ("full_marks_have_the_key", full),
    ("off_selects_no_event_of_input", off),
    ("a_window_that_does_not_answer_is_saved_and_marked", hang),
    ("while_one_window_hangs_another_that_hangs_is_saved_too", second_hang),
    ("regression_a_window_that_has_ended_is_not_taken_for_the_next_one", ended),
    ("after_a_pause_the_window_is_asked_again", pause),
    ("a_window_that_does_not_speak_of_pings_is_not_asked", xterm_is_not_asked),
    ("saves_of_others_are_shown_once", subscription),
    ("on_wayland_the_portal_has_the_hot_key", portal),
    ("on_wayland_the_agent_ends_with_the_bus", bus_ends),
    ("a_portal_that_refuses_the_hot_key_is_told", portal_refuses),
    ("a_slow_verdict_delays_no_other_save", slow_verdict),
    ("regression_a_desktop_that_shows_no_notification_delays_no_save", desktop_hangs),
];

const NO_PINGS: &str = "not_answering_ms = 0\n";

fn press_hot_key(desktop: &Session) {
    desktop.xdotool(&["key", "ctrl+super+r"]);
}

fn hot_key() -> Result<(), Missing> {
    let mut desktop = Session::start()?;
    let agent = desktop.agent(NO_PINGS);
    let _window = desktop.xterm();
    press_hot_key(&desktop);
    let save = until("a save", || desktop.recorder.saves().first().cloned());
    assert_eq!(save["by_hand"], true);
    assert_eq!(save["trigger"]["kind"], "hot_key");
    let shown = desktop.notification("editor waited 1.6 s for a &lt;lock&gt;");
    assert_eq!(shown["actions"], json!(BUTTONS));
    assert_eq!(shown["number"], 1, "it replaces the first: {:?}", desktop.notifications());
    agent.line("judged: ");
    desktop.services.tell("press 1 open");
    assert_page_opens(&desktop);
    // Held down, it saves once; pressed again later, again.
    assert_eq!(desktop.recorder.saves().len(), 1);
    std::thread::sleep(Duration::from_millis(1100));
    press_hot_key(&desktop);
    until("a second save", || (desktop.recorder.saves().len() == 2).then_some(()));
    assert!(desktop.recorder.marks().is_empty());
    Ok(())
}

/// A keyboard changes when another one is used, too: then the hot key was let go for a moment, and pressed
/// in vain.
fn keyboard_changes() -> Result<(), Missing> {
    let desktop = Session::start()?;
    let _agent = desktop.agent(NO_PINGS);
    let _window = desktop.xterm();
    // No key has these letters: each changes the keyboard twice.
    let text = "while :; do xdotool type --delay 1 'абвгд'; done";
    let _changes = desktop.start_program("sh", &["-c", text]);
    for number in 1..=5 {
        // Held down, it saves once.
        std::thread::sleep(Duration::from_millis(1100));
        press_hot_key(&desktop);
        until("a save", || (desktop.recorder.saves().len() == number).then_some(()));
    }
    Ok(())
}

fn refused() -> Result<(), Missing> {
    let desktop = Session::start()?;
    let agent = desktop.agent(NO_PINGS);
    let _window = desktop.xterm();
    desktop.recorder.refuse();
    press_hot_key(&desktop);
    desktop.notification("not saved: ");
    assert!(agent.line("warning: not saved: ").contains("too many saves"));
    Ok(())
}

/// The buttons of a notification on a save by hot key.
const BUTTONS: [&str; 4] = ["open", "Open the page", "note", "Add a note"];

fn assert_page_opens(desktop: &Session) {
    let opened = desktop.folder.path().join("opened");
    let page =
        until("the page", || fs::read_to_string(&opened).ok().filter(|text| !text.is_empty()));
    assert!(page.starts_with("view --open ") && page.ends_with("/trace.hitch"), "{page}");
}

/// An agent for which only the programs of a folder are installed, after a save by hot key.
fn saved_with_programs(desktop: &Session, zenity: Option<&str>) -> Program {
    let programs = desktop.folder.path().join("programs");
    fs::create_dir(&programs).unwrap();
    if let Some(script) = zenity {
        let path = programs.join("zenity");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(path, mode).unwrap();
    }
    let agent = desktop.agent_in(NO_PINGS, &[("PATH", programs.to_str().unwrap())]);
    agent.line("ready: ");
    press_hot_key(desktop);
    let shown = desktop.notification("editor waited");
    assert_eq!(shown["actions"], json!(BUTTONS));
    agent
}

fn note() -> Result<(), Missing> {
    let mut desktop = Session::start()?;
    // The first time, the user says nothing, then something.
    let script = "cd \"$XDG_RUNTIME_DIR\"\necho \"$*\" >> asked\n\
                  [ -e cancelled ] || { echo no; : > cancelled; exit 1; }\necho '  it hung; $(x)'";
    let agent = saved_with_programs(&desktop, Some(script));
    let asked_in = desktop.folder.path().join("asked");
    let asked = || fs::read_to_string(&asked_in).unwrap_or_default();
    desktop.services.tell("press 1 note");
    until("the dialog", || (asked().lines().count() == 1).then_some(()));
    desktop.services.tell("press 1 note");
    let noted = agent.line("noted: ");
    assert!(noted.ends_with("/trace.hitch") && asked().starts_with("--entry "), "{noted}");
    let trace = desktop.folder.path().join("trace.hitch");
    assert_eq!(desktop.recorder.notes(), [json!({"path": trace, "text": "it hung; $(x)"})]);
    assert!(!desktop.folder.path().join("opened").exists());
    Ok(())
}

fn note_on_page() -> Result<(), Missing> {
    let mut desktop = Session::start()?;
    let _agent = saved_with_programs(&desktop, None);
    desktop.services.tell("press 1 note");
    assert_page_opens(&desktop);
    assert!(desktop.recorder.notes().is_empty());
    Ok(())
}

fn taken() -> Result<(), Missing> {
    let desktop = Session::start()?;
    let _first = desktop.agent(NO_PINGS);
    let elsewhere = tempfile::tempdir().unwrap();
    let second =
        desktop.agent_in(NO_PINGS, &[("XDG_RUNTIME_DIR", elsewhere.path().to_str().unwrap())]);
    second.line("warning: hot key \"Ctrl+Super+R\": another program has taken it");
    assert!(second.line("ready: ").contains("no hot key"));
    desktop.notification("another program has taken it");
    // The first one still has it.
    press_hot_key(&desktop);
    until("a save", || (desktop.recorder.saves().len() == 1).then_some(()));
    let third = desktop.agent_in(NO_PINGS, &[]);
    third.line("error: another agent is running");
    Ok(())
}

/// Types into a terminal, and returns when all marks have arrived.
fn type_all(desktop: &Session) {
    for key in ["a", "7", "space", "semicolon", "Left", "F5", "BackSpace", "shift", "Return"] {
        desktop.xdotool(&["key", key]);
    }
    desktop.xdotool(&["click", "1", "click", "4"]);
    desktop.recorder.mark("a step of the wheel", |mark| mark["kind"] == "wheel");
}

fn private() -> Result<(), Missing> {
    let desktop = Session::start()?;
    let _agent = desktop.agent(&format!("{NO_PINGS}input = 'private'"));
    let window = desktop.window();
    let before = now_ns();
    type_all(&desktop);
    let marks = desktop.recorder.marks();
    let keys = || marks.iter().filter(|mark| mark["kind"] == "key");
    let pressed: Vec<&str> = keys()
        .filter(|mark| mark["press"] == true)
        .map(|mark| mark["class"].as_str().unwrap())
        .collect();
    let expected = [
        "letter",
        "digit",
        "space",
        "other",
        "navigation",
        "function",
        "delete",
        "modifier",
        "enter",
    ];
    assert_eq!(pressed, expected);
    let released = keys().filter(|mark| mark["press"] == false).count();
    assert!(released >= expected.len(), "each is released, too");
    // No more than these members, and none that could tell the key.
    const MEMBERS: [&str; 6] = ["class", "kind", "mode", "pid", "press", "time_ns"];
    for mark in keys() {
        let mut members: Vec<&String> = mark.as_object().unwrap().keys().collect();
        members.sort();
        assert_eq!(members, MEMBERS, "{mark}");
        assert_eq!(mark["mode"], "private");
        assert_eq!(mark["pid"], window.pid());
        // The server's time is rounded down to a millisecond.
        let time = mark["time_ns"].as_u64().unwrap();
        assert!(time + 1_000_000 >= before && time <= now_ns(), "{mark}");
    }
    let button = desktop.recorder.mark("a click", |mark| mark["kind"] == "button");
    assert_eq!((&button["code"], &button["press"]), (&json!(1), &json!(true)));
    // Byte for byte: whatever was sent says "code" of buttons only.
    let heard = desktop.recorder.heard().join("\n");
    let codes = heard.matches("\"code\"").count();
    assert_eq!(codes, marks.iter().filter(|mark| mark["kind"] == "button").count());
    Ok(())
}

fn focus() -> Result<(), Missing> {
    let desktop = Session::start()?;
    let _agent = desktop.agent(&format!("{NO_PINGS}input = 'private'"));
    let (letters, digits) = (desktop.window(), desktop.xterm());
    let pressed = |class: &str| {
        let marks = desktop.recorder.marks().into_iter();
        let keys = marks.filter(|mark| mark["class"] == class && mark["press"] == true);
        keys.map(|mark| mark["pid"].clone()).collect::<Vec<_>>()
    };
    const ROUNDS: usize = 5;
    for round in 1..=ROUNDS {
        desktop.focus("victim");
        // Of two changes within a quarter of a second, the agent sees the second only.
        std::thread::sleep(Duration::from_secs(1));
        desktop.xdotool(&["key", "a"]);
        desktop.focus("terminal");
        desktop.xdotool(&["key", "7"]);
        until("all keys", || (pressed("digit").len() == round).then_some(()));
    }
    assert_eq!(pressed("letter"), vec![json!(letters.pid()); ROUNDS]);
    assert_eq!(pressed("digit"), vec![json!(digits.pid()); ROUNDS]);
    Ok(())
}

fn full() -> Result<(), Missing> {
    let desktop = Session::start()?;
    let settings = format!("{NO_PINGS}input = 'full'\nyes_keep_every_key = true");
    let _agent = desktop.agent(&settings);
    let _window = desktop.xterm();
    desktop.xdotool(&["key", "a"]);
    let key = desktop.recorder.mark("a key", |mark| mark["kind"] == "key");
    assert!(key["code"].as_u64().is_some_and(|code| (8..256).contains(&code)), "{key}");
    assert_eq!((&key["mode"], &key["class"]), (&json!("full"), &json!("letter")));
    Ok(())
}

/// What the agent asks of the X server, in words.
fn traced(desktop: &Session, settings: &str) -> Result<String, Missing> {
    have("xtrace")?;
    let log = desktop.folder.path().join("requests");
    let _ = fs::remove_file(&log);
    // A display that nobody has: tests of other sessions may run beside this one.
    let socket_of = |number: u32| format!("/tmp/.X11-unix/X{number}");
    let is_free = |number: &u32| {
        !fs::exists(socket_of(*number)).unwrap()
            && !fs::exists(format!("/tmp/.X{number}-lock")).unwrap()
    };
    let first = 20_000 + std::process::id() % 10_000;
    let number = (first..).find(is_free).unwrap();
    let display = format!(":{number}");
    let file = log.to_str().unwrap();
    let _tracer =
        Program::start(desktop.command("xtrace").args(["-n", "-k", "-o", file, "-D", &display]));
    let socket = socket_of(number);
    until("xtrace", || fs::exists(&socket).unwrap().then_some(()));
    let agent = desktop.agent_in(settings, &[("DISPLAY", &display)]);
    agent.line("ready: ");
    desktop.xdotool(&["key", "a"]);
    std::thread::sleep(Duration::from_millis(700));
    drop(agent);
    let _ = fs::remove_file(socket);
    // Without the server's greeting, which lists what others have selected.
    let all = String::from_utf8_lossy(&fs::read(&log).unwrap()).into_owned();
    let requests = all.lines().filter(|line| !line.contains("vendor="));
    let requests = requests.collect::<Vec<_>>().join("\n");
    assert!(requests.contains("GrabKey"), "it saw nothing: {requests}");
    Ok(requests)
}

fn off() -> Result<(), Missing> {
    let desktop = Session::start()?;
    let _window = desktop.xterm();
    // Everything but input is on.
    let requests = traced(&desktop, "hot_key = 'Ctrl+Super+R'")?;
    assert!(requests.contains("SYNC"), "windows are asked, by the time of idleness");
    for word in ["XInputExtension", "SelectEvents", "KeyPress", "ButtonPress", "RawKey"] {
        // The grab of the hot key reports its key and no other.
        assert!(!requests.contains(word), "{word} in {requests}");
    }
    assert!(desktop.recorder.marks().iter().all(|mark| mark["kind"] == "ping"));
    // The same look at the agent finds the events of input where they are selected.
    let requests = traced(&desktop, &format!("{NO_PINGS}input = 'private'"))?;
    assert!(requests.contains("XInputExtension"), "{requests}");
    Ok(())
}

/// *Why the hang is so much longer than the threshold*: a busy machine may make any window late, and
/// must neither be taken for the hang nor hide it.
fn hang() -> Result<(), Missing> {
    const THRESHOLD_MS: u64 = 800;
    const HANG_S: u64 = 5;
    let desktop = Session::start()?;
    let _agent = desktop.agent(&format!("not_answering_ms = {THRESHOLD_MS}"));
    let mut window = desktop.window();
    let is_pong = |mark: &Value| mark["kind"] == "ping" && mark["answered"] == true;
    let pinged = until("an answer", || {
        desktop.xdotool(&["key", "a"]);
        desktop.recorder.marks().into_iter().find(is_pong)
    });
    assert_eq!(pinged["pid"], window.pid());
    let told = now_ns();
    window.tell(&format!("hang {HANG_S}"));
    let ns = |value: &Value, field: &str| value[field].as_u64().unwrap();
    let save = until("a save", || {
        desktop.xdotool(&["key", "a"]);
        let mut saves = desktop.recorder.saves().into_iter();
        saves.find(|save| ns(&save["trigger"], "to_ns") >= told + THRESHOLD_MS * 1_000_000)
    });
    assert_eq!(save["by_hand"], false);
    let trigger = &save["trigger"];
    assert_eq!(
        (&trigger["kind"], &trigger["pid"]),
        (&json!("not_answering"), &json!(window.pid()))
    );
    let from = ns(trigger, "from_ns");
    assert!(ns(trigger, "to_ns") - from >= THRESHOLD_MS * 1_000_000, "{trigger}");
    desktop.notification("editor waited");
    // The end of the hang is marked as well, with the whole of it.
    let whole = desktop
        .recorder
        .mark("the end of the hang", |mark| is_pong(mark) && ns(mark, "sent_ns") == from);
    assert!(ns(&whole, "time_ns") >= told + HANG_S * 1_000_000_000, "{whole}");
    let saves = desktop.recorder.saves();
    let of_this = saves.iter().filter(|save| ns(&save["trigger"], "from_ns") == from);
    assert_eq!(of_this.count(), 1, "one save per hang");
    assert!(desktop.recorder.marks().iter().all(|mark| mark["kind"] == "ping"), "input is off");
    Ok(())
}

/// Who waits for a window that hangs turns to another one.
fn second_hang() -> Result<(), Missing> {
    let desktop = Session::start()?;
    let _agent = desktop.agent("not_answering_ms = 800");
    let mut windows = ["first", "second"].map(|title| (title, desktop.window_called(title)));
    let typed = |pid: u32, what: &str, seen: &dyn Fn() -> Vec<Value>| {
        until(what, || {
            desktop.xdotool(&["key", "a"]);
            seen().into_iter().find(|seen| seen["pid"] == pid)
        })
    };
    for (title, window) in &windows {
        desktop.focus(title);
        typed(window.pid(), "an answer", &|| {
            desktop.recorder.marks().into_iter().filter(|mark| mark["answered"] == true).collect()
        });
    }
    // None of them answers before the end.
    for (title, window) in &mut windows {
        desktop.focus(title);
        window.tell("hang");
        window.line("hangs");
        let saved =
            || desktop.recorder.saves().iter().map(|save| save["trigger"].clone()).collect();
        typed(window.pid(), "a save", &saved);
    }
    Ok(())
}

/// The server gives the numbers of a window that has gone to the next one. *Why so long a threshold*:
/// the first window must end before it counts as hanging, however busy the machine is.
fn ended() -> Result<(), Missing> {
    let desktop = Session::start()?;
    let _agent = desktop.agent("not_answering_ms = 10000");
    let answer_of = |window: &Program| {
        until("an answer", || {
            desktop.xdotool(&["key", "a"]);
            let is_answer = |mark: &Value| mark["pid"] == window.pid() && mark["answered"] == true;
            desktop.recorder.marks().iter().any(is_answer).then_some(())
        });
    };
    let mut first = desktop.window();
    answer_of(&first);
    first.tell("hang");
    first.line("hangs");
    // Until it has been asked again.
    for _ in 0..6 {
        desktop.xdotool(&["key", "a"]);
        std::thread::sleep(Duration::from_millis(250));
    }
    drop(first);
    let second = desktop.window();
    answer_of(&second);
    assert!(desktop.recorder.saves().is_empty(), "{:?}", desktop.recorder.saves());
    Ok(())
}

/// While nobody uses the session, no window is asked: that is found out again and again.
fn pause() -> Result<(), Missing> {
    let desktop = Session::start()?;
    let _agent = desktop.agent("not_answering_ms = 60000");
    let _window = desktop.window();
    let answer_after = |desktop: &Session| {
        let begun = now_ns();
        until("an answer", || {
            desktop.xdotool(&["key", "a"]);
            let is_new = |mark: &Value| mark["sent_ns"].as_u64() > Some(begun);
            desktop.recorder.marks().iter().any(is_new).then_some(())
        });
    };
    for _ in 0..2 {
        answer_after(&desktop);
        std::thread::sleep(Duration::from_secs(7));
        let before = desktop.recorder.marks().len();
        std::thread::sleep(Duration::from_secs(2));
        assert_eq!(desktop.recorder.marks().len(), before, "nobody uses the session");
    }
    answer_after(&desktop);
    Ok(())
}

fn xterm_is_not_asked() -> Result<(), Missing> {
    let desktop = Session::start()?;
    let _agent = desktop.agent("input = 'private'");
    let _window = desktop.xterm();
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        desktop.xdotool(&["key", "a"]);
    }
    desktop.recorder.mark("a key", |mark| mark["kind"] == "key");
    assert!(desktop.recorder.marks().iter().all(|mark| mark["kind"] != "ping"));
    Ok(())
}

fn subscription() -> Result<(), Missing> {
    let desktop = Session::start()?;
    let _agent = desktop.agent(NO_PINGS);
    let judged = |line: &str| {
        let trigger = json!({"name": "editor", "kind": "wait", "text": "…"});
        json!({"judged": {
            "path": "/nonexistent/a.hitch", "by_hand": false, "trigger": trigger,
            "verdict": {"version": 1, "line": line}
        }})
    };
    desktop.recorder.publish(&judged("the first"));
    let shown = desktop.notification("the first");
    assert_eq!(shown["actions"], json!([]), "the user cannot read it");
    assert!(shown["body"].as_str().unwrap().contains("sudo unhitch view /nonexistent/a.hitch"));
    desktop.recorder.publish(&judged("the first again"));
    let mut other = judged("the second");
    other["judged"]["path"] = "/nonexistent/b.hitch".into();
    desktop.recorder.publish(&other);
    desktop.notification("the second");
    assert_eq!(desktop.notifications().len(), 2);
    Ok(())
}

fn portal() -> Result<(), Missing> {
    let mut desktop = Session::start()?;
    let agent =
        desktop.agent_in("input = 'private'", &[("WAYLAND_DISPLAY", "wayland-9"), ("DISPLAY", "")]);
    agent.line("warning: on Wayland no program sees the session's input");
    let bound = desktop.services.line("bound");
    assert!(bound.contains("\"CTRL+LOGO+r\""), "{bound}");
    assert!(agent.line("ready: ").contains("Press Ctrl+Super+R"));
    desktop.services.tell("activate");
    until("a save", || desktop.recorder.saves().first().cloned());
    desktop.notification("editor waited");
    Ok(())
}

fn bus_ends() -> Result<(), Missing> {
    let mut desktop = Session::start()?;
    let agent = desktop.agent_in("", &[("WAYLAND_DISPLAY", "wayland-9"), ("DISPLAY", "")]);
    agent.line("ready: ");
    desktop.end_bus();
    agent.line("warning: the session has ended");
    assert!(agent.succeeds());
    Ok(())
}

fn portal_refuses() -> Result<(), Missing> {
    let mut desktop = Session::start()?;
    desktop.services.tell("refuse");
    let agent = desktop.agent_in("", &[("WAYLAND_DISPLAY", "wayland-9"), ("DISPLAY", "")]);
    desktop.notification("bind `unhitch save` to a key");
    assert!(agent.line("warning: no hot key").contains("did not bind"));
    Ok(())
}

fn slow_verdict() -> Result<(), Missing> {
    let desktop = Session::start()?;
    let agent = desktop.agent(NO_PINGS);
    let _window = desktop.xterm();
    desktop.recorder.judge_never();
    press_hot_key(&desktop);
    until("a save", || (desktop.recorder.saves().len() == 1).then_some(()));
    std::thread::sleep(Duration::from_millis(1100));
    press_hot_key(&desktop);
    until("a second save", || (desktop.recorder.saves().len() == 2).then_some(()));
    agent.line("saved: ");
    Ok(())
}

/// When the desktop hangs, the hot key is pressed, and again.
fn desktop_hangs() -> Result<(), Missing> {
    let mut desktop = Session::start()?;
    let agent = desktop.agent(NO_PINGS);
    let _window = desktop.xterm();
    desktop.services.tell("hang");
    press_hot_key(&desktop);
    desktop.notification("The answer will follow.");
    std::thread::sleep(Duration::from_millis(1100));
    press_hot_key(&desktop);
    until("a second save", || (desktop.recorder.saves().len() == 2).then_some(()));
    let lines = agent.lines();
    let has_given_up = lines.iter().any(|line| line.contains("no notification"));
    assert!(!has_given_up, "the save waited for the desktop: {lines:?}");
    agent.line("warning: no notification: message bus: no answer");
    Ok(())
}

fn now_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
