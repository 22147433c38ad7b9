//! The records of a small `perf.data`.

use crate::perf;
use unhitch_formats::perf_data::record::{self, Mmap2, Sample, SampleId};
use unhitch_model::Time;

const A: (u32, u32) = (100, 100);
const B: (u32, u32) = (100, 101);
const IDLE: (u32, u32) = (0, 0);

/// Records of two threads on two CPUs: names, mappings, switches, wake-ups, a sample, a lock
/// contention, a loss, an exit.
pub fn perf_records() -> Vec<u8> {
    let mut out = Vec::new();
    let side =
        |ns| SampleId { time: Time::from_nanos(ns), id: perf::SIDE_BAND_ID, ..SampleId::default() };
    record::comm(&mut out, 100, 100, b"alpha", true, &side(0));
    let map = Mmap2 {
        pid: 100,
        tid: 100,
        start_avma: 0x1000,
        len: 0x1000,
        prot: 5,
        path: b"/bin/a",
        build_id: Some(&[7; 20]),
        ..Mmap2::default()
    };
    record::mmap2(&mut out, &map, &side(0));
    let map = Mmap2 {
        pid: u32::MAX,
        start_avma: 0xffff_ffff_8100_0000,
        len: 0x10_0000,
        path: b"[kernel.kallsyms]_text",
        kernel: true,
        ..map
    };
    record::mmap2(&mut out, &map, &side(0));
    record::fork(&mut out, 100, 100, 101, 100, &side(1_000));
    switch(&mut out, 2_000, 0, IDLE, 0, A);
    wake(&mut out, 373, 2_500, 0, A, B);
    switch(&mut out, 3_000, 1, IDLE, 0, B);
    contention(&mut out, 40, 3_100, B);
    switch(&mut out, 4_000, 1, B, 2, IDLE);
    let id =
        SampleId { pid: 100, tid: 100, time: Time::from_nanos(5_000), cpu: 0, id: perf::CLOCK_ID };
    let sample = Sample { id, ip: 0x1010, user_frames: &[0x1010, 0x1100], ..Sample::default() };
    record::sample(&mut out, perf::CLOCK_SAMPLE, &sample);
    wake(&mut out, 375, 6_000, 0, A, B);
    contention(&mut out, 41, 6_100, B);
    record::lost(&mut out, 3, &SampleId { cpu: 1, ..side(6_500) });
    switch(&mut out, 7_000, 0, A, 0x10, IDLE);
    record::exit(&mut out, 100, 1, 100, 1, &side(7_001));
    out
}

fn tracepoint(
    out: &mut Vec<u8>,
    id: u16,
    ns: u64,
    cpu: u32,
    (pid, tid): (u32, u32),
    fields: &[u8],
) {
    let mut raw = id.to_le_bytes().to_vec();
    raw.extend([0, 0]);
    raw.extend(tid.to_le_bytes());
    raw.extend(fields);
    let sample = Sample {
        id: SampleId { pid, tid, time: Time::from_nanos(ns), cpu, id: u64::from(id) },
        kernel_frames: &[0xffff_ffff_8100_0100, 0xffff_ffff_8100_0200],
        user_frames: &[0x1020, 0x1100],
        raw: &raw,
        ..Sample::default()
    };
    record::sample(out, perf::TRACEPOINT_SAMPLE, &sample);
}

fn switch(out: &mut Vec<u8>, ns: u64, cpu: u32, prev: (u32, u32), state: u64, next: (u32, u32)) {
    let mut fields = [0; 56];
    fields[..4].copy_from_slice(b"prev");
    fields[16..20].copy_from_slice(&prev.1.to_le_bytes());
    fields[20..24].copy_from_slice(&120_u32.to_le_bytes());
    fields[24..32].copy_from_slice(&state.to_le_bytes());
    fields[32..36].copy_from_slice(b"next");
    fields[48..52].copy_from_slice(&next.1.to_le_bytes());
    fields[52..56].copy_from_slice(&120_u32.to_le_bytes());
    tracepoint(out, 372, ns, cpu, prev, &fields);
}

fn wake(out: &mut Vec<u8>, id: u16, ns: u64, cpu: u32, waker: (u32, u32), wakee: (u32, u32)) {
    let mut fields = [0; 28];
    fields[..4].copy_from_slice(b"wake");
    fields[16..20].copy_from_slice(&wakee.1.to_le_bytes());
    fields[20..24].copy_from_slice(&120_u32.to_le_bytes());
    fields[24..28].copy_from_slice(&1_u32.to_le_bytes());
    tracepoint(out, id, ns, cpu, waker, &fields);
}

fn contention(out: &mut Vec<u8>, id: u16, ns: u64, thread: (u32, u32)) {
    let mut fields = 0xffff_8881_0000_1000_u64.to_le_bytes().to_vec();
    fields.extend(2_u32.to_le_bytes());
    tracepoint(out, id, ns, 1, thread, &fields);
}
