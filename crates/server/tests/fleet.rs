//! The report over a fleet, above the traces of its folder.

use crate::support;
use crate::support::{Served, serve_with};
use serde_json::{Value, json};
use std::path::Path;
use unhitch_server::{Config, Error, Server};

const LIMIT: u64 = 1 << 20;

fn report() -> Value {
    let exemplars = json!([
        { "file": "/srv/traces/starve.hitch", "trace_id": "0", "stall": 1, "duration_ns": 7 },
        { "file": "/srv/traces/elsewhere.hitch", "trace_id": "1", "stall": 2, "duration_ns": 6 },
        { "file": "/srv/..", "trace_id": "2", "stall": 1, "duration_ns": 5 },
        { "file": null, "trace_id": "3", "stall": 1, "duration_ns": 4 },
    ]);
    json!({
        "version": 1,
        "fleet": {
            "traces": 4, "hosts": 2, "first_day": "2026-09-01", "last_day": "2026-09-02",
            "stalls": 5, "with_stalls": 4, "with_losses": 0, "total_ns": 22, "causes": 1,
        },
        "since": null,
        "causes": [{
            "pattern": "lock_starvation", "culprit": null, "function": "release", "stalls": 5,
            "hosts": 2, "total_ns": 22, "worst_ns": 7, "share": 1.0, "first_day": "2026-09-01",
            "is_new": false, "exemplars": exemplars,
        }],
        "coverage": [{ "causes": 1, "share": 1.0 }],
        "regressions": [],
        "contrast": [],
        "clusters": [{
            "stalls": 5, "total_ns": 22, "pattern": "lock_starvation", "function": "release",
            "exemplars": exemplars,
        }],
        "more": "is ignored",
    })
}

fn served(report: &str) -> Served {
    let mut served = Served::new(LIMIT, |folder| {
        std::fs::write(folder.join("report.json"), report).unwrap();
    });
    let file = served.file("report.json");
    (served.port, served.token) = serve_with(served.folder.path(), Some(file), LIMIT);
    served
}

#[test]
fn a_report_names_the_recordings_that_the_folder_has() {
    let served = served(&report().to_string());
    assert_eq!(served.ask("/api/server")["fleet"], true);
    let shown = served.ask("/api/fleet");
    for exemplars in [&shown["causes"][0]["exemplars"], &shown["clusters"][0]["exemplars"]] {
        let files: Vec<(&Value, &Value)> =
            exemplars.as_array().unwrap().iter().map(|e| (&e["file"], &e["is_here"])).collect();
        let expected = [
            (json!("starve.hitch"), json!(true)),
            (json!("elsewhere.hitch"), json!(false)),
            (Value::Null, json!(false)),
            (Value::Null, json!(false)),
        ];
        let expected: Vec<(&Value, &Value)> = expected.iter().map(|(a, b)| (a, b)).collect();
        assert_eq!(files, expected, "names only: the page must not learn where traces are");
    }
    assert_eq!(shown["causes"][0]["total_ns"], 22);
    assert!(!shown.to_string().contains("/srv"), "{shown}");
}

#[test]
fn a_report_is_read_anew_and_a_broken_one_is_an_error() {
    let served = served(&report().to_string());
    let mut newer = report();
    newer["fleet"]["traces"] = json!(5);
    std::fs::write(served.file("report.json"), newer.to_string()).unwrap();
    assert_eq!(served.ask("/api/fleet")["fleet"]["traces"], 5);
    newer["version"] = json!(2);
    for broken in ["", "[]", "{\"version\": 1}", "\u{0}", &newer.to_string()] {
        std::fs::write(served.file("report.json"), broken).unwrap();
        let answer = served.get("/api/fleet");
        assert!(answer.status >= 400 && answer.status < 500, "{broken:?}: {}", answer.text());
        assert!(answer.text().contains("no report of a fleet"), "{}", answer.text());
    }
    std::fs::remove_file(served.file("report.json")).unwrap();
    assert!(served.get("/api/fleet").status >= 400);
    served.assert_alive();
}

#[test]
fn what_is_no_report_is_not_served() {
    let folder = tempfile::tempdir().unwrap();
    let bind = |fleet: &Path| {
        Server::bind(Config {
            path: folder.path().to_owned(),
            fleet: Some(fleet.to_owned()),
            port: 0,
            upload_limit_bytes: LIMIT,
            tools: support::tools(),
        })
    };
    let file = folder.path().join("report.json");
    assert!(bind(&file).is_err(), "it is missing");
    std::fs::write(&file, "no report").unwrap();
    assert!(matches!(bind(&file), Err(Error::NoReport(_))));
}

#[test]
fn without_a_fleet_there_is_no_report() {
    let served = Served::new(LIMIT, |_| {});
    assert_eq!(served.ask("/api/server")["fleet"], false);
    assert_eq!(served.get("/api/fleet").status, 404);
}
