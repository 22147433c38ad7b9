//! The threads that were asleep at the save: the end of `rings.bin`, after the blocks.

use super::layout::{u32_at, u64_at};

/// Length of an entry without its stacks.
const ENTRY_BYTES: usize = 64;

/// A thread that is asleep.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SleeperPart {
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// When it left its CPU, in nanoseconds of the trace's clock.
    pub left_ns: u64,
    /// The recorder did not see it leave: about when it was last on a CPU; 0 if that is not known.
    pub is_estimate: bool,
    /// The state in which it sleeps, `enum state` of `ring.h`.
    pub state: u8,
    /// The thread that holds the lock that it waits for; 0 if that is not known.
    pub owner: u32,
    /// The system call that it is in; -1 in none.
    pub syscall: i32,
    /// The call's first two arguments.
    pub arguments: [u64; 2],
    /// The address of the lock in the kernel that it waits for; 0 for none.
    pub kernel_lock: u64,
    /// Addresses, leaf first.
    pub kernel_stack: Vec<u64>,
    /// Addresses, leaf first.
    pub user_stack: Vec<u64>,
    /// How the user stack ends, `enum stack_end` of `ring.h`.
    pub user_end: u8,
    /// What it waits for: `struct descriptor` of `ring.h`; else empty.
    pub descriptor: Vec<u8>,
}

pub(super) fn encode(sleepers: &[SleeperPart], out: &mut Vec<u8>) {
    for sleeper in sleepers {
        out.extend(sleeper.tid.to_le_bytes());
        out.extend(sleeper.pid.to_le_bytes());
        out.extend(sleeper.left_ns.to_le_bytes());
        out.extend(sleeper.owner.to_le_bytes());
        out.extend(sleeper.syscall.to_le_bytes());
        sleeper.arguments.iter().for_each(|word| out.extend(word.to_le_bytes()));
        out.extend(sleeper.kernel_lock.to_le_bytes());
        out.extend((sleeper.kernel_stack.len() as u32).to_le_bytes());
        out.extend((sleeper.user_stack.len() as u32).to_le_bytes());
        let descriptor_words = (sleeper.descriptor.len() / 8) as u64;
        let more = u64::from(sleeper.user_end)
            | descriptor_words << 8
            | u64::from(sleeper.state) << 16
            | u64::from(sleeper.is_estimate) << 24;
        out.extend(more.to_le_bytes());
        let stacks = sleeper.kernel_stack.iter().chain(&sleeper.user_stack);
        stacks.for_each(|word| out.extend(word.to_le_bytes()));
        out.extend(&sleeper.descriptor[..descriptor_words as usize * 8]);
    }
}

/// One entry, with its stacks as bytes.
pub(super) struct Entry<'a> {
    pub(super) tid: u32,
    pub(super) pid: u32,
    pub(super) left_ns: u64,
    pub(super) is_estimate: bool,
    /// 0 in traces of the first version.
    pub(super) state: u64,
    pub(super) owner: u32,
    pub(super) syscall: i32,
    pub(super) arguments: [u64; 2],
    pub(super) kernel_lock: u64,
    pub(super) kernel_stack: &'a [u8],
    pub(super) user_stack: &'a [u8],
    pub(super) user_end: u64,
    pub(super) descriptor: Option<&'a [u8]>,
}

/// The entries in `bytes`, up to the first one that is cut off.
pub(super) fn decode(mut bytes: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    std::iter::from_fn(move || {
        let (entry, rest) = bytes.split_at_checked(ENTRY_BYTES)?;
        let len = |at| (u32_at(entry, at) as usize).checked_mul(8);
        let (kernel_stack, rest) = rest.split_at_checked(len(48)?)?;
        let (user_stack, rest) = rest.split_at_checked(len(52)?)?;
        let more = u64_at(entry, 56);
        let (descriptor, rest) = rest.split_at_checked((more >> 8 & 0xff) as usize * 8)?;
        bytes = rest;
        Some(Entry {
            tid: u32_at(entry, 0),
            pid: u32_at(entry, 4),
            left_ns: u64_at(entry, 8),
            is_estimate: more >> 24 & 1 != 0,
            state: more >> 16 & 0xff,
            owner: u32_at(entry, 16),
            syscall: u32_at(entry, 20) as i32,
            arguments: [u64_at(entry, 24), u64_at(entry, 32)],
            kernel_lock: u64_at(entry, 40),
            kernel_stack,
            user_stack,
            user_end: more & 0xff,
            descriptor: (!descriptor.is_empty()).then_some(descriptor),
        })
    })
}
