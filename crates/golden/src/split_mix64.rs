//! [`SplitMix64`]: pseudo-random numbers that are the same in every run.
//!
//! Algorithm: SplitMix64 (Steele, Lea, Flood 2014). *Why no library*: another version of a library
//! may draw other numbers, and the traces would change.

/// A sequence of numbers that its seed determines.
#[derive(Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `low..high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low)
    }

    /// Shuffles `items`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.between(0, last as u64 + 1) as usize);
        }
    }

    /// `count` numbers between about `low` and `high`, scaled so that their sum is exactly `sum`.
    pub(crate) fn with_sum(&mut self, count: usize, low: u64, high: u64, sum: u64) -> Vec<u64> {
        let mut numbers: Vec<u64> = (0..count).map(|_| self.between(low, high)).collect();
        scale(&mut numbers, sum);
        numbers
    }
}

/// Scales `numbers` so that their sum is exactly `sum`.
pub(crate) fn scale(numbers: &mut [u64], sum: u64) {
    let before: u64 = numbers.iter().sum();
    numbers.iter_mut().for_each(|number| {
        *number = (u128::from(*number) * u128::from(sum) / u128::from(before)) as u64
    });
    let missing = sum - numbers.iter().sum::<u64>();
    numbers.iter_mut().take(missing as usize).for_each(|number| *number += 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact_and_runs_are_equal() {
        let numbers = SplitMix64::new(7).with_sum(1_000, 50, 150, 123_456);
        assert_eq!(numbers.iter().sum::<u64>(), 123_456);
        assert_eq!(numbers, SplitMix64::new(7).with_sum(1_000, 50, 150, 123_456));
    }
}
