//! The newest part of a long recording answers while all of it is read.

use crate::support::{Served, open, tools};
use serde_json::Value;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use unhitch_server::{Tools, Unreadable};

const LIMIT: u64 = 1 << 20;

/// What reads a trace whose newest part names itself in the host's name. All of it is there once
/// something comes from `wait`; that it cannot be read is what comes.
fn tools_that(wait: Receiver<Result<(), Unreadable>>) -> Tools {
    let wait = Mutex::new(wait);
    let newest = |path: &Path| {
        let mut trace = open(path).ok()?;
        trace.meta.host = "the newest part".to_owned();
        Some(trace)
    };
    let whole = move |path: &Path| {
        wait.lock().unwrap().recv().unwrap()?;
        open(path)
    };
    Tools { open: Box::new(whole), open_newest: Box::new(newest), ..tools() }
}

fn until(served: &Served, stage: &str) -> Value {
    loop {
        let status = served.ask("/api/t/starve.hitch/status");
        if status["stage"] == stage {
            return status;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn host(served: &Served) -> Value {
    served.ask("/api/t/starve.hitch/summary")["host"].clone()
}

#[test]
fn the_newest_part_answers_about_lanes_and_tables_until_all_is_read() {
    let (release, wait) = channel();
    let served = Served::by(tools_that(wait), LIMIT, |_| {});
    let status = until(&served, "newest");
    assert_eq!(
        (&status["ready"]["lanes"], &status["ready"]["tables"], &status["ready"]["stalls"]),
        (&true.into(), &true.into(), &false.into())
    );
    assert!(status["progress"].as_f64().unwrap() < 1.0);
    assert_eq!(host(&served), "the newest part");
    for resource in ["lanes", "curve?px=100", "table?table=waits", "flame?kind=waits"] {
        served.ask(&format!("/api/t/starve.hitch/{resource}"));
    }
    // What needs all of it waits for it.
    let whole = host_of_whole();
    let explained = std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            served.get("/api/t/starve.hitch/explain?thread=1&from=0&to=1000000000").status
        });
        let tabled = scope.spawn(|| served.get("/api/t/starve.hitch/table?table=stalls").status);
        assert_eq!(served.ask("/api/t/starve.hitch/stalls")["ready"], false);
        // Long enough to find those of the newest part.
        std::thread::sleep(Duration::from_millis(300));
        assert!(!asked.is_finished() && !tabled.is_finished());
        release.send(Ok(())).unwrap();
        assert_eq!(tabled.join().unwrap(), 200);
        asked.join().unwrap()
    });
    assert_eq!(explained, 200);
    served.until_judged("starve.hitch");
    assert_eq!(host(&served), whole);
}

fn host_of_whole() -> Value {
    open(&crate::support::real_trace()).unwrap().meta.host.into()
}

#[test]
fn a_trace_that_cannot_be_read_to_its_end_says_so() {
    let (release, wait) = channel();
    let served = Served::by(tools_that(wait), LIMIT, |_| {});
    until(&served, "newest");
    release.send(Err(Unreadable::Damaged("it is damaged".to_owned()))).unwrap();
    let status = served.until_judged("starve.hitch");
    assert_eq!((&status["stage"], &status["error"]), (&"failed".into(), &"it is damaged".into()));
    assert_eq!(served.get("/api/t/starve.hitch/summary").status, 422);
    served.assert_alive();
}

#[test]
fn a_bug_in_the_newest_part_is_no_bug_of_the_whole() {
    let tools = Tools { open_newest: Box::new(|_| panic!("a bug")), ..tools() };
    let served = Served::by(tools, LIMIT, |_| {});
    assert_eq!(served.until_judged("starve.hitch")["stage"], "ready");
}

#[test]
fn a_bug_in_reading_the_whole_is_said_though_its_newest_part_was_shown() {
    let newest = |path: &Path| open(path).ok();
    let whole = |_: &Path| panic!("a bug");
    let tools = Tools { open: Box::new(whole), open_newest: Box::new(newest), ..tools() };
    let served = Served::by(tools, LIMIT, |_| {});
    let status = served.until_judged("starve.hitch");
    assert_eq!(status["stage"], "failed", "{status}");
    served.assert_alive();
}
