//! The Firefox Profiler's processed format, as `docs-developer/CHANGELOG-formats.md` and
//! `src/types/profile.js` of its repository describe it.

use super::{Tables, export};
use serde_json::Value;
use std::collections::BTreeMap;
use unhitch_analysis::Analysis;
use unhitch_export::Of;

/// The version of the format in which each thread has tables of its own.
const VERSION: u64 = 55;

pub fn check(analysis: &Analysis<'_>) {
    let profile: Value = serde_json::from_slice(&export(analysis, "firefox", Of::Waits)).unwrap();
    let meta = &profile["meta"];
    assert_eq!(meta["preprocessedProfileVersion"], VERSION);
    let categories = meta["categories"].as_array().unwrap();
    let known: Vec<&str> =
        meta["markerSchema"].as_array().unwrap().iter().map(|of| text(&of["name"])).collect();
    let threads = profile["threads"].as_array().unwrap();
    for selected in numbers(&meta["initialSelectedThreads"]) {
        assert!((selected as usize) < threads.len());
    }
    let mut found = BTreeMap::<u64, Sums>::new();
    for thread in threads {
        let tid = tid(&thread["tid"]);
        check_thread(thread, categories, &known, found.entry(tid).or_default());
    }
    let tables = Tables::of(analysis);
    let mut expected = BTreeMap::<u64, Sums>::new();
    for is_cpu in [true, false] {
        let (table, stack, ns) = match is_cpu {
            true => ("samples", "stack", "weight_ns"),
            false => ("waits", "wait_stack", "waited_ns"),
        };
        for row in tables.rows(table) {
            if is_cpu || row[stack].as_array().is_some_and(|frames| !frames.is_empty()) {
                let sums = expected.entry(row["tid"].as_u64().unwrap()).or_default();
                sums.samples += 1;
                sums.us += row[ns].as_u64().unwrap() / 1_000;
            }
        }
    }
    found.retain(|_, sums| sums.samples > 0);
    assert_eq!(found, expected, "samples and microseconds of each thread");
}

#[derive(Default, PartialEq, Eq, Debug)]
struct Sums {
    samples: u64,
    us: u64,
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// A tid is a number, or a text that begins with it where several threads have had it.
fn tid(value: &Value) -> u64 {
    match value.as_u64() {
        Some(tid) => tid,
        None => text(value).split('.').next().unwrap().parse().unwrap(),
    }
}

/// The numbers of a column; those that are null are left out.
fn numbers(column: &Value) -> Vec<u64> {
    column.as_array().expect("a column").iter().filter_map(Value::as_u64).collect()
}

/// Every index is of something that is there, columns are as long as their table, times increase.
fn check_thread(thread: &Value, categories: &[Value], schemas: &[&str], sums: &mut Sums) {
    let length = |table: &str| thread[table]["length"].as_u64().expect("a length");
    for table in [
        "frameTable",
        "funcTable",
        "stackTable",
        "resourceTable",
        "nativeSymbols",
        "markers",
        "samples",
    ] {
        for (name, column) in thread[table].as_object().unwrap() {
            if let Some(column) = column.as_array() {
                assert_eq!(column.len() as u64, length(table), "{table}.{name}");
            }
        }
    }
    let strings = thread["stringArray"].as_array().expect("strings").len() as u64;
    let within = |table: &str, column: &str, limit: u64| {
        let all = numbers(&thread[table][column]);
        assert!(all.iter().all(|at| *at < limit), "{table}.{column}");
    };
    within("samples", "stack", length("stackTable"));
    within("stackTable", "frame", length("frameTable"));
    within("frameTable", "func", length("funcTable"));
    within("frameTable", "category", categories.len() as u64);
    within("funcTable", "name", strings);
    within("markers", "name", strings);
    within("markers", "category", categories.len() as u64);
    // A stack's caller comes before it.
    let callers = thread["stackTable"]["prefix"].as_array().expect("a column");
    for (at, caller) in callers.iter().enumerate() {
        assert!(caller.as_u64().is_none_or(|caller| (caller as usize) < at));
    }
    let times = &thread["samples"];
    let times = times["time"].as_array().or_else(|| times["timeDeltas"].as_array());
    let mut last = f64::MIN;
    if thread["samples"]["time"].is_array() {
        for time in times.expect("times") {
            let time = time.as_f64().unwrap();
            assert!(last <= time, "samples are in the order of time");
            last = time;
        }
    } else {
        // The first is a time, the others differences.
        assert!(times.expect("times").iter().all(|delta| delta.as_f64().unwrap() >= 0.0));
    }
    for data in thread["markers"]["data"].as_array().unwrap() {
        assert!(schemas.contains(&text(&data["type"])), "{data}");
        if let Some(cause) = data["cause"]["stack"].as_u64() {
            assert!(cause < length("stackTable"));
        }
    }
    sums.samples += length("samples");
    sums.us += numbers(&thread["samples"]["weight"]).iter().sum::<u64>();
}
