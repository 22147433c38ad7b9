//! Operations on a folder of traces: list, upload, rename, annotate, remove. Nothing is ever
//! overwritten.

use crate::support::{Answer, Served, real_trace, serve};
use serde_json::json;
use std::io::Write;
use unhitch_formats::container;

const LIMIT: u64 = 16 << 20;

fn names(served: &Served) -> Vec<String> {
    let listed = served.ask("/api/traces");
    let mut names: Vec<String> = listed["traces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["name"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

fn upload(served: &Served, name: &str, body: &[u8]) -> Answer {
    served.with_body("POST", &format!("/api/traces?name={name}"), "application/octet-stream", body)
}

fn change(served: &Served, name: &str, body: &str) -> Answer {
    served.with_body("PATCH", &format!("/api/traces/{name}"), "application/json", body.as_bytes())
}

#[test]
fn a_list_says_what_is_known_and_more_once_it_was_opened() {
    let served =
        Served::new(LIMIT, |folder| std::fs::write(folder.join("readme.txt"), "no trace").unwrap());
    let entry = served.ask("/api/traces")["traces"][0].clone();
    assert_eq!(
        (&entry["name"], &entry["format"], &entry["loaded"]),
        (&"starve.hitch".into(), &"hitch".into(), &false.into())
    );
    assert!(
        entry["host"].is_string()
            && entry["duration_ns"].is_u64()
            && entry["notes"].as_str().unwrap().starts_with("lab starve")
    );
    assert!(entry["first_answer"].is_null());
    assert_eq!(names(&served), ["starve.hitch"], "other files are no traces");
    served.until_judged("starve.hitch");
    let entry = served.ask("/api/traces")["traces"][0].clone();
    assert_eq!(entry["loaded"], true);
    assert!(entry["first_answer"]["text"].as_str().unwrap().contains("lock starvation"), "{entry}");
    let server = served.ask("/api/server");
    assert_eq!((&server["single"], &server["editable"]), (&serde_json::Value::Null, &true.into()));
}

/// The entries of the list by name, once nothing is being judged any more.
fn judged_list(served: &Served) -> Vec<serde_json::Value> {
    loop {
        let listed = served.ask("/api/traces")["traces"].as_array().unwrap().clone();
        if listed.iter().all(|entry| entry["judging"] == false) {
            return listed;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_folder_is_judged_without_being_opened_and_says_what_is_wrong_with_files() {
    let served = Served::new(LIMIT, |folder| {
        for (name, bytes) in [
            ("empty.hitch", ""),
            ("letter.etl", ""),
            ("bare.data", "PERFILE2"),
            ("big-endian.data", "2ELIFREP"),
            ("note.hitch", "Dear Sir or Madam"),
        ] {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
        std::fs::copy(real_trace(), folder.join("second.hitch")).unwrap();
    });
    let list = judged_list(&served);
    let entry = |name: &str| list.iter().find(|entry| entry["name"] == name).unwrap();
    for name in ["starve.hitch", "second.hitch"] {
        let (entry, first) = (entry(name), &entry(name)["first_answer"]);
        assert_eq!((&entry["loaded"], &entry["error"]), (&false.into(), &serde_json::Value::Null));
        assert!(first["cause"].as_str().unwrap().contains("lock starvation"), "{entry}");
        assert!(first["victim"].as_str().unwrap().starts_with("typing"), "{entry}");
        assert!(first["duration_ns"].as_u64().unwrap() > 1_000_000_000, "{entry}");
        assert_eq!(first["stalls"], 1);
    }
    for (name, error, hint) in [
        ("empty.hitch", "empty", "Delete it."),
        ("letter.etl", "empty", "Delete it."),
        ("note.hitch", "no trace", "Copy it again"),
        ("bare.data", "damaged", "Copy it again"),
        // Another copy of it would be the same.
        ("big-endian.data", "only little-endian recordings can be read", ""),
    ] {
        let entry = entry(name);
        assert!(entry["error"].as_str().unwrap().contains(error), "{entry}");
        assert!(entry["hint"].as_str().unwrap().contains(hint), "{entry}");
        assert_eq!(entry["hint"] == "", hint.is_empty(), "{entry}");
    }
}

#[test]
fn a_trace_whose_file_vanishes_stays_open() {
    let served = Served::new(LIMIT, |_| {});
    served.until_judged("starve.hitch");
    assert_eq!(served.ask("/api/t/starve.hitch/status")["gone"], false);
    std::fs::remove_file(served.file("starve.hitch")).unwrap();
    assert_eq!(served.ask("/api/t/starve.hitch/status")["gone"], true);
    let table = served.ask("/api/t/starve.hitch/table?table=waits&by=reason");
    assert!(!table["rows"].as_array().unwrap().is_empty());
    assert_eq!(served.get("/api/t/other.hitch/status").status, 404);
}

#[test]
fn traces_come_in_and_are_never_overwritten() {
    let served = Served::new(LIMIT, |_| {});
    let real = std::fs::read(real_trace()).unwrap();
    let answer = upload(&served, "second.hitch", &real);
    assert_eq!(
        (answer.status, answer.json()["name"].as_str()),
        (201, Some("second.hitch")),
        "{}",
        answer.text()
    );
    assert_eq!(std::fs::read(served.file("second.hitch")).unwrap(), real);
    assert_eq!(served.until_judged("second.hitch")["stage"], "ready");
    for body in [&real[..], b"PERFILE2 other"] {
        assert_eq!(upload(&served, "second.hitch", body).status, 409);
    }
    assert_eq!(std::fs::read(served.file("second.hitch")).unwrap(), real);
    assert_eq!(
        served.with_body("POST", "/api/traces", "application/octet-stream", &real).status,
        400,
        "a name is needed"
    );
    served.assert_folder_holds(&["second.hitch", "starve.hitch"]);
}

#[test]
fn names_and_notes_change_and_the_trace_stays_what_it_is() {
    let served = Served::new(LIMIT, |_| {});
    let before = served.ask("/api/t/starve.hitch/stall/1");
    let answer = change(
        &served,
        "starve.hitch",
        r#"{"name":"renamed it.hitch","notes":"seen at noon\n<b>"}"#,
    );
    assert_eq!(
        (answer.status, answer.json()["notes"].as_str()),
        (200, Some("seen at noon\n<b>")),
        "{}",
        answer.text()
    );
    assert_eq!(names(&served), ["renamed it.hitch"]);
    assert_eq!(served.get("/api/t/starve.hitch/summary").status, 404);
    assert_eq!(served.ask("/api/t/renamed%20it.hitch/stall/1"), before);
    assert_eq!(served.ask("/api/t/renamed%20it.hitch/summary")["notes"], "seen at noon\n<b>");
    upload(&served, "other.hitch", &std::fs::read(real_trace()).unwrap());
    let kept = std::fs::read(served.file("other.hitch")).unwrap();
    assert_eq!(change(&served, "renamed%20it.hitch", r#"{"name":"other.hitch"}"#).status, 409);
    assert_eq!(std::fs::read(served.file("other.hitch")).unwrap(), kept);
    let long = serde_json::json!({ "notes": "x".repeat(300 << 10) }).to_string();
    for body in ["{", "[]", r#"{"nme":"x"}"#, r#"{"name":5}"#, r#"{"name":""}"#, &long] {
        assert_eq!(
            change(&served, "other.hitch", body).status,
            400,
            "{}",
            &body[..body.len().min(20)]
        );
    }
    assert_eq!(change(&served, "none.hitch", "{}").status, 404);
    served.assert_folder_holds(&["other.hitch", "renamed it.hitch"]);
}

#[test]
fn only_containers_have_a_place_for_notes() {
    let perf_data = unhitch_golden::type_an_email().perf_data;
    let served =
        Served::new(LIMIT, |folder| std::fs::write(folder.join("perf.data"), &perf_data).unwrap());
    assert_eq!(change(&served, "perf.data", r#"{"notes":"x"}"#).status, 409);
    assert_eq!(std::fs::read(served.file("perf.data")).unwrap(), perf_data);
}

#[test]
fn a_trace_is_removed_for_good() {
    let served = Served::new(LIMIT, |_| {});
    served.until_judged("starve.hitch");
    assert_eq!(served.send(&served.head("DELETE", "/api/traces/starve.hitch"), b"").status, 204);
    served.assert_folder_holds(&[]);
    assert_eq!(served.get("/api/t/starve.hitch/status").status, 404);
    assert_eq!(served.send(&served.head("DELETE", "/api/traces/starve.hitch"), b"").status, 404);
}

#[test]
fn a_file_that_changed_is_read_again() {
    let served = Served::new(LIMIT, |_| {});
    served.until_judged("starve.hitch");
    std::fs::remove_file(served.file("starve.hitch")).unwrap();
    unhitch_golden::move_my_mouse().write(&served.file("starve.hitch")).unwrap();
    served.until_judged("starve.hitch");
    assert_eq!(served.ask("/api/t/starve.hitch/stalls")["stalls"][0]["pattern"], "serialized_exit");
}

#[test]
fn one_file_is_shown_without_its_neighbours() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["one.hitch", "two.hitch"] {
        std::fs::copy(real_trace(), folder.path().join(name)).unwrap();
    }
    let (port, token) = serve(&folder.path().join("one.hitch"), LIMIT);
    let served = Served { folder, port, token };
    assert_eq!(served.ask("/api/server")["single"], "one.hitch");
    assert_eq!(names(&served), ["one.hitch"]);
    assert_eq!(served.get("/api/t/two.hitch/summary").status, 404);
    assert_eq!(served.until_judged("one.hitch")["stage"], "ready");
    assert_eq!(upload(&served, "three.hitch", b"PERFILE2").status, 409);
    assert_eq!(change(&served, "one.hitch", r#"{"name":"three.hitch"}"#).status, 409);
    assert_eq!(change(&served, "one.hitch", r#"{"notes":"seen at noon"}"#).status, 200);
    assert_eq!(served.ask("/api/t/one.hitch/summary")["notes"], "seen at noon");
    assert!(served.get("/api/t/one.hitch/report").text().contains("<pre>seen at noon</pre>"));
    assert_eq!(served.send(&served.head("DELETE", "/api/traces/one.hitch"), b"").status, 409);
    served.assert_folder_holds(&["one.hitch", "two.hitch"]);
}

#[test]
fn what_a_trace_told_is_known_after_it_was_closed_renamed_and_annotated() {
    let copies: Vec<String> = (0..5).map(|number| format!("{number}.hitch")).collect();
    let served = Served::new(LIMIT, |folder| {
        copies
            .iter()
            .map(|name| std::fs::copy(real_trace(), folder.join(name)))
            .for_each(|copied| assert!(copied.unwrap() > 0));
    });
    copies.iter().for_each(|name| assert_eq!(served.until_judged(name)["stage"], "ready"));
    let entry = |name: &str| {
        let listed = served.ask("/api/traces");
        listed["traces"]
            .as_array()
            .unwrap()
            .iter()
            .find(|entry| entry["name"] == name)
            .unwrap()
            .clone()
    };
    let shown = |name: &str| {
        let entry = entry(name);
        assert!(
            entry["first_answer"]["text"]
                .as_str()
                .is_some_and(|text| text.contains("lock starvation")),
            "{entry}"
        );
        entry["loaded"].as_bool().unwrap()
    };
    assert_eq!((shown("0.hitch"), shown("4.hitch")), (false, true), "closed; still open");
    // Closed and open traces, under other names and with other notes.
    for (name, to, loaded) in [("0.hitch", "a.hitch", false), ("4.hitch", "b.hitch", true)] {
        assert_eq!(
            change(&served, name, &format!(r#"{{"name":"{to}","notes":"seen again"}}"#)).status,
            200
        );
        assert_eq!((shown(to), entry(to)["notes"].as_str()), (loaded, Some("seen again")));
    }
    // Another file of that name has its own status.
    unhitch_golden::move_my_mouse().write(&served.file("0.hitch")).unwrap();
    assert!(entry("0.hitch")["first_answer"].is_null());
    std::fs::remove_file(served.file("a.hitch")).unwrap();
    std::fs::copy(served.file("0.hitch"), served.file("a.hitch")).unwrap();
    assert!(entry("a.hitch")["first_answer"].is_null());
}

#[test]
fn a_zip_of_windows_traces_is_a_trace() {
    let golden = unhitch_golden::move_my_mouse();
    let zipped = |entry: &str, bytes: &[u8]| {
        let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        zip.start_file(entry, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
        zip.finish().unwrap().into_inner()
    };
    let (trace, letter) =
        (zipped("traces/mouse.ETL", &golden.etl()), zipped("letter.txt", b"Dear Sir or Madam"));
    let served = Served::new(LIMIT, |folder| {
        std::fs::write(folder.join("mouse.etl.zip"), &trace).unwrap();
        std::fs::write(folder.join("letter.zip"), &letter).unwrap();
    });
    assert_eq!(names(&served), ["mouse.etl.zip", "starve.hitch"], "a zip without a trace is none");
    assert_eq!(upload(&served, "again.zip", &trace).status, 201);
    assert_eq!(upload(&served, "letter.etl.zip", &letter).status, 422);
    let entry = served.ask("/api/traces")["traces"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["name"] == "again.zip")
        .unwrap()
        .clone();
    assert_eq!(
        (&entry["format"], &entry["cpus"], &entry["error"]),
        (&"etl".into(), &serde_json::Value::Null, &serde_json::Value::Null)
    );
    assert_eq!(served.until_judged("again.zip")["stage"], "ready");
    assert_eq!(served.ask("/api/t/again.zip/stall/1")["kind"], "ui_delay");
    assert_eq!(change(&served, "again.zip", r#"{"notes":"x"}"#).status, 409);
    served.assert_folder_holds(&["again.zip", "letter.zip", "mouse.etl.zip", "starve.hitch"]);
}

#[test]
fn many_traces_can_be_opened_one_after_the_other() {
    let copies: Vec<String> = (0..6).map(|number| format!("{number}.hitch")).collect();
    let served = Served::new(LIMIT, |folder| {
        copies
            .iter()
            .map(|name| std::fs::copy(real_trace(), folder.join(name)))
            .for_each(|copied| assert!(copied.unwrap() > 0));
    });
    for name in copies.iter().chain(&copies[..2]) {
        assert_eq!(
            served.ask(&format!("/api/t/{name}/stall/1"))["cause"]["pattern"],
            "lock_starvation"
        );
    }
    let listed = served.ask("/api/traces");
    let loaded =
        listed["traces"].as_array().unwrap().iter().filter(|entry| entry["loaded"] == true).count();
    assert!((1..=3).contains(&loaded), "{loaded} are open at once");
}

#[test]
fn a_verdict_of_the_recorder_is_shown_without_judging_again() {
    let of_its_trace = container::read_meta(&real_trace()).unwrap().unwrap().0.spans;
    let start_ns = of_its_trace.iter().map(|span| span.start_ns).max().unwrap();
    let verdict = |start_ns: u64, line: &str| {
        json!({
            "version": 1, "stalls": 2, "line": line, "start_ns": start_ns, "duration_ns": 4_000,
            "stall": {
                "pattern": "long_hold", "who": "editor 7", "cause": "a lock", "duration_ns": 1_000,
            },
        })
    };
    let copies = ["own.hitch", "other.hitch", "unanswered.hitch"];
    let served = Served::new(LIMIT, |folder| {
        let store = |name: &str, verdict: &serde_json::Value| {
            let trace = folder.join(name);
            std::fs::copy(real_trace(), &trace).unwrap();
            std::fs::write(container::verdict_path(&trace), verdict.to_string()).unwrap();
        };
        store(copies[0], &verdict(start_ns, "the stored line"));
        store(copies[1], &verdict(start_ns + 1, "of a trace that had its name"));
        store(copies[2], &json!({ "version": 1, "error": "there was no time" }));
    });
    let listed = judged_list(&served);
    let first = |name: &str| {
        let entry = listed.iter().find(|entry| entry["name"] == name).unwrap();
        entry["first_answer"].clone()
    };
    let stored = json!({
        "text": "the stored line", "pattern": "long_hold", "victim": "editor 7", "cause": "a lock",
        "duration_ns": 1_000, "severity": 0.25, "stalls": 2,
    });
    assert_eq!(first("own.hitch"), stored);
    for name in &copies[1..] {
        let text = first(name)["text"].as_str().unwrap_or_default().to_owned();
        assert!(text.contains("lock starvation"), "{name}: {text}");
    }

    // It goes where its trace goes.
    assert_eq!(change(&served, "own.hitch", r#"{"name":"new.hitch"}"#).status, 200);
    let held = |name: &str| container::verdict_path(&served.file(name)).exists();
    assert_eq!((held("own.hitch"), held("new.hitch")), (false, true));
    assert_eq!(served.send(&served.head("DELETE", "/api/traces/new.hitch"), b"").status, 204);
    assert!(!held("new.hitch"));
}
