//! A container that grows while the recording goes on can be read at any moment, whatever becomes of
//! its end.

use crate::synthetic::{At, Chain, IDLE, SyntheticTrace, Task};
use std::fs;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use unhitch_formats::container::{
    ContainerMeta, CpuWindow, Growing, LastParts, Readers, ThreadFacts, read_meta, set_notes,
};
use unhitch_formats::perf_data::record::auxtrace;
use unhitch_formats::perf_data::{Features, around, describe, write};
use unhitch_formats::ring::{RingPiece, encode_pieces};
use unhitch_formats::{open, read_bytes};
use unhitch_model::{Trace, units};

const A: Task = Task { pid: 100, tid: 100, comm: "alpha" };
const ROUNDS: u64 = 40;

fn meta(end_ns: Option<u64>) -> ContainerMeta {
    let thread = ThreadFacts { pid: 100, tid: 100, policy: Some(0), ..ThreadFacts::default() };
    let span = end_ns.map(|end_ns| CpuWindow { cpu: 0, start_ns: 5, end_ns });
    ContainerMeta {
        version: 1,
        host: "growing".to_owned(),
        threads: vec![thread],
        spans: span.into_iter().collect(),
        ..ContainerMeta::default()
    }
}

/// The records of one round: twenty switches, a wake-up each.
fn round(number: u64) -> Vec<u8> {
    let mut synthetic = SyntheticTrace::default();
    if number == 0 {
        synthetic.comm(0, A, false);
    }
    let chain = Chain { kernel: &[0xffff_ffff_8100_0000], user: &[0x40_0010] };
    for n in number * 10..number * 10 + 10 {
        synthetic.switch(At { ns: 10 + n * 20, cpu: 0 }, A, 1, IDLE, chain);
        synthetic.waking(At { ns: 15 + n * 20, cpu: 0 }, IDLE, 0x08, A, chain);
        synthetic.switch(At { ns: 20 + n * 20, cpu: 0 }, IDLE, 0, A, chain);
    }
    synthetic.records
}

fn begin(path: &Path) -> Growing {
    let description = describe(&SyntheticTrace::events(), &SyntheticTrace::features());
    let [head, _] = around(&SyntheticTrace::events(), &Features::default(), 0);
    Growing::create(Readers::Owner, path, &meta(None), &description, &head).unwrap()
}

fn finish(mut growing: Growing) -> u64 {
    let len = growing.record_bytes();
    let parts = LastParts {
        around: around(&SyntheticTrace::events(), &SyntheticTrace::features(), len),
        meta: &meta(Some(ROUNDS * 200 + 50)),
        notes: Some("it hung"),
        extra: vec![("lab.json".to_owned(), b"{}".to_vec())],
    };
    growing.finish(parts).unwrap()
}

fn whole(folder: &Path) -> (PathBuf, Vec<u8>) {
    let path = folder.join("whole.hitch");
    let mut growing = begin(&path);
    (0..ROUNDS).for_each(|number| growing.append(&[&round(number)]).unwrap());
    let len = finish(growing);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len() as u64, len);
    (path, bytes)
}

fn warnings(trace: &Trace) -> String {
    trace.warnings.lines().collect::<Vec<_>>().join("\n")
}

#[test]
fn it_can_be_read_at_any_moment() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.hitch");
    let mut growing = begin(&path);
    for number in 0..ROUNDS {
        growing.append(&[&round(number)]).unwrap();
        assert_eq!(growing.bytes(), fs::metadata(&path).unwrap().len());
        let trace = open(&path).unwrap();
        assert_eq!(trace.switches.len() as u64, (number + 1) * 20);
        assert_eq!((trace.meta.host.as_str(), trace.meta.is_interrupted), ("growing", true));
        // The last switch is 10 ns before the next round's first.
        let end = units::duration((number + 1) * 200 - 9);
        let end = format!("ends {end} after its beginning");
        assert!(warnings(&trace).contains(&end), "{end}: {}", warnings(&trace));
        assert_eq!(trace.warnings.lines().count(), 1, "{}", warnings(&trace));
        assert!(
            trace
                .threads
                .incarnations(100)
                .iter()
                .any(|id| { trace.threads.get(*id).policy.is_some() })
        );
    }
    let (known, notes) = read_meta(&path).unwrap().unwrap();
    assert_eq!((known.host.as_str(), notes.as_str()), ("growing", ""));
    finish(growing);
    let trace = open(&path).unwrap();
    assert_eq!(trace.switches.len() as u64, ROUNDS * 20);
    assert!(trace.warnings.is_empty() && !trace.meta.is_interrupted, "{}", warnings(&trace));
    assert_eq!(trace.meta.notes, "it hung");
}

#[test]
fn a_finished_one_is_a_zip_with_a_perf_data_that_is_mapped_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = whole(folder.path());
    let mut zip = zip::ZipArchive::new(Cursor::new(&bytes)).unwrap();
    let names: Vec<String> =
        (0..zip.len()).map(|at| zip.by_index(at).unwrap().name().unwrap().into_owned()).collect();
    assert_eq!(
        names,
        ["start.json", "start.data", "perf.data", "meta.json", "notes.md", "lab.json"]
    );
    let mut perf_data = Vec::new();
    let mut member = zip.by_name("perf.data").unwrap();
    assert_eq!(member.data_start().unwrap() % 8, 0);
    // Compares the checksum, too.
    member.read_to_end(&mut perf_data).unwrap();
    let records: Vec<Vec<u8>> = (0..ROUNDS).map(round).collect();
    let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    let mut expected = Vec::new();
    write(&mut expected, &SyntheticTrace::events(), &SyntheticTrace::features(), &records).unwrap();
    assert!(perf_data == expected);
}

#[test]
fn nothing_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.hitch");
    fs::write(&path, b"older").unwrap();
    let [head, _] = around(&SyntheticTrace::events(), &Features::default(), 0);
    let created = Growing::create(Readers::Owner, &path, &meta(None), &[], &head);
    assert!(matches!(created.err(), Some(unhitch_formats::Error::Exists(_))));
    assert_eq!(fs::read(&path).unwrap(), b"older");
}

#[test]
fn one_that_is_cut_anywhere_opens_or_gives_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = whole(folder.path());
    let mut growing = begin(&folder.path().join("killed.hitch"));
    (0..ROUNDS).for_each(|number| growing.append(&[&round(number)]).unwrap());
    let killed = fs::read(folder.path().join("killed.hitch")).unwrap();
    let mut last = 0;
    for file in [&bytes, &killed] {
        let mut opened = 0;
        for len in (0..file.len()).step_by(97) {
            if let Ok(trace) = read_bytes(&file[..len]) {
                assert!(!trace.warnings.is_empty(), "cut at {len}");
                opened += 1;
                last = trace.switches.len() as u64;
            }
        }
        assert!(opened > file.len() / 97 * 9 / 10, "{opened} of {}", file.len() / 97);
        assert!(last > ROUNDS * 20 - 5, "{last}");
    }
    // What a crash leaves that came before the data: zeros.
    let zeros = [&killed[..killed.len() / 2], &vec![0; 5000]].concat();
    let trace = read_bytes(&zeros).unwrap();
    assert!(trace.switches.len() > 100 && trace.meta.is_interrupted);
}

#[test]
fn lengths_without_a_directory_are_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let mut growing = begin(&folder.path().join("a.hitch"));
    growing.append(&[&round(0)]).unwrap();
    let bytes = fs::read(folder.path().join("a.hitch")).unwrap();
    // The lengths of every header, in the header and in the extra field; and of every record.
    let headers: Vec<usize> =
        (0..bytes.len() - 4).filter(|&at| bytes[at..].starts_with(b"PK\x03\x04")).collect();
    assert_eq!(headers.len(), 3);
    for at in headers.iter().flat_map(|at| at + 4..at + 80).chain(bytes.len() - 300..bytes.len()) {
        for value in [0, 0x7f, 0xff] {
            let mut hostile = bytes.clone();
            hostile[at..].iter_mut().take(8).for_each(|byte| *byte = value);
            let _ = read_bytes(&hostile);
        }
    }
    // A piece of a ring that claims to be longer than the file, and one with a claim for entries.
    for claim in [u64::MAX, 1 << 40, 4096] {
        let piece = RingPiece { cpu: 0, start: 0, bytes: &[7; 64] };
        let mut head = encode_pieces(&[piece]);
        head[40..48].copy_from_slice(&claim.to_le_bytes());
        head[16..20].copy_from_slice(&(claim as u32).to_le_bytes());
        let mut record = Vec::new();
        auxtrace(&mut record, (head.len() + 64) as u64);
        let mut hostile = [&bytes[..], &record, &head, &[7; 64]].concat();
        assert_eq!(read_bytes(&hostile).unwrap().switches.len(), 20);
        let len = hostile.len();
        hostile[len - 64 - head.len() - 40..][..8].copy_from_slice(&claim.to_le_bytes());
        assert_eq!(read_bytes(&hostile).unwrap().switches.len(), 20);
    }
}

/// The end of an empty zip: what a program that is recorded can have in its system calls' arguments.
const EMPTY_ZIP: [u8; 22] =
    [b'P', b'K', 5, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

#[test]
fn regression_an_empty_zip_in_the_last_records_hides_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.hitch");
    let mut growing = begin(&path);
    (0..ROUNDS).for_each(|number| growing.append(&[&round(number)]).unwrap());
    growing.append(&[&EMPTY_ZIP, &[0; 40]]).unwrap();
    let trace = open(&path).unwrap();
    assert_eq!((trace.switches.len() as u64, trace.meta.is_interrupted), (ROUNDS * 20, true));
    assert_eq!(read_meta(&path).unwrap().unwrap().0.host, "growing");
    let killed = fs::read(&path).unwrap();
    assert!(set_notes(&path, "a note").is_err());
    assert!(fs::read(&path).unwrap() == killed, "the notes replaced the recording");

    // The same in a finished one that has lost its end.
    let (path, bytes) = whole(folder.path());
    let cut = [&bytes[..bytes.len() / 2], &EMPTY_ZIP].concat();
    let trace = read_bytes(&cut).unwrap();
    assert!(trace.switches.len() > 100 && warnings(&trace).contains("cut off"));
    fs::write(&path, &cut).unwrap();
    assert!(set_notes(&path, "a note").is_err());
    assert!(fs::read(&path).unwrap() == cut);
}

#[test]
fn regression_a_damaged_meta_json_is_no_interruption() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut bytes) = whole(folder.path());
    let mut zip = zip::ZipArchive::new(Cursor::new(bytes.clone())).unwrap();
    let at = zip.by_name("meta.json").unwrap().data_start().unwrap() as usize;
    bytes[at..at + 8].fill(0x55);
    let trace = read_bytes(&bytes).unwrap();
    let lines = warnings(&trace);
    assert!(!trace.meta.is_interrupted && !lines.contains("still goes on"), "{lines}");
    assert!(lines.contains("meta.json is damaged: what was known when recording began"), "{lines}");
    assert_eq!(trace.meta.host, "growing");
}
