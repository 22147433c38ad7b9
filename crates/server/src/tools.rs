//! What the server leaves to its caller, because it takes more than analysis.

use crate::unreadable::Unreadable;
use serde_json::Value;
use std::path::Path;
use unhitch_analysis::Rules;
use unhitch_model::Trace;

/// Reads a trace and names its frames, or returns why it cannot.
pub type Open = dyn Fn(&Path) -> Result<Trace, Unreadable> + Send + Sync;
/// Reads the newest part of a long trace and names its frames. `None` if only all of it can be read, or
/// that takes no longer.
pub type OpenNewest = dyn Fn(&Path) -> Option<Trace> + Send + Sync;
/// Lists the instructions of a function with their samples, like `unhitch hot --json`, or returns
/// why it cannot.
pub type Listing = dyn Fn(&Trace, &ListingQuestion<'_>) -> Result<Value, String> + Send + Sync;

/// What the server needs beyond analysis: reading files, function names and machine code.
pub struct Tools {
    /// Reads a trace.
    pub open: Box<Open>,
    /// Reads the newest part of a trace first.
    pub open_newest: Box<OpenNewest>,
    /// Lists a function's instructions.
    pub listing: Box<Listing>,
    /// What stacks mean.
    pub rules: Rules,
    /// Whether the list of traces shows the verdicts that the recorder stored: they were found with
    /// the rules that come with Unhitch.
    pub stored_verdicts: bool,
}

/// Which function to list, with which samples.
#[derive(Clone, Copy, Debug)]
pub struct ListingQuestion<'a> {
    /// The function, as in `unhitch hot --function`.
    pub function: &'a str,
    /// The samples to count, as indices of the trace's samples.
    pub samples: &'a [usize],
}
