//! The maps of the kernel's part that a save reads.

use crate::runtimes::Functions;
use crate::sys::SharedArray;
use crate::unwind::Walker;
use std::sync::Arc;
use unhitch_formats::ring::SleeperPart;
use unhitch_formats::scripts::ScriptFile;

/// `struct task_slot`: their number, at how many places that of a thread may be, and the length of
/// one; the offsets of two of its numbers.
pub(super) const TASK_SLOTS: usize = 1 << 16;
const TASK_PLACES: u32 = 4;
pub(super) const TASK_SLOT_BYTES: usize = 128;
const SINCE_AT: usize = 8;
const WOKEN_AT: usize = 16;

/// Maps that are read at a save.
pub(crate) struct Shared {
    pub(super) mappings: SharedArray,
    pub(super) rows: SharedArray,
    pub(super) tasks: SharedArray,
    /// What runs in processes, and the functions that were seen.
    pub(super) functions: Arc<Functions>,
}

impl Shared {
    pub(crate) fn walker(&self) -> Walker<'_> {
        Walker { mappings: &self.mappings, rows: &self.rows }
    }

    /// The functions of scripts, and methods, that were seen.
    pub(crate) fn scripts(&self) -> ScriptFile {
        self.functions.file()
    }

    /// True if the thread has not been on a CPU since it was listed.
    pub(super) fn still_sleeps(&self, sleeper: &SleeperPart) -> bool {
        match self.slot_of(sleeper.tid) {
            None => sleeper.is_estimate,
            Some(slot) => {
                let woken_us = self.tasks.load(slot + WOKEN_AT) as u32;
                let since_ns = self.tasks.load(slot + SINCE_AT);
                !sleeper.is_estimate && since_ns == sleeper.left_ns && woken_us == 0
            }
        }
    }

    /// Where the thread's `struct task_slot` is, if it has one, as `slot_of` in `bpf/write.h`.
    fn slot_of(&self, tid: u32) -> Option<usize> {
        let spread = tid.wrapping_mul(0x9e37_79b1) >> 16;
        let places = (0..TASK_PLACES).map(|nth| if nth == 0 { tid } else { spread + nth * 0x5555 });
        places
            .map(|place| (place as usize % TASK_SLOTS) * TASK_SLOT_BYTES)
            .find(|&slot| self.tasks.load(slot) as u32 == tid)
    }
}
