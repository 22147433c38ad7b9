//! Where a thread was while it ran, by CPU samples.

use rustc_hash::FxHashMap;
use unhitch_model::{FrameId, NameId, StackId, ThreadId, Trace, Window};

/// The samples of every thread, in order of time.
pub struct SampleIndex {
    starts: Vec<u32>,
    samples: Vec<u32>,
}

/// The function that dominates a thread's samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HotSpot {
    /// A stack with that function in it, for display.
    pub stack: StackId,
    /// The frame of the deepest function that most samples have in common.
    pub frame: FrameId,
    /// Its name, empty when it has none.
    pub function: NameId,
    /// Samples inside it (inclusive).
    pub inside: u32,
    /// All samples that were asked about.
    pub total: u32,
}

/// The instruction on which most samples of some code are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HotInstruction {
    /// Where it is.
    pub frame: FrameId,
    /// Samples on it.
    pub on: u32,
    /// All samples of its function that were asked about.
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
        let (Some(&start), Some(&end)) = (self.starts.get(thread.index()), self.starts.get(thread.index() + 1)) else { return &[] };
        let all = &self.samples[start as usize..end as usize];
        let time = |sample: &u32| trace.samples.time[*sample as usize];
        let from = all.partition_point(|sample| time(sample) < window.start);
        let to = all.partition_point(|sample| time(sample) < window.end);
        &all[from..to.max(from)]
    }

    /// The instruction of `function` on which most samples inside `runs` are; none when it is not a leaf.
    pub fn hot_instruction(&self, trace: &Trace, function: NameId, runs: &[(ThreadId, Window)]) -> Option<HotInstruction> {
        let mut counts: FxHashMap<FrameId, u32> = FxHashMap::default();
        for &sample in runs.iter().flat_map(|&(thread, window)| self.of_thread(trace, thread, window)) {
            let leaf = trace.stacks.frames_of(trace.samples.stack[sample as usize]).first().copied();
            let inside = |leaf: &FrameId| trace.symbols.get(*leaf).last().is_some_and(|symbol| symbol.function == function);
            if let Some(leaf) = leaf.filter(inside) {
                *counts.entry(leaf).or_default() += 1;
            }
        }
        let total = counts.values().sum();
        counts.into_iter().max_by_key(|&(frame, on)| (on, frame.0)).map(|(frame, on)| HotInstruction { frame, on, total })
    }

    /// The deepest function that at least half of the samples inside `runs`, of whatever threads, share; none without samples.
    pub fn hot_spot(&self, trace: &Trace, runs: &[(ThreadId, Window)]) -> Option<HotSpot> {
        let stacks: Vec<StackId> = runs
            .iter()
            .flat_map(|&(thread, window)| self.of_thread(trace, thread, window))
            .map(|&sample| trace.samples.stack[sample as usize])
            .filter(|stack| !stack.is_empty())
            .collect();
        let total = stacks.len() as u32;
        // Walk from the root, at each depth into the function most samples are in, as long as that is at least half of all.
        let mut alive: Vec<(StackId, Vec<(NameId, FrameId)>)> = stacks.iter().map(|&stack| (stack, path(trace, stack))).collect();
        let mut spot = None;
        for depth in 0.. {
            let mut counts: Vec<((NameId, FrameId), u32)> = Vec::new();
            for (_, path) in &alive {
                let Some(&(name, frame)) = path.get(depth) else { continue };
                match counts.iter_mut().find(|((known, at), _)| *known == name && (!name.is_empty() || *at == frame)) {
                    Some((_, count)) => *count += 1,
                    None => counts.push(((name, frame), 1)),
                }
            }
            let Some(&((name, frame), count)) = counts.iter().max_by_key(|((name, frame), count)| (*count, name.0, frame.0)) else { break };
            if count * 2 < total {
                break;
            }
            alive.retain(|(_, path)| path.get(depth).is_some_and(|&(n, f)| n == name && (!name.is_empty() || f == frame)));
            let stack = alive.first().map_or(StackId::EMPTY, |(stack, _)| *stack);
            spot = Some(HotSpot { stack, frame, function: name, inside: count, total });
        }
        spot
    }
}

/// The functions of a stack, root first; unnamed frames with an empty name. Inlined functions count as the function they are in: the
/// culprit is what the engineer would look up, not the iterator inside it.
fn path(trace: &Trace, stack: StackId) -> Vec<(NameId, FrameId)> {
    let function = |frame: FrameId| trace.symbols.get(frame).last().map_or(NameId::EMPTY, |symbol| symbol.function);
    trace.stacks.frames_of(stack).iter().rev().map(|&frame| (function(frame), frame)).collect()
}
