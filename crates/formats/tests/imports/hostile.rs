//! Cut, flipped and absurd input: no panic, no hang, and rows that hold together.

use super::proto::{Message, bundle, switch, trace, wake};
use super::trace_dat_writer::{PACKINGS, Ring, version_6, version_7};
use super::{ctf, perf_script, rows, trace_dat};
use unhitch_formats::read_bytes;

fn perfetto() -> Vec<u8> {
    let compact = Message::new()
        .text(5, "alpha")
        .packed(1, &[1000, 10])
        .packed(2, &[0, 1])
        .packed(3, &[11, 12])
        .packed(6, &[0, 0])
        .packed(7, &[1005])
        .packed(8, &[12])
        .packed(12, &[0]);
    let interned = Message::new()
        .message(5, Message::new().number(1, 1).text(2, "f"))
        .message(17, Message::new().number(1, 1).text(2, "lib"))
        .message(19, Message::new().number(1, 1).number(7, 1))
        .message(6, Message::new().number(1, 1).number(2, 1).number(3, 1).number(4, 9))
        .message(7, Message::new().number(1, 1).number(2, 1));
    let sample = Message::new().number(1, 0).number(2, 5).number(3, 5).number(4, 1);
    trace([
        Message::new().message(1, Message::new().number(1, 1).message(4, compact)),
        bundle(0, [switch(100, (5, "a"), 1, (7, "b")), wake(20, 120, 7, Some(8), 5)]),
        Message::new().number(8, 130).number(13, 1).message(12, interned).message(66, sample),
    ])
}

fn read(bytes: &[u8]) {
    if let Ok(trace) = read_bytes(bytes) {
        rows::check(&trace);
    }
}

/// Reads the input cut at every length and with every bit flipped, up to `most` times each.
fn attack(bytes: &[u8], most: usize, read: impl Fn(&[u8])) {
    read(bytes);
    let step = bytes.len().div_ceil(most).max(1);
    for len in (0..bytes.len()).step_by(step) {
        read(&bytes[..len]);
    }
    let mut changed = bytes.to_vec();
    for at in (0..bytes.len()).step_by(step) {
        for change in [1, 0x10, 0x80, 0xff] {
            changed[at] ^= change;
            read(&changed);
            changed[at] ^= change;
        }
    }
    // Lengths and counts become huge.
    for at in (0..bytes.len().saturating_sub(4)).step_by(step) {
        let kept: [u8; 4] = changed[at..at + 4].try_into().unwrap();
        changed[at..at + 4].copy_from_slice(&[0xff, 0xff, 0xff, 0x7f]);
        read(&changed);
        changed[at..at + 4].copy_from_slice(&kept);
    }
}

#[test]
fn perfetto_survives() {
    attack(&perfetto(), 2000, read);
}

#[test]
fn trace_dat_survives() {
    // A small one, so that every byte of the descriptions has its turn.
    let mut ring = Ring::new(1000);
    ring.waking(1010, 5, unhitch_model::WakeFlags::default(), 7);
    attack(&version_6("mono", &[ring]), 1500, read);
    for packing in PACKINGS {
        attack(&version_7(packing, &trace_dat::rings()), 700, read);
    }
}

#[test]
fn perf_script_survives() {
    attack(perf_script::TEXT.as_bytes(), 3000, read);
}

#[test]
fn ctf_survives() {
    let streams = ctf::streams();
    attack(ctf::METADATA.as_bytes(), 1500, |metadata| {
        let metadata = String::from_utf8_lossy(metadata);
        if let Ok(trace) = ctf::load(&metadata, &streams) {
            rows::check(&trace);
        }
    });
    attack(&streams[0], 1000, |stream| {
        if let Ok(trace) = ctf::load(ctf::METADATA, &[stream.to_vec()]) {
            rows::check(&trace);
        }
    });
}

#[test]
fn bombs_are_not_unpacked() {
    use std::io::Write;
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    zlib.write_all(&vec![0; 64 << 20]).unwrap();
    let bomb = Message::new().bytes(50, &zlib.finish().unwrap());
    let bytes = trace([bomb, bundle(0, [switch(100, (5, "a"), 1, (7, "b"))])]);
    let trace = read_bytes(&bytes).unwrap();
    assert_eq!(trace.switches.len(), 1);
    assert!(trace.warnings.lines().any(|line| line.contains("too large")), "{:?}", trace.warnings);
}

/// The file itself is packed, too: its parts are unpacked within its budget.
#[test]
fn bombs_in_what_is_unpacked_are_not_unpacked() {
    use flate2::Compression;
    use std::io::Write;
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), Compression::best());
    zlib.write_all(&vec![0; 3 << 20]).unwrap();
    let bomb = zlib.finish().unwrap();
    let mut packets = vec![bundle(0, [switch(100, (5, "a"), 1, (7, "b"))])];
    packets.resize_with(1000, || Message::new().bytes(50, &bomb));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&trace(packets)).unwrap();
    let trace = read_bytes(&gzip.finish().unwrap()).unwrap();
    assert_eq!(trace.switches.len(), 1);
    let warnings = trace.warnings.lines().collect::<Vec<_>>().join("\n");
    assert!(warnings.contains("left out 999 damaged or too large"), "{warnings}");
}

/// A sample of a few bytes asks for a stack of a thousand functions with names of a megabyte.
#[test]
fn long_names_are_not_read_again_and_again() {
    let callstack = (0..1000).fold(Message::new().number(1, 1), |stack, _| stack.number(2, 1));
    let interned = Message::new()
        .message(5, Message::new().number(1, 1).text(2, &"f".repeat(1 << 20)))
        .message(6, Message::new().number(1, 1).number(2, 1).number(4, 9))
        .message(7, callstack);
    let first = bundle(0, [switch(100, (5, "a"), 1, (7, "b"))]).number(13, 1).message(12, interned);
    let sample = |pid: u32| {
        let sample =
            Message::new().number(1, 0).number(2, u64::from(pid)).number(3, u64::from(pid));
        Message::new().number(8, 130).message(66, sample.number(4, 1))
    };
    let bytes = trace(std::iter::once(first).chain((1..10_000).map(sample)));
    let trace = read_bytes(&bytes).unwrap();
    assert_eq!(trace.samples.len(), 9_999);
    assert!(trace.warnings.lines().any(|line| line.contains("too many long names")));
}

#[test]
fn names_are_not_trusted() {
    let bytes = trace([bundle(0, [switch(100, (5, "\x1b[31m\n"), 1, (7, "b"))])]);
    let trace = read_bytes(&bytes).unwrap().for_text();
    let thread = trace.threads.incarnations(5)[0];
    let name = trace.thread_name(thread, unhitch_model::Time::MAX);
    assert!(!name.contains(['\x1b', '\n']), "{name:?}");
}
