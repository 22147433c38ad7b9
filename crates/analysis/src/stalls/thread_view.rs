//! A thread's time, as every detector sees it.

use crate::{Analysis, Operation, Segment, WaitClass};
use unhitch_model::{ThreadId, Window};

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
    /// True for a kernel thread. It has no work of its own: whom it kept waiting is the victim.
    pub kernel_thread: bool,
}

impl<'a> ThreadView<'a> {
    /// The segments that overlap `window`, whole.
    pub(super) fn inside(&self, window: Window) -> impl Iterator<Item = &'a Segment> {
        let from = self.segments.partition_point(|segment| segment.window.end <= window.start);
        let rest = self.segments.get(from..).unwrap_or(&[]).iter();
        rest.take_while(move |segment| segment.window.start < window.end)
    }
}

/// True if these are operations of a kernel thread.
pub(super) fn is_of_kernel(analysis: &Analysis<'_>, operations: &[Operation]) -> bool {
    let rests = |operation: &Operation| {
        operation.class == WaitClass::KernelIdle
            || analysis.stacks.is_kernel_thread(operation.stack)
    };
    operations.iter().any(rests)
}
