//! Wraps records into a small `perf.data`, as a file or as perf writes it into a pipe.
//!
//! *Why whole files are not enough*: most of a file consists of tables of offsets to the rest.
//! Here the tables are always right, and every mutation changes a record.

use unhitch_formats::perf_data::{
    EventAttr, EventDesc, Features, attr::sample, record::kind, write,
};
use unhitch_formats::tracepoint::TracingData;
use unhitch_model::linux::CLOCK_MONOTONIC;

const COMMON: &str = "format:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";
const SWITCH: &str = "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\
    \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n\n\
    print fmt: \"\"\n";
const WAKING: &str = "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\
    \tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;\n\tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n";
const BEGIN: &str = "\tfield:void * lock_addr;\toffset:8;\tsize:8;\tsigned:0;\n\
    \tfield:unsigned int flags;\toffset:16;\tsize:4;\tsigned:0;\n\nprint fmt: \"\"\n";
const END: &str = "\tfield:void * lock_addr;\toffset:8;\tsize:8;\tsigned:0;\n\
    \tfield:int ret;\toffset:16;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n";

/// System, name, id, fields after the common ones.
const TRACEPOINTS: [(&str, &str, u16, &str); 6] = [
    ("sched", "sched_switch", 372, SWITCH),
    ("sched", "sched_waking", 375, WAKING),
    ("sched", "sched_wakeup_new", 373, WAKING),
    ("lock", "contention_begin", 40, BEGIN),
    ("lock", "contention_end", 41, END),
    ("sched", "sched_migrate_task", 376, WAKING),
];
/// The id of the clock's event. The ids of tracepoint events are the tracepoints' own.
pub const CLOCK_ID: u64 = 1;
/// The id of the event that carries the side-band.
pub const SIDE_BAND_ID: u64 = 2;
/// The sample type of tracepoints.
pub const TRACEPOINT_SAMPLE: u64 =
    sample::IDENTIFIER | sample::TID | sample::TIME | sample::CPU | sample::CALLCHAIN | sample::RAW;
/// The sample type of the clock.
pub const CLOCK_SAMPLE: u64 =
    sample::IDENTIFIER | sample::IP | sample::TID | sample::TIME | sample::CPU | sample::CALLCHAIN;

/// The descriptions of the tracepoints.
pub fn tracing_data() -> TracingData {
    let text = |(_, name, id, fields): &(&str, &str, u16, &str)| {
        format!("name: {name}\nID: {id}\n{COMMON}{fields}")
    };
    TracingData {
        page_size: 4096,
        events: TRACEPOINTS.iter().map(|event| (event.0.to_owned(), text(event))).collect(),
        ..TracingData::default()
    }
}

/// The events of the file.
pub fn events() -> Vec<EventDesc> {
    let base = EventAttr::on_clock(CLOCK_MONOTONIC);
    let tracepoint = |(system, name, id, _): &(&str, &str, u16, &str)| {
        EventDesc::tracepoint(&base, (system, name), *id, TRACEPOINT_SAMPLE)
    };
    let others = [
        EventDesc::cpu_clock(&base, 1, CLOCK_SAMPLE, CLOCK_ID),
        EventDesc::side_band(&base, CLOCK_SAMPLE, SIDE_BAND_ID),
    ];
    TRACEPOINTS.iter().map(tracepoint).chain(others).collect()
}

/// A file that holds `records`.
pub fn file(records: &[u8]) -> Vec<u8> {
    let features = Features { tracing_data: tracing_data(), cpus_online: 2, ..Features::default() };
    let mut out = Vec::new();
    write(&mut out, &events(), &features, &[records]).expect("a vector takes everything");
    out
}

/// The beginning of a pipe: the header, and records that describe the events.
pub fn pipe_head() -> Vec<u8> {
    let mut out = b"PERFILE2".to_vec();
    out.extend(16_u64.to_le_bytes());
    for event in events() {
        let attr = event.attr.encode();
        let ids: Vec<u8> = event.ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        put(&mut out, kind::ATTR, &[&attr, &ids]);
        let mut name = event.name.into_bytes();
        name.resize(name.len() + 8 - name.len() % 8, 0);
        put(&mut out, kind::EVENT_UPDATE, &[&2_u64.to_le_bytes(), &ids, &name]);
    }
    let mut data = tracing_data().encode();
    data.resize(data.len().next_multiple_of(8), 0);
    put(&mut out, kind::TRACING_DATA, &[&(data.len() as u64).to_le_bytes()]);
    out.extend(data);
    out
}

fn put(out: &mut Vec<u8>, kind: u32, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    out.extend(kind.to_le_bytes());
    out.extend([0; 2]);
    out.extend(u16::try_from(len + 8).expect("a short record").to_le_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}
