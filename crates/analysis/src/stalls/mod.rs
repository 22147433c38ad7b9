//! Detectors of stalls: waits that somebody must have wanted to end.
//!
//! Waiting is not a fault; an idle worker waits too. A detector therefore looks for a *reason* to
//! call a stretch of a thread's time a stall: an event loop that did not pump, a lock or a disk
//! that kept a thread waiting, a thread that wanted a CPU. Each kind is one file and one line in
//! [`FINDERS`].

pub(crate) mod asked;
mod busy;
pub(crate) mod command;
mod cpu_starvation;
pub(crate) mod crowd;
mod event_loop;
pub(crate) mod excuse;
pub(crate) mod in_progress;
pub(crate) mod input;
mod lock_starvation;
pub(crate) mod machine;
pub(crate) mod never_victims;
mod rhythm;
mod thread_view;
pub(crate) mod ui_delay;
pub(crate) mod unwanted_wait;

use crate::candidate::Candidate;
use crate::explain::operations;
pub use crate::family::descendants;
use crate::{Analysis, Operation};
pub use thread_view::ThreadView;
use unhitch_model::ThreadId;

/// Finds the candidates of one kind in one thread's time.
pub type Finder = fn(&Analysis<'_>, &ThreadView<'_>, &mut Vec<Candidate>);

/// The registry of finders that look at one thread; [`command`] and [`crowd`] look at processes,
/// [`machine`] at what they all found, [`ui_delay`] at what Windows or
/// the agent reported.
pub const FINDERS: &[Finder] = &[
    lock_starvation::find,
    event_loop::find,
    unwanted_wait::find,
    cpu_starvation::find,
    rhythm::find,
    input::find,
];

/// The candidates of one thread, and waits that may be some beside those of its process.
pub(crate) fn candidates_of(
    analysis: &Analysis<'_>,
    thread: ThreadId,
) -> (Vec<Candidate>, Vec<Operation>) {
    let segments = analysis.segments(thread, analysis.timeline.window());
    let operations = operations(analysis, thread, &segments);
    let view = ThreadView {
        thread,
        segments: &segments,
        operations: &operations,
        event_loop: event_loop::is_event_loop(analysis, &operations),
        kernel_thread: thread_view::is_of_kernel(analysis, &operations),
    };
    let mut found = Vec::new();
    FINDERS.iter().for_each(|find| find(analysis, &view, &mut found));
    (found, crowd::rare_waits(analysis, &view))
}
