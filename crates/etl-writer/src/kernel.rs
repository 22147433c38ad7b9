//! Events of the kernel: hook ids, versions and payloads.
//!
//! The layouts are those of Windows 10: process version 4, thread 3, image 3, context switch 4,
//! sample 2.

use crate::{Bytes, Guid, Header, Options, Writer};

/// `KWAIT_REASON`: why a thread left its CPU.
#[allow(missing_docs, reason = "the names are those of Windows")]
pub mod wait_reason {
    pub const EXECUTIVE: u8 = 0;
    pub const DELAY_EXECUTION: u8 = 4;
    pub const USER_REQUEST: u8 = 6;
    pub const WR_QUEUE: u8 = 15;
    pub const WR_TERMINATED: u8 = 22;
    pub const WR_RESOURCE: u8 = 27;
    pub const WR_PUSH_LOCK: u8 = 28;
    pub const WR_PREEMPTED: u8 = 32;
}

/// A context switch.
#[derive(Clone, Copy, Default, Debug)]
#[allow(missing_docs, reason = "the fields are those of the format")]
pub struct CSwitch {
    pub new_tid: u32,
    pub old_tid: u32,
    pub new_priority: i8,
    pub old_priority: i8,
    pub previous_c_state: u8,
    pub old_wait_reason: u8,
    pub old_wait_mode: u8,
    /// 1 ready, 4 terminated, 5 waiting.
    pub old_state: u8,
    pub old_ideal_cpu: u8,
    pub new_wait_time: u32,
}

/// A wake-up.
#[derive(Clone, Copy, Default, Debug)]
pub struct ReadyThread {
    /// The thread.
    pub tid: u32,
    /// True if a deferred procedure call issued it.
    pub in_dpc: bool,
}

/// A process.
#[derive(Clone, Copy, Default, Debug)]
#[allow(missing_docs, reason = "the fields are those of the format")]
pub struct Process<'a> {
    pub pid: u32,
    pub parent: u32,
    pub image: &'a str,
    pub command_line: &'a str,
}

/// A thread.
#[derive(Clone, Copy, Default, Debug)]
#[allow(missing_docs, reason = "the fields are those of the format")]
pub struct ThreadFacts<'a> {
    pub pid: u32,
    pub tid: u32,
    /// The name behind the fields; `None` for Windows 8 and before.
    pub name: Option<&'a str>,
}

/// A mapped image.
#[derive(Clone, Copy, Default, Debug)]
#[allow(missing_docs, reason = "the fields are those of the format")]
pub struct Image<'a> {
    pub base: u64,
    pub size: u64,
    pub pid: u32,
    pub timestamp: u32,
    /// An NT path: `\Device\HarddiskVolume3\Windows\…`.
    pub path: &'a str,
}

/// An interrupt on a CPU. Its event comes at its end.
#[derive(Clone, Copy, Default, Debug)]
#[allow(missing_docs, reason = "the fields are those of the format")]
pub struct Interrupt {
    pub entry_ns: u64,
    pub routine: u64,
}

/// The four events of a process, thread or image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rundown {
    /// It begins.
    Start,
    /// It ends.
    End,
    /// It existed when the session began.
    First,
    /// It existed when the session ended.
    Last,
}

/// An event of the kernel.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the variants are named like the events")]
pub enum KernelEvent<'a> {
    Process(Rundown, Process<'a>),
    /// With the process and thread of its creator.
    Thread(Rundown, ThreadFacts<'a>, (u32, u32)),
    ThreadName(ThreadFacts<'a>),
    Image(Rundown, Image<'a>),
    /// Identifies the symbol file of an image: base, process, id, age, path of the symbol file.
    ImageRsds {
        base: u64,
        pid: u32,
        guid: Guid,
        age: u32,
        pdb: &'a str,
    },
    CSwitch(CSwitch),
    ReadyThread(ReadyThread),
    Sample {
        instruction: u64,
        tid: u32,
        in_dpc: bool,
    },
    /// 100-ns units between two samples of a CPU.
    SampleInterval {
        first: bool,
        units: u32,
    },
    Dpc(Interrupt),
    Isr(Interrupt, u8),
    /// Time of its event, process and thread, addresses with the innermost first.
    StackWalk {
        of_ns: u64,
        pid: u32,
        tid: u32,
        frames: &'a [u64],
    },
    /// The same by key, for the kernel or the user part.
    StackKey {
        of_ns: u64,
        pid: u32,
        tid: u32,
        user: bool,
        key: u64,
    },
    /// Defines a key. 0x1822: created, 0x1823: evicted, 0x1824: at the end.
    StackDefinition {
        kind: u8,
        key: u64,
        frames: &'a [u64],
    },
    HardFault {
        start_ns: u64,
        avma: u64,
        file: u64,
        offset: u64,
        tid: u32,
        bytes: u32,
    },
    DiskRead {
        disk: u32,
        bytes: u32,
        offset: u64,
        file: u64,
        took_ns: u64,
        tid: u32,
    },
    FileName {
        file: u64,
        path: &'a str,
    },
    Mark(&'a str),
}

/// The provider of events that identify the symbol files of images.
const IMAGE_ID: Guid =
    Guid::new(0xb3e6_75d7, 0x2554, 0x4f18, [0x83, 0x0b, 0x27, 0x62, 0x73, 0x25, 0x60, 0xde]);
const RSDS: u8 = 36;

impl Writer {
    /// Adds an event of the kernel.
    pub fn kernel(&mut self, cpu: u16, ns: u64, event: &KernelEvent<'_>) {
        let (header, payload) = event.encode(self.options());
        self.event(cpu, ns, &header, &payload.0);
    }
}

fn frequent(hook: u16, version: u16) -> Header {
    Header::PerfInfo { hook, version }
}

impl KernelEvent<'_> {
    fn encode(&self, options: &Options) -> (Header, Bytes) {
        let width = options.pointer_width;
        let out = Bytes::new();
        match *self {
            Self::Process(rundown, process) => {
                let hook = 0x300 + u16::from(rundown.opcode());
                let header = Header::System { hook, version: 4, pid: process.parent, tid: 0 };
                (header, process.encode(rundown, width))
            }
            Self::Thread(rundown, thread, (pid, tid)) => {
                let hook = 0x500 + u16::from(rundown.opcode());
                (Header::System { hook, version: 3, pid, tid }, thread.encode(width))
            }
            Self::ThreadName(thread) => {
                let header =
                    Header::System { hook: 0x548, version: 2, pid: thread.pid, tid: thread.tid };
                (header, out.u32(thread.pid).u32(thread.tid).utf16(thread.name.unwrap_or_default()))
            }
            Self::Image(rundown, image) => {
                let hook = match rundown {
                    Rundown::Start => 0x30a,
                    _ => 0x1400 + u16::from(rundown.opcode()),
                };
                let header = Header::System { hook, version: 3, pid: image.pid, tid: 0 };
                (header, image.encode(width))
            }
            Self::ImageRsds { base, pid, guid, age, pdb } => {
                let header =
                    Header::Full { class: IMAGE_ID, opcode: RSDS, version: 2, pid, tid: 0 };
                (header, out.pointer(width, base).u32(pid).raw(&guid.0).u32(age).ansi(pdb))
            }
            Self::CSwitch(switch) => (frequent(0x524, 4), switch.encode()),
            Self::ReadyThread(ready) => {
                (frequent(0x532, 2), out.u32(ready.tid).raw(&[1, 0, u8::from(ready.in_dpc), 0]))
            }
            Self::Sample { instruction, tid, in_dpc } => (
                frequent(0xf2e, 2),
                out.pointer(width, instruction).u32(tid).u16(1).u8(u8::from(in_dpc)).u8(0),
            ),
            Self::SampleInterval { first, units } => {
                let header = Header::System {
                    hook: if first { 0xf49 } else { 0xf48 },
                    version: 3,
                    pid: 4,
                    tid: 8,
                };
                (header, out.u32(0).u32(units).u32(units).utf16("Timer"))
            }
            Self::Dpc(Interrupt { entry_ns, routine }) => {
                (frequent(0xf44, 2), out.u64(options.ticks(entry_ns)).pointer(width, routine))
            }
            Self::Isr(Interrupt { entry_ns, routine }, vector) => (
                frequent(0xf43, 2),
                out.u64(options.ticks(entry_ns))
                    .pointer(width, routine)
                    .u8(1)
                    .u16(u16::from(vector))
                    .u8(0),
            ),
            Self::StackWalk { .. }
            | Self::StackKey { .. }
            | Self::StackDefinition { .. }
            | Self::HardFault { .. }
            | Self::DiskRead { .. } => self.encode_stack_or_transfer(options),
            Self::FileName { file, path } => {
                (frequent(0x424, 2), out.pointer(width, file).utf16(path))
            }
            Self::Mark(text) => {
                (Header::System { hook: 0xf22, version: 2, pid: 4, tid: 8 }, out.ansi(text))
            }
        }
    }

    /// The same for stacks and transfers.
    fn encode_stack_or_transfer(&self, options: &Options) -> (Header, Bytes) {
        let width = options.pointer_width;
        let out = Bytes::new();
        match *self {
            Self::StackWalk { of_ns, pid, tid, frames } => (
                frequent(0x1820, 2),
                addresses(out.u64(options.ticks(of_ns)).u32(pid).u32(tid), width, frames),
            ),
            Self::StackKey { of_ns, pid, tid, user, key } => {
                let payload = out.u64(options.ticks(of_ns)).u32(pid).u32(tid).pointer(width, key);
                (frequent(0x1825 + u16::from(user), 2), payload)
            }
            Self::StackDefinition { kind, key, frames } => (
                frequent(0x1800 + u16::from(kind), 2),
                addresses(out.pointer(width, key), width, frames),
            ),
            Self::HardFault { start_ns, avma, file, offset, tid, bytes } => {
                let payload = out
                    .u64(options.ticks(start_ns))
                    .u64(offset)
                    .pointer(width, avma)
                    .pointer(width, file)
                    .u32(tid)
                    .u32(bytes);
                (frequent(0x220, 2), payload)
            }
            Self::DiskRead { disk, bytes, offset, file, took_ns, tid } => {
                let payload = out
                    .u32(disk)
                    .u32(0x6_0043)
                    .u32(bytes)
                    .u32(0)
                    .u64(offset)
                    .pointer(width, file)
                    .pointer(width, 0xffff_b00a_1234_0000)
                    .u64(options.span_ticks(took_ns))
                    .u32(tid);
                (frequent(0x10a, 3), payload)
            }
            _ => unreachable!("neither a stack nor a transfer"),
        }
    }
}

impl Process<'_> {
    fn encode(&self, rundown: Rundown, width: u8) -> Bytes {
        // The kernel's own process has no owner.
        let owner = if self.pid <= 4 { Bytes::new().u32(0) } else { owner(width) };
        Bytes::new()
            .pointer(width, 0xffff_b00a_0000_0000 | u64::from(self.pid) << 8)
            .u32(self.pid)
            .u32(self.parent)
            .u32(1)
            .u32(if rundown == Rundown::End { 0 } else { 259 })
            .pointer(width, 0x1a_a000)
            .u32(0)
            .raw(&owner.0)
            .ansi(self.image)
            .utf16(self.command_line)
            .utf16("")
            .utf16("")
    }
}

impl ThreadFacts<'_> {
    fn encode(&self, width: u8) -> Bytes {
        let payload = Bytes::new()
            .u32(self.pid)
            .u32(self.tid)
            .pointer(width, 0xffff_c00a_0000_6000)
            .pointer(width, 0xffff_c00a_0000_0000)
            .pointer(width, 0x50_0000)
            .pointer(width, 0x4f_0000)
            .pointer(width, u64::MAX)
            .pointer(width, 0x7ff8_0000_1000)
            .pointer(width, 0x35_0000)
            .u32(0)
            .raw(&[8, 5, 2, 0]);
        self.name.iter().fold(payload, |payload, name| payload.utf16(name))
    }
}

impl Image<'_> {
    fn encode(&self, width: u8) -> Bytes {
        Bytes::new()
            .pointer(width, self.base)
            .pointer(width, self.size)
            .u32(self.pid)
            .u32(0)
            .u32(self.timestamp)
            .u32(0)
            .pointer(width, self.base)
            .raw(&[0; 16])
            .utf16(self.path)
    }
}

impl CSwitch {
    fn encode(&self) -> Bytes {
        Bytes::new()
            .u32(self.new_tid)
            .u32(self.old_tid)
            .u8(self.new_priority as u8)
            .u8(self.old_priority as u8)
            .u8(self.previous_c_state)
            .u8(0)
            .u8(self.old_wait_reason)
            .u8(self.old_wait_mode)
            .u8(self.old_state)
            .u8(self.old_ideal_cpu)
            .u32(self.new_wait_time)
            .u32(0)
    }
}

impl Rundown {
    fn opcode(self) -> u8 {
        match self {
            Self::Start => 1,
            Self::End => 2,
            Self::First => 3,
            Self::Last => 4,
        }
    }
}

/// `TOKEN_USER` and the security id S-1-5-18.
fn owner(width: u8) -> Bytes {
    Bytes::new()
        .pointer(width, 0xffff_d00a_0000_0010)
        .pointer(width, 0)
        .raw(&[1, 1, 0, 0, 0, 0, 0, 5])
        .u32(18)
}

fn addresses(out: Bytes, width: u8, frames: &[u64]) -> Bytes {
    frames.iter().fold(out, |out, frame| out.pointer(width, *frame))
}
