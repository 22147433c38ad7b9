//! Threads that go round and round until they have a lock.

use crate::Analysis;
use unhitch_model::{ThreadId, Window};

/// The samples of a thread inside `window` that show it going round and round for a lock, if at least
/// half of them do.
pub(crate) fn spinning(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    window: Window,
) -> Option<Vec<usize>> {
    let Analysis { trace, stacks, .. } = analysis;
    let all = analysis.samples.of_thread(trace, thread, window);
    let spins = |sample: &usize| {
        let frames = trace.stacks.frames_of(trace.samples.stack[*sample]);
        frames.iter().any(|frame| stacks.spins(*frame))
    };
    let spinning: Vec<usize> = all.iter().map(|at| *at as usize).filter(spins).collect();
    (!spinning.is_empty() && spinning.len() * 2 >= all.len()).then_some(spinning)
}
