//! The rank test of Mann and Whitney, exact, for a handful of recordings on each side.

use serde::Serialize;

/// What ranks say about two groups of values.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Ranks {
    /// How likely a difference at least this clear is if there is none (two-sided).
    pub p: f64,
    /// True if every value of one side is above every value of the other.
    pub separate: bool,
}

impl Ranks {
    /// The least number of recordings on a side that the test can tell anything from.
    pub const MIN: usize = 3;
    /// Maximum recordings of both sides together: counting takes the fourth power of their number.
    pub const MAX: usize = 64;
    /// Above this, a difference counts as noise. Three against three reach 0.1 at best.
    pub const MAX_P: f64 = 0.1;

    /// True for a difference that is unlikely to be noise.
    pub fn is_difference(&self) -> bool {
        // 0.1 is 2/20, which is not exact.
        self.p <= Self::MAX_P + 1e-9
    }
}

/// Compares two groups of values by their ranks; none if one has fewer than [`Ranks::MIN`], or both
/// more than [`Ranks::MAX`].
///
/// The distribution of the rank sum is counted out, ties included: no approximation is good for so
/// few.
pub fn ranks(before: &[i64], after: &[i64]) -> Option<Ranks> {
    if before.len().min(after.len()) < Ranks::MIN || before.len() + after.len() > Ranks::MAX {
        return None;
    }
    let all: Vec<i64> = before.iter().chain(after).copied().collect();
    // Twice the rank, so that the mean rank of equal values is a whole number.
    let doubled = |value: &i64| {
        let less = all.iter().filter(|other| *other < value).count();
        let equal = all.iter().filter(|other| *other == value).count();
        2 * less + equal + 1
    };
    let of_all: Vec<usize> = all.iter().map(doubled).collect();
    let sum: usize = of_all[..before.len()].iter().sum();
    let total: usize = of_all.iter().sum();
    // ways[k][s]: how many choices of k values have the rank sum s.
    let mut ways = vec![vec![0.0_f64; total + 1]; before.len() + 1];
    ways[0][0] = 1.0;
    for rank in &of_all {
        for chosen in (1..=before.len()).rev() {
            let (fewer, more) = ways.split_at_mut(chosen);
            for at in *rank..=total {
                more[0][at] += fewer[chosen - 1][at - rank];
            }
        }
    }
    // Distances from the mean, which is total × before / all: compared without a division.
    let (part, whole) = (before.len() as i128, all.len() as i128);
    let distance = |sum: usize| (sum as i128 * whole - total as i128 * part).abs();
    let counts = &ways[before.len()];
    let extreme = |(at, _): &(usize, &f64)| distance(*at) >= distance(sum);
    let rare: f64 = counts.iter().enumerate().filter(extreme).map(|(_, ways)| ways).sum();
    let separate =
        before.iter().max() < after.iter().min() || after.iter().max() < before.iter().min();
    Some(Ranks { p: rare / counts.iter().sum::<f64>(), separate })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From tables of the exact distribution.
    #[test]
    fn probabilities_are_exact() {
        let p = |before: &[i64], after: &[i64]| ranks(before, after).unwrap().p;
        assert!((p(&[1, 2, 3], &[4, 5, 6]) - 0.1).abs() < 1e-12);
        assert!((p(&[1, 2, 3, 4], &[5, 6, 7, 8]) - 2.0 / 70.0).abs() < 1e-12);
        assert!((p(&[1, 2, 5], &[3, 4, 6]) - 0.4).abs() < 1e-12);
        assert_eq!(p(&[5, 5, 5], &[5, 5, 5]), 1.0);
        assert_eq!(ranks(&[1, 2], &[3, 4, 5]), None);
        assert!(ranks(&[1, 2, 3], &[4, 5, 6]).unwrap().is_difference());
        assert!(!ranks(&[1, 2, 5], &[3, 4, 6]).unwrap().is_difference());
    }
}
