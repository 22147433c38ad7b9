//! Damaged and malicious Windows traces: no panic, bounded memory, a warning that names the place.
//!
//! The stated limit (docs/windows.md): reading takes up to 96 times what the file takes on disk,
//! and 128 MiB. A counting allocator measures the peak. Another test in this binary would disturb
//! it, so there is only one.

mod etl_support;

use etl_support::content;
use etl_support::synthetic::{
    Buffer, METADATA, Pack, ZERO, classic, event_info, file, image, manifest, map_info, perf_info,
    process, raw_buffer, ready, repeated, sample, stack, switch, thread, varying,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Cursor, Write};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use zip::write::SimpleFileOptions;

struct Counting;
static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[allow(unsafe_code, reason = "an allocator that counts")]
// SAFETY: everything is passed unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(now, Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Reads, and checks the memory that it used.
fn read(bytes: &[u8]) -> Result<unhitch_model::Trace, unhitch_formats::Error> {
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    let result = unhitch_formats::read_bytes(bytes);
    let took = PEAK.load(Relaxed).saturating_sub(before);
    assert!(took <= 96 * bytes.len() + (128 << 20), "{took} bytes for a file of {}", bytes.len());
    result
}

/// SplitMix64: the same numbers on every machine.
struct SplitMix64(u64);

impl SplitMix64 {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % n as u64) as usize
    }
}

fn synthetic() -> Vec<u8> {
    let events = (0..200_i64).flat_map(|n| {
        let ticks = ZERO + n * 100;
        let tids = if n % 2 == 0 { (11, 12) } else { (12, 11) };
        [
            switch(ticks, tids.0, tids.1, 5),
            stack(ticks, ticks, (tids.0, 100), &[0xffff_f800_0000_1000 + n as u64, 0x1000]),
            sample(ticks + 5, 11, 7),
        ]
        .concat()
    });
    let events: Vec<u8> = events.collect();
    let buffers = [Buffer { cpu: 0, events: events.clone() }, Buffer { cpu: 1, events }];
    [file(8, &buffers, Pack::Plain), file(8, &buffers, Pack::Copied)].concat()
}

fn truncated(bytes: &[u8], step: usize) {
    for len in (0..bytes.len()).step_by(step) {
        match read(&bytes[..len]) {
            Err(error) => assert!(!error.to_string().is_empty()),
            Ok(trace) => {
                let offset = trace.warnings.lines().collect::<Vec<_>>().join("\n");
                // Truncated exactly at the end of a buffer, only whole buffers are missing.
                assert!(
                    offset.contains("offset") || offset.contains(" can be read"),
                    "{len}: {offset:?}"
                );
            }
        }
    }
}

fn flipped(bytes: &[u8], times: usize, random: &mut SplitMix64) {
    let mut copy = bytes.to_vec();
    for _ in 0..times {
        let bits: Vec<(usize, u8)> = (0..1 + random.below(3))
            .map(|_| (random.below(copy.len()), 1 << random.below(8)))
            .collect();
        bits.iter().for_each(|(at, bit)| copy[*at] ^= bit);
        let _ = read(&copy);
        bits.iter().rev().for_each(|(at, bit)| copy[*at] ^= bit);
    }
    assert_eq!(copy, bytes);
}

/// The first buffers of a file, at most `max_bytes`.
fn beginning(bytes: &[u8], max_bytes: usize) -> &[u8] {
    let mut end = 0;
    while let Some(size) = bytes.get(end..end + 4) {
        let next = end + u32::from_le_bytes(size.try_into().unwrap()) as usize;
        if next > max_bytes {
            break;
        }
        end = next;
    }
    &bytes[..end]
}

/// A file whose buffers of a few bytes unpack to 1 MiB each of `unit` again and again, of which the
/// four bytes at `varied` differ each time.
fn bomb(unit: &[u8], varied: usize) -> Vec<u8> {
    let mut bytes = file(8, &[], Pack::Plain);
    for buffer in 0..8 {
        let data = varying(unit, varied, (1 << 20) / unit.len(), buffer << 24);
        bytes.extend(raw_buffer(0, &data, (1 << 20) / unit.len() * unit.len() + 0x48, 0x61, 0));
    }
    bytes
}

fn bombs() {
    // Every buffer of a few bytes unpacks to 8 MiB of the shortest events, of samples, or of
    // nothing that is an event.
    let event = perf_info(0x1234, 0, ZERO, &[]);
    for unit in [&event[..], &sample(ZERO, 1, 1)[..24], &[0_u8; 8]] {
        let mut bytes = file(8, &[], Pack::Plain);
        for _ in 0..40 {
            bytes.extend(raw_buffer(0, &repeated(unit), (2 << 20) + 0x48, 0x61, 0));
        }
        let trace = read(&bytes).unwrap();
        let warnings = trace.warnings.lines().collect::<Vec<_>>().join("\n");
        assert!(warnings.contains("left out 39 buffers"), "{warnings}");
    }
    let mut bytes = file(8, &[], Pack::Plain);
    let at = bytes.len();
    bytes.extend(raw_buffer(0, &repeated(&event), u32::MAX as usize, 0x61, 0));
    let warnings = read(&bytes).unwrap().warnings.lines().collect::<Vec<_>>().join("\n");
    assert!(
        warnings.contains(&format!("the buffer at offset {at} claims to unpack to")),
        "{warnings}"
    );
}

/// Events that expand when they are read, each different from the others.
fn swollen() {
    const GUID: [u8; 16] = [7; 16];
    let described = classic(METADATA, 32, &event_info(GUID, 3, 300));
    let named = classic(METADATA, 33, &map_info(GUID, 900));
    let described_len = described.len();
    let mut warnings = String::new();
    // Methods of .NET, each somewhere else, or another one at the address of a sample.
    let runtime = [
        0x23, 0x0d, 0x3c, 0xe1, 0xbc, 0xcc, 0x12, 0x4e, 0x93, 0x1b, 0xd9, 0xcc, 0x2e, 0xee, 0x27,
        0xe4,
    ];
    let numbers = [
        [1_u64, 1, 0x1000].map(u64::to_le_bytes).concat(),
        [0x1000_u32, 1, 8].map(u32::to_le_bytes).concat(),
    ];
    let method = manifest(
        runtime,
        143,
        ZERO,
        (1, 100),
        &[&numbers.concat()[..], &[65, 0, 0, 0].repeat(3)].concat(),
    );
    let hit = [&sample(ZERO, 1, 0x1800)[..], &method].concat();
    let of_it = manifest(GUID, 3, ZERO, (1, 2), &[]);
    for (unit, varied) in [
        (perf_info(0xfb20, 0, ZERO, &[]), 8),
        (switch(ZERO, 1, 2, 5), 16),
        (switch(ZERO, 1, 2, 5), 8),
        (ready(ZERO, 1, false), 16),
        (sample(ZERO, 1, 1), 16),
        (sample(ZERO, 1, 1), 24),
        (stack(ZERO, ZERO, (1, 1), &[0x1000]), 32),
        (stack(ZERO, ZERO, (1, 1), &[0x1000]), 28),
        (
            [sample(ZERO, 1, 1), stack(ZERO, ZERO, (1, 1), &[0xffff_f800_0000_1000, 0x1000])]
                .concat(),
            64,
        ),
        (perf_info(0x1823, 2, ZERO, &[1; 16]), 16),
        (perf_info(0x1823, 2, ZERO, &[1; 16]), 24),
        (image(0x1403, ZERO, 100, 0x40_0000, "C"), 32),
        (image(0x30a, ZERO, 100, 0x40_0000, "C"), 32),
        (perf_info(0x60b, 2, ZERO, &[1; 8]), 16),
        (method.clone(), 80),
        (method.clone(), 80 + 16),
        (method.clone(), 80 + 36),
        (hit.clone(), hit.len() - method.len() + 80),
        (hit, 16),
        (process(0x303, ZERO, 100, "a"), 40),
        (thread(0x503, ZERO, (11, 100), ""), 32),
        (thread(0x503, ZERO, (11, 100), ""), 36),
        (perf_info(0x400, 2, ZERO, &[1, 0, 0, 0, 2, 0, 0, 0, 65, 0]), 16),
        (described.clone(), 48 + 0x20),
        (named.clone(), 48),
        ([described, of_it.clone()].concat(), described_len + 0x30),
        (of_it.clone(), 0x30),
        (of_it, 0x18),
    ] {
        let trace = read(&bomb(&unit, varied)).unwrap();
        trace.warnings.lines().for_each(|line| warnings.push_str(&line));
    }
    // Many descriptions of many fields, and many kinds.
    let times = ["the trace describes too many fields", "more than 16,384 kinds of events"]
        .map(|words| warnings.matches(words).count());
    assert_eq!(times, [3, 2], "{warnings}");
}

/// Manifests of .NET's EventSource in which many short elements share one long text.
fn manifests() {
    const LONG: usize = 200_000;
    let long = "n".repeat(LONG);
    let events = "<event value='1' symbol='s' template='t'/>".repeat(10_000);
    let maps = "<map value='1' message='$(string.a)'/>".repeat(10_000);
    for xml in [
        format!("<provider name='{long}'>{events}"),
        format!("<template tid='t'><data name='{long}' inType='win:UInt32'/></template>{events}"),
        format!(
            "<template tid='t'><data name='n' map='{long}' inType='win:UInt32'/></template>{events}"
        ),
        format!("<valueMap name='m'>{maps}</valueMap><string id='a' value='{long}'/>"),
    ] {
        let chunks = xml.as_bytes().chunks(60_000);
        let total = u8::try_from(chunks.len()).unwrap();
        let event = |(number, chunk): (usize, &[u8])| {
            let payload = [&[1, 1, 0, 0x5b, total, 0, number as u8, 0][..], chunk].concat();
            Buffer { cpu: 0, events: manifest([7; 16], 0xfffe, ZERO, (1, 2), &payload) }
        };
        let buffers: Vec<Buffer> = chunks.enumerate().map(event).collect();
        read(&file(8, &buffers, Pack::Plain)).unwrap();
    }
}

/// A zip with one file.
fn zip(name: &str, content: &[u8]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    zip.start_file(name, SimpleFileOptions::default()).unwrap();
    zip.write_all(content).unwrap();
    zip.finish().unwrap().into_inner()
}

fn zip_bombs() {
    // Zeros behind one good buffer: a thousandth of their length in the zip.
    let good = file(8, &[Buffer { cpu: 0, events: switch(ZERO, 1, 2, 5) }], Pack::Plain);
    let bytes = zip("hang.etl", &[&good[..], &vec![0; 100 << 20]].concat());
    let trace = read(&bytes).unwrap();
    let warnings = trace.warnings.lines().collect::<Vec<_>>().join("\n");
    let long = "hang.etl in the zip was read up to byte 33554432, and the rest was left out";
    assert!(warnings.contains(long), "{warnings}");
    assert_eq!(trace.switches.len(), 1);
    // Packed twice.
    let mut bytes = good;
    for _ in 0..2_000 {
        bytes.extend(raw_buffer(0, &repeated(&ready(ZERO, 1, false)), (1 << 20) + 0x48, 0x61, 0));
    }
    let trace = read(&zip("hang.etl", &bytes)).unwrap();
    let warnings = trace.warnings.lines().collect::<Vec<_>>().join("\n");
    assert!(
        warnings.contains(
            "buffers: unpacked, all events would be more than 16 times as long as the files on disk"
        ),
        "{warnings}"
    );
}

fn absurd_sizes() {
    let good = file(8, &[Buffer { cpu: 0, events: switch(ZERO, 1, 2, 5) }], Pack::Plain);
    let first_len = u32::from_le_bytes(good[..4].try_into().unwrap()) as usize;
    for at in (0..good.len() - 4).step_by(2) {
        for value in [0_u32, 1, 0x47, 0x7fff_ffff, 0xffff_ffff, 0xfff8] {
            let mut bytes = good.clone();
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            let result = read(&bytes);
            if at == first_len {
                let warnings = result.unwrap().warnings.lines().collect::<Vec<_>>().join("\n");
                assert!(warnings.contains(&format!("offset {first_len}")), "{warnings}");
            }
        }
    }
}

#[test]
fn hostile_files() {
    let mut random = SplitMix64(1);
    bombs();
    swollen();
    manifests();
    zip_bombs();
    absurd_sizes();
    let synthetic = synthetic();
    truncated(&synthetic, 64);
    flipped(&synthetic, 3_000, &mut random);
    for (name, flips) in
        [("SelfDescribingSingleEvent.etl", 10_000), ("primitive-types.etl.zip", 6_500)]
    {
        let Some(bytes) = content(name) else { return };
        truncated(&bytes, 64);
        flipped(&bytes, flips, &mut random);
    }
    for name in ["ShutdownPerfDiagLogger.etl", "net.4.5.2.x64.etl.zip", "vs-gconly.etl"] {
        let bytes = content(name).unwrap();
        truncated(&bytes, bytes.len() / 30 / 64 * 64);
        flipped(beginning(&bytes, 300_000), 170, &mut random);
    }
}
