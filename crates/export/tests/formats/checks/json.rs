//! JSON: rows and times of the tables, counted in the trace and in the timelines.

use super::{Tables, export};
use serde_json::Value;
use unhitch_analysis::{Analysis, State};
use unhitch_export::Of;
use unhitch_model::ThreadId;

pub fn check(analysis: &Analysis<'_>) {
    let (trace, timeline) = (analysis.trace, &analysis.timeline);
    let json: Value = serde_json::from_slice(&export(analysis, "json", Of::Waits)).unwrap();
    assert_eq!(json["version"], 1);
    assert_eq!(json["origin_ns"], trace.origin().nanos());
    for table in json["tables"].as_array().unwrap() {
        let mut columns: Vec<&str> = table["columns"]
            .as_array()
            .unwrap()
            .iter()
            .map(|column| column["name"].as_str().unwrap())
            .collect();
        columns.sort_unstable();
        for row in table["rows"].as_array().unwrap() {
            let mut fields: Vec<&str> =
                row.as_object().unwrap().keys().map(String::as_str).collect();
            fields.sort_unstable();
            assert_eq!(fields, columns, "{}", table["table"]);
        }
    }
    let tables = Tables::of(analysis);
    let sum = |table: &str, column: &str| -> u64 {
        tables.rows(table).iter().filter_map(|row| row[column].as_u64()).sum()
    };
    let wakes: Vec<u64> =
        tables.rows("wakes").iter().map(|row| row["woken_at_ns"].as_u64().unwrap()).collect();
    let wakings: Vec<u64> = trace.wakings.time.iter().map(|time| time.nanos()).collect();
    assert_eq!(wakes, wakings);
    let samples = trace.samples.time.len() as u64;
    assert_eq!(tables.rows("samples").len() as u64, samples);
    assert_eq!(sum("samples", "weight_ns"), samples * trace.meta.sample_period_ns);
    let arrivals = (0..trace.switches.len()).filter(|row| !trace.switches.next[*row].is_idle());
    assert_eq!(tables.rows("switches").len(), arrivals.count());

    let (mut ran, mut slept, mut runnable) = (0, 0, 0);
    for thread in (1..timeline.threads() as u32).map(ThreadId) {
        timeline.each_segment(trace, thread, timeline.window(), &mut |segment| {
            let of_state = match segment.state {
                State::Ran => &mut ran,
                State::Sleeping(_) => &mut slept,
                State::Runnable { .. } => &mut runnable,
                State::Unknown => return,
            };
            *of_state += segment.window.duration_ns();
        });
    }
    assert_eq!(sum("threads", "ran_ns"), ran);
    assert_eq!(sum("threads", "slept_ns"), slept);
    assert_eq!(sum("threads", "runnable_ns"), runnable);
    assert_eq!(sum("waits", "waited_ns"), slept);
}
