//! The waits and wake-ups of a selection, as `unhitch table` has them.

use unhitch_analysis::explain::class_of;
use unhitch_analysis::{Analysis, Segment, State, WaitClass};
use unhitch_formats::perf_data::Selection;
use unhitch_model::{StackId, ThreadId, Time, Window};

/// A time in which a thread slept, clipped to the selection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) thread: ThreadId,
    pub(crate) window: Window,
    /// How long it is known to have slept: records lost meanwhile hide the rest.
    pub(crate) ns: u64,
    pub(crate) stack: StackId,
    /// The switch with which it left the CPU.
    pub(crate) out: Option<usize>,
    /// The wake-up that ended it.
    pub(crate) wake: Option<usize>,
    /// Its first part.
    segment: Segment,
}

impl Wait {
    /// What it was for.
    pub(crate) fn class(&self, analysis: &Analysis<'_>) -> WaitClass {
        class_of(analysis, &self.segment.with_wake(self.wake))
    }
}

/// Calls `take` with each wait of the selected threads, thread by thread.
pub(crate) fn each_wait(
    analysis: &Analysis<'_>,
    selection: &Selection,
    take: &mut dyn FnMut(Wait),
) {
    let window = selection.window.intersect(analysis.timeline.window());
    let threads = (1..analysis.timeline.threads() as u32).map(ThreadId);
    for thread in threads.filter(|thread| selection.has(&[*thread])) {
        waits_of(analysis, thread, window, take);
    }
}

/// Calls `take` with each wait of a thread.
pub(crate) fn waits_of(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    window: Window,
    take: &mut dyn FnMut(Wait),
) {
    let mut last: Option<Wait> = None;
    analysis.timeline.each_segment(analysis.trace, thread, window, &mut |segment| {
        let State::Sleeping(_) = segment.state else { return };
        let same = last.as_mut().filter(|last| last.out.is_some() && last.out == segment.out());
        if let Some(same) = same {
            // Lost records hid the middle of one sleep.
            same.ns += segment.window.duration_ns();
            (same.window.end, same.wake) = (segment.window.end, segment.wake());
            return;
        }
        let next = Wait {
            thread,
            window: segment.window,
            ns: segment.window.duration_ns(),
            stack: segment.wait_stack(analysis.trace),
            out: segment.out(),
            wake: segment.wake(),
            segment,
        };
        if let Some(wait) = last.replace(next) {
            take(wait);
        }
    });
    last.into_iter().for_each(take);
}

/// By wake-up: how long the sleep was that it ended, whole; none where it ended none.
pub(crate) fn ended_sleeps(analysis: &Analysis<'_>) -> Vec<Option<u64>> {
    let mut ended = vec![None; analysis.trace.wakings.len()];
    let everything = Selection { window: Window::new(Time::ZERO, Time::MAX), threads: None };
    each_wait(analysis, &everything, &mut |wait| {
        if let Some(slot) = wait.wake.and_then(|wake| ended.get_mut(wake)) {
            *slot = Some(wait.ns);
        }
    });
    ended
}

/// The wake-ups of a selection, as indices into the wakings.
pub(crate) fn wakes<'s>(
    analysis: &'s Analysis<'_>,
    selection: &'s Selection,
) -> impl Iterator<Item = usize> + 's {
    let wakings = &analysis.trace.wakings;
    wakings
        .range(selection.window)
        .filter(|&wake| selection.has(&[wakings.waker[wake], wakings.wakee[wake]]))
}

/// The CPU samples of a selection that show a CPU at work.
pub(crate) fn samples<'s>(
    analysis: &'s Analysis<'_>,
    selection: &'s Selection,
) -> impl Iterator<Item = usize> + 's {
    let samples = &analysis.trace.samples;
    samples
        .range(selection.window)
        .filter(|&sample| samples.is_work(sample) && selection.has(&[samples.thread[sample]]))
}
