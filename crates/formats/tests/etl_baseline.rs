//! Compares our reading of three real traces with the output of TraceEvent.

use crate::etl_support::explained::{Verdict, View, explain};
use crate::etl_support::names::is_same;
use crate::etl_support::{Printed, baseline, content, renderings};
use std::collections::{BTreeMap, HashMap};
use unhitch_model::{Trace, Value};

/// Our event for each printed one: of the same time, CPU, length and name, and of those the one
/// whose fields are most alike.
fn matched(trace: &Trace, printed: &[Printed]) -> Vec<Option<usize>> {
    let mut by_place: HashMap<(String, u16, usize), Vec<usize>> = HashMap::new();
    for event in 0..trace.events.len() {
        by_place
            .entry((ms(trace, event), trace.events.cpu[event], recorded_len(trace, event)))
            .or_default()
            .push(event);
    }
    let mut taken = vec![false; trace.events.len()];
    printed
        .iter()
        .map(|line| {
            let candidates = by_place.get(&(line.ms.clone(), line.cpu, line.len))?;
            let alike = |event: usize| {
                line.fields.iter().filter(|field| ours(trace, event, field).0).count()
            };
            let candidates = candidates
                .iter()
                .copied()
                .filter(|event| !taken[*event] && same_name(trace, *event, line));
            let best = candidates.max_by_key(|event| (alike(*event), usize::MAX - event))?;
            taken[best] = true;
            Some(best)
        })
        .collect()
}

fn same_name(trace: &Trace, event: usize, line: &Printed) -> bool {
    let kind = trace.events.kind_of(event).unwrap();
    is_same(&line.kind, trace.name(kind.provider), trace.name(kind.name))
}

/// Milliseconds with three decimals, half up.
fn ms(trace: &Trace, event: usize) -> String {
    let us = (trace.events.time[event].nanos() + 500) / 1000;
    format!("{}.{:03}", us / 1000, us % 1000)
}

/// The payload without what we add behind it.
fn recorded_len(trace: &Trace, event: usize) -> usize {
    let mut len = trace.events.payload(event).len();
    if trace.events.kind_of(event).unwrap().provider_guid != [0; 16] {
        return len;
    }
    let kind = trace.events.kind_of(event).unwrap();
    kind.layout.read(trace.events.payload(event), |field, value| {
        match (trace.name(field.name), &value) {
            ("ElapsedMs", _) => len -= 8,
            ("FileName", Value::Text(name))
                if ["DiskIO/", "Memory/"]
                    .iter()
                    .any(|class| trace.name(kind.name).starts_with(class)) =>
            {
                len -= (name.encode_utf16().count() + 1) * 2;
            }
            _ => {}
        }
    });
    len
}

/// Whether our field agrees, its text if there is one, and its number.
fn ours(
    trace: &Trace,
    event: usize,
    (name, printed): &(String, String),
) -> (bool, Option<String>, Option<u64>) {
    let kind = trace.events.kind_of(event).unwrap();
    let mut found = None;
    let plain = |name: &str| {
        name.chars().filter(|c| c.is_alphanumeric()).collect::<String>().to_lowercase()
    };
    kind.layout.read(trace.events.payload(event), |field, value| {
        if plain(trace.name(field.name)) == plain(name) {
            let same = renderings(trace, &value, field.map).contains(printed);
            let number = if let Value::Signed(n) = value { Some(n as u64) } else { value.as_u64() };
            found = Some((same, Some(value.to_string()), number));
        }
    });
    found.unwrap_or((false, None, None))
}

/// Compares a baseline: every printed event is there, and all printed fields are ours or explained.
/// Returns how many fields there are, and how many of them are from elsewhere.
fn compare(name: &str) -> Option<(usize, usize)> {
    let bytes = content(&format!("{name}.etl.zip"))?;
    let (printed, _) = baseline(&format!("{name}.baseline.txt"))?;
    let trace = unhitch_formats::etl::every_event(&[&bytes]).unwrap();
    let events = matched(&trace, &printed);
    let missing: Vec<&Printed> = printed
        .iter()
        .zip(&events)
        .filter(|(_, event)| event.is_none())
        .map(|(line, _)| line)
        .collect();
    assert!(missing.is_empty(), "not found: {missing:?}");
    let (mut all, mut elsewhere) = (0, 0);
    let mut unexplained = Vec::new();
    for (line, event) in printed.iter().zip(&events) {
        let event = event.unwrap();
        for field in &line.fields {
            all += 1;
            let (same, value, number) = ours(&trace, event, field);
            if same {
                continue;
            }
            let view = View { trace: &trace, event, printed_pid: &line.pid };
            match explain(&line.kind, &field.0, &field.1, number, value.is_some(), &view) {
                Verdict::Same => {}
                Verdict::Elsewhere(_) => elsewhere += 1,
                Verdict::Unexplained => unexplained.push(format!(
                    "{} {}: printed {:?}, ours {value:?}",
                    line.kind, field.0, field.1
                )),
            }
        }
    }
    assert!(
        unexplained.is_empty(),
        "{} differences without explanation:\n{}",
        unexplained.len(),
        unexplained.join("\n")
    );
    Some((all, elsewhere))
}

#[test]
fn net_is_read_as_trace_event_reads_it() {
    let Some((all, elsewhere)) = compare("net.4.5.2.x64") else { return };
    assert_eq!(all, 2680);
    assert!(elsewhere * 100 <= all, "{elsewhere} of {all} fields differ");
}

#[test]
fn primitive_types_are_read_as_trace_event_reads_them() {
    let Some(found) = compare("primitive-types") else { return };
    assert_eq!(found, (81, 5), "the five that TraceEvent gets wrong");
}

#[test]
fn garbage_collections_are_read_as_trace_event_reads_them() {
    let Some(found) = compare("gcevents") else { return };
    // Two Depths, and a TypeName that is not empty.
    assert!(found.0 == 296 && found.1 <= 7, "{found:?}");
}

/// What TraceEvent drops before it counts: samples of idle CPUs, stacks, threads that were there at
/// the beginning or the end, names of files.
fn dropped_by_trace_event(trace: &Trace) -> BTreeMap<String, u64> {
    let mut counts = trace.by_kind.clone();
    let idle = (0..trace.events.len()).filter(|event| {
        let kind = trace.events.kind_of(*event).unwrap();
        let number = |name| {
            trace
                .events
                .field(*event, trace.strings.find(name).unwrap())
                .and_then(|value| value.as_u64())
        };
        trace.name(kind.name) == "PerfInfo/Sample"
            && number("ThreadID") == Some(0)
            && number("Flags").is_some_and(|flags| flags & 3 == 0)
    });
    *counts.get_mut("PerfInfo/Sample").unwrap() -= idle.count() as u64;
    for gone in [
        "Thread/DCStart",
        "Thread/DCStop",
        "FileIO/FileCreate",
        "FileIO/FileDelete",
        "FileIO/FileRundown",
    ] {
        counts.remove(gone);
    }
    counts.retain(|name, _| !name.starts_with("StackWalk/"));
    counts
}

#[test]
fn kernel_events_are_as_many_as_trace_event_counts() {
    let (Some(bytes), Some((_, counts))) =
        (content("net.4.5.2.x64.etl.zip"), baseline("net.4.5.2.x64.baseline.txt"))
    else {
        return;
    };
    let trace = unhitch_formats::etl::every_event(&[&bytes]).unwrap();
    let ours = dropped_by_trace_event(&trace);
    let mut compared = 0;
    for (kind, count) in &counts {
        let Some((class, name)) = kind.split_once('/') else { continue };
        if ["Windows Kernel", "MSNT_SystemTrace", "KernelTraceControl"].contains(&class) {
            assert_eq!(ours.get(name), Some(count), "{kind}");
            compared += 1;
        }
    }
    assert_eq!(compared, 56);
}
