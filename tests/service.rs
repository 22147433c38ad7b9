//! The always-on recorder as a program: configuration, marks, saves, verdicts, triggers, retention.
//! Tests that record are skipped where that is not permitted.

use recorder::{Service, TIMEOUT, UNHITCH, group_folder, skipped, text, unhitch};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[path = "service/recorder.rs"]
mod recorder;

#[test]
fn a_wrong_configuration_is_named_by_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("watch.toml");
    fs::write(&file, "[recorder]\nrate = 99\nfoo = 1\n").unwrap();
    for option in ["--check", "--config"] {
        let output = unhitch(&["watch", option, file.to_str().unwrap()]);
        let error = text(&output.stderr);
        assert!(!output.status.success() && error.contains("watch.toml, line 3: "), "{error}");
    }
    fs::write(&file, "[recorder]\nrate = 99\n[[trigger]]\nkind = \"hung_task\"\n").unwrap();
    let output = unhitch(&["watch", "--check", file.to_str().unwrap()]);
    assert!(text(&output.stdout).contains("is right: 1 trigger"), "{output:?}");
}

#[test]
fn options_beside_a_configuration_are_refused() {
    for option in [&["--on-stall", "200ms"][..], &["--rate", "99"], &["--verdict"]] {
        let output = unhitch(&[&["watch", "--config", "/no/such.toml"], option].concat());
        let error = text(&output.stderr);
        assert!(error.contains("'--config <FILE>' cannot be used with"), "{error}");
    }
}

#[test]
fn without_a_recorder_every_client_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("control.sock");
    let socket = socket.to_str().unwrap();
    for command in [&["mark", "x"][..], &["status"], &["save"]] {
        let output = unhitch(&[command, &["--socket", socket]].concat());
        let error = text(&output.stderr);
        assert!(!output.status.success() && error.contains("no recorder is watching"), "{error}");
    }
}

#[test]
fn live_marks_and_saves_by_hand_are_in_the_trace_and_it_is_judged() {
    let test = "live_marks_and_saves_by_hand_are_in_the_trace_and_it_is_judged";
    let Some(service) = Service::start(test, "[marks]\ninput = \"private\"", "") else { return };
    let socket = service.socket();
    let marked = unhitch(&["mark", "clicked \u{1b}[2J Save", "--socket", &socket]);
    assert!(marked.status.success(), "{}", text(&marked.stderr));
    let mut client = UnixStream::connect(&socket).unwrap();
    let mut lines = BufReader::new(client.try_clone().unwrap()).lines();
    let mut ask = |request: Value| -> Value {
        client.write_all(format!("{request}\n").as_bytes()).unwrap();
        serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap()
    };
    let key = json!({"kind": "key", "class": "letter", "mode": "private"});
    let full = json!({"kind": "key", "class": "letter", "mode": "full", "code": 38});
    let ping = json!({"kind": "ping", "sent_ns": 1, "answered": false, "pid": std::process::id()});
    let answer = ask(json!({ "marks": [key, full, ping] }));
    assert_eq!((&answer["marks"]["taken"], &answer["marks"]["refused"]), (&json!(2), &json!(1)));
    let saved = ask(json!({"save": {"notes": "typing hung", "verdict": true}}));
    let path = saved["path"].as_str().unwrap_or_else(|| panic!("{saved}")).to_owned();
    let verdict: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert!(verdict["verdict"]["line"].as_str().is_some_and(|line| !line.is_empty()), "{verdict}");

    let info: Value = serde_json::from_slice(&unhitch(&["info", "--json", &path]).stdout).unwrap();
    assert_eq!(info["input_marks"], "private");
    assert_eq!(info["marks"], json!({"note": 1, "key press": 1, "ping": 1}));
    assert_eq!((&info["saved"]["by_hand"], &info["notes"]), (&json!(true), &json!("typing hung")));
    let table = text(&unhitch(&["table", &path, "marks"]).stdout);
    assert!(table.contains("clicked \\x1b[2J Save") && table.contains("letter"), "{table}");
    assert!(table.contains("no answer for") && !table.contains('\u{1b}'), "{table}");

    let list = service.list();
    assert_eq!(list.len(), 1);
    let stored = &list[0]["verdict"];
    assert_eq!(stored["line"], verdict["verdict"]["line"]);
    assert_eq!((&stored["by_hand"], &stored["version"]), (&json!(true), &json!(1)));
    let mode = |path: &Path| std::os::unix::fs::MetadataExt::mode(&fs::metadata(path).unwrap());
    let verdict_file = Path::new(&path).with_extension("verdict.json");
    assert_eq!((mode(Path::new(&path)) & 0o777, mode(&verdict_file) & 0o777), (0o600, 0o600));
    let shown = text(&unhitch(&["list", service.path("traces").to_str().unwrap()]).stdout);
    assert!(shown.contains("by hand") && shown.contains("note: typing hung"), "{shown}");
}

#[test]
fn live_a_command_triggers_and_what_is_suppressed_is_in_the_next_trace() {
    let test = "live_a_command_triggers_and_what_is_suppressed_is_in_the_next_trace";
    let trigger = "[[trigger]]\nkind = \"command\"\nname = \"always\"\ncommand = \"echo 'it is so'\"\n\
                   every = \"100ms\"\nmin_interval = \"1h\"\ndelay = \"10ms\"\n";
    let Some(service) = Service::start(test, "", trigger) else { return };
    let list = service.list_when(|list| list.first().is_some_and(|one| !one["verdict"].is_null()));
    assert_eq!(list[0]["trigger"]["name"], "always");
    assert!(list[0]["trigger"]["text"].as_str().unwrap().ends_with("succeeded: it is so"));
    assert_eq!(list[0]["by_hand"], false);
    let begun = Instant::now();
    while service.status()["saves"]["suppressed"].as_u64() < Some(3) {
        assert!(begun.elapsed() < TIMEOUT);
        std::thread::sleep(Duration::from_millis(50));
    }
    let saved = unhitch(&["save", "--socket", &service.socket()]);
    let path = text(&saved.stdout);
    let why = text(&unhitch(&["info", path.trim()]).stdout);
    assert!(why.contains("saved       by hand"), "{why}");
    assert!(why.contains("not saved before: always, "), "{why}");
    assert!(why.contains("too soon after its last save"), "{why}");
    assert_eq!(service.list().len(), 2, "the interval holds");
    // The answer begins with what the trigger saw.
    let first = list[0]["path"].as_str().unwrap();
    let why = text(&unhitch(&["why", first]).stdout);
    assert!(why.starts_with("TRIGGER  always (command): "), "{why}");
}

#[test]
fn live_the_owner_saves_by_hand_although_too_little_of_the_disk_is_free() {
    let test = "live_the_owner_saves_by_hand_although_too_little_of_the_disk_is_free";
    let trigger = "[[trigger]]\nkind = \"command\"\ncommand = \"true\"\nevery = \"100ms\"\n\
                   min_interval = \"0s\"\ndelay = \"10ms\"\n";
    let settings = "[retention]\nmin_free = \"100%\"\n";
    let Some(service) = Service::start(test, settings, trigger) else { return };
    let begun = Instant::now();
    while service.status()["saves"]["suppressed"].as_u64() < Some(1) {
        assert!(begun.elapsed() < TIMEOUT);
        std::thread::sleep(Duration::from_millis(50));
    }
    let saved = unhitch(&["save", "--socket", &service.socket()]);
    assert!(saved.status.success(), "{}", text(&saved.stderr));
    assert_eq!(service.list().len(), 1);
}

#[test]
fn live_a_wrong_reload_keeps_the_old_configuration() {
    let test = "live_a_wrong_reload_keeps_the_old_configuration";
    let heartbeat = "[[trigger]]\nkind = \"heartbeat\"\nthreshold = \"1h\"\n";
    let Some(service) = Service::start(test, "", heartbeat) else { return };
    let file = service.path("watch.toml");
    let old = fs::read_to_string(&file).unwrap();
    let triggers = || service.status()["triggers"].as_array().unwrap().len();
    let wait_for = |words: &str| {
        let begun = Instant::now();
        while !service.log().contains(words) {
            assert!(begun.elapsed() < TIMEOUT, "{}", service.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    fs::write(&file, format!("{old}\nwrong = 1\n")).unwrap();
    service.signal(rustix::process::Signal::HUP);
    let line = old.lines().count() + 2;
    wait_for(&format!("the old configuration goes on: {}, line {line}: ", file.display()));
    assert!(service.status()["configuration_error"].is_string());
    assert_eq!(triggers(), 1);
    fs::write(&file, format!("{old}\n{heartbeat}")).unwrap();
    service.signal(rustix::process::Signal::HUP);
    wait_for("the configuration was read again");
    assert!(service.status()["configuration_error"].is_null());
    assert_eq!(triggers(), 2);
    let elsewhere = old.replace("/traces\"", "/elsewhere\"");
    assert_ne!(elsewhere, old);
    fs::write(&file, elsewhere).unwrap();
    service.signal(rustix::process::Signal::HUP);
    wait_for("the configuration was read again; at the next start only: traces.folder");
}

#[test]
fn live_the_oldest_automatic_trace_goes_and_none_by_hand() {
    let test = "live_the_oldest_automatic_trace_goes_and_none_by_hand";
    let settings = "[retention]\nmax_traces = 3\nmin_free = \"0\"\n[verdict]\nenabled = false\n\
                    [limits]\nper_hour = 100\nburst = 100\nmin_interval = \"0s\"\ndelay = \"0s\"\n";
    let Some(service) = Service::start(test, settings, "") else { return };
    let socket = service.socket();
    let by_hand = unhitch(&["save", "--socket", &socket]);
    assert!(by_hand.status.success(), "{}", text(&by_hand.stderr));
    let by_hand = text(&by_hand.stdout).trim().to_owned();
    let mut client = Command::new(UNHITCH)
        .args(["save", "--on-line", "ERR.R", "--socket", &socket])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut log = client.stdin.take().unwrap();
    for number in 0..6 {
        writeln!(log, "fine {number}\nERROR {number}").unwrap();
    }
    drop(log);
    assert!(client.wait().unwrap().success());
    let list = service.list();
    let texts: Vec<&str> = list.iter().filter_map(|one| one["trigger"]["text"].as_str()).collect();
    assert_eq!(texts, ["ERROR 5", "ERROR 4"], "{list:#?}");
    assert!(list.iter().any(|one| one["path"] == by_hand.as_str()));
    assert_eq!(service.status()["saves"]["automatic"], 6);
    let warns = || service.status()["warnings"].to_string().contains("only the newest stays");
    for _ in 0..3 {
        assert!(!warns());
        assert!(unhitch(&["save", "--socket", &socket]).status.success());
    }
    assert!(warns(), "{:#}", service.status());
}

/// A process whose event loop (poll) stays away, and which waits (futex or sleep) meanwhile.
const EVENT_LOOP: &str = "
import select, time, threading
poll = select.poll()
lock = threading.Lock()
lock.acquire()
for _ in range(20):
    poll.poll(30)
threading.Timer(0.9, lock.release).start()
lock.acquire()
for _ in range(200):
    poll.poll(30)
";

#[test]
fn live_a_wait_and_an_event_loop_that_stays_away_trigger() {
    let test = "live_a_wait_and_an_event_loop_that_stays_away_trigger";
    if Command::new("python3").arg("--version").output().is_err() {
        return skipped(test, "python3 is missing");
    }
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("loop.py");
    // A name of its own, so that no other Python triggers.
    fs::write(&script, format!("open('/proc/self/comm', 'w').write('hangs-a-lot')\n{EVENT_LOOP}"))
        .unwrap();
    for (kind, words) in [("wait", "waiting|waited"), ("stall", "away")] {
        let trigger = format!(
            "[[trigger]]\nkind = {kind:?}\nprocess = \"hangs-a-lot\"\nthreshold = \"400ms\"\n\
             delay = \"800ms\"\n"
        );
        let Some(service) = Service::start(test, "", &trigger) else { return };
        if service.log().contains("is not armed") {
            return skipped(test, &service.log());
        }
        let mut python = Command::new("python3").arg(&script).spawn().unwrap();
        let list =
            service.list_when(|list| list.first().is_some_and(|one| !one["verdict"].is_null()));
        python.kill().unwrap();
        python.wait().unwrap();
        let seen = &list[0]["trigger"];
        let text_of = seen["text"].as_str().unwrap();
        assert!(words.split('|').any(|word| text_of.contains(word)), "{text_of}");
        assert_eq!(seen["tid"], python.id(), "{seen}");
        let long = seen["to_ns"].as_u64().unwrap() - seen["from_ns"].as_u64().unwrap();
        assert!(long >= 400_000_000, "{seen}");
        let why = text(&unhitch(&["why", list[0]["path"].as_str().unwrap()]).stdout);
        assert!(why.starts_with(&format!("TRIGGER  {kind}-1 ({kind}): ")), "{why}");
        let stall = &list[0]["verdict"]["stall"];
        assert_eq!(stall["victim"]["tid"], python.id(), "{why}\n{stall}");
    }
}

/// A service that starts after the recorder, or again, has a control group that was not there before.
#[test]
fn live_a_control_group_that_comes_is_watched_and_one_that_is_missing_disarms_no_other() {
    let test =
        "live_a_control_group_that_comes_is_watched_and_one_that_is_missing_disarms_no_other";
    let group = format!("/unhitch-service-{}", std::process::id());
    let Some(folder) = group_folder(&group) else {
        return skipped(test, "no control groups of version 2 are mounted");
    };
    let triggers = format!(
        "[[trigger]]\nkind = \"wait\"\ncontrol_group = {group:?}\nthreshold = \"1h\"\n\
         [[trigger]]\nkind = \"wait\"\npid = 1\nthreshold = \"1h\"\n"
    );
    let Some(service) = Service::start(test, "", &triggers) else { return };
    let armed = || {
        let status = service.status();
        [0, 1].map(|number| status["triggers"][number]["armed"].as_bool().unwrap())
    };
    if !armed()[1] {
        return skipped(test, &service.log());
    }
    assert!(!armed()[0], "{}", service.log());
    if let Err(error) = fs::create_dir(&folder) {
        return skipped(test, &format!("{}: {error}", folder.display()));
    }
    let begun = Instant::now();
    while armed() != [true, true] && begun.elapsed() < TIMEOUT {
        std::thread::sleep(Duration::from_millis(100));
    }
    let came = armed();
    fs::remove_dir(&folder).unwrap();
    assert_eq!(came, [true, true], "{}", service.log());
}

#[test]
fn live_a_killed_recorder_leaves_no_half_file_and_comes_back() {
    let test = "live_a_killed_recorder_leaves_no_half_file_and_comes_back";
    let Some(mut service) = Service::start(test, "", "") else { return };
    let socket = service.socket();
    let mut saved = Vec::new();
    for round in 0..5_u64 {
        let first = unhitch(&["save", "--socket", &socket]);
        assert!(first.status.success(), "{}", text(&first.stderr));
        saved.push(text(&first.stdout).trim().to_owned());
        let mut client = UnixStream::connect(&socket).unwrap();
        client.write_all(b"{\"save\":{}}\n").unwrap();
        std::thread::sleep(Duration::from_millis(round * 37));
        service.kill_and_restart(test);
    }
    for trace in service.list() {
        let path = trace["path"].as_str().unwrap();
        let output = unhitch(&["info", path]);
        assert!(output.status.success(), "{path}: {}", text(&output.stderr));
    }
    assert!(saved.iter().all(|path| Path::new(path).exists()), "{saved:?}");
}

/// A recorder can be killed while it starts a process, which has its socket until the program begins.
#[test]
fn live_a_socket_that_another_process_inherited_is_stale() {
    let test = "live_a_socket_that_another_process_inherited_is_stale";
    let listen = "import os, socket, sys\n\
                  listener = socket.socket(socket.AF_UNIX)\n\
                  listener.bind(sys.argv[1])\n\
                  listener.listen()\n\
                  if os.fork() == 0: sys.stdin.read()\n\
                  os._exit(0)\n";
    let Some(mut service) = Service::start(test, "", "") else { return };
    service.signal(rustix::process::Signal::TERM);
    service.child.wait().unwrap();
    let mut python = Command::new("python3");
    python.args(["-c", listen, &service.socket()]).stdin(Stdio::piped());
    let Ok(mut python) = python.spawn() else { return skipped(test, "python3 is missing") };
    // The child of it ends with this.
    let _stdin = python.stdin.take();
    python.wait().unwrap();
    UnixStream::connect(service.socket()).expect("the child listens");
    service.kill_and_restart(test);
    service.status();
}

#[test]
fn live_what_a_killed_recorder_left_undone_is_done_by_the_next() {
    let test = "live_what_a_killed_recorder_left_undone_is_done_by_the_next";
    let off = "[verdict]\nenabled = false\n";
    let Some(mut service) = Service::start(test, off, "") else { return };
    let saved = unhitch(&["save", "--socket", &service.socket()]);
    assert!(saved.status.success(), "{}", text(&saved.stderr));
    assert!(service.list()[0]["verdict"].is_null());
    let mut writer = Command::new("true").spawn().unwrap();
    writer.wait().unwrap();
    let left = service.path(&format!("traces/.a.hitch.{}.partial", writer.id()));
    let in_work = service.path(&format!("traces/.b.hitch.{}.partial", std::process::id()));
    fs::write(&left, "half a trace").unwrap();
    let open = fs::File::create(&in_work).unwrap();
    let config = service.path("watch.toml");
    fs::write(&config, fs::read_to_string(&config).unwrap().replace(off, "")).unwrap();
    service.kill_and_restart(test);
    let list = service.list_when(|list| !list[0]["verdict"].is_null());
    assert!(list[0]["verdict"]["line"].as_str().is_some_and(|line| !line.is_empty()), "{list:#?}");
    assert_eq!((&list[0]["verdict"]["by_hand"], list.len()), (&json!(true), 1));
    assert!(!left.exists(), "nobody writes it");
    assert!(in_work.exists(), "somebody does");
    assert!(service.log().contains("removed 1 file that"), "{}", service.log());
    drop(open);
}

/// In a `/run` of its own: only one recorder may watch there.
#[test]
fn live_without_a_configuration_it_ends_with_its_terminal_unless_nohup_keeps_it() {
    let test = "live_without_a_configuration_it_ends_with_its_terminal_unless_nohup_keeps_it";
    use rustix::process::Signal;
    for (nohup, is_kept) in [("", false), ("nohup", true)] {
        let folder = tempfile::tempdir().unwrap();
        let script = format!("mount -t tmpfs none /run && exec {nohup} \"$0\" watch -o \"$1\"");
        // Whoever started this test may have used `nohup`.
        let child = Command::new("env")
            .args(["--default-signal=HUP", "unshare", "--mount", "sh", "-c", &script, UNHITCH])
            .arg(folder.path())
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let mut service = Service { child, folder };
        if !service.is_ready(test) {
            return;
        }
        service.signal(Signal::HUP);
        if is_kept {
            std::thread::sleep(Duration::from_secs(1));
            assert!(service.child.try_wait().unwrap().is_none(), "{}", service.log());
            service.signal(Signal::TERM);
        }
        let begun = Instant::now();
        while service.child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < TIMEOUT, "{}", service.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(service.child.wait().unwrap().success(), "{}", service.log());
    }
}
