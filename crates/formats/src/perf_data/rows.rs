//! The rows of a recording, by kind, before its threads and stacks are resolved. They have the
//! kernel's thread ids, and the number of the stack in a table of their decoder's.

use std::net::IpAddr;
use unhitch_model::{DescriptorKind, TaskState, WakeFlags};

const FAMILY_UNIX: u32 = 1;
const FAMILY_INET: u32 = 2;
const FAMILY_INET6: u32 = 10;

/// One event of some kind.
#[derive(Clone, Copy, Default)]
pub(crate) struct Row<T> {
    pub time: u64,
    pub stack: u32,
    pub cpu: u16,
    pub of: T,
}

/// A context switch.
#[derive(Clone, Copy, Default)]
pub(crate) struct Switch {
    pub prev: u32,
    pub next: u32,
    pub prev_prio: i16,
    pub next_prio: i16,
    pub prev_state: TaskState,
}

/// A wake-up.
#[derive(Clone, Copy, Default)]
pub(crate) struct Waking {
    pub waker: u32,
    pub wakee: u32,
    pub target_cpu: u16,
    pub flags: WakeFlags,
}

/// A CPU sample.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sample {
    pub tid: u32,
}

/// A thread came on the row's CPU, or was sent there.
#[derive(Clone, Copy, Default)]
pub(crate) struct Placement {
    pub tid: u32,
}

/// A lock contention event.
#[derive(Clone, Copy, Default)]
pub(crate) struct Contention {
    pub lock_avma: u64,
    pub tid: u32,
    pub flags: u32,
    pub end: bool,
}

/// A wait of which more than the stack was kept. The row's time is when the thread left its CPU.
#[derive(Clone, Default)]
pub(crate) struct KeptWait {
    pub tid: u32,
    /// Negative in no system call.
    pub syscall: i32,
    pub arguments: [u64; 2],
    /// 0 if it is not known.
    pub owner: u32,
    /// `owner` had the lock when the thread was back, and not when the wait began.
    pub is_owner_at_return: bool,
    /// It has no stack, because that was over the budget.
    pub is_over_budget: bool,
    /// 0 for none.
    pub kernel_lock: u64,
    /// What it waited for.
    pub descriptor: Option<Box<Descriptor>>,
}

/// A wake-up by `futex(2)`. The row's time is that of the wake-up.
#[derive(Clone, Copy, Default)]
pub(crate) struct KeptWake {
    pub wakee: u32,
    pub futex: u64,
}

/// A wait that began before all CPUs are covered. The row's time is from when on they are.
#[derive(Clone, Copy, Default)]
pub(crate) struct EarlierWait {
    pub tid: u32,
    pub since: u64,
    pub is_estimate: bool,
    /// When the thread was back; `u64::MAX` if it was not.
    pub until: u64,
    pub state: TaskState,
}

/// The file, pipe or socket of a wait. Zeros where something is not known.
#[derive(Clone, Copy, Default)]
pub(crate) struct Descriptor {
    pub fd: u32,
    pub mode: u32,
    pub inode: u64,
    pub family: u32,
    pub peer_inode: u64,
    /// Bits of `enum polled` of `ring.h`.
    pub polled: u32,
    pub local_port: u16,
    pub peer_port: u16,
    pub peer_address: [u8; 16],
    /// Up to the first zero.
    pub name: [u8; 32],
}

/// Longest payload of a fact.
pub(crate) const MAX_FACT_WORDS: usize = 6;

/// Something that happened beside switches and wake-ups: see `ring::facts`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Fact {
    /// 0 if it belongs to no thread.
    pub tid: u32,
    pub number: u16,
    pub payload: [u64; MAX_FACT_WORDS],
}

/// The rows of one chunk, in the order of the file. Stacks are numbers in the decoder's table.
#[derive(Default)]
pub(crate) struct Rows {
    pub switches: Vec<Row<Switch>>,
    pub wakings: Vec<Row<Waking>>,
    pub samples: Vec<Row<Sample>>,
    pub arrivals: Vec<Row<Placement>>,
    pub migrations: Vec<Row<Placement>>,
    pub contentions: Vec<Row<Contention>>,
    pub kept_waits: Vec<Row<KeptWait>>,
    pub kept_wakes: Vec<Row<KeptWake>>,
    pub earlier_waits: Vec<Row<EarlierWait>>,
    pub facts: Vec<Row<Fact>>,
}

impl Descriptor {
    /// By the file type (stat(2)) and the socket's family (socket(2)).
    pub(crate) fn kind(&self) -> DescriptorKind {
        match (self.mode & 0o170_000, self.family) {
            (0o100_000, _) => DescriptorKind::File,
            (0o040_000, _) => DescriptorKind::Folder,
            (0o020_000 | 0o060_000, _) => DescriptorKind::Device,
            (0o010_000, _) => DescriptorKind::Pipe,
            (0o140_000, FAMILY_UNIX) => DescriptorKind::UnixSocket,
            (0o140_000, FAMILY_INET | FAMILY_INET6) => DescriptorKind::InternetSocket,
            (0o140_000, _) => DescriptorKind::OtherSocket,
            _ => DescriptorKind::Other,
        }
    }

    /// True for a pipe that is no FIFO, whose inode is one of a file system and could be any number.
    pub(crate) fn is_nameless_pipe(&self) -> bool {
        self.kind() == DescriptorKind::Pipe && self.name[0] == 0
    }

    /// The other end of a connected socket.
    pub(crate) fn peer_address(&self) -> Option<(IpAddr, u16)> {
        let [a, b, c, d, ..] = self.peer_address;
        let address = match self.family {
            FAMILY_INET => IpAddr::from([a, b, c, d]),
            FAMILY_INET6 => IpAddr::from(self.peer_address).to_canonical(),
            _ => return None,
        };
        (self.peer_port != 0).then_some((address, self.peer_port))
    }
}
