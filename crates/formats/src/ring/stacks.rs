//! The stacks of a ring: definitions, and the call chains that records put together from them.
//!
//! A record names a stack by the low 32 bits of its definition's position, which is never far before
//! the record. Segments of a ring are walked at the same time, so what they refer to is looked up
//! when all definitions of the ring are known.

use super::layout::u32_at;
use crate::perf_data::record::{MAX_FRAMES, context};
use rustc_hash::{FxHashMap, FxHashSet};

/// A call chain in the words of a `perf.data`: markers, then addresses, leaf first.
#[derive(Default)]
pub(crate) struct Chain {
    pub(crate) pid: u32,
    pub(crate) words: Vec<u8>,
}

/// Call chains, one after the other. *Why in one piece:* stacks are numbered in the order in which their
/// words lie in memory, and so are the same whenever the trace is read.
#[derive(Default)]
pub(crate) struct Chains {
    words: Vec<u8>,
    /// The process of each, and where its words end.
    ends: Vec<(u32, usize)>,
}

impl Chains {
    /// Adds a chain. Returns its number, from 1.
    pub(super) fn push(&mut self, chain: &Chain) -> u32 {
        self.words.extend_from_slice(&chain.words);
        self.ends.push((chain.pid, self.words.len()));
        self.ends.len() as u32
    }

    /// Each chain's process and words.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (u32, &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |&(pid, end)| {
            let words = &self.words[start..end];
            start = end;
            (pid, words)
        })
    }
}

/// The definition of one stack, of the kernel or of a process.
#[derive(Clone, Copy, Default)]
pub(super) struct Definition<'a> {
    pub(super) pid: u32,
    /// Bit 0: of a process; bits 1 to 3: how it ends, `enum stack_end` of `ring.h`.
    pub(super) flags: u64,
    pub(super) addresses: &'a [u8],
    /// The position of the same stack's definition before this one, in words; 0 for none.
    pub(super) before: u64,
}

impl<'a> Definition<'a> {
    /// The definition in a record.
    pub(super) fn of(record: &'a [u8], flags: u64) -> Self {
        let len = (u32_at(record, 12) as usize).saturating_mul(8);
        let rest = record.get(16..).unwrap_or_default();
        let (addresses, rest) = rest.split_at_checked(len).unwrap_or((rest, &[]));
        let before = rest.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        Self { pid: u32_at(record, 8), flags, addresses, before }
    }

    /// How it ends.
    pub(super) fn end(&self) -> &'static str {
        match (self.flags & 1, self.flags >> 1 & 7) {
            (0, _) => "stack in the kernel",
            (_, 0) => "user stack, complete",
            (_, 1) => "user stack, cut at memory that was not present",
            (_, 2) => "user stack, cut at code without a rule",
            (_, 3) => "user stack, cut because it is too deep",
            (_, 4) => "user stack, cut at an address outside code",
            _ => "user stack, by frame pointers only",
        }
    }

    fn is_complete(&self) -> bool {
        self.flags & 1 == 0 || self.flags >> 1 & 7 == 0
    }
}

/// A kernel stack and a user stack: the positions of their definitions in the ring, in words; `None`
/// for no stack.
pub(super) type Pair = [Option<u64>; 2];

/// The pairs that a segment's records refer to.
#[derive(Default)]
pub(super) struct References {
    pairs: Vec<Pair>,
    known: FxHashMap<Pair, u32>,
}

impl References {
    /// The number of a pair, from 1; 0 for no stacks. `position` is that of the record that refers
    /// to them.
    pub(super) fn number(&mut self, position: u64, kernel: u32, user: u32) -> u32 {
        if (kernel, user) == (0, 0) {
            return 0;
        }
        let before = |low: u32| u64::from((position as u32).wrapping_sub(low));
        let whole = |low: u32| (low != 0).then(|| position.checked_sub(before(low))).flatten();
        let pair = [whole(kernel), whole(user)];
        *self.known.entry(pair).or_insert_with(|| {
            self.pairs.push(pair);
            self.pairs.len() as u32
        })
    }

    /// All pairs, in the order of their numbers.
    pub(super) fn pairs(&self) -> &[Pair] {
        &self.pairs
    }
}

/// The definitions of one ring. Where one has been overwritten, the same stack's next tells what it
/// was.
pub(super) struct Definitions<'a> {
    by_position: FxHashMap<u64, Definition<'a>>,
    missing: FxHashSet<u64>,
}

impl<'a> Definitions<'a> {
    pub(super) fn new(all: impl Iterator<Item = (u64, Definition<'a>)>) -> Self {
        let all: Vec<_> = all.collect();
        let before = all.iter().map(|(_, definition)| (definition.before, *definition));
        let mut by_position: FxHashMap<_, _> = before.filter(|(before, _)| *before != 0).collect();
        by_position.extend(all);
        Self { by_position, missing: FxHashSet::default() }
    }

    /// The chain of a pair.
    pub(super) fn chain(&mut self, pair: Pair) -> Chain {
        Chain::of(pair.map(|position| {
            let Some(position) = position else { return Definition::default() };
            let found = self.by_position.get(&position).copied();
            found.unwrap_or_else(|| {
                self.missing.insert(position);
                Definition::default()
            })
        }))
    }

    /// Number of stacks that were looked for in vain.
    pub(super) fn missing(&self) -> u64 {
        self.missing.len() as u64
    }
}

impl Chain {
    /// The chain of a kernel stack and a user stack, of which the recorder writes at most
    /// [`MAX_FRAMES`].
    pub(super) fn of([kernel, user]: [Definition<'_>; 2]) -> Self {
        let mut chain = Self::default();
        for (of, marker) in [(kernel, context::KERNEL), (user, context::USER)] {
            if of.addresses.is_empty() {
                continue;
            }
            chain.pid = chain.pid.max(of.pid);
            let len = of.addresses.len().min(MAX_FRAMES * 8);
            chain.words.extend(marker.to_le_bytes());
            chain.words.extend_from_slice(&of.addresses[..len]);
            if !of.is_complete() || len < of.addresses.len() {
                // No code is there, so the stack is shown as cut.
                chain.words.extend(0_u64.to_le_bytes());
            }
        }
        chain
    }
}
