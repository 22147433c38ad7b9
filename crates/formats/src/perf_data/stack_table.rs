//! [`StackTable`]: call chains by content, before their addresses are resolved.
//!
//! A trace has far fewer stacks than events, so chains are compared as raw bytes, and each distinct
//! one is resolved once. The table refers to the words in the file and does not copy them.

/// A call chain as recorded, with its markers. Its user addresses belong to the process `pid`.
#[derive(Clone, Copy)]
pub(crate) struct RawStack<'a> {
    hash: u64,
    pub pid: u32,
    pub words: &'a [u8],
}

/// Distinct call chains. Number 0 is the empty one.
pub(crate) struct StackTable<'a> {
    stacks: Vec<RawStack<'a>>,
    /// Open addressing. A slot has the upper half of a hash and the number of its stack; 0 is free.
    slots: Vec<u64>,
}

impl<'a> StackTable<'a> {
    pub(crate) fn new() -> Self {
        Self { stacks: vec![RawStack { hash: 0, pid: 0, words: &[] }], slots: vec![0; 256] }
    }

    /// The number of the chain `words` in the process `pid`.
    #[inline]
    pub(crate) fn intern(&mut self, pid: u32, words: &'a [u8]) -> u32 {
        self.insert(RawStack { hash: hash(pid, words), pid, words })
    }

    /// Merges tables. Returns the merged table, and the numbers that the stacks of each table have
    /// in it. Numbers follow the first occurrence in the file, however the work was shared.
    pub(crate) fn union(tables: &[&Self]) -> (Self, Vec<Vec<u32>>) {
        let mut all = Self::new();
        let mut numbers: Vec<Vec<u32>> = tables
            .iter()
            .map(|table| table.stacks.iter().map(|stack| all.insert(*stack)).collect())
            .collect();
        let mut order: Vec<u32> = (0..all.stacks.len() as u32).collect();
        order[1..].sort_unstable_by_key(|number| all.stacks[*number as usize].words.as_ptr());
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(new, old)| place[*old as usize] = new as u32);
        numbers.iter_mut().flatten().for_each(|number| *number = place[*number as usize]);
        all.stacks = order.iter().map(|number| all.stacks[*number as usize]).collect();
        all.slots.clear();
        (all, numbers)
    }

    /// The chains, number 0 first.
    pub(crate) fn stacks(&self) -> &[RawStack<'a>] {
        &self.stacks
    }

    fn insert(&mut self, stack: RawStack<'a>) -> u32 {
        if stack.words.is_empty() {
            return 0;
        }
        let mask = self.slots.len() - 1;
        let tag = stack.hash & !0xffff_ffff;
        let mut at = stack.hash as usize & mask;
        while self.slots[at] != 0 {
            let slot = self.slots[at];
            let known = &self.stacks[slot as u32 as usize];
            if slot & !0xffff_ffff == tag && known.pid == stack.pid && known.words == stack.words {
                if stack.words.as_ptr() < known.words.as_ptr() {
                    self.stacks[slot as u32 as usize].words = stack.words;
                }
                return slot as u32;
            }
            at = (at + 1) & mask;
        }
        let number = self.stacks.len() as u32;
        self.stacks.push(stack);
        self.slots[at] = tag | u64::from(number);
        if self.stacks.len() * 2 > self.slots.len() {
            self.grow();
        }
        number
    }

    fn grow(&mut self) {
        let mask = self.slots.len() * 4 - 1;
        self.slots.clear();
        self.slots.resize(mask + 1, 0);
        for (number, stack) in self.stacks.iter().enumerate().skip(1) {
            let mut at = stack.hash as usize & mask;
            while self.slots[at] != 0 {
                at = (at + 1) & mask;
            }
            self.slots[at] = stack.hash & !0xffff_ffff | number as u64;
        }
    }
}

/// Hashes two words at a time with a folded 128-bit product, as wyhash does. This runs over every
/// byte of every call chain.
#[inline]
fn hash(pid: u32, words: &[u8]) -> u64 {
    const A: u64 = 0x2d35_8dcc_aa6c_78a5;
    const B: u64 = 0x8bb8_4b93_962e_acc9;
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    let mut hash = u64::from(pid) ^ words.len() as u64 ^ A;
    let (pairs, rest) = words.as_chunks::<16>();
    for pair in pairs {
        let pair = u128::from_le_bytes(*pair);
        hash = fold(hash ^ pair as u64, (pair >> 64) as u64 ^ B);
    }
    let mut last = [0; 8];
    last[..rest.len().min(8)].copy_from_slice(&rest[..rest.len().min(8)]);
    fold(hash ^ u64::from_le_bytes(last), A)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_chains_have_one_number() {
        let chains: Vec<Vec<u8>> = (0..3000u64)
            .map(|n| {
                [n % 1000, n % 1000 + 1, 7].iter().flat_map(|word| word.to_le_bytes()).collect()
            })
            .collect();
        let mut table = StackTable::new();
        let numbers: Vec<u32> = chains.iter().map(|chain| table.intern(1, chain)).collect();
        assert_eq!(table.stacks().len(), 1001);
        assert_eq!(numbers[..1000], numbers[1000..2000]);
        assert_eq!(table.intern(1, &[]), 0);
        assert_ne!(table.intern(2, &chains[0]), numbers[0]);
        let mut other = StackTable::new();
        other.intern(1, &chains[1]);
        other.intern(1, &chains[0]);
        let (all, numbers) = StackTable::union(&[&other, &table]);
        assert_eq!(all.stacks().len(), table.stacks().len());
        assert_eq!((numbers[0][1], numbers[0][2]), (numbers[1][2], numbers[1][1]));
    }
}
