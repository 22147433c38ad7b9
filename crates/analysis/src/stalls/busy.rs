//! How much processes compute: one that computes all the time works through a batch.

use crate::Analysis;
use crate::timeline::State;
use unhitch_model::{ThreadId, Window};

/// True if the process of `thread` ran for at least half of its life, on however many CPUs.
pub(super) fn is_batch(analysis: &Analysis<'_>, thread: ThreadId) -> bool {
    let threads = &analysis.trace.threads;
    let ran_ns = analysis.process_times().ran_ns(threads.get(thread).process);
    let life = analysis.timeline.life(threads.process_of(thread).leader);
    ran_ns.saturating_mul(2) >= life.duration_ns() && ran_ns > 0
}

/// Time that all threads of the process of `thread` ran inside `window`, summed, nanoseconds.
pub(super) fn process_ran_ns(analysis: &Analysis<'_>, thread: ThreadId, window: Window) -> u64 {
    let process = analysis.trace.threads.get(thread).process;
    let mut ran_ns = 0u64;
    for &id in analysis.threads_of(process) {
        analysis.timeline.each_segment(analysis.trace, id, window, &mut |segment| {
            if segment.state == State::Ran {
                ran_ns = ran_ns.saturating_add(segment.window.duration_ns());
            }
        });
    }
    ran_ns
}
