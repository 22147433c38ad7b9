//! One large recording, for benchmarks: two threads that wake each other in turn, and nothing else.

use std::io::{BufWriter, Write};
use std::path::Path;
use unhitch_formats::perf_data::attr::sample;
use unhitch_formats::perf_data::record::{self, Sample, SampleId};
use unhitch_formats::perf_data::tracepoints::{self, SWITCH, Task, Tracepoint, WAKING};
use unhitch_formats::perf_data::{EventAttr, EventDesc, Features, write as write_perf_data};
use unhitch_model::linux::CLOCK_MONOTONIC;
use unhitch_model::{TaskState, Time, WakeFlags};

const FIELDS: u64 = sample::IDENTIFIER | sample::TID | sample::TIME | sample::CPU | sample::RAW;
/// Switches in a part of the file.
const PART: u64 = 1_000_000;

/// Writes a recording of `waits` waits.
pub fn write(path: &Path, waits: u64) -> Result<(), Box<dyn std::error::Error>> {
    let base = EventAttr::on_clock(CLOCK_MONOTONIC);
    let of = |of: &Tracepoint| EventDesc::tracepoint(&base, (of.system, of.name), of.id, FIELDS);
    let features = Features {
        host: "made-up".to_owned(),
        kernel: "made-up".to_owned(),
        arch: "x86_64".to_owned(),
        cpus_online: 1,
        cpus_available: 1,
        tracing_data: tracepoints::tracing_data(&[SWITCH, WAKING]),
        ..Features::default()
    };
    let parts: Vec<Vec<u8>> = (0..waits.div_ceil(PART))
        .map(|part| events(part * PART, ((part + 1) * PART).min(waits)))
        .collect();
    let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    let mut file = BufWriter::new(std::fs::File::create(path)?);
    write_perf_data(&mut file, &[of(&SWITCH), of(&WAKING)], &features, &slices)?;
    file.flush()?;
    Ok(())
}

/// Each switch ends a wait of one thread and begins one of the other.
fn events(from: u64, until: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut raw = Vec::new();
    let names = ["ping", "pong"];
    for number in from..until {
        let (own, other) = ((number % 2) as usize, (number % 2 + 1) as usize % 2);
        let task = |at: usize| Task { comm: names[at].as_bytes(), tid: 10 + at as u32, prio: 120 };
        let id = |at: u64, of: Tracepoint| SampleId {
            pid: 10 + own as u32,
            tid: 10 + own as u32,
            time: Time::from_nanos(1_000 + at),
            cpu: 0,
            id: u64::from(of.id),
        };
        raw.clear();
        tracepoints::waking(&mut raw, 10 + own as u32, WakeFlags::default(), &task(other), 0);
        let waking = Sample { id: id(number * 1_000, WAKING), raw: &raw, ..Sample::default() };
        record::sample(&mut out, FIELDS, &waking);
        raw.clear();
        tracepoints::switch(&mut raw, &task(own), TaskState::Sleeping, &task(other));
        let switch =
            Sample { id: id(number * 1_000 + 500, SWITCH), raw: &raw, ..Sample::default() };
        record::sample(&mut out, FIELDS, &switch);
    }
    out
}
