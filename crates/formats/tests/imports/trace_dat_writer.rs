//! Writes `trace.dat` files, by the manual pages of trace-cmd.

use unhitch_formats::perf_data::tracepoints::{self, SWITCH, Task, WAKEUP_NEW, WAKING};
use unhitch_formats::tracepoint::TracingData;
use unhitch_model::{TaskState, WakeFlags};

const KERNEL_STACK: &str = "name: kernel_stack\nID: 4\nformat:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
    \tfield:int size;\toffset:8;\tsize:4;\tsigned:1;\n\
    \tfield:unsigned long caller[8];\toffset:16;\tsize:64;\tsigned:0;\n";
const KALLSYMS: &str =
    "ffffffff81000000 T start\nffffffff81001000 t schedule\nffffffff81002000 T end\n";
pub const PAGE: usize = 4096;

/// The ring of one CPU, page by page.
#[derive(Clone, Default)]
pub struct Ring {
    pub pages: Vec<u8>,
    start: usize,
    time: u64,
}

impl Ring {
    /// A ring whose first page begins at `time`.
    pub fn new(time: u64) -> Self {
        let mut ring = Self::default();
        ring.page(time, 0);
        ring
    }

    /// Begins a page, with these flags.
    pub fn page(&mut self, time: u64, flags: u64) {
        self.pages.resize(self.pages.len().next_multiple_of(PAGE), 0);
        self.start = self.pages.len();
        self.time = time;
        self.pages.extend_from_slice(&time.to_le_bytes());
        self.pages.extend_from_slice(&flags.to_le_bytes());
    }

    /// Adds an event.
    pub fn event(&mut self, time: u64, data: &[u8]) {
        let mut delta = time - self.time;
        let mut words = Vec::new();
        if delta >> 27 > 0 {
            words.extend([((delta & 0x7ff_ffff) << 5) as u32 | 30, (delta >> 27) as u32]);
            delta = 0;
        }
        let len = data.len().div_ceil(4);
        if len <= 28 {
            words.push((delta as u32) << 5 | len as u32);
        } else {
            words.extend([(delta as u32) << 5, len as u32 * 4 + 4]);
        }
        self.time = time;
        words.iter().for_each(|word| self.pages.extend_from_slice(&word.to_le_bytes()));
        self.pages.extend_from_slice(data);
        self.pages.resize(self.pages.len().next_multiple_of(4), 0);
        let used = (self.pages.len() - self.start - 16) as u32;
        let commit = &mut self.pages[self.start + 8..self.start + 12];
        let flags = u32::from_le_bytes(commit.try_into().unwrap()) & 0xc000_0000;
        commit.copy_from_slice(&(flags | used).to_le_bytes());
    }

    pub fn switch(&mut self, time: u64, prev: (u32, &str), state: TaskState, next: (u32, &str)) {
        let task =
            |(tid, comm): (u32, &'static str)| Task { comm: comm.as_bytes(), tid, prio: 120 };
        let leak = |(tid, comm): (u32, &str)| (tid, &*Box::leak(comm.to_owned().into_boxed_str()));
        let mut data = Vec::new();
        tracepoints::switch(&mut data, &task(leak(prev)), state, &task(leak(next)));
        self.event(time, &data);
    }

    pub fn waking(&mut self, time: u64, waker: u32, context: WakeFlags, wakee: u32) {
        let mut data = Vec::new();
        let task = Task { comm: b"woken", tid: wakee, prio: 120 };
        tracepoints::waking(&mut data, waker, context, &task, 1);
        self.event(time, &data);
    }

    /// The stack of the event before, of the thread `tid`.
    pub fn stack(&mut self, time: u64, tid: u32, callers: &[u64]) {
        let mut data = 4u16.to_le_bytes().to_vec();
        data.extend([0, 0]);
        data.extend(tid.to_le_bytes());
        data.extend((callers.len() as u32).to_le_bytes());
        data.extend([0; 4]);
        callers.iter().for_each(|avma| data.extend(avma.to_le_bytes()));
        self.event(time, &data);
    }

    fn whole(&self) -> Vec<u8> {
        let mut pages = self.pages.clone();
        pages.resize(pages.len().next_multiple_of(PAGE), 0);
        pages
    }
}

fn sized(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

fn tracing_data() -> TracingData {
    tracepoints::tracing_data(&[SWITCH, WAKING, WAKEUP_NEW])
}

fn header_info() -> Vec<u8> {
    let data = tracing_data();
    [&b"header_page\0"[..], &sized(&data.header_page), b"header_event\0", &sized("")].concat()
}

fn ftrace_events() -> Vec<u8> {
    [&1u32.to_le_bytes()[..], &sized(KERNEL_STACK)].concat()
}

fn event_formats() -> Vec<u8> {
    let data = tracing_data();
    let mut out = 1u32.to_le_bytes().to_vec();
    out.extend_from_slice(b"sched\0");
    out.extend((data.events.len() as u32).to_le_bytes());
    data.events.iter().for_each(|(_, text)| out.extend(sized(text)));
    out
}

fn command_lines() -> Vec<u8> {
    sized("99 sleeper\n7 old name\n")
}

fn option(id: u16, data: &[u8]) -> Vec<u8> {
    [&id.to_le_bytes()[..], &(data.len() as u32).to_le_bytes(), data].concat()
}

const UNAME: &[u8] = b"Linux box 6.1.0 #1 SMP x86_64\0";

/// A file of version 6, with a ring for each CPU.
pub fn version_6(clock: &str, rings: &[Ring]) -> Vec<u8> {
    let mut out = b"\x17\x08\x44tracing6\0\0\x08".to_vec();
    out.extend((PAGE as u32).to_le_bytes());
    out.extend(header_info());
    out.extend(ftrace_events());
    out.extend(event_formats());
    out.extend((KALLSYMS.len() as u32).to_le_bytes());
    out.extend_from_slice(KALLSYMS.as_bytes());
    out.extend(0u32.to_le_bytes());
    out.extend(command_lines());
    out.extend((rings.len() as u32).to_le_bytes());
    out.extend_from_slice(b"options  \0");
    out.extend(option(4, format!("local [{clock}] boot\0").as_bytes()));
    out.extend(option(5, UNAME));
    out.extend(option(2, b"CPU: 0\nentries: 5\noverrun: 3\ndropped events: 2\n\0"));
    out.extend(0u16.to_le_bytes());
    out.extend_from_slice(b"flyrecord\0");
    let mut at = (out.len() + 16 * rings.len()).next_multiple_of(PAGE);
    for ring in rings {
        let len = ring.whole().len();
        out.extend((at as u64).to_le_bytes());
        out.extend((len as u64).to_le_bytes());
        at += len;
    }
    for ring in rings {
        out.resize(out.len().next_multiple_of(PAGE), 0);
        out.extend(ring.whole());
    }
    out
}

/// How a file of version 7 is compressed: the algorithm's name, and what it makes of bytes.
pub type Packing = (&'static str, fn(&[u8]) -> Vec<u8>);

pub const PACKINGS: [Packing; 3] = [("none", <[u8]>::to_vec), ("zlib", zlib), ("zstd", zstd)];

fn zlib(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A frame without the magic number, as trace-cmd writes it, of uncompressed blocks.
fn zstd(bytes: &[u8]) -> Vec<u8> {
    // A window of 64 KiB, and no length.
    let mut out = vec![0, 0x30];
    let blocks: Vec<&[u8]> = bytes.chunks(1 << 15).collect();
    for (index, block) in blocks.iter().enumerate() {
        let is_last = u32::from(index + 1 == blocks.len());
        out.extend_from_slice(&(block.len() as u32 * 8 + is_last).to_le_bytes()[..3]);
        out.extend_from_slice(block);
    }
    out
}

/// A file of version 7, with a ring for each CPU.
pub fn version_7((name, pack): Packing, rings: &[Ring]) -> Vec<u8> {
    let is_packed = name != "none";
    let mut out = b"\x17\x08\x44tracing7\0\0\x08".to_vec();
    out.extend((PAGE as u32).to_le_bytes());
    out.extend(name.as_bytes());
    out.extend_from_slice(b"\x001.0\0");
    let first_options = out.len();
    out.extend([0; 8]);
    let section = |out: &mut Vec<u8>, id: u16, content: &[u8]| {
        let at = out.len() as u64;
        let content = match is_packed {
            true => {
                let packed = pack(content);
                let lens = [packed.len() as u32, content.len() as u32].map(u32::to_le_bytes);
                [&lens.concat(), &packed[..]].concat()
            }
            false => content.to_vec(),
        };
        out.extend(id.to_le_bytes());
        out.extend(u16::from(is_packed).to_le_bytes());
        out.extend(0u32.to_le_bytes());
        out.extend((content.len() as u64).to_le_bytes());
        out.extend(content);
        at.to_le_bytes()
    };
    let kallsyms = [&(KALLSYMS.len() as u32).to_le_bytes()[..], KALLSYMS.as_bytes()].concat();
    let parts = [
        (16, header_info()),
        (17, ftrace_events()),
        (18, event_formats()),
        (19, kallsyms),
        (21, command_lines()),
    ];
    let mut options = option(5, UNAME);
    for (id, content) in parts {
        let at = section(&mut out, id, &content);
        options.extend(option(id, &at));
    }
    let mut places = Vec::new();
    let buffer = (out.len() as u64).to_le_bytes();
    out.extend([3u16, u16::from(is_packed), 0, 0].iter().flat_map(|word| word.to_le_bytes()));
    let len_at = out.len();
    out.extend([0; 8]);
    for (cpu, ring) in rings.iter().enumerate() {
        let content = match is_packed {
            true => chunks(&ring.whole(), pack),
            false => {
                out.resize(out.len().next_multiple_of(PAGE), 0);
                ring.whole()
            }
        };
        places.extend((cpu as u32).to_le_bytes());
        places.extend((out.len() as u64).to_le_bytes());
        places.extend((content.len() as u64).to_le_bytes());
        out.extend(content);
    }
    let len = (out.len() - len_at - 8) as u64;
    out[len_at..len_at + 8].copy_from_slice(&len.to_le_bytes());
    let mut data = buffer.to_vec();
    data.extend_from_slice(b"\0mono\0");
    data.extend((PAGE as u32).to_le_bytes());
    data.extend((rings.len() as u32).to_le_bytes());
    data.extend(places);
    options.extend(option(3, &data));
    options.extend(option(0, &[0; 8]));
    let at = section(&mut out, 0, &options);
    out[first_options..first_options + 8].copy_from_slice(&at);
    out
}

/// Two pages a chunk.
fn chunks(pages: &[u8], pack: fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let chunks = pages.chunks(2 * PAGE);
    let mut out = (chunks.len() as u32).to_le_bytes().to_vec();
    for chunk in chunks {
        let packed = pack(chunk);
        out.extend((packed.len() as u32).to_le_bytes());
        out.extend((chunk.len() as u32).to_le_bytes());
        out.extend(packed);
    }
    out
}
