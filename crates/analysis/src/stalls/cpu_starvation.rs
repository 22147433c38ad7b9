//! Threads that wanted a CPU and did not get one.

use super::{Candidate, StallKind, ThreadView};
use crate::{Analysis, State};
use unhitch_model::Policy;

const THRESHOLD_NS: u64 = 50_000_000;
/// A thread this nice has asked to come last.
const NICE_ENOUGH: i8 = 15;

pub(super) fn find(analysis: &Analysis<'_>, view: &ThreadView<'_>, found: &mut Vec<Candidate>) {
    let thread = analysis.trace.threads.get(view.thread);
    if thread.policy == Some(Policy::Idle) || thread.nice.is_some_and(|nice| nice >= NICE_ENOUGH) {
        return;
    }
    for segment in view.segments {
        if matches!(segment.state, State::Runnable { .. }) && segment.window.duration_ns() >= THRESHOLD_NS {
            found.push(Candidate {
                kind: StallKind::CpuStarvation,
                victim: view.thread,
                window: segment.window,
                operation: None,
                event_loop: view.event_loop,
                machine: None,
            });
        }
    }
}
