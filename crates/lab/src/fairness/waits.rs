//! A histogram of wait times with a constant relative error.

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

/// Base-2 logarithm of the number of buckets per doubling.
const PARTS_LOG2: u32 = 4;

/// Waits by length. Quantiles are accurate to 1/16; the maximum is exact.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    counts: Vec<u64>,
    count: u64,
    max_ns: u64,
}

impl Waits {
    /// Adds a wait.
    pub fn note(&mut self, ns: u64) {
        let bucket = bucket(ns);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.count += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds all waits of another histogram.
    pub fn add(&mut self, other: &Self) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, other)| *own += other);
        self.count += other.count;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Number of waits.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest wait in nanoseconds.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The quantile at `share` (0 to 1), in nanoseconds; 0 if there are no waits.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let rank = ((self.count as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper_ns(bucket).min(self.max_ns);
            }
        }
        0
    }
}

/// Lengths below 2^[`PARTS_LOG2`] have a bucket each; every doubling above has that many buckets.
fn bucket(ns: u64) -> usize {
    let doublings = (u64::BITS - ns.leading_zeros()).saturating_sub(PARTS_LOG2 + 1);
    (((u64::from(doublings)) << PARTS_LOG2) + (ns >> doublings)) as usize
}

/// The longest wait that belongs in the bucket.
fn upper_ns(bucket: usize) -> u64 {
    let doublings = (bucket >> PARTS_LOG2).saturating_sub(1);
    let part = (bucket - (doublings << PARTS_LOG2)) as u64;
    ((part + 1) << doublings).wrapping_sub(1)
}

impl Serialize for Waits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Waits", 4)?;
        out.serialize_field("count", &self.count)?;
        out.serialize_field("p50_ns", &self.quantile_ns(0.5))?;
        out.serialize_field("p99_ns", &self.quantile_ns(0.99))?;
        out.serialize_field("max_ns", &self.max_ns)?;
        out.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_cover_their_range() {
        for ns in (0..5_000).chain([u64::MAX, u64::MAX / 2, 1 << 40, (1 << 40) - 1]) {
            let bucket_of = bucket(ns);
            let upper = upper_ns(bucket_of);
            assert!(upper >= ns && upper - ns <= ns / 16, "{ns} in {bucket_of} up to {upper}");
            assert!(bucket_of == 0 || upper_ns(bucket_of - 1) < ns, "{ns}");
        }
    }

    #[test]
    fn quantiles_of_known_waits() {
        let (mut low, mut high) = (Waits::default(), Waits::default());
        (1..=50).for_each(|ns| low.note(ns * 1_000));
        (51..=100).for_each(|ns| high.note(ns * 1_000));
        low.add(&high);
        assert_eq!((low.count(), low.max_ns()), (100, 100_000));
        for (share, exact) in [(0.5, 50_000), (0.99, 99_000), (1.0, 100_000)] {
            let found = low.quantile_ns(share);
            assert!((exact..=exact + exact / 16).contains(&found), "{share}: {found}");
        }
        assert_eq!(Waits::default().quantile_ns(0.5), 0);
    }
}
