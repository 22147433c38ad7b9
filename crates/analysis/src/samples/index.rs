//! The CPU samples of each thread.

use crate::grouped::Grouped;
use rustc_hash::FxHashMap;
use unhitch_model::{FrameId, NameId, ThreadId, Trace, Window};

/// The samples of every thread, in order of time.
pub struct SampleIndex {
    by_thread: Grouped<u32>,
}

/// The instruction with the most samples of some code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HotInstruction {
    /// Where it is.
    pub frame: FrameId,
    /// Samples on it.
    pub on: u32,
    /// All counted samples of its function.
    pub total: u32,
}

impl SampleIndex {
    /// Groups the samples of `trace` by thread.
    pub fn new(trace: &Trace) -> Self {
        let threads = trace.samples.thread.iter().map(|thread| thread.index());
        Self { by_thread: Grouped::by(trace.threads.len(), threads.zip(0..)) }
    }

    /// The indices of a thread's samples inside `window`.
    pub fn of_thread(&self, trace: &Trace, thread: ThreadId, window: Window) -> &[u32] {
        self.by_thread.inside(thread.index(), window, &trace.samples.time)
    }

    /// The instruction of `function` with the most samples inside `runs`; none if it is never a
    /// leaf.
    pub fn hot_instruction(
        &self,
        trace: &Trace,
        function: NameId,
        runs: &[(ThreadId, Window)],
    ) -> Option<HotInstruction> {
        let mut counts: FxHashMap<FrameId, u32> = FxHashMap::default();
        for &sample in
            runs.iter().flat_map(|&(thread, window)| self.of_thread(trace, thread, window))
        {
            let leaf =
                trace.stacks.frames_of(trace.samples.stack[sample as usize]).first().copied();
            let inside = |leaf: &FrameId| {
                trace.symbols.get(*leaf).last().is_some_and(|symbol| symbol.function == function)
            };
            if let Some(leaf) = leaf.filter(inside) {
                *counts.entry(leaf).or_default() += 1;
            }
        }
        let total = counts.values().sum();
        counts
            .into_iter()
            .max_by_key(|&(frame, on)| (on, frame.0))
            .map(|(frame, on)| HotInstruction { frame, on, total })
    }
}
