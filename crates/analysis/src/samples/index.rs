//! The CPU samples of each thread.

use rustc_hash::FxHashMap;
use unhitch_model::{FrameId, NameId, ThreadId, Trace, Window};

/// The samples of every thread, in order of time.
pub struct SampleIndex {
    starts: Vec<u32>,
    samples: Vec<u32>,
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
        let threads = trace.threads.len();
        let mut starts = vec![0u32; threads + 1];
        trace.samples.thread.iter().for_each(|thread| starts[thread.index() + 1] += 1);
        (0..threads).for_each(|index| starts[index + 1] += starts[index]);
        let mut next = starts.clone();
        let mut samples = vec![0u32; trace.samples.len()];
        for (index, thread) in trace.samples.thread.iter().enumerate() {
            let slot = &mut next[thread.index()];
            samples[*slot as usize] = index as u32;
            *slot += 1;
        }
        Self { starts, samples }
    }

    /// The indices of a thread's samples inside `window`.
    pub fn of_thread(&self, trace: &Trace, thread: ThreadId, window: Window) -> &[u32] {
        let (Some(&start), Some(&end)) =
            (self.starts.get(thread.index()), self.starts.get(thread.index() + 1))
        else {
            return &[];
        };
        let all = &self.samples[start as usize..end as usize];
        let time = |sample: &u32| trace.samples.time[*sample as usize];
        let from = all.partition_point(|sample| time(sample) < window.start);
        let to = all.partition_point(|sample| time(sample) < window.end);
        &all[from..to.max(from)]
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
