//! No input makes the readers panic, hang or use unbounded memory.

use crate::synthetic::{At, Chain, IDLE, SyntheticTrace, Task};
use unhitch_formats::{
    Error,
    container::{ContainerMeta, ContainerParts, SymbolFile, write_container},
    perf_data::record,
    read_bytes,
};

const A: Task = Task { pid: 100, tid: 100, comm: "alpha" };
const B: Task = Task { pid: 100, tid: 101, comm: "beta" };

/// A file with some records of every kind.
fn small() -> Vec<u8> {
    let mut synthetic = SyntheticTrace::default();
    synthetic.comm(0, A, false);
    synthetic.map(0, 100, 0x40_0000, 0x1000, 0x2000, "/bin/alpha");
    let chain =
        Chain { kernel: &[0xffff_ffff_8100_0000, 0xffff_ffff_8100_0010], user: &[0x40_0010, 0x77] };
    for n in 0..6 {
        let at = At { ns: 10 + n * 10, cpu: n as u32 % 2 };
        synthetic.fork(at.ns, A, B);
        synthetic.switch(at, A, 1, B, chain);
        synthetic.waking(at, B, 0x10, A, chain);
        synthetic.clock(at, B, chain);
        synthetic.contention(at, B, n % 2 == 0, 0x1000, 32);
        synthetic.lost(at, 3);
        synthetic.exit(at.ns + 5, B);
    }
    synthetic.file()
}

fn small_container() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.hitch");
    let trace = read_bytes(&small()).unwrap();
    let meta = ContainerMeta { version: 1, ..ContainerMeta::default() };
    let symbols = SymbolFile::from_trace(&trace);
    let parts = ContainerParts {
        meta: &meta,
        perf_data: &mut |out| out.write_all(&small()),
        rings: None,
        symbols: Some(&symbols),
        notes: Some("note"),
        extra: Vec::new(),
    };
    write_container(&path, parts).unwrap();
    std::fs::read(&path).unwrap()
}

/// Random numbers, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

fn survives_truncation(file: &[u8]) {
    for len in 0..file.len() {
        let _ = read_bytes(&file[..len]);
    }
}

fn survives_bit_flips(file: &[u8], times: usize) {
    let mut random = Random(1);
    let mut damaged = file.to_vec();
    for _ in 0..times {
        let flips: Vec<(usize, u8)> = (0..1 + random.below(3))
            .map(|_| (random.below(file.len()), 1 << random.below(8)))
            .collect();
        flips.iter().for_each(|(at, bit)| damaged[*at] ^= bit);
        let _ = read_bytes(&damaged);
        flips.iter().for_each(|(at, bit)| damaged[*at] ^= bit);
    }
}

#[test]
fn perf_data_survives_truncation_at_every_byte() {
    survives_truncation(&small());
}

#[test]
fn perf_data_survives_bit_flips() {
    survives_bit_flips(&small(), 10_000);
}

#[test]
fn a_container_survives_truncation_at_every_byte() {
    survives_truncation(&small_container());
}

#[test]
fn a_container_survives_bit_flips() {
    survives_bit_flips(&small_container(), 10_000);
}

#[test]
fn a_truncated_file_is_read_as_far_as_it_goes() {
    let whole = small();
    let data_at = u64::from_le_bytes(whole[40..48].try_into().unwrap()) as usize;
    let data_len = u64::from_le_bytes(whole[48..56].try_into().unwrap()) as usize;
    let trace = read_bytes(&whole[..data_at + data_len / 2]).unwrap();
    assert!(trace.warnings.lines().any(|line| line.contains("cut off")), "{:?}", trace.warnings);
    // Without the descriptions behind the data, no tracepoint can be read; they are only counted.
    assert!(
        trace.by_kind.keys().any(|name| name.starts_with("tracepoint:")),
        "{:?}",
        trace.by_kind
    );

    // A recorder that was killed left 0 as the length.
    let mut killed = whole[..data_at + data_len].to_vec();
    killed[48..56].fill(0);
    let trace = read_bytes(&killed).unwrap();
    assert!(trace.warnings.lines().any(|line| line.contains("killed")));
    assert_eq!(trace.samples.len(), 6);
}

#[test]
fn files_that_are_none_are_named() {
    let message = |bytes: &[u8]| read_bytes(bytes).unwrap_err().to_string();
    assert!(matches!(
        read_bytes(b"GIF89a..........").unwrap_err(),
        Error::Unknown { offset: 0, .. }
    ));
    // The error must not repeat the content: somebody may name a file to learn what is in it.
    assert!(!message(b"GIF89a..........").contains("GIF89a"));
    assert!(message(b"2ELIFREP........").contains("big-endian"));
    assert!(message(b"PERFFILE........").contains("version 1"));
    assert!(read_bytes(b"").is_err());
    assert!(read_bytes(b"PK\x03\x04").is_err());
}

/// A file with these bytes as its records.
fn with_records(records: &[u8]) -> Vec<u8> {
    let mut synthetic = SyntheticTrace::default();
    synthetic.switch(At { ns: 1, cpu: 0 }, IDLE, 0, A, Chain::default());
    synthetic.records.extend_from_slice(records);
    synthetic.file()
}

fn raw_record(kind: u32, size: u16, body: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &[0; 2], &size.to_le_bytes(), body].concat()
}

#[test]
fn hostile_record_sizes() {
    for size in [0, 1, 7, 9, 0xffff] {
        let trace =
            read_bytes(&with_records(&raw_record(record::kind::SAMPLE, size, &[]))).unwrap();
        assert_eq!(trace.switches.len(), 1);
        assert!(!trace.warnings.is_empty(), "{size}");
    }
}

#[test]
fn hostile_lengths_in_samples() {
    // id, tid, time, cpu; then the length of the chain.
    let head = [1u64, 100 << 32 | 100, 50, 0];
    for words in [u64::MAX, u64::MAX / 8 + 1, 1 << 61, 1 << 20, 3] {
        let body: Vec<u8> =
            head.iter().chain(&[words, 7]).flat_map(|word| word.to_le_bytes()).collect();
        let trace = read_bytes(&with_records(&raw_record(
            record::kind::SAMPLE,
            body.len() as u16 + 8,
            &body,
        )))
        .unwrap();
        assert_eq!(trace.switches.len(), 1);
        assert!(trace.warnings.lines().any(|line| line.contains("left out 1 damaged sample")));
    }
    // An empty chain; then the length of the raw bytes.
    for len in [u64::from(u32::MAX), 1 << 31, 8] {
        let body: Vec<u8> =
            head.iter().chain(&[0, len]).flat_map(|word| word.to_le_bytes()).collect();
        let trace = read_bytes(&with_records(&raw_record(
            record::kind::SAMPLE,
            body.len() as u16 + 8,
            &body,
        )))
        .unwrap();
        assert_eq!(trace.switches.len(), 1);
    }
}

#[test]
fn hostile_payloads() {
    for kind in [record::kind::TRACING_DATA, record::kind::AUXTRACE] {
        let trace = read_bytes(&with_records(&raw_record(kind, 24, &[0xff; 16]))).unwrap();
        assert_eq!(trace.switches.len(), 1);
        assert!(!trace.warnings.is_empty());
    }
}

#[test]
fn hostile_header() {
    let file = small();
    // Every word of the header, with numbers that overflow, lie outside, or are merely wrong.
    for word in 1..13 {
        for value in [0, 1, 104, 4096, u64::from(u32::MAX), i64::MAX as u64, u64::MAX] {
            let mut damaged = file.clone();
            damaged[word * 8..word * 8 + 8].copy_from_slice(&value.to_le_bytes());
            let _ = read_bytes(&damaged);
        }
    }
    // The ids of every event are the whole file.
    let attrs_at = u64::from_le_bytes(file[24..32].try_into().unwrap()) as usize;
    let attr_len = u64::from_le_bytes(file[16..24].try_into().unwrap()) as usize;
    let mut damaged = file.clone();
    for event in 0..7 {
        let ids = attrs_at + (event + 1) * attr_len - 16;
        damaged[ids..ids + 8].fill(0);
        damaged[ids + 8..ids + 16].copy_from_slice(&(file.len() as u64).to_le_bytes());
    }
    let trace = read_bytes(&damaged).unwrap();
    assert!(trace.warnings.lines().any(|line| line.contains("ids")), "{:?}", trace.warnings);
}

#[test]
fn a_zip_bomb_is_not_inflated() {
    use std::io::Write;
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let deflated = zip::write::SimpleFileOptions::default();
    zip.start_file("perf.data", deflated).unwrap();
    zip.write_all(&small()).unwrap();
    zip.start_file("meta.json", deflated).unwrap();
    zip.write_all(&vec![b' '; 600 << 20]).unwrap();
    let bytes = zip.finish().unwrap().into_inner();
    // The deflated perf.data is read, the meta.json of 600 MiB is not.
    let trace = read_bytes(&bytes).unwrap();
    assert_eq!(trace.switches.len(), 6);
    assert!(trace.warnings.lines().any(|line| line.contains("meta.json")));
}

#[test]
fn regression_stacks_of_remapped_code_are_bounded() {
    let mut synthetic = SyntheticTrace::default();
    synthetic.comm(0, A, false);
    for n in 0..2_000 {
        let path = ["/bin/alpha", "/bin/other"][n % 2];
        synthetic.map(10 * n as u64, 100, 0x40_0000, 0x1000, n as u64 * 0x1000, path);
    }
    for n in 0..100 {
        let user = [0x40_0010, 0x40_0020 + n];
        synthetic.clock(At { ns: 30_000 + n, cpu: 0 }, A, Chain { kernel: &[], user: &user });
    }
    let trace = read_bytes(&synthetic.file()).unwrap();
    assert!(trace.stacks.len() <= 100 * 256 + 1, "{}", trace.stacks.len());
    let last = trace.stack_names(trace.samples.stack[99]);
    assert!(last.iter().all(|name| name.starts_with("other+0x7cf")), "the newest counts: {last:?}");
    let mut lines = trace.warnings.lines();
    assert!(lines.any(|line| line.contains("more than 256 times")), "{:?}", trace.warnings);
}
