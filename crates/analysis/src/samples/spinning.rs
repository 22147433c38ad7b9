//! Whether a thread's samples show it spinning.

use crate::Analysis;
use crate::stacks::classes::SpinsFor;
use unhitch_model::{ThreadId, Window};

/// Samples of a thread that goes round and round.
pub(crate) struct Spinning {
    /// Their indices, in order of time.
    pub(crate) samples: Vec<usize>,
    /// What most of them wait for.
    pub(crate) wanted: SpinsFor,
}

/// The samples of a thread inside `window` that show it spinning, if at least half of them do.
pub(crate) fn spinning(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    window: Window,
) -> Option<Spinning> {
    let Analysis { trace, stacks, .. } = analysis;
    let all = analysis.samples.of_thread(trace, thread, window);
    let wanted = |sample: usize| {
        let frames = trace.stacks.frames_of(trace.samples.stack[sample]);
        frames.iter().find_map(|frame| stacks.spins_for(*frame))
    };
    let spinning = all.iter().map(|at| *at as usize);
    let (samples, wanted): (Vec<usize>, Vec<SpinsFor>) =
        spinning.filter_map(|sample| Some((sample, wanted(sample)?))).unzip();
    let locks = wanted.iter().filter(|wanted| **wanted == SpinsFor::Lock).count();
    let most = if locks * 2 >= wanted.len() { SpinsFor::Lock } else { SpinsFor::Event };
    (!samples.is_empty() && samples.len() * 2 >= all.len())
        .then_some(Spinning { samples, wanted: most })
}
