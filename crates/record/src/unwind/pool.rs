//! Divides a map into extents.

/// Neighbouring entries of a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Extent {
    pub(super) first: u32,
    pub(super) len: u32,
}

/// The free entries of a map.
pub(super) struct Pool {
    /// Sorted, and no two touch.
    free: Vec<Extent>,
}

impl Pool {
    pub(super) fn new(entries: u32) -> Self {
        Self { free: vec![Extent { first: 0, len: entries }] }
    }

    /// The first free place that is long enough.
    pub(super) fn take(&mut self, len: u32) -> Option<Extent> {
        if len == 0 {
            return Some(Extent::default());
        }
        let at = self.free.iter().position(|free| free.len >= len)?;
        let free = &mut self.free[at];
        let taken = Extent { first: free.first, len };
        *free = Extent { first: free.first + len, len: free.len - len };
        if free.len == 0 {
            self.free.remove(at);
        }
        Some(taken)
    }

    /// Gives back what was taken.
    pub(super) fn free(&mut self, extent: Extent) {
        if extent.len == 0 {
            return;
        }
        let at = self.free.partition_point(|free| free.first < extent.first);
        self.free.insert(at, extent);
        for left in [at, at.wrapping_sub(1)] {
            if let Some(&[before, after]) = self.free.get(left..).and_then(<[Extent]>::first_chunk)
                && before.first + before.len == after.first
            {
                self.free[left].len += after.len;
                self.free.remove(left + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_one_again() {
        let mut pool = Pool::new(100);
        let parts: Vec<Extent> = [10, 20, 30, 40].map(|len| pool.take(len).unwrap()).to_vec();
        assert_eq!(parts.iter().map(|part| part.first).collect::<Vec<_>>(), [0, 10, 30, 60]);
        assert_eq!((pool.take(1), pool.take(0)), (None, Some(Extent::default())));
        for index in [1, 3, 2, 0] {
            pool.free(parts[index]);
        }
        assert_eq!(pool.free, [Extent { first: 0, len: 100 }]);
        pool.free(Extent::default());
        assert_eq!(pool.take(100), Some(Extent { first: 0, len: 100 }));
    }
}
