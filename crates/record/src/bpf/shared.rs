//! The maps of the kernel's part that a save reads.

use crate::python::Pythons;
use crate::sys::SharedArray;
use crate::unwind::Walker;
use std::sync::Arc;
use unhitch_formats::ring::SleeperPart;
use unhitch_formats::scripts::ScriptFile;

/// `struct task_slot`: their number, and the length of one.
pub(super) const TASK_SLOTS: usize = 1 << 16;
pub(super) const TASK_SLOT_BYTES: usize = 144;

/// Maps that are read at a save.
pub(crate) struct Shared {
    pub(super) mappings: SharedArray,
    pub(super) rows: SharedArray,
    pub(super) tasks: SharedArray,
    /// The interpreters of processes, and the functions that they ran.
    pub(super) pythons: Arc<Pythons>,
}

impl Shared {
    pub(crate) fn walker(&self) -> Walker<'_> {
        Walker { mappings: &self.mappings, rows: &self.rows }
    }

    /// The functions of scripts that were seen.
    pub(crate) fn scripts(&self) -> ScriptFile {
        self.pythons.file()
    }

    /// True if the thread has not been on a CPU since it was listed.
    pub(super) fn still_sleeps(&self, sleeper: &SleeperPart) -> bool {
        let slot = (sleeper.tid as usize % TASK_SLOTS) * TASK_SLOT_BYTES;
        if sleeper.is_estimate {
            return self.tasks.load(slot + 32) as u32 != sleeper.tid;
        }
        let woken_ns = self.tasks.load(slot + 8);
        self.tasks.load(slot) == sleeper.left_ns && woken_ns == 0
    }
}
