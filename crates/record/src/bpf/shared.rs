//! The maps of the kernel's part that a save reads.

use crate::sys::SharedArray;
use crate::unwind::Walker;

/// `struct task_slot`: their number, and the length of one.
pub(super) const TASK_SLOTS: usize = 1 << 16;
pub(super) const TASK_SLOT_BYTES: usize = 128;

/// Maps that are read at a save.
pub(crate) struct Shared {
    pub(super) mappings: SharedArray,
    pub(super) rows: SharedArray,
    pub(super) tasks: SharedArray,
}

impl Shared {
    pub(crate) fn walker(&self) -> Walker<'_> {
        Walker { mappings: &self.mappings, rows: &self.rows }
    }

    /// True if the thread still sleeps as it did when it left its CPU at this time.
    pub(crate) fn still_sleeps(&self, tid: u32, left_ns: u64) -> bool {
        let slot = (tid as usize % TASK_SLOTS) * TASK_SLOT_BYTES;
        let woken_ns = self.tasks.load(slot + 8);
        self.tasks.load(slot) == left_ns && woken_ns == 0
    }
}
