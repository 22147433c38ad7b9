//! What had not ended when the recording did: what hangs now, if the recording was saved just now.

use super::asked::is_chosen;
use crate::candidate::{Candidate, StallKind};
use crate::explain::operations;
use crate::{Analysis, Operation};
use unhitch_model::{ThreadId, Time, Window};

/// A thread that is starved or throttled gets on a little now and then: its stall has not ended if
/// it was still going on so shortly before the recording's end, nanoseconds.
const NOW_NS: u64 = 200_000_000;
/// A wait of at least this length separates what a running thread does now from what it did before,
/// nanoseconds.
const MIN_PAUSE_NS: u64 = 10_000_000;

/// True if the stall was still going on when the recording ended.
pub(crate) fn is_in_progress(analysis: &Analysis<'_>, candidate: &Candidate) -> bool {
    analysis.timeline.window().end.since(candidate.window.end) <= NOW_NS
}

/// What `thread` is doing at the end of the recording: the wait it is in, or everything since its
/// last pause; nothing if it has ended.
pub(crate) fn present(analysis: &Analysis<'_>, thread: ThreadId) -> Option<Candidate> {
    let recorded = analysis.timeline.window();
    let life = recorded.intersect(analysis.timeline.life(thread));
    if life.is_empty() || life.end < recorded.end {
        return None;
    }
    let operations = operations(analysis, thread, &analysis.segments(thread, recorded));
    let candidate = |kind: StallKind, window: Window, operation: Option<&Operation>| Candidate {
        kind,
        victim: thread,
        window,
        operation: operation.cloned(),
        event_loop: false,
        machine: None,
    };
    if let Some(wait) = operations.last().filter(|operation| operation.open) {
        let kind = if is_chosen(wait) { StallKind::Idle } else { StallKind::Longest };
        return Some(candidate(kind, wait.window, Some(wait)));
    }
    let is_pause = |operation: &&Operation| operation.window.duration_ns() >= MIN_PAUSE_NS;
    let since: Time =
        operations.iter().rev().find(is_pause).map_or(life.start, |pause| pause.window.end);
    let window = Window::new(since, life.end);
    (!window.is_empty()).then(|| candidate(StallKind::Longest, window, None))
}
