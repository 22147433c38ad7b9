//! The values of a group added up.

use super::query::Aggregate;
use super::{Cell, NONE};

/// The values of a group added up so far.
#[derive(Clone, Copy, Default)]
pub(super) struct Sum {
    count: u64,
    sum: Cell,
    min: Cell,
    max: Cell,
}

impl Sum {
    /// Adds a value; [`NONE`] is none.
    #[inline]
    pub fn add(&mut self, value: Cell) {
        if value != NONE {
            self.join(Self { count: 1, sum: value, min: value, max: value });
        }
    }

    #[inline]
    pub fn join(&mut self, more: Self) {
        *self = match (self.count, more.count) {
            (_, 0) => return,
            (0, _) => more,
            _ => Self {
                count: self.count + more.count,
                sum: self.sum.saturating_add(more.sum),
                min: self.min.min(more.min),
                max: self.max.max(more.max),
            },
        };
    }

    /// An aggregate of the values; [`NONE`] without any.
    pub fn value(self, aggregate: Aggregate) -> Cell {
        match aggregate {
            _ if self.count == 0 => NONE,
            Aggregate::Sum => self.sum,
            Aggregate::Average => self.sum / self.count as Cell,
            Aggregate::Min => self.min,
            Aggregate::Max => self.max,
        }
    }
}
