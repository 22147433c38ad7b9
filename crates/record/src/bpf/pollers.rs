//! What sleepers in poll(2) and select(2) wait for, if it is one descriptor. Which one is in the process's
//! memory, and is read here, where nothing can keep the recorder waiting. What it stands for, the kernel
//! says then (`on_each_poller` of `sleepers.h`).

use super::parts::list_threads;
use super::refused::failed;
use super::sleepers::Sleeper;
use crate::error::Error;
use crate::memory::Memory;
use aya::Ebpf;
use aya::maps::{HashMap, MapError};
use rustc_hash::FxHashMap;
use std::fs::File;
use std::io::{self, Read};

/// Maximum number of sleepers that are asked about: `MAX_POLLING` of `sleepers.h`.
const MAX: usize = 4096;
/// `struct polled_sleeper` of `sleepers.h`: its length, and where the descriptor begins.
const ENTRY_BYTES: usize = 96;
const DESCRIPTOR_AT: usize = 8;

/// `enum polled` of `ring.h`, above bit 32.
const TO_READ: u64 = 1 << 32;
const TO_WRITE: u64 = 2 << 32;

/// `struct polling` of `sleepers.h`: the stack pointer, and the descriptor with what it is polled for.
type Polling = [u64; 2];

/// Notes what each sleeper waits for that polls one descriptor.
pub(super) fn add_descriptors(programs: &mut Ebpf, sleepers: &mut [Sleeper]) -> Result<(), Error> {
    let polling = polling(sleepers);
    if polling.is_empty() {
        return Ok(());
    }
    let action = "name polled descriptors";
    fill(programs, &polling).map_err(failed(action))?;
    let list = list_threads(programs, "on_each_poller")?;
    note(list, sleepers).map_err(failed(action))
}

/// Tells the kernel's part which threads to describe, instead of those of the save before.
fn fill(programs: &mut Ebpf, polling: &FxHashMap<u32, Polling>) -> Result<(), MapError> {
    let map = programs.map_mut("pollers").ok_or(MapError::ElementNotFound)?;
    let mut map = HashMap::<_, u32, Polling>::try_from(map)?;
    let before: Vec<u32> = map.keys().collect::<Result<_, _>>()?;
    before.iter().try_for_each(|tid| map.remove(tid))?;
    polling.iter().try_for_each(|(tid, one)| map.insert(tid, one, 0))
}

/// The sleepers that poll one descriptor, by thread. *Why only one process's memory at a time:* anybody may
/// have as many processes that poll as they like, and each takes two of our descriptors. Threads of one
/// process are mostly listed together.
fn polling(sleepers: &[Sleeper]) -> FxHashMap<u32, Polling> {
    let mut last: Option<(u32, Option<Memory>)> = None;
    let mut found = FxHashMap::default();
    let polling = sleepers.iter().filter(|sleeper| is_poll(sleeper) || is_select(sleeper));
    for sleeper in polling.take(MAX) {
        if last.as_ref().is_none_or(|(pid, _)| *pid != sleeper.pid) {
            last = Some((sleeper.pid, Memory::open(sleeper.pid).ok()));
        }
        let memory = last.as_ref().and_then(|(_, memory)| memory.as_ref());
        let one = memory.and_then(|memory| match is_poll(sleeper) {
            true => polled(memory, sleeper.arguments()),
            false => selected(memory, sleeper.arguments()),
        });
        if let Some(one) = one {
            found.insert(sleeper.tid(), [sleeper.stack_pointer(), one]);
        }
    }
    found
}

/// Notes what the kernel says in `list`.
fn note(mut list: File, sleepers: &mut [Sleeper]) -> io::Result<()> {
    let mut bytes = Vec::new();
    list.read_to_end(&mut bytes)?;
    let entries = bytes.chunks_exact(ENTRY_BYTES).filter_map(|entry| {
        let tid = u32::from_ne_bytes(entry.get(..4)?.try_into().ok()?);
        Some((tid, &entry[DESCRIPTOR_AT..]))
    });
    let descriptors: FxHashMap<u32, &[u8]> = entries.collect();
    for sleeper in sleepers {
        if let Some(descriptor) = descriptors.get(&sleeper.tid()) {
            sleeper.set_descriptor(descriptor);
        }
    }
    Ok(())
}

/// poll(2) or ppoll(2) of x86-64.
fn is_poll(sleeper: &Sleeper) -> bool {
    [7, 271].contains(&sleeper.syscall())
}

/// select(2) or pselect(2) of x86-64.
fn is_select(sleeper: &Sleeper) -> bool {
    [23, 270].contains(&sleeper.syscall())
}

/// The only descriptor of a poll, with what for, as `polled()` of `descriptors.h` finds it for others.
fn polled(memory: &Memory, [entries, count, _]: [u64; 3]) -> Option<u64> {
    const EVENTS_TO_READ: u16 = 0x20c3;
    const EVENTS_TO_WRITE: u16 = 0x304;
    if count != 1 {
        return None;
    }
    // struct pollfd
    let mut entry = [0; 8];
    memory.read(&mut entry, entries).ok()?;
    let [fd @ .., e0, e1, _, _] = entry;
    let (fd, events) = (i32::from_ne_bytes(fd), u16::from_ne_bytes([e0, e1]));
    Some(
        u64::from(u32::try_from(fd).ok()?)
            | what(events & EVENTS_TO_READ != 0, events & EVENTS_TO_WRITE != 0),
    )
}

/// The same of a select. Only the first 64 descriptors are looked for.
fn selected(memory: &Memory, [count, readable, writable]: [u64; 3]) -> Option<u64> {
    if !(1..=64).contains(&count) {
        return None;
    }
    let set = |at: u64| {
        let mut word = [0; 8];
        if at != 0 {
            memory.read(&mut word, at).ok()?;
        }
        Some(u64::from_ne_bytes(word) & u64::MAX >> (64 - count))
    };
    let (readable, writable) = (set(readable)?, set(writable)?);
    let all = readable | writable;
    (all.count_ones() == 1)
        .then(|| u64::from(all.trailing_zeros()) | what(readable != 0, writable != 0))
}

fn what(reads: bool, writes: bool) -> u64 {
    (if reads { TO_READ } else { 0 }) | if writes { TO_WRITE } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_descriptor_is_found_and_several_are_not() {
        let memory = Memory::open(std::process::id()).unwrap();
        let poll = |entries: &[libc::pollfd]| {
            polled(&memory, [entries.as_ptr() as u64, entries.len() as u64, 0])
        };
        let to = |fd, events| libc::pollfd { fd, events, revents: 0 };
        assert_eq!(poll(&[to(5, libc::POLLIN)]), Some(TO_READ | 5));
        assert_eq!(poll(&[to(6, libc::POLLIN | libc::POLLOUT)]), Some(TO_READ | TO_WRITE | 6));
        assert_eq!(poll(&[to(-1, libc::POLLIN)]), None);
        assert_eq!(poll(&[to(5, libc::POLLIN), to(6, libc::POLLIN)]), None);

        let sets = Box::new([1_u64 << 9, 1 << 40, 1 << 9 | 1 << 41]);
        let at = |index: usize| std::ptr::from_ref(&sets[index]) as u64;
        assert_eq!(selected(&memory, [10, at(0), 0]), Some(TO_READ | 9));
        assert_eq!(selected(&memory, [41, 0, at(1)]), Some(TO_WRITE | 40));
        // Above the count, nothing is meant.
        assert_eq!(selected(&memory, [10, at(2), at(1)]), Some(TO_READ | 9));
        assert_eq!(selected(&memory, [42, at(2), 0]), None);
        assert_eq!(selected(&memory, [65, at(0), 0]), None);
        assert_eq!(selected(&memory, [10, 8, 0]), None, "memory that is not there");
    }
}
