//! A thread's time, as every detector sees it.

use crate::{Analysis, Operation, Segment, WaitClass};
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

impl ThreadView<'_> {
    /// True for a kernel thread. It has no work of its own: whom it kept waiting is the victim.
    pub(super) fn is_kernel_thread(&self, analysis: &Analysis<'_>) -> bool {
        let rests = |operation: &Operation| {
            operation.class == WaitClass::KernelIdle
                || analysis.stacks.is_kernel_thread(operation.stack)
        };
        self.operations.iter().any(rests)
    }
}
