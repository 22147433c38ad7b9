//! What finders of stalls see of one thread.

use crate::{Operation, Segment};
use unhitch_model::ThreadId;

/// A thread's time, as every finder sees it.
pub struct ThreadView<'a> {
    /// The thread.
    pub thread: ThreadId,
    /// The partition of its time.
    pub segments: &'a [Segment],
    /// Its blocked operations.
    pub operations: &'a [Operation],
    /// True when it is an event loop.
    pub event_loop: bool,
}
