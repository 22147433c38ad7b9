//! When a sleep really began, and which came before.

use crate::Analysis;
use crate::timeline::Segment;
use unhitch_model::{ThreadId, Time, Window};

/// How long before a sleep one for the same ended, at most, nanoseconds.
const MAX_BACK_NS: u64 = 10_000_000_000;

/// When a sleep began, even if that was before the window that it was cut to. One that stands for earlier
/// ones may have begun after that window.
pub(super) fn began(analysis: &Analysis<'_>, sleep: &Segment) -> Time {
    let left = sleep.left(analysis.trace).filter(|left| *left < sleep.window.end);
    left.unwrap_or(sleep.window.start)
}

/// All of a sleep that a loss cut short, of which losses leave thousands of pieces; another as it is.
pub(super) fn whole(analysis: &Analysis<'_>, thread: ThreadId, sleep: &Segment) -> Segment {
    let Window { end, .. } = sleep.window;
    if !analysis.timeline.is_lost(end) {
        return *sleep;
    }
    let until = analysis.timeline.end_of_sleep(analysis.trace, thread, sleep);
    sleep.within(Window::new(began(analysis, sleep), until.max(end)))
}

/// The sleeps of a thread in the time before `until`, the last first. One may come in parts. *Why in
/// steps:* most often the first few tell, of a million.
pub(super) fn sleeps_before(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    until: Time,
) -> impl Iterator<Item = Segment> {
    const FIRST_STEP_NS: u64 = 100_000_000;
    let start = until.minus(MAX_BACK_NS);
    let (mut end, mut step_ns) = (until, FIRST_STEP_NS);
    let steps = std::iter::from_fn(move || {
        let begin = end.minus(step_ns).max(start);
        let step = Window::new(begin, end);
        (end, step_ns) = (begin, step_ns.saturating_mul(8));
        (!step.is_empty()).then(|| analysis.segments(thread, step))
    });
    steps.flat_map(|segments| segments.into_iter().rev()).filter(Segment::is_sleep)
}
