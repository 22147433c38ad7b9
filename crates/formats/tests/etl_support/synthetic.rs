//! Synthetic `.etl` files: written here from the format's description, without any of the reader's
//! code.

/// A buffer of one CPU.
pub struct Buffer {
    pub cpu: u16,
    pub events: Vec<u8>,
}

/// How a buffer is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pack {
    Plain,
    /// XPRESS that packs nothing: every byte is copied.
    Copied,
}

pub const MHZ10: i64 = 10_000_000;
/// The time of the first event, ticks.
pub const ZERO: i64 = 1_000_000_000;

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(8), 0);
}

/// A kernel event with the short header.
pub fn perf_info(hook: u16, version: u8, ticks: i64, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![version, 0, 0x11, 0xc0];
    out.extend(((16 + payload.len()) as u16).to_le_bytes());
    out.extend(hook.to_le_bytes());
    out.extend(ticks.to_le_bytes());
    out.extend(payload);
    pad(&mut out);
    out
}

/// A kernel event with the header that names a thread.
pub fn system(
    hook: u16,
    version: u8,
    ticks: i64,
    (tid, pid): (u32, u32),
    payload: &[u8],
) -> Vec<u8> {
    let mut out = vec![version, 0, 2, 0xc0];
    out.extend(((32 + payload.len()) as u16).to_le_bytes());
    out.extend(hook.to_le_bytes());
    out.extend(tid.to_le_bytes());
    out.extend(pid.to_le_bytes());
    out.extend(ticks.to_le_bytes());
    out.extend([0; 8]);
    out.extend(payload);
    pad(&mut out);
    out
}

/// An event of a provider with a manifest.
pub fn manifest(
    guid: [u8; 16],
    id: u16,
    ticks: i64,
    (tid, pid): (u32, u32),
    payload: &[u8],
) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(((80 + payload.len()) as u16).to_le_bytes());
    out.extend([0x13, 0xc0, 0x40, 0, 0, 0]);
    out.extend(tid.to_le_bytes());
    out.extend(pid.to_le_bytes());
    out.extend(ticks.to_le_bytes());
    out.extend(guid);
    out.extend(id.to_le_bytes());
    out.extend([0, 0, 4, 0, 0, 0]);
    out.extend([0; 32]);
    out.extend(payload);
    pad(&mut out);
    out
}

/// `CSwitch`, version 4: reason 6 (UserRequest), user mode.
pub fn switch(ticks: i64, new: u32, old: u32, state: u8) -> Vec<u8> {
    let mut payload = Vec::new();
    payload.extend(new.to_le_bytes());
    payload.extend(old.to_le_bytes());
    payload.extend([9, 8, 0, 0, 6, 1, state, 0]);
    payload.extend([0; 8]);
    perf_info(0x524, 4, ticks, &payload)
}

pub fn ready(ticks: i64, tid: u32, in_dpc: bool) -> Vec<u8> {
    let mut payload = tid.to_le_bytes().to_vec();
    payload.extend([1, 0, u8::from(in_dpc), 0]);
    perf_info(0x532, 2, ticks, &payload)
}

pub fn sample(ticks: i64, tid: u32, instruction: u64) -> Vec<u8> {
    let mut payload = instruction.to_le_bytes().to_vec();
    payload.extend(tid.to_le_bytes());
    payload.extend([1, 0, 0, 0]);
    perf_info(0xf2e, 2, ticks, &payload)
}

pub fn stack(shown: i64, of: i64, (tid, pid): (u32, u32), avmas: &[u64]) -> Vec<u8> {
    let mut payload = of.to_le_bytes().to_vec();
    payload.extend(pid.to_le_bytes());
    payload.extend(tid.to_le_bytes());
    avmas.iter().for_each(|avma| payload.extend(avma.to_le_bytes()));
    perf_info(0x1820, 2, shown, &payload)
}

pub fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

/// A process event of version 4.
pub fn process(hook: u16, ticks: i64, pid: u32, name: &str) -> Vec<u8> {
    let mut payload = 0xffff_8000_0000_1000_u64.to_le_bytes().to_vec();
    payload.extend(pid.to_le_bytes());
    payload.extend([0; 4 + 4 + 4 + 8 + 4 + 4]);
    payload.extend(name.as_bytes());
    payload.push(0);
    payload.extend([0; 6]);
    system(hook, 4, ticks, (0, 0), &payload)
}

/// A thread event of version 3, with a name.
pub fn thread(hook: u16, ticks: i64, (tid, pid): (u32, u32), name: &str) -> Vec<u8> {
    let mut payload = pid.to_le_bytes().to_vec();
    payload.extend(tid.to_le_bytes());
    payload.extend([0; 7 * 8 + 4 + 4]);
    payload.extend(utf16(name));
    system(hook, 3, ticks, (0, 0), &payload)
}

/// An image event of version 2.
pub fn image(hook: u16, ticks: i64, pid: u32, base: u64, name: &str) -> Vec<u8> {
    let mut payload = base.to_le_bytes().to_vec();
    payload.extend(0x10_0000_u64.to_le_bytes());
    payload.extend(pid.to_le_bytes());
    payload.extend([0; 4 + 4 + 4]);
    payload.extend(base.to_le_bytes());
    payload.extend([0; 16]);
    payload.extend(utf16(name));
    system(hook, 2, ticks, (0, pid), &payload)
}

fn log_header(pointer_bytes: usize, buffers: u32, cpus: u32, session: &str, later: i64) -> Vec<u8> {
    let mut p = vec![0; 264 + 2 * pointer_bytes];
    let wide = 2 * pointer_bytes;
    let mut put = |at: usize, bytes: &[u8]| p[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &65_536_u32.to_le_bytes());
    put(8, &19_045_u32.to_le_bytes());
    put(0xc, &cpus.to_le_bytes());
    put(0x24, &buffers.to_le_bytes());
    put(0x2c, &(pointer_bytes as u32).to_le_bytes());
    put(240 + wide, &MHZ10.to_le_bytes());
    put(248 + wide, &(133_000_000_000_000_000 + later).to_le_bytes());
    put(256 + wide, &1_u32.to_le_bytes());
    p.extend(utf16(session));
    p.extend(utf16("made.etl"));
    p
}

/// A whole file.
pub fn file(pointer_bytes: usize, buffers: &[Buffer], pack: Pack) -> Vec<u8> {
    session("synthetic", 0, pointer_bytes, buffers, pack)
}

/// The file of a session that began some ticks later.
pub fn session(
    name: &str,
    later: i64,
    pointer_bytes: usize,
    buffers: &[Buffer],
    pack: Pack,
) -> Vec<u8> {
    let cpus = buffers.iter().map(|buffer| u32::from(buffer.cpu) + 1).max().unwrap_or(1);
    let header = log_header(pointer_bytes, buffers.len() as u32 + 1, cpus, name, later);
    let header = system(0, 2, ZERO + later, (1, 2), &header);
    let mut out = buffer(0, &header, 4, Pack::Plain);
    for one in buffers {
        out.extend(buffer(one.cpu, &one.events, 0, pack));
    }
    out
}

fn buffer(cpu: u16, events: &[u8], kind: u16, pack: Pack) -> Vec<u8> {
    let (data, flags) = match pack {
        Pack::Plain => (events.to_vec(), 0x21_u16),
        Pack::Copied => (copied(events), 0x61),
    };
    raw_buffer(cpu, &data, events.len() + 0x48, flags, kind)
}

/// A buffer with any header.
pub fn raw_buffer(cpu: u16, data: &[u8], saved: usize, flags: u16, kind: u16) -> Vec<u8> {
    let mut out = vec![0; 0x48];
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &((0x48 + data.len()) as u32).to_le_bytes());
    put(4, &(saved as u32).to_le_bytes());
    put(0x28, &cpu.to_le_bytes());
    put(0x30, &(saved as u32).to_le_bytes());
    put(0x34, &flags.to_le_bytes());
    put(0x36, &kind.to_le_bytes());
    out.extend(data);
    out
}

/// XPRESS without matches.
fn copied(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in bytes.chunks(32) {
        out.extend([0; 4]);
        out.extend(chunk);
    }
    out
}

/// XPRESS that repeats `unit` endlessly.
pub fn repeated(unit: &[u8]) -> Vec<u8> {
    assert!(unit.len() <= 8192);
    let (whole, rest) = unit.as_chunks::<32>();
    let mut out: Vec<u8> =
        whole.iter().flat_map(|literals| [&[0; 4][..], literals].concat()).collect();
    let flags = u32::MAX >> rest.len();
    out.extend(flags.to_le_bytes());
    out.extend(rest);
    let token = ((unit.len() as u16 - 1) << 3) | 7;
    out.extend(token.to_le_bytes());
    out.extend([0x0f, 0xff, 0, 0]);
    out.extend(0x7fff_ffff_u32.to_le_bytes());
    out
}

/// XPRESS that repeats `unit`; the four bytes at `varied` count from `first`.
pub fn varying(unit: &[u8], varied: usize, times: usize, first: u32) -> Vec<u8> {
    assert!((4..=8192).contains(&unit.len()) && varied + 4 <= unit.len());
    let mut out = Xpress::default();
    unit.iter().for_each(|byte| out.literal(*byte));
    for time in 1..times as u32 {
        out.again(unit.len(), varied);
        (first + time).to_le_bytes().iter().for_each(|byte| out.literal(*byte));
        out.again(unit.len(), unit.len() - varied - 4);
    }
    out.finish()
}

/// An XPRESS stream while it grows.
#[derive(Default)]
struct Xpress {
    out: Vec<u8>,
    /// Where its flags are, and how many of them are used.
    flags: (usize, u32, u32),
    /// Offset of the byte whose upper half is free.
    half: Option<usize>,
}

impl Xpress {
    fn item(&mut self, is_match: bool) {
        if self.flags.2 == 0 {
            self.flags = (self.out.len(), 0, 32);
            self.out.extend([0; 4]);
        }
        self.flags.2 -= 1;
        self.flags.1 |= u32::from(is_match) << self.flags.2;
        let (at, flags, _) = self.flags;
        self.out[at..at + 4].copy_from_slice(&flags.to_le_bytes());
    }

    fn literal(&mut self, byte: u8) {
        self.item(false);
        self.out.push(byte);
    }

    /// The `len` bytes from `back` before.
    fn again(&mut self, back: usize, len: usize) {
        if len == 0 {
            return;
        }
        assert!(len >= 3, "no match is shorter");
        self.item(true);
        let mut rest = len - 3;
        let token = (back as u16 - 1) << 3;
        if rest < 7 {
            self.out.extend((token | rest as u16).to_le_bytes());
            return;
        }
        self.out.extend((token | 7).to_le_bytes());
        rest -= 7;
        let nibble = rest.min(15) as u8;
        match self.half.take() {
            Some(at) => self.out[at] |= nibble << 4,
            None => {
                self.half = Some(self.out.len());
                self.out.push(nibble);
            }
        }
        if rest < 15 {
            return;
        }
        rest -= 15;
        if rest < 255 {
            self.out.push(rest as u8);
            return;
        }
        self.out.push(255);
        self.out.extend((len as u16 - 3).to_le_bytes());
    }

    fn finish(mut self) -> Vec<u8> {
        // Unused flags are set.
        let (at, flags, free) = self.flags;
        let rest = 1_u32.checked_shl(free).map_or(u32::MAX, |bit| bit - 1);
        self.out[at..at + 4].copy_from_slice(&(flags | rest).to_le_bytes());
        self.out
    }
}

/// The class of what merging adds: bbccf6c1-6cd1-48c4-80ff-839482e37671.
pub const METADATA: [u8; 16] = [
    0xc1, 0xf6, 0xcc, 0xbb, 0xd1, 0x6c, 0xc4, 0x48, 0x80, 0xff, 0x83, 0x94, 0x82, 0xe3, 0x76, 0x71,
];

/// An event of a class.
pub fn classic(class: [u8; 16], opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = ((48 + payload.len()) as u16).to_le_bytes().to_vec();
    out.extend([0x14, 0xc0, opcode, 0, 2, 0]);
    out.extend([0; 8]);
    out.extend(ZERO.to_le_bytes());
    out.extend(class);
    out.extend([0; 8]);
    out.extend(payload);
    pad(&mut out);
    out
}

/// `TRACE_EVENT_INFO` of an event of some fields, all of one long name.
pub fn event_info(provider: [u8; 16], id: u16, fields: u32) -> Vec<u8> {
    let mut out = vec![0; 0x70];
    out[..16].copy_from_slice(&provider);
    out[0x20..0x22].copy_from_slice(&id.to_le_bytes());
    out[0x64..0x68].copy_from_slice(&fields.to_le_bytes());
    out[0x68..0x6c].copy_from_slice(&fields.to_le_bytes());
    let name_at = 0x70 + fields * 24;
    for _ in 0..fields {
        out.extend([0; 4]);
        out.extend(name_at.to_le_bytes());
        out.extend([8, 0, 0, 0, 0, 0, 0, 0, 1, 0, 4, 0, 0, 0, 0, 0]);
    }
    out.extend(utf16(&"n".repeat(60)));
    out
}

/// `EVENT_MAP_INFO` of some values, all of one name.
pub fn map_info(provider: [u8; 16], values: u32) -> Vec<u8> {
    let name_at = 16 + values * 8;
    let mut out = provider.to_vec();
    [name_at, 1, values, 0].iter().for_each(|word| out.extend(word.to_le_bytes()));
    for value in 0..values {
        out.extend([name_at.to_le_bytes(), value.to_le_bytes()].concat());
    }
    out.extend(utf16(&"n".repeat(200)));
    out
}
