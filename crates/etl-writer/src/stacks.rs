//! [`StackCache`]: call stacks by key, like the kernel's cache.
//!
//! An event's stack is two references, one to its kernel part and one to its user part. A key is
//! defined when the cache evicts it, or at the end. Keys are reused for other stacks: a reference
//! means the first definition that follows it.

use crate::{KernelEvent, Writer};
use std::collections::{BTreeMap, VecDeque};

/// Address of the cache's entries in kernel memory, and their distance.
const KEYS_AVMA: u64 = 0xffff_a40c_8120_0000;
const KEY_STEP: u64 = 0x40;

struct Entry {
    key: u64,
    frames: Vec<u64>,
}

/// The kernel's stack cache.
pub struct StackCache {
    capacity: usize,
    keys: BTreeMap<Vec<u64>, u64>,
    entries: VecDeque<Entry>,
    /// Keys that may be reused, each from a time on.
    free: VecDeque<(u64, u64)>,
    made: u64,
}

impl StackCache {
    /// A cache with room for this many parts.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            keys: BTreeMap::new(),
            entries: VecDeque::new(),
            free: VecDeque::new(),
            made: 0,
        }
    }

    /// Adds the stack of the last event of `thread` (process, thread) on `cpu`, at `ns`. Frames are
    /// innermost first.
    pub fn log(
        &mut self,
        writer: &mut Writer,
        cpu: u16,
        ns: u64,
        (pid, tid): (u32, u32),
        kernel: &[u64],
        user: &[u64],
    ) {
        for (frames, user) in [(kernel, false), (user, true)] {
            if !frames.is_empty() {
                let key = self.key(writer.options().ticks(ns), frames);
                writer.kernel(cpu, ns, &KernelEvent::StackKey { of_ns: ns, pid, tid, user, key });
            }
        }
        while self.entries.len() > self.capacity {
            self.forget(writer, cpu, ns, 0x23);
        }
    }

    fn key(&mut self, ticks: u64, frames: &[u64]) -> u64 {
        if let Some(key) = self.keys.get(frames) {
            return *key;
        }
        // A reference at the time of a definition would mean that definition.
        let key = match self.free.front() {
            Some(&(since, key)) if since < ticks => {
                self.free.pop_front();
                key
            }
            _ => {
                self.made += 1;
                KEYS_AVMA + self.made * KEY_STEP
            }
        };
        self.keys.insert(frames.to_vec(), key);
        self.entries.push_back(Entry { key, frames: frames.to_vec() });
        key
    }

    fn forget(&mut self, writer: &mut Writer, cpu: u16, ns: u64, kind: u8) {
        let Some(Entry { key, frames }) = self.entries.pop_front() else { return };
        writer.kernel(cpu, ns, &KernelEvent::StackDefinition { kind, key, frames: &frames });
        self.keys.remove(&frames);
        self.free.push_back((writer.options().ticks(ns), key));
    }

    /// Defines the remaining keys, at the end of a trace.
    pub fn finish(mut self, writer: &mut Writer, cpu: u16, ns: u64) {
        while !self.entries.is_empty() {
            self.forget(writer, cpu, ns, 0x24);
        }
    }
}
