//! A damaged container is reported as such, and read as far as possible.

use crate::synthetic::{At, Chain, IDLE, SyntheticTrace, Task};
use std::collections::BTreeMap;
use std::io::{Cursor, Read, Write};
use unhitch_formats::{
    Error,
    container::{
        ContainerMeta, ContainerParts, CpuWindow, SymbolFile, read_meta, set_notes, write_container,
    },
    read_bytes,
};
use unhitch_model::{FrameId, Symbol, Trace};

const A: Task = Task { pid: 100, tid: 100, comm: "alpha" };
const B: Task = Task { pid: 200, tid: 200, comm: "beta" };

fn container() -> Vec<u8> {
    let mut synthetic = SyntheticTrace::default();
    synthetic.comm(0, A, false);
    synthetic.comm(0, B, false);
    for n in 0..200 {
        let chain = Chain { kernel: &[0xffff_ffff_8100_0000], user: &[0x40_0010] };
        synthetic.switch(At { ns: 10 + n * 20, cpu: 0 }, A, 1, B, chain);
        synthetic.switch(At { ns: 20 + n * 20, cpu: 0 }, B, 1, IDLE, chain);
        synthetic.waking(At { ns: 25 + n * 20, cpu: 0 }, B, 0x10, A, chain);
    }
    let file = synthetic.file();
    let mut named = read_bytes(&file).unwrap();
    let function = named.strings.intern("schedule");
    named.symbols.set(FrameId(0), &[Symbol { function, ..Symbol::default() }]);
    let meta = ContainerMeta {
        version: 1,
        host: "a-host-with-a-long-name".to_owned(),
        spans: vec![CpuWindow { cpu: 0, start_ns: 5, end_ns: 5000 }],
        ..ContainerMeta::default()
    };
    let symbols = SymbolFile::from_trace(&named);
    let parts = ContainerParts {
        meta: &meta,
        perf_data: &mut |out| out.write_all(&file),
        rings: None,
        symbols: Some(&symbols),
        notes: Some("it hung when I typed"),
        extra: vec![(
            "lab.json".to_owned(),
            br#"{"victim":"alpha","culprit":"beta","pattern":"long_hold"}"#.to_vec(),
        )],
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.hitch");
    write_container(&path, parts).unwrap();
    std::fs::read(&path).unwrap()
}

/// Where each member's bytes lie.
fn members(file: &[u8]) -> BTreeMap<String, std::ops::Range<usize>> {
    let mut zip = zip::ZipArchive::new(Cursor::new(file)).unwrap();
    let range = |index| {
        let entry = zip.by_index_raw(index).unwrap();
        let start = entry.data_start().unwrap() as usize;
        (entry.name().unwrap().into_owned(), start..start + entry.compressed_size() as usize)
    };
    (0..zip::ZipArchive::new(Cursor::new(file)).unwrap().len()).map(range).collect()
}

/// A member's content; nothing where zip finds damage.
fn unpacked(file: &[u8], name: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut zip = zip::ZipArchive::new(Cursor::new(file)).ok()?;
    zip.by_name(name).ok()?.read_to_end(&mut bytes).ok().map(|_| bytes)
}

/// Everything in which two readings of the trace could differ.
fn content(trace: &Trace) -> String {
    let symbols: Vec<_> = (0..trace.stacks.frames().len())
        .map(|frame| trace.frame_names(FrameId(frame as u32)))
        .collect();
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {symbols:?} {:?} {:?}",
        trace.meta,
        trace.switches,
        trace.wakings,
        trace.spans,
        trace.by_kind,
        trace.stacks.len(),
        trace.threads.iter().map(|(_, thread)| thread.names.clone()).collect::<Vec<_>>(),
        trace.strings.len()
    )
}

/// What is wrong with reading `damaged`, if its content differs without a warning that contains
/// `names`.
fn without_warning(damaged: &[u8], whole: &str, names: &str) -> Option<String> {
    match read_bytes(damaged) {
        Err(_) => None,
        Ok(trace) => {
            let warnings: Vec<String> = trace.warnings.lines().collect();
            let warned = warnings.iter().any(|warning| warning.contains(names));
            let differs = || content(&trace) != whole;
            (!warned && (!names.is_empty() || differs())).then(|| format!("{names}: {warnings:?}"))
        }
    }
}

#[test]
fn every_member_with_a_flipped_bit_is_named() {
    let file = container();
    let whole = read_bytes(&file).unwrap();
    assert!(whole.warnings.is_empty(), "{:?}", whole.warnings);
    assert_eq!(whole.meta.host, "a-host-with-a-long-name");
    let whole = content(&whole);
    let members = members(&file);
    assert_eq!(
        members.keys().map(String::as_str).collect::<Vec<_>>(),
        ["lab.json", "meta.json", "notes.md", "perf.data", "symbols.json"]
    );
    let mut damaged = file.clone();
    for (name, range) in &members {
        // Only every 7th byte of the records, which are the largest part.
        let step = if name == "perf.data" { 7 } else { 1 };
        for at in range.clone().step_by(step) {
            let bit = 1 << (at % 8);
            damaged[at] ^= bit;
            // The last bits of packed data are padding: without them the member is what it was.
            let same = || unpacked(&damaged, name) == unpacked(&file, name);
            assert!(
                without_warning(&damaged, &whole, name).is_none_or(|_| same()),
                "byte {at} of {name}"
            );
            damaged[at] ^= bit;
        }
    }
}

#[test]
fn no_flipped_bit_changes_a_trace_without_a_warning() {
    let file = container();
    let whole = content(&read_bytes(&file).unwrap());
    let perf_data = members(&file)["perf.data"].clone();
    let mut damaged = file.clone();
    // Every bit of all that is not in the records: headers, padding, directory, small members.
    for at in (0..file.len()).filter(|at| !perf_data.contains(at)) {
        for bit in 0..8 {
            damaged[at] ^= 1 << bit;
            assert_eq!(
                without_warning(&damaged, &whole, ""),
                None,
                "bit {bit} of byte {at} of {}",
                file.len()
            );
            damaged[at] ^= 1 << bit;
        }
    }
}

#[test]
fn what_can_be_read_is_read() {
    let file = container();
    let members = members(&file);
    let read = |name: &str| {
        let mut damaged = file.clone();
        let range = members[name].clone();
        damaged[range].iter_mut().for_each(|byte| *byte ^= 0x55);
        read_bytes(&damaged)
    };
    for name in ["meta.json", "symbols.json", "notes.md", "lab.json"] {
        let trace = read(name).unwrap();
        assert_eq!((trace.switches.len(), trace.wakings.len()), (400, 200), "{name}");
        assert_eq!(trace.meta.host == "a-host-with-a-long-name", name != "meta.json");
        assert_eq!(
            trace.stack_names(trace.switches.stack[0]).contains(&"schedule".to_owned()),
            name != "symbols.json"
        );
    }
    assert!(read("perf.data").is_err(), "nothing of it is a record");

    // One time stamp of one record: that record is wrong, all others are as they were.
    let mut damaged = file.clone();
    let end = members["perf.data"].end;
    let at = members["perf.data"].start + (end - members["perf.data"].start) / 2;
    damaged[at] ^= 0x10;
    let trace = read_bytes(&damaged).unwrap();
    assert!(
        trace.switches.len() + trace.wakings.len() >= 590,
        "{} {}",
        trace.switches.len(),
        trace.wakings.len()
    );
    let first = trace.warnings.lines().next().unwrap();
    assert!(
        first.starts_with("perf.data in the trace file is damaged (its checksum is "),
        "{first}"
    );
}

#[test]
fn a_damaged_container_is_neither_listed_as_whole_nor_written_anew() {
    let file = container();
    let members = members(&file);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.hitch");
    let mut damaged = file.clone();
    damaged[members["perf.data"].start + 1000] ^= 4;
    std::fs::write(&path, &damaged).unwrap();
    let error = set_notes(&path, "a new note").unwrap_err();
    assert!(matches!(&error, Error::Member { name, .. } if name == "perf.data"), "{error:?}");
    assert!(
        std::fs::read(&path).unwrap() == damaged,
        "a new checksum would have hidden the damage"
    );

    let mut damaged = file.clone();
    damaged[members["meta.json"].start + 10] ^= 4;
    std::fs::write(&path, &damaged).unwrap();
    let error = read_meta(&path).unwrap_err().to_string();
    assert!(error.contains("meta.json in the trace file is damaged"), "{error}");
}

/// A disk that filled up, a download that broke off, a crash while names were added.
#[test]
fn a_container_cut_anywhere_is_read_as_far_as_it_goes() {
    let file = container();
    let whole = read_bytes(&file).unwrap();
    let members = members(&file);
    let packed = |name: &str| members[name].clone();
    for len in 0..file.len() {
        let Ok(trace) = read_bytes(&file[..len]) else {
            assert!(
                len < packed("perf.data").start + 2000,
                "nothing can be read of {len} of {} bytes",
                file.len()
            );
            continue;
        };
        let warnings: Vec<String> = trace.warnings.lines().collect();
        assert!(warnings[0].starts_with("the trace file is cut off"), "{len}: {warnings:?}");
        if len >= packed("perf.data").end {
            assert_eq!(
                (trace.switches.len(), trace.wakings.len()),
                (whole.switches.len(), whole.wakings.len()),
                "{len}"
            );
        }
        assert_eq!(trace.meta.host == whole.meta.host, len >= packed("meta.json").end, "{len}");
        assert_eq!(trace.meta.notes == whole.meta.notes, len >= packed("notes.md").end, "{len}");
        let stack = trace.switches.stack.first();
        let is_named =
            stack.is_none_or(|&stack| trace.stack_names(stack).contains(&"schedule".to_owned()));
        assert!(stack.is_none() || is_named == (len >= packed("symbols.json").end), "{len}");
    }
}

/// The container with `member` replaced by `content`, packed.
fn repacked(file: &[u8], member: &str, content: &[u8]) -> Vec<u8> {
    let mut from = zip::ZipArchive::new(Cursor::new(file)).unwrap();
    let mut to = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for index in 0..from.len() {
        let entry = from.by_index_raw(index).unwrap();
        if entry.name().unwrap() == member {
            let packed = zip::write::SimpleFileOptions::default()
                .compression_method(zip::CompressionMethod::Deflated);
            to.start_file(member, packed).unwrap();
            to.write_all(content).unwrap();
        } else {
            to.raw_copy_file(entry).unwrap();
        }
    }
    to.finish().unwrap().into_inner()
}

#[test]
fn regression_a_member_that_was_packed_to_fill_memory_is_cut() {
    let file = container();
    let switches = read_bytes(&file).unwrap().switches.len();
    // Blanks are JSON, too: without a limit, all of them would be read for nothing.
    let trace = read_bytes(&repacked(&file, "symbols.json", &vec![b' '; 80 << 20])).unwrap();
    assert_eq!(trace.switches.len(), switches);
    assert!(
        trace
            .warnings
            .lines()
            .any(|line| line.contains("symbols.json in the trace file unpacks to more than 32 MiB"))
    );

    let start = members(&file)["perf.data"].clone();
    let mut records = file[start].to_vec();
    let honest = read_bytes(&repacked(&file, "perf.data", &records)).unwrap();
    assert_eq!(
        (honest.switches.len(), honest.warnings.lines().count()),
        (switches, 0),
        "what somebody packed is read"
    );
    records.resize(80 << 20, 0);
    let trace = read_bytes(&repacked(&file, "perf.data", &records)).unwrap();
    assert!(
        trace
            .warnings
            .lines()
            .any(|line| line.contains("perf.data in the trace file unpacks to more than 32 MiB"))
    );
}
