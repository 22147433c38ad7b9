//! Writes a `perf.data` that `perf` itself reads.
//!
//! The layout follows `tools/perf/util/header.c`: header, each event's ids, the events' attributes,
//! the records, directly behind them the table of feature sections in the order of their bits, then
//! the sections. For a save, all sizes are known before the first byte is written, so it streams
//! straight from the copies of the rings into the file. For an export, the length of the records is
//! filled in at the end.

use super::{
    attr::{EventAttr, flag},
    description::{EventDesc, Features},
    feature,
    header::{FILE_HEADER_LEN, MAGIC},
    record::{self, RECORD_HEADER_LEN, kind},
};
use std::io::{self, Seek, SeekFrom, Write};

/// Writes a whole file. `data` holds the records in any number of pieces. Returns the length of the
/// file in bytes.
///
/// # Errors
/// Those of `out`.
pub fn write(
    out: &mut (impl Write + ?Sized),
    events: &[EventDesc],
    features: &Features,
    data: &[&[u8]],
) -> io::Result<u64> {
    let data_len: u64 = data.iter().map(|piece| piece.len() as u64).sum();
    let [head, tail] = around(events, features, data_len);
    out.write_all(&head)?;
    for piece in data {
        out.write_all(piece)?;
    }
    out.write_all(&tail)?;
    Ok(head.len() as u64 + data_len + tail.len() as u64)
}

/// Writes a whole file to the start of `out`. `put` writes the records, whose length need not be
/// known before.
///
/// # Errors
/// Those of `out` and `put`.
pub fn write_streamed<W: Write + Seek, T>(
    out: &mut W,
    events: &[EventDesc],
    features: &Features,
    put: impl FnOnce(&mut W) -> io::Result<T>,
) -> io::Result<T> {
    let [head, _] = around(events, features, 0);
    out.write_all(&head)?;
    let result = put(out)?;
    let data_len = out.stream_position()? - head.len() as u64;
    let [head, tail] = around(events, features, data_len);
    out.write_all(&tail)?;
    let end = out.stream_position()?;
    out.seek(SeekFrom::Start(0))?;
    out.write_all(&head)?;
    out.seek(SeekFrom::Start(end))?;
    Ok(result)
}

/// A file that only describes events, machine and recording. It has one record, which means nothing:
/// a file without any would be that of a recorder that was killed.
pub fn describe(events: &[EventDesc], features: &Features) -> Vec<u8> {
    let mut record = kind::FINISHED_ROUND.to_le_bytes().to_vec();
    record.extend_from_slice(&[0, 0, RECORD_HEADER_LEN as u8, 0]);
    let [mut file, tail] = around(events, features, record.len() as u64);
    file.extend(record);
    file.extend(tail);
    file
}

/// What is before and after `data_len` bytes of records in a file. The length of the first part
/// depends on the events alone, so that it can be written before the records and again after them.
/// Without records and features, it is that of a file that is still being written.
pub fn around(events: &[EventDesc], features: &Features, data_len: u64) -> [Vec<u8>; 2] {
    let attr_len = attr_len(events);
    let ids_len: u64 = events.iter().map(|event| 8 * event.ids.len() as u64).sum();
    let attrs_at = FILE_HEADER_LEN + ids_len;
    let attrs_len = events.len() as u64 * (attr_len as u64 + 16);
    let data_at = attrs_at + attrs_len;

    let sections = sections(events, features, attr_len);
    let mut head = Vec::new();
    head.extend_from_slice(MAGIC);
    put_u64s(
        &mut head,
        &[FILE_HEADER_LEN, attr_len as u64 + 16, attrs_at, attrs_len, data_at, data_len, 0, 0],
    );
    let mut bits = [0u64; 4];
    for (feature, _) in &sections {
        bits[*feature as usize / 64] |= 1 << (feature % 64);
    }
    put_u64s(&mut head, &bits);
    for event in events {
        put_u64s(&mut head, &event.ids);
    }
    let mut ids_at = FILE_HEADER_LEN;
    for event in events {
        head.extend_from_slice(&event.attr.encode_len(attr_len));
        let len = 8 * event.ids.len() as u64;
        put_u64s(&mut head, &[ids_at, len]);
        ids_at += len;
    }

    let mut at = data_at + data_len + 16 * sections.len() as u64;
    let mut tail = Vec::new();
    for (_, section) in &sections {
        put_u64s(&mut tail, &[at, section.len() as u64]);
        at += section.len() as u64;
    }
    sections.iter().for_each(|(_, section)| tail.extend_from_slice(section));
    [head, tail]
}

/// The shortest layout that holds every event, because an older perf refuses a longer one than it
/// knows.
fn attr_len(events: &[EventDesc]) -> usize {
    let long = events.iter().any(|event| {
        event.attr.encode()[EventAttr::COMPATIBLE_LEN..].iter().any(|&byte| byte != 0)
    });
    if long { EventAttr::ENCODED_LEN } else { EventAttr::COMPATIBLE_LEN }
}

/// The feature sections, in the order of their bits.
fn sections(events: &[EventDesc], features: &Features, attr_len: usize) -> Vec<(u32, Vec<u8>)> {
    let mut sections = Vec::new();
    let mut add = |feature: u32, fill: &dyn Fn(&mut Vec<u8>)| {
        let mut section = Vec::new();
        fill(&mut section);
        sections.push((feature, section));
    };
    if !features.tracing_data.events.is_empty() {
        add(feature::TRACING_DATA, &|out| out.extend(features.tracing_data.encode()));
    }
    if !features.kernel_build_id.is_empty() {
        let path = feature::KERNEL_PATH;
        add(feature::BUILD_ID, &|out| {
            record::kernel_build_id(out, path, &features.kernel_build_id);
        });
    }
    add(feature::HOSTNAME, &|out| put_text(out, &features.host));
    add(feature::OS_RELEASE, &|out| put_text(out, &features.kernel));
    add(feature::VERSION, &|out| put_text(out, &features.producer));
    add(feature::ARCH, &|out| put_text(out, &features.arch));
    add(feature::NR_CPUS, &|out| put_u32s(out, &[features.cpus_available, features.cpus_online]));
    add(feature::TOTAL_MEM, &|out| put_u64s(out, &[features.memory_kib]));
    add(feature::CMDLINE, &|out| {
        put_u32s(out, &[features.command_line.len() as u32]);
        features.command_line.iter().for_each(|word| put_text(out, word));
    });
    add(feature::EVENT_DESC, &|out| {
        put_u32s(out, &[events.len() as u32, attr_len as u32]);
        for event in events {
            out.extend_from_slice(&event.attr.encode_len(attr_len));
            put_u32s(out, &[event.ids.len() as u32]);
            put_text(out, &event.name);
            put_u64s(out, &event.ids);
        }
    });
    if let Some(window) = features.sample_window {
        add(feature::SAMPLE_TIME, &|out| {
            put_u64s(out, &[window.start.nanos(), window.end.nanos()])
        });
    }
    if events.iter().any(|event| event.attr.has(flag::USE_CLOCKID)) {
        // The clock's resolution in nanoseconds.
        add(feature::CLOCK_ID, &|out| put_u64s(out, &[1]));
    }
    if let Some(clock) = features.clock_id {
        add(feature::CLOCK_DATA, &|out| {
            put_u32s(out, &[1, clock.clockid]);
            put_u64s(out, &[clock.wall_ns, clock.clock_ns]);
        });
    }
    sections
}

fn put_u32s(out: &mut Vec<u8>, words: &[u32]) {
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

fn put_u64s(out: &mut Vec<u8>, words: &[u64]) {
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

/// `perf_header_string`: the length with padding, then the text with at least one NUL, padded to 64
/// bytes.
fn put_text(out: &mut Vec<u8>, text: &str) {
    let len = (text.len() + 1).next_multiple_of(64);
    put_u32s(out, &[len as u32]);
    out.extend_from_slice(text.as_bytes());
    out.resize(out.len() + len - text.len(), 0);
}
