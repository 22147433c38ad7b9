//! Seeds for the traces of other tools: one event of each kind that becomes a row.

use unhitch_formats::perf_data::tracepoints::{self, Task};
use unhitch_model::{TaskState, WakeFlags};

pub(crate) const PERF_SCRIPT: &str = "\
swapper 0/0 [000] 1.000000100: sched:sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=41 next_prio=120
\tffffffff81000010 __schedule+0x10 ([kernel.kallsyms])

a 40/41 [000] 1.000000200: sched:sched_waking: comm=b pid=43 prio=120 target_cpu=001
\t 450011 helper (inlined)
\t 450011 unlock+0x11 (/bin/a)

a 40/41 [000] 1.000000300: 250000 cpu-clock:ppp:
\t 450015 unlock+0x15 (/bin/a)

a 40/41 [000] 1.000000400: sched:sched_switch: a:41 [120] D ==> swapper/0:0 [120]
a 40/41 [000] 1.000000500: task:task_newtask: pid=44 comm=b clone_flags=3d0f00 oom_score_adj=0
";

/// A message of protocol buffers.
fn message(fields: &[(u64, Field<'_>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, field) in fields {
        match field {
            Number(value) => {
                varint(&mut out, number << 3);
                varint(&mut out, *value);
            }
            Bytes(bytes) => {
                varint(&mut out, number << 3 | 2);
                varint(&mut out, bytes.len() as u64);
                out.extend_from_slice(bytes);
            }
        }
    }
    out
}

enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

use Field::{Bytes, Number};

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Plain and compact events, and a sample with a stack.
pub(crate) fn perfetto() -> Vec<Vec<u8>> {
    let switch = message(&[
        (1, Bytes(b"a")),
        (2, Number(5)),
        (3, Number(120)),
        (4, Number(1)),
        (5, Bytes(b"b")),
        (6, Number(7)),
    ]);
    let switch = message(&[(1, Number(100)), (2, Number(5)), (4, Bytes(&switch))]);
    let waking = message(&[(1, Bytes(b"b")), (2, Number(5)), (5, Number(1))]);
    let waking = message(&[(1, Number(200)), (2, Number(7)), (5, Number(8)), (20, Bytes(&waking))]);
    let plain = message(&[(1, Number(0)), (2, Bytes(&switch)), (2, Bytes(&waking))]);
    let compact = message(&[
        (5, Bytes(b"c")),
        (1, Bytes(&[100, 10])),
        (2, Bytes(&[0, 1])),
        (3, Bytes(&[11, 12])),
        (4, Bytes(&[120, 120])),
        (6, Bytes(&[0, 0])),
        (7, Bytes(&[105])),
        (8, Bytes(&[12])),
        (12, Bytes(&[0])),
    ]);
    let compact = message(&[(1, Number(1)), (3, Number(1)), (4, Bytes(&compact))]);
    let text = |iid: u64, text: &[u8]| message(&[(1, Number(iid)), (2, Bytes(text))]);
    let mapping = message(&[(1, Number(1)), (2, Number(1)), (7, Number(1))]);
    let frame = message(&[(1, Number(1)), (2, Number(1)), (3, Number(1)), (4, Number(9))]);
    let interned = message(&[
        (5, Bytes(&text(1, b"f"))),
        (16, Bytes(&text(1, b"id"))),
        (17, Bytes(&text(1, b"lib"))),
        (19, Bytes(&mapping)),
        (6, Bytes(&frame)),
        (7, Bytes(&message(&[(1, Number(1)), (2, Number(1))]))),
    ]);
    let perf = message(&[(1, Number(0)), (2, Number(5)), (3, Number(5)), (4, Number(1))]);
    let task = message(&[(2, Number(7)), (3, Number(7))]);
    let stack = message(&[(1, Bytes(&task)), (6, Number(1)), (11, Number(5))]);
    let source = message(&[(1, Bytes(b"unhitch.wait"))]);
    let defaults = message(&[(100, Bytes(&source))]);
    let clock = |id: u64| message(&[(1, Number(id)), (2, Number(50))]);
    let clocks = message(&[(1, Bytes(&clock(6))), (1, Bytes(&clock(3)))]);
    let thread = message(&[(1, Number(7)), (3, Number(5)), (2, Bytes(b"t"))]);
    let packets = [
        message(&[(6, Bytes(&clocks))]),
        message(&[(8, Number(60)), (2, Bytes(&message(&[(2, Bytes(&thread))])))]),
        message(&[(1, Bytes(&plain))]),
        message(&[(1, Bytes(&compact))]),
        message(&[
            (8, Number(130)),
            (13, Number(1)),
            (12, Bytes(&interned)),
            (59, Bytes(&defaults)),
            (66, Bytes(&perf)),
        ]),
        message(&[(8, Number(140)), (58, Number(3)), (135, Bytes(&stack))]),
    ];
    let trace: Vec<u8> = packets.iter().flat_map(|it| message(&[(1, Bytes(it))])).collect();
    // One stored block of deflate.
    let mut packed = vec![0x78, 0x01, 1];
    packed.extend((trace.len() as u16).to_le_bytes());
    packed.extend((!(trace.len() as u16)).to_le_bytes());
    packed.extend_from_slice(&trace);
    packed.extend(adler32(&trace).to_be_bytes());
    let packed = message(&[(1, Bytes(&message(&[(50, Bytes(&packed))])))]);
    vec![trace, packed]
}

fn adler32(bytes: &[u8]) -> u32 {
    let sum = bytes.iter().fold((1, 0), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65_521;
        (low, (high + low) % 65_521)
    });
    sum.1 << 16 | sum.0
}

/// One page with a switch and a wake-up, in a file of version 6 or 7.
pub(crate) fn trace_dat(version: u8) -> Vec<u8> {
    const PAGE: usize = 512;
    let mut data = tracepoints::tracing_data(&[tracepoints::SWITCH, tracepoints::WAKING]);
    data.page_size = PAGE as u32;
    // perf writes the same, with another number.
    let encoded = data.encode();
    let head = b"\x17\x08\x44tracing".len();
    let body = &encoded[head + b"0.6\0".len() + 2 + 4..];
    let mut out = [&encoded[..head], &[b'0' + version, 0, 0, 8]].concat();
    out.extend((PAGE as u32).to_le_bytes());
    let page = page(PAGE);
    if version == 6 {
        out.extend_from_slice(body);
        out.extend(1u32.to_le_bytes());
        out.extend_from_slice(b"flyrecord\0");
        let at = (out.len() + 16).next_multiple_of(PAGE);
        out.extend((at as u64).to_le_bytes());
        out.extend((PAGE as u64).to_le_bytes());
        out.resize(at, 0);
        out.extend(page);
        return out;
    }
    out.extend_from_slice(b"none\0\0");
    let first_options = out.len();
    out.extend([0; 8]);
    let section = |out: &mut Vec<u8>, id: u16, content: &[u8]| {
        let at = out.len() as u64;
        out.extend(id.to_le_bytes());
        out.extend([0; 6]);
        out.extend((content.len() as u64).to_le_bytes());
        out.extend_from_slice(content);
        at.to_le_bytes()
    };
    // Behind the descriptions of the ring: no event of ftrace, then the systems.
    let at_systems = body.len() - systems_len(&data);
    let info = section(&mut out, 16, &body[..at_systems - 4]);
    let formats = section(&mut out, 18, &body[at_systems..]);
    let pages = section(&mut out, 3, &page);
    let first = u64::from_le_bytes(pages) + 16;
    let mut buffer = [&pages[..], b"\0mono\0"].concat();
    buffer.extend((PAGE as u32).to_le_bytes());
    buffer.extend([1u32, 0].iter().flat_map(|number| number.to_le_bytes()));
    buffer.extend([first, PAGE as u64].iter().flat_map(|number| number.to_le_bytes()));
    let option = |id: u16, data: &[u8]| {
        [&id.to_le_bytes()[..], &(data.len() as u32).to_le_bytes(), data].concat()
    };
    let options =
        [option(16, &info), option(18, &formats), option(3, &buffer), option(0, &[0; 8])].concat();
    let at = section(&mut out, 0, &options);
    out[first_options..first_options + 8].copy_from_slice(&at);
    out
}

/// Length of what `TracingData::encode` writes from the number of systems on.
fn systems_len(data: &unhitch_formats::tracepoint::TracingData) -> usize {
    let mut systems: Vec<&str> = data.events.iter().map(|(system, _)| system.as_str()).collect();
    systems.dedup();
    let names: usize = systems.iter().map(|system| system.len() + 1 + 4).sum();
    let texts: usize = data.events.iter().map(|(_, text)| text.len() + 8).sum();
    4 + names + texts + 4 + 4 + 8
}

fn page(len: usize) -> Vec<u8> {
    let task = |tid| Task { comm: b"a", tid, prio: 120 };
    let (mut switch, mut waking) = (Vec::new(), Vec::new());
    tracepoints::switch(&mut switch, &task(5), TaskState::Sleeping, &task(7));
    tracepoints::waking(&mut waking, 7, WakeFlags::default(), &task(5), 1);
    let mut events = Vec::new();
    for data in [&switch, &waking] {
        events.extend((10u32 << 5 | data.len().div_ceil(4) as u32).to_le_bytes());
        events.extend_from_slice(data);
        events.resize(events.len().next_multiple_of(4), 0);
    }
    let mut page = 1000u64.to_le_bytes().to_vec();
    page.extend((events.len() as u64).to_le_bytes());
    page.extend(events);
    page.resize(len, 0);
    page
}

/// Metadata, a NUL, and one packet with a switch.
pub(crate) fn ctf() -> Vec<u8> {
    const METADATA: &str = "/* CTF 1.8 */
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; map = clock.m.value; } := time_t;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { uint32_t magic; }; };
env { hostname = \"box\"; domain = \"kernel\"; };
clock { name = \"m\"; freq = 1000000000; offset = 5; };
struct header { enum : uint32_t { compact = 0 ... 30, extended = 31 } id;
  variant <id> { struct { time_t timestamp; } compact; struct { uint32_t id; } extended; } v; } align(8);
stream { id = 0; packet.context := struct { uint32_t cpu_id; }; event.header := struct header; };
event { name = \"sched_switch\"; id = 1; stream_id = 0; fields := struct {
  integer { size = 8; align = 8; encoding = UTF8; } _prev_comm[4]; uint32_t _prev_tid;
  uint32_t _prev_prio; uint32_t _prev_state; string _next_comm; uint32_t _next_tid;
  uint32_t _n; uint32_t _list[ _n ]; }; };
";
    let mut out = METADATA.as_bytes().to_vec();
    out.push(0);
    out.extend(0xc1fc_1fc1_u32.to_le_bytes());
    out.extend(3u32.to_le_bytes());
    out.extend(1u32.to_le_bytes());
    out.extend(700u64.to_le_bytes());
    out.extend_from_slice(b"ab\0\0");
    out.extend([5u32, 20, 1].iter().flat_map(|number| number.to_le_bytes()));
    out.extend_from_slice(b"next\0");
    out.extend([7u32, 2, 8, 9].iter().flat_map(|number| number.to_le_bytes()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use unhitch_formats::{import, read_bytes};

    #[test]
    fn every_seed_is_a_trace_with_rows() {
        for bytes in perfetto() {
            let trace = read_bytes(&bytes).unwrap();
            assert_eq!((trace.switches.len(), trace.wakings.len()), (2, 2));
            assert_eq!(trace.samples.len(), 1);
        }
        for version in [6, 7] {
            let trace = read_bytes(&trace_dat(version)).unwrap();
            assert_eq!((trace.switches.len(), trace.wakings.len()), (1, 1), "{version}");
        }
        let trace = read_bytes(PERF_SCRIPT.as_bytes()).unwrap();
        assert_eq!((trace.switches.len(), trace.wakings.len(), trace.samples.len()), (2, 1, 1));
        let bytes = ctf();
        let end = bytes.iter().position(|byte| *byte == 0).unwrap();
        let trace = import::ctf::load(&bytes[..end], &[&bytes[end + 1..]], &|_| {}).unwrap();
        assert_eq!(trace.switches.len(), 1);
    }
}
