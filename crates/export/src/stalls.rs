//! The stalls of a selection.

use crate::job::Job;
use unhitch_analysis::{Query, Stall, diagnose};
use unhitch_model::ThreadId;

/// The stalls that `unhitch why` finds in the selection.
pub(crate) fn stalls(job: &Job<'_>) -> Vec<Stall> {
    let (analysis, selection) = (job.analysis, job.selection);
    let whole = analysis.timeline.window();
    let wanted = selection.threads.as_ref();
    let mut victims: Vec<ThreadId> = wanted.into_iter().flatten().copied().collect();
    victims.sort_unstable();
    let window = selection.window.intersect(whole);
    let query = Query { victims, window: (window != whole).then_some(window), ..Query::default() };
    diagnose(analysis, &query)
}
