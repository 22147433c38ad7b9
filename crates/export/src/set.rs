//! [`Set`]: a set of small numbers.

/// A set of small numbers, a bit each.
#[derive(Default)]
pub(crate) struct Set(Vec<u64>);

impl Set {
    /// Adds a number. True if it was not there.
    pub(crate) fn insert(&mut self, number: usize) -> bool {
        let (word, bit) = (number / 64, 1 << (number % 64));
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }
}
