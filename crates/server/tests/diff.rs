//! What differs between two traces of the folder.

use crate::support::Served;
use serde_json::Value;

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("no whole number: {value}"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or_else(|| panic!("no list: {value}"), Vec::as_slice)
}

/// The starved lock, beside processes that exit one after the other.
fn served() -> Served {
    Served::new(1 << 20, |folder| {
        unhitch_golden::move_my_mouse().write(&folder.join("mouse.hitch")).unwrap();
    })
}

#[test]
fn the_difference_of_the_partitions_sums_to_that_of_the_lengths() {
    let served = served();
    let answer = served.ask("/api/diff?before=starve.hitch&after=mouse.hitch");
    let stall = &answer["diff"]["stall"];
    let lines = list(&stall["partition"]);
    let sum = |key: &str| lines.iter().map(|line| number(&line[key])).sum::<i64>();
    assert_eq!(sum("difference_ns"), number(&stall["difference_ns"]));
    // Each side's lines are its stall, which is also sent in full.
    let length = |side: &str| answer[side]["duration_ns"].as_i64().unwrap_or(0);
    assert_eq!((sum("before_ns"), sum("after_ns")), (length("before"), length("after")));
    assert!(length("before") > 0 && answer["before"]["id"] == 1, "{}", answer["before"]);
    assert!(lines.iter().all(|line| line["label"].is_string()));
    assert!(answer["text"].as_str().unwrap().starts_with("DIFFERENCE"));
}

#[test]
fn a_trace_does_not_differ_from_itself() {
    let served = served();
    let answer = served.ask("/api/diff?before=starve.hitch&after=starve.hitch");
    assert_eq!(answer["diff"]["is_noise"], true);
    assert_eq!(answer["before"], answer["after"]);
    let flame = served.ask("/api/diff/flame?before=starve.hitch&after=starve.hitch&of=wait");
    assert_eq!(flame["nodes"]["before"], flame["nodes"]["after"]);
    let one = served.ask("/api/t/starve.hitch/flame?of=wait");
    assert_eq!(flame["nodes"]["before"][0], one["total"]);
}

#[test]
fn a_side_can_be_narrowed() {
    let served = served();
    let path = "/api/diff/flame?before=starve.hitch&after=starve.hitch&of=wait";
    let answer =
        served.ask(&format!("{path}&after_from=1000000000&after_to=1500000000&after_thread=1"));
    assert_eq!(answer["after_window_ns"], 500_000_000);
    let total = |side: &str| number(&answer["nodes"][side][0]);
    let alone =
        served.ask("/api/t/starve.hitch/flame?of=wait&from=1000000000&to=1500000000&thread=1");
    assert_eq!(total("after"), number(&alone["total"]));
    assert!(total("after") < total("before"));
}

#[test]
fn both_traces_must_be_there() {
    let served = served();
    assert_eq!(served.get("/api/diff?before=starve.hitch").status, 400);
    assert_eq!(served.get("/api/diff?before=starve.hitch&after=none.hitch").status, 404);
    assert_eq!(served.get("/api/diff?before=starve.hitch&after=../starve.hitch").status, 404);
}
