//! [`Span`]: a stretch of time.

use serde::{Deserialize, Serialize};

/// A time span in nanoseconds of CLOCK_MONOTONIC, the clock of our recordings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Its start.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
}

impl Span {
    /// Its length in nanoseconds.
    pub const fn duration_ns(self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Its length in seconds.
    pub fn seconds(self) -> f64 {
        self.duration_ns() as f64 / 1e9
    }
}
