//! [`Parts`]: kernel and user parts of stacks by content, before their addresses are resolved.
//!
//! ETW writes the two parts of a stack separately: the kernel part at once, the user part when the
//! thread returns to user mode. Thousands of events may share a part, so each is stored once.

use rustc_hash::FxHasher;
use std::hash::Hasher;

/// Addresses of one side of a stack, innermost first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Part {
    hash: u64,
    start: usize,
    len: u32,
}

/// All parts, each once. Number 0 is the empty part.
#[derive(Debug)]
pub(super) struct Parts {
    parts: Vec<Part>,
    words: Vec<u64>,
    /// Open addressing. A slot has the number of a part; 0 is free.
    slots: Vec<u32>,
}

impl Default for Parts {
    fn default() -> Self {
        Self {
            parts: vec![Part { hash: 0, start: 0, len: 0 }],
            words: Vec::new(),
            slots: vec![0; 256],
        }
    }
}

impl Parts {
    /// The number of these addresses.
    #[inline]
    pub(super) fn intern(&mut self, words: impl Iterator<Item = u64>) -> u32 {
        let start = self.words.len();
        self.words.extend(words);
        let added = self.words.get(start..).unwrap_or_default();
        if added.is_empty() {
            return 0;
        }
        let mut hasher = FxHasher::default();
        added.iter().for_each(|word| hasher.write_u64(*word));
        self.insert(hasher.finish(), start)
    }

    /// Makes the words from `start` on a part, or drops them if there is an equal part.
    fn insert(&mut self, hash: u64, start: usize) -> u32 {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while let Some(&number) = self.slots.get(at).filter(|number| **number != 0) {
            let known = self.parts.get(number as usize);
            if known.is_some_and(|known| known.hash == hash)
                && Some(self.words(number)) == self.words.get(start..)
            {
                self.words.truncate(start);
                return number;
            }
            at = (at + 1) & mask;
        }
        let number = self.parts.len() as u32;
        let len = (self.words.len() - start) as u32;
        self.parts.push(Part { hash, start, len });
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = number;
        }
        if self.parts.len() * 2 > self.slots.len() {
            self.grow();
        }
        number
    }

    fn grow(&mut self) {
        let mask = self.slots.len() * 4 - 1;
        self.slots.clear();
        self.slots.resize(mask + 1, 0);
        for (number, part) in self.parts.iter().enumerate().skip(1) {
            let mut at = part.hash as usize & mask;
            while self.slots.get(at).is_some_and(|slot| *slot != 0) {
                at = (at + 1) & mask;
            }
            if let Some(slot) = self.slots.get_mut(at) {
                *slot = number as u32;
            }
        }
    }

    /// The part of this number.
    fn get(&self, number: u32) -> Option<&Part> {
        self.parts.get(number as usize)
    }

    /// A part's addresses, innermost first.
    pub(super) fn words(&self, number: u32) -> &[u64] {
        let Some(part) = self.get(number) else { return &[] };
        self.words
            .get(part.start..)
            .and_then(|words| words.get(..part.len as usize))
            .unwrap_or_default()
    }

    /// Adds all of `other`. Returns the numbers that its parts have here.
    pub(super) fn union(&mut self, other: &Self) -> Vec<u32> {
        (0..other.parts.len() as u32)
            .map(|number| {
                let Some(part) = other.get(number).filter(|part| part.len > 0) else { return 0 };
                let start = self.words.len();
                self.words.extend_from_slice(other.words(number));
                self.insert(part.hash, start)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_parts_have_one_number() {
        let mut parts = Parts::default();
        let numbers: Vec<u32> =
            (0..3000_u64).map(|n| parts.intern([n % 1000, 5].into_iter())).collect();
        assert_eq!((parts.parts.len(), &numbers[..1000]), (1001, &numbers[1000..2000]));
        assert_eq!((parts.intern([].into_iter()), parts.words(numbers[3])), (0, &[3, 5][..]));
        let mut other = Parts::default();
        other.intern([1].into_iter());
        let moved = other.union(&parts);
        assert_eq!(other.words(moved[numbers[9] as usize]), [9, 5]);
        assert_eq!(other.union(&parts), moved);
    }
}
