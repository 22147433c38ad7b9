//! The threads that are asleep at the time of a save: the kernel lists them with their kernel
//! stacks and registers (`on_each_thread` of `sleepers.h`). Their user stacks are unwound here,
//! by reading their memory, so that a wait that has not ended yet is explained as well as others.

use super::shared::Shared;
use crate::memory::{Memory, Words};
use crate::python;
use crate::runtimes::Runtimes;
use crate::unwind::StackEnd;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use unhitch_formats::ring::SleeperPart;

/// `struct sleeper` of `sleepers.h`: its length, and where its parts are.
const SLEEPER_BYTES: usize = 704;
const DESCRIPTOR_AT: usize = 112;
const FRAMES_AT: usize = 200;
/// Maximum number of frames of a stack: what a trace has room for.
const MAX_FRAMES: usize = 127;

/// A thread that is asleep.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sleeper {
    pub(crate) pid: u32,
    /// `rip`, `rsp`, `rbp` in user mode; zeros for a kernel thread.
    registers: [u64; 3],
    /// `pthread_self()`; 0 for a kernel thread.
    thread_id: u64,
    /// The third argument of its system call.
    argument: u64,
    part: SleeperPart,
}

impl Sleeper {
    /// What the trace has of it.
    pub(super) fn part(&self) -> &SleeperPart {
        &self.part
    }

    /// True if its user stack ends because the process's mappings were not known, or not all.
    pub(crate) fn lacks_tables(&self) -> bool {
        let ends = [StackEnd::OutsideCode, StackEnd::WithoutTables].map(|end| end as u8);
        !self.part.user_stack.is_empty() && ends.contains(&self.part.user_end)
    }

    pub(crate) fn tid(&self) -> u32 {
        self.part.tid
    }

    /// The system call that it is in; -1 in none.
    pub(super) fn syscall(&self) -> i32 {
        self.part.syscall
    }

    /// The first three arguments of that call.
    pub(super) fn arguments(&self) -> [u64; 3] {
        let [first, second] = self.part.arguments;
        [first, second, self.argument]
    }

    /// Where its stack ends in user mode.
    pub(super) fn stack_pointer(&self) -> u64 {
        self.registers[1]
    }

    /// Notes what it waits for: `struct descriptor` of `ring.h`.
    pub(super) fn set_descriptor(&mut self, bytes: &[u8]) {
        self.part.descriptor = bytes.to_vec();
    }

    /// The thread that holds the lock that it waits for; 0 if that is not known.
    pub(super) fn owner(&self) -> u32 {
        self.part.owner
    }

    pub(super) fn set_owner(&mut self, tid: u32) {
        self.part.owner = tid;
    }
}

/// Reads the list that the kernel makes.
pub(crate) fn read(list: File) -> io::Result<Vec<Sleeper>> {
    let mut list = BufReader::with_capacity(SLEEPER_BYTES * 64, list);
    let mut sleepers = Vec::new();
    let mut entry = [0; SLEEPER_BYTES];
    while !list.fill_buf()?.is_empty() {
        list.read_exact(&mut entry)?;
        sleepers.push(parse(&entry));
    }
    Ok(sleepers)
}

fn parse(bytes: &[u8]) -> Sleeper {
    let word = |at: usize| {
        let bytes = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_ne_bytes)
    };
    let half = |at: usize| (word(at / 8 * 8) >> (at % 8 * 8)) as u32;
    let (first, count) = (half(96) as usize, half(100) as usize);
    let described = if half(104) != 0 { FRAMES_AT - DESCRIPTOR_AT } else { 0 };
    let frames = bytes[FRAMES_AT..].chunks_exact(8).skip(first).take(count);
    Sleeper {
        pid: half(4),
        registers: [word(24), word(32), word(40)],
        thread_id: word(88),
        argument: word(72),
        part: SleeperPart {
            tid: half(0),
            pid: half(4),
            left_ns: word(8),
            owner: half(16),
            syscall: if half(20) != 0 { word(48) as i32 } else { -1 },
            arguments: [word(56), word(64)],
            kernel_lock: word(80),
            kernel_stack: frames
                .map(|word| word.try_into().map_or(0, u64::from_ne_bytes))
                .collect(),
            user_stack: Vec::new(),
            user_end: 0,
            descriptor: bytes[DESCRIPTOR_AT..FRAMES_AT][..described].to_vec(),
            state: half(108) as u8,
            is_estimate: half(108) >> 16 != 0,
        },
    }
}

/// Adds the user stacks of threads of one process. `own` are the process's mappings.
pub(crate) fn unwind(
    sleepers: &[Sleeper],
    pid: u32,
    own: Option<[u32; 2]>,
    shared: &Shared,
) -> Vec<Sleeper> {
    let mut sleepers = sleepers.to_vec();
    let Runtimes { python, java } = shared.functions.of(pid);
    // Classes may lie in HotSpot's archive, and what kind of code it is, in its own file.
    let memory = if java.is_some() { Memory::with_local_files(pid) } else { Memory::open(pid) };
    let Ok(memory) = memory else { return sleepers };
    let mut words = Words::new(&memory);
    let (mut codes, mut methods) = (Vec::new(), Vec::new());
    for Sleeper { registers, thread_id, part, .. } in &mut sleepers {
        if registers[0] == 0 {
            continue;
        }
        let walked = shared.walker().walk(*registers, own, java.as_ref(), |avma| words.at(avma));
        let mut frames = walked.frames;
        let scripts = python.as_ref().map(|python| {
            let room = MAX_FRAMES.saturating_sub(frames.len());
            python::walk(python, *thread_id, room, |avma| words.at(avma))
        });
        let scripts = scripts.unwrap_or_default();
        frames.extend(scripts.iter().map(|seen| seen.frame.to_word()));
        // A thread that has gone on has changed its stack meanwhile.
        if shared.still_sleeps(part) {
            (part.user_stack, part.user_end) = (frames, walked.end as u8);
            methods.extend(walked.methods);
            codes.extend(scripts.iter().map(|seen| (seen.frame.id, seen.code_avma)));
        }
    }
    if let Some(python) = python {
        shared.functions.read_codes(pid, &python, codes);
    }
    if let Some(java) = java {
        shared.functions.read_methods(pid, &java, methods);
    }
    sleepers
}

/// What is written to the trace.
pub(super) fn parts(sleepers: &[Sleeper]) -> Vec<SleeperPart> {
    sleepers.iter().map(|sleeper| sleeper.part.clone()).collect()
}
