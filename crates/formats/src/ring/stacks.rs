//! The stacks of a ring: definitions, and the call chains that records put together from them.

use crate::perf_data::record::context;
use rustc_hash::FxHashMap;

/// A call chain in the words of a `perf.data`: markers, then addresses, leaf first.
#[derive(Default)]
pub(crate) struct Chain {
    pub(crate) pid: u32,
    pub(crate) words: Vec<u8>,
}

/// The definition of one stack, of the kernel or of a process.
#[derive(Clone, Copy, Default)]
pub(super) struct Definition<'a> {
    pub(super) pid: u32,
    /// Bit 0: of a process; bits 1 to 3: how it ends, `enum stack_end` of `ring.h`.
    pub(super) flags: u64,
    pub(super) addresses: &'a [u8],
}

impl Definition<'_> {
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

/// The definitions that one ring still holds, and the chains of all rings.
#[derive(Default)]
pub(super) struct Stacks<'a> {
    /// By position in the ring, in words.
    defined: FxHashMap<u32, Definition<'a>>,
    /// By kernel stack and user stack.
    known: FxHashMap<(u32, u32), u32>,
    pub(super) chains: Vec<Chain>,
    /// References to definitions that the ring does not hold any more.
    pub(super) missing: u64,
}

impl<'a> Stacks<'a> {
    /// Continues with another ring.
    pub(super) fn begin_ring(&mut self) {
        self.defined.clear();
        self.known.clear();
    }

    pub(super) fn define(&mut self, position: u32, definition: Definition<'a>) {
        self.defined.insert(position, definition);
    }

    /// The number of the chain, from 1; 0 if it is empty.
    pub(super) fn chain(&mut self, kernel: u32, user: u32) -> u32 {
        if (kernel, user) == (0, 0) {
            return 0;
        }
        if let Some(number) = self.known.get(&(kernel, user)) {
            return *number;
        }
        let mut parts = [Definition::default(); 2];
        for (part, position) in parts.iter_mut().zip([kernel, user]) {
            match self.defined.get(&position) {
                _ if position == 0 => {}
                None => self.missing += 1,
                Some(of) => *part = *of,
            }
        }
        let number = self.chain_of(parts);
        self.known.insert((kernel, user), number);
        number
    }

    /// The number of the chain of a kernel stack and a user stack.
    pub(super) fn chain_of(&mut self, [kernel, user]: [Definition<'a>; 2]) -> u32 {
        let mut chain = Chain::default();
        for (of, marker) in [(kernel, context::KERNEL), (user, context::USER)] {
            if of.addresses.is_empty() {
                continue;
            }
            chain.pid = chain.pid.max(of.pid);
            chain.words.extend(marker.to_le_bytes());
            chain.words.extend_from_slice(of.addresses);
            if !of.is_complete() {
                // No code is there, so the stack is shown as cut.
                chain.words.extend(0_u64.to_le_bytes());
            }
        }
        if chain.words.is_empty() {
            return 0;
        }
        self.chains.push(chain);
        self.chains.len() as u32
    }
}
