//! [`Options`]: how to run a lab program.

use crate::search;

/// How to run a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Length of the whole run in seconds, 3 to 60. The hang is in the middle.
    pub seconds: f64,
    /// For `long-hold`: how it searches for free blocks, on a full volume instead of a fragmented
    /// one.
    pub search: Option<search::Way>,
    /// For `long-hold`: each search continues where the last one ended.
    pub resume: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { seconds: 4.0, search: None, resume: false }
    }
}
