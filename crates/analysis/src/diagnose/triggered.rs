//! What the recorder's trigger saw comes first: somebody asked to be told of exactly that.

use super::stall::{Query, Stall};
use crate::Analysis;
use unhitch_model::Window;

/// Puts the stall of the thread that the trigger saw first. If it was not found to be one, what
/// kept the thread is explained all the same, by `explain`.
pub(super) fn put_first(
    analysis: &Analysis<'_>,
    stalls: &mut Vec<Stall>,
    explain: impl Fn(&Query) -> Option<Stall>,
) {
    let save = analysis.trace.meta.save.as_ref();
    let Some(hit) = save.and_then(|save| save.trigger.as_ref()) else { return };
    let Some((tid, seen)) = hit.tid.zip(hit.window) else { return };
    let window = seen.intersect(analysis.timeline.window());
    let Some(thread) = analysis.trace.threads.at(tid, seen.end) else { return };
    if window.is_empty() {
        return;
    }
    let is_seen = |stall: &Stall| {
        let own = stall.candidate.victim == thread || stall.victims.contains(&thread);
        own && covers_most(stall.explanation.window, window)
    };
    let stall = match stalls.iter().position(is_seen) {
        Some(at) => Some(stalls.remove(at)),
        None => {
            let query = Query { victims: vec![thread], window: Some(window), ..Query::default() };
            explain(&query)
        }
    };
    if let Some(stall) = stall {
        stalls.insert(0, stall);
    }
}

/// Whether a stall is about the window, and not something else in a part of it.
fn covers_most(stall: Window, window: Window) -> bool {
    stall.intersect(window).duration_ns() >= window.duration_ns() / 2
}
