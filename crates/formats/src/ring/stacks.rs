//! The stacks of a ring: definitions, and the call chains that records put together from them.

use crate::perf_data::record::context;
use rustc_hash::FxHashMap;

/// A call chain in the words of a `perf.data`: markers, then addresses, leaf first.
#[derive(Default)]
pub(crate) struct Chain {
    pub(crate) pid: u32,
    pub(crate) words: Vec<u8>,
}

/// The definitions that one ring still holds, and the chains of all rings.
#[derive(Default)]
pub(super) struct Stacks<'a> {
    /// By position in the ring, in words: the process, and the addresses.
    defined: FxHashMap<u32, (u32, &'a [u8])>,
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

    pub(super) fn define(&mut self, position: u32, pid: u32, addresses: &'a [u8]) {
        self.defined.insert(position, (pid, addresses));
    }

    /// The number of the chain, from 1; 0 if it is empty.
    pub(super) fn chain(&mut self, kernel: u32, user: u32) -> u32 {
        if (kernel, user) == (0, 0) {
            return 0;
        }
        if let Some(number) = self.known.get(&(kernel, user)) {
            return *number;
        }
        let mut chain = Chain::default();
        for (position, marker) in [(kernel, context::KERNEL), (user, context::USER)] {
            match self.defined.get(&position) {
                _ if position == 0 => {}
                None => self.missing += 1,
                Some((pid, addresses)) => {
                    chain.pid = chain.pid.max(*pid);
                    chain.words.extend(marker.to_le_bytes());
                    chain.words.extend_from_slice(addresses);
                }
            }
        }
        let number = if chain.words.is_empty() {
            0
        } else {
            self.chains.push(chain);
            self.chains.len() as u32
        };
        self.known.insert((kernel, user), number);
        number
    }
}
