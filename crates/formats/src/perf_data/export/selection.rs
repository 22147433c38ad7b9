//! What is exported, and what came of it.

use rustc_hash::FxHashSet;
use unhitch_model::{ThreadId, Window};

/// The part of a trace to export.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The events inside this window.
    pub window: Window,
    /// Only events of these threads: switches to and from them, wake-ups by and of them, and their
    /// samples; `None` for those of all threads.
    pub threads: Option<FxHashSet<ThreadId>>,
}

impl Selection {
    /// True for an event of these threads.
    pub fn has(&self, threads: &[ThreadId]) -> bool {
        match &self.threads {
            None => true,
            Some(wanted) => threads.iter().any(|thread| wanted.contains(thread)),
        }
    }
}

/// What an export holds, and what it lacks.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Exported {
    /// Context switches.
    pub switches: u64,
    /// Wake-ups.
    pub wakings: u64,
    /// CPU samples.
    pub samples: u64,
    /// Begins and ends of waits for kernel locks.
    pub contentions: u64,
    /// Lock events that were left out because it is not known on which CPU they were.
    pub contentions_left_out: u64,
    /// Frames that were left out because it is not known where their code was mapped.
    pub frames_left_out: u64,
    /// Stacks that were cut at the number of frames that perf reads.
    pub stacks_cut: u64,
}
