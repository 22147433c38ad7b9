//! Who may ask the always-on recorder for what, and what they may read. Tests that record are skipped
//! where that is not permitted.

use member::{as_member, ask, ask_until_taken};
use recorder::{Service, TIMEOUT, skipped, text, unhitch};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};
use unhitch_record::control;

#[path = "service/member.rs"]
mod member;
#[path = "service/recorder.rs"]
mod recorder;

/// The group whose members may ask.
const GROUP: u32 = 4712;
const SETTINGS: &str = "[retention]\nmin_free = \"0\"\n";

/// A recorder for the members of the group; `None` where that cannot be had.
fn start(test: &str, access: &str, settings: &str) -> Option<Service> {
    if !rustix::process::geteuid().is_root() {
        skipped(test, "only root can become another user");
        return None;
    }
    let service = Service::start_for(test, settings, "", Some((GROUP, access)))?;
    // Others may enter the folder of the test.
    fs::set_permissions(service.folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    Some(service)
}

/// Permissions and group of a file.
fn access(path: &Path) -> (u32, u32) {
    let about = fs::metadata(path).unwrap();
    (about.mode() & 0o777, about.gid())
}

/// A trace that a member had saved, and the verdict as that member was told.
fn saved_by_member(socket: &str) -> (String, Value) {
    let socket = socket.to_owned();
    as_member(GROUP, move || {
        let mut client = UnixStream::connect(socket).unwrap();
        client.write_all(b"{\"save\":{\"verdict\":true}}\n").unwrap();
        let mut answers = BufReader::new(client).lines();
        let mut next =
            || -> Value { serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap() };
        let (saved, verdict) = (next(), next());
        (saved["path"].as_str().unwrap().to_owned(), verdict["verdict"].clone())
    })
}

#[test]
fn live_only_the_owner_may_read_or_reload_the_configuration() {
    let test = "live_only_the_owner_may_read_or_reload_the_configuration";
    let Some(service) = start(test, "", SETTINGS) else { return };
    let requests = [json!({"configuration": {}}), json!({"reload": {}})];
    let socket = service.socket();
    for request in &requests {
        let (socket, request) = (socket.clone(), request.clone());
        let denied = as_member(GROUP, move || ask(&socket, &request).unwrap());
        let only = "only the recorder's owner and root may ask for this";
        assert_eq!(denied, json!({ "error": only }));
    }
    let file = service.path("watch.toml");
    let shown = &ask(&socket, &requests[0]).unwrap()["configuration"];
    assert_eq!(shown["text"], fs::read_to_string(&file).unwrap());
    assert_eq!(shown["file"], file.to_str().unwrap());
    let reloaded = ask(&socket, &requests[1]).unwrap();
    assert_eq!(reloaded, json!({"reload": {"changed": false, "restart": []}}));
}

#[test]
fn regression_a_stranger_is_told_of_the_group_and_not_that_none_records() {
    if !rustix::process::geteuid().is_root() {
        return skipped(
            "regression_a_stranger_is_told_of_the_group_and_not_that_none_records",
            "only root can become another user",
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let sockets = ["own", "machine"].map(|name| folder.path().join(name).join("control.sock"));
    let of_machine = sockets[1].parent().unwrap();
    fs::create_dir(of_machine).unwrap();
    let _listener = UnixListener::bind(&sockets[1]).unwrap();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let told = |mode| {
        fs::set_permissions(of_machine, PermissionsExt::from_mode(mode)).unwrap();
        let sockets = sockets.clone();
        as_member(5, move || control::find(&sockets).unwrap_err().to_string())
    };
    let words = "answers only members of the group `unhitch`: `sudo usermod -aG unhitch \"$USER\"`, \
                 then log in again";
    let error = told(0o750);
    assert!(error.contains(words) && error.contains("machine/control.sock"), "{error}");
    // That of root alone is not to be asked by anybody else.
    let error = told(0o700);
    assert!(error.contains("no recorder is watching") && error.contains("own/"), "{error}");
}

#[test]
fn live_a_group_that_reads_nothing_gets_no_verdict() {
    let test = "live_a_group_that_reads_nothing_gets_no_verdict";
    let Some(service) = start(test, "group_reads = \"nothing\"\n", SETTINGS) else { return };
    let (path, verdict) = saved_by_member(&service.socket());
    let reason = verdict["error"].as_str().unwrap_or_else(|| panic!("{verdict}"));
    assert!(reason.contains("group_reads") && verdict.get("line").is_none(), "{verdict}");
    let trace = Path::new(&path);
    let stored = trace.with_extension("verdict.json");
    assert_eq!((access(trace).0, access(&stored).0), (0o600, 0o600));
    assert!(as_member(GROUP, move || fs::File::open(path)).is_err());
    // Warnings of a save name programs, too.
    let socket = service.socket();
    let saved = as_member(GROUP, move || ask_until_taken(&socket, &json!({ "save": {} })));
    assert!(saved["path"].is_string() && saved["warnings"] == json!([]), "{saved}");
}

#[test]
fn live_a_group_that_reads_verdicts_opens_no_trace() {
    let test = "live_a_group_that_reads_verdicts_opens_no_trace";
    let Some(service) = start(test, "", SETTINGS) else { return };
    let (path, verdict) = saved_by_member(&service.socket());
    assert!(verdict["line"].as_str().is_some_and(|line| !line.is_empty()), "{verdict}");
    let trace = Path::new(&path);
    let stored = trace.with_extension("verdict.json");
    assert_eq!((access(trace).0, access(&stored)), (0o600, (0o640, GROUP)));
}

#[test]
fn live_a_group_that_reads_traces_can_open_them_and_no_stranger_can() {
    let test = "live_a_group_that_reads_traces_can_open_them_and_no_stranger_can";
    let Some(service) = start(test, "group_reads = \"traces\"\n", SETTINGS) else { return };
    let (path, verdict) = saved_by_member(&service.socket());
    assert!(verdict["line"].as_str().is_some_and(|line| !line.is_empty()), "{verdict}");
    let trace = Path::new(&path);
    let stored = trace.with_extension("verdict.json");
    assert_eq!([access(trace), access(&stored)], [(0o640, GROUP); 2]);
    fs::set_permissions(trace.parent().unwrap(), PermissionsExt::from_mode(0o755)).unwrap();
    for path in [trace, &stored] {
        let [own, foreign] = [path.to_owned(), path.to_owned()];
        assert!(as_member(GROUP, move || fs::read(own)).is_ok(), "{}", path.display());
        assert!(as_member(5, move || fs::read(foreign)).is_err(), "{}", path.display());
    }
    // It may read no more from when the configuration says so.
    let file = service.path("watch.toml");
    let old = fs::read_to_string(&file).unwrap();
    fs::write(&file, old.replace("\"traces\"", "\"nothing\"")).unwrap();
    let reloaded = ask(&service.socket(), &json!({"reload": {}})).unwrap();
    assert_eq!(reloaded, json!({"reload": {"changed": true, "restart": []}}));
    let (path, verdict) = saved_by_member(&service.socket());
    assert!(verdict["error"].is_string(), "{verdict}");
    assert_eq!(access(Path::new(&path)).0, 0o600);
}

#[test]
fn live_metrics_are_written_for_everybody() {
    let test = "live_metrics_are_written_for_everybody";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("unhitch.prom");
    // Whoever may write there too must not turn that against a file of root's.
    let other = folder.path().join("other");
    fs::write(&other, "mine").unwrap();
    std::os::unix::fs::symlink(&other, folder.path().join(".unhitch.prom.new")).unwrap();
    let settings = format!("[metrics]\nfile = {:?}\nevery = \"1s\"\n{SETTINGS}", file);
    let Some(service) = Service::start(test, &settings, "") else { return };
    let begun = Instant::now();
    let has = |line: &str| {
        let text = fs::read_to_string(&file).unwrap_or_default();
        text.lines().any(|known| known == line)
    };
    let until = |line: &str| {
        while !has(line) {
            assert!(begun.elapsed() < TIMEOUT, "{line}: {:?}", fs::read_to_string(&file));
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    until("unhitch_saves_total{how=\"by_hand\"} 0");
    assert_eq!(access(&file).0, 0o644);
    assert_eq!(fs::read_to_string(&other).unwrap(), "mine");
    // It is written again.
    let saved = unhitch(&["save", "--socket", &service.socket()]);
    assert!(saved.status.success(), "{}", text(&saved.stderr));
    until("unhitch_saves_total{how=\"by_hand\"} 1");
    until("unhitch_traces 1");
    assert!(has("unhitch_configuration_error 0"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left");
}

#[test]
fn live_a_flooding_member_of_the_group_is_limited_and_the_owner_is_not() {
    let test = "live_a_flooding_member_of_the_group_is_limited_and_the_owner_is_not";
    let settings = "[verdict]\nenabled = false\n[retention]\nmin_free = \"0\"\n";
    let Some(service) = start(test, "", settings) else { return };
    let (socket, begun) = (service.socket(), Instant::now());
    let flood = {
        let socket = socket.clone();
        as_member(GROUP, move || {
            // Connections that send nothing, half a line, too much.
            let idle: Vec<UnixStream> = (0..300)
                .filter_map(|number| {
                    let mut idle = UnixStream::connect(&socket).ok()?;
                    let _ = idle.write_all(if number % 2 == 0 { b"{" } else { b"" });
                    Some(idle)
                })
                .collect();
            let mut long = UnixStream::connect(&socket).unwrap();
            let _ = long.write_all(&vec![b'x'; 1 << 20]);
            let ask = |request: &Value| ask(&socket, request);
            let mut taken = 0;
            for _ in 0..10 {
                let marks = vec![json!({"kind": "note", "text": "x", "uid": 0}); 256];
                let answer = ask(&json!({ "marks": marks })).unwrap();
                taken += answer["marks"]["taken"].as_u64().unwrap();
            }
            let saves: Vec<Value> =
                (0..8).filter_map(|_| ask(&json!({ "save": { "by_hand": true } }))).collect();
            let denied = ask(&json!({ "reload": {} })).unwrap();
            let status = ask(&json!({ "status": {} })).unwrap();
            drop(idle);
            (taken, saves, denied, status)
        })
    };
    let (taken, saves, denied, status) = flood;
    // 500 at once, and 200 a second, of 2,560; 4 saves at once, and one more every 15 s, of 8.
    let is_slow = begun.elapsed() > Duration::from_secs(8);
    assert!(taken >= 500 && (taken < 2_560 || is_slow), "{taken}");
    let saved: Vec<&str> = saves.iter().filter_map(|answer| answer["path"].as_str()).collect();
    assert!(saved.len() >= 4 && (saved.len() <= 5 || is_slow), "{saves:?}");
    for refused in saves.iter().filter(|answer| answer["path"].is_null()) {
        assert!(refused["suppressed"] == true && refused["retry_after_ms"].as_u64() > Some(0));
    }
    assert!(denied["error"].as_str().unwrap().contains("only the recorder's owner"), "{denied}");
    let status = &status["status"];
    assert!(status["held_ns"].is_u64() && status["triggers"].is_null(), "{status}");
    // The owner gets through at once, and the trace says who sent the marks.
    let path = text(&unhitch(&["save", "--socket", &socket]).stdout);
    let marks = unhitch(&["table", path.trim(), "marks", "--by", "user", "--json"]);
    let marks: Value = serde_json::from_slice(&marks.stdout).unwrap();
    assert_eq!(marks["rows"][0]["user"], 4711, "{marks}");
    let info: Value =
        serde_json::from_slice(&unhitch(&["info", "--json", saved[0]]).stdout).unwrap();
    let warnings = info["warnings"].to_string();
    assert!(warnings.contains("marks were refused") || taken == 2_560, "{warnings}");
    // A note goes into the member's own trace, and into no other's.
    let (own, others, to) = (saved[0].to_owned(), path.trim().to_owned(), socket.clone());
    let answers = as_member(GROUP, move || {
        [own, others].map(|path| {
            let note = json!({ "note": { "path": path, "text": "typing hung" } });
            ask_until_taken(&to, &note)
        })
    });
    assert_eq!(answers[0], json!({ "noted": true }));
    assert!(answers[1]["error"].as_str().unwrap().contains("no such trace for you"), "{answers:?}");
    let notes = |path: &str| -> Value {
        let info = unhitch(&["info", "--json", path]);
        serde_json::from_slice::<Value>(&info.stdout).unwrap()["notes"].clone()
    };
    assert_eq!((notes(saved[0]), notes(path.trim())), (json!("typing hung"), json!("")));
    let note = json!({ "note": { "path": saved[0], "text": "and root says so, too" } });
    assert_eq!(ask_until_taken(&socket, &note), json!({ "noted": true }));
    assert_eq!(notes(saved[0]), "typing hung\nand root says so, too");
    // A stranger does not get in, nor can a member read the trace.
    let trace = path.trim().to_owned();
    assert!(as_member(GROUP, move || fs::File::open(trace)).is_err());
    let strangers = socket.clone();
    assert!(as_member(5, move || UnixStream::connect(strangers)).is_err());
}
