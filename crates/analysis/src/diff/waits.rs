//! The waits of a recording, summed by what they mean.

use super::path::Functions;
use super::who::Who;
use crate::Analysis;
use crate::explain::class_of;
use crate::stacks::WaitClass;
use crate::timeline::State;
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::BTreeMap;
use unhitch_model::{StackId, ThreadId};

/// What is alike about waits that are summed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Debug)]
pub struct WaitKey {
    /// Who waited.
    pub waiter: Who,
    /// What for.
    pub class: &'static str,
    /// Where: functions, outermost first.
    pub wait: Vec<String>,
    /// The one of them that is responsible.
    pub wait_in: String,
    /// Who ended the wait; none for an interrupt, or if it is not known.
    pub waker: Option<Who>,
    /// Where it did.
    pub wake: Vec<String>,
}

/// Waits of one key.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct WaitSum {
    /// How long each took, nanoseconds, in ascending order.
    pub lengths: Vec<u64>,
    /// Waits that the recording cuts, and their time: they were longer than that.
    pub cut: (u64, u64),
    /// True for waits that no thread chooses.
    pub unwanted: bool,
}

impl WaitSum {
    /// Their time, nanoseconds.
    pub fn sum_ns(&self) -> u64 {
        self.lengths.iter().sum()
    }

    /// The length that `percent` of them do not exceed; 0 for none.
    pub fn percentile(&self, percent: usize) -> u64 {
        let rank = (self.lengths.len() * percent).div_ceil(100);
        self.lengths.get(rank.saturating_sub(1)).copied().unwrap_or(0)
    }
}

/// The waits of a recording. Those for work, for an event or for a time are left out: they fill
/// what time the rest leaves.
pub(super) fn waits(analysis: &Analysis<'_>) -> BTreeMap<WaitKey, WaitSum> {
    let (trace, window) = (analysis.trace, analysis.timeline.window());
    let mut functions = Functions { analysis, known: FxHashMap::default() };
    // By ids first: there may be millions of waits, and few kinds.
    type Ids = (ThreadId, WaitClass, StackId, Option<ThreadId>, StackId);
    let mut by_ids: FxHashMap<Ids, WaitSum> = FxHashMap::default();
    for thread in (1..analysis.timeline.threads() as u32).map(ThreadId) {
        analysis.timeline.each_segment(trace, thread, window, &mut |segment| {
            let State::Sleeping(_) = segment.state else { return };
            let class = class_of(analysis, &segment);
            if class.is_chosen() {
                return;
            }
            let wake = segment.wake().filter(|wake| analysis.stacks.is_by_task(trace, *wake));
            let waker = wake.map(|wake| trace.wakings.waker[wake]);
            let wake_stack = wake.map_or(StackId::EMPTY, |wake| trace.wakings.stack[wake]);
            let key = (thread, class, segment.wait_stack(trace), waker, wake_stack);
            let sum = by_ids.entry(key).or_default();
            let ns = segment.window.duration_ns();
            let is_cut = segment.out().is_none() || segment.wake().is_none();
            if is_cut && (segment.window.start == window.start || segment.window.end == window.end)
            {
                sum.cut = (sum.cut.0 + 1, sum.cut.1 + ns);
            } else {
                sum.lengths.push(ns);
            }
        });
    }
    let mut sums: BTreeMap<WaitKey, WaitSum> = BTreeMap::new();
    for ((thread, class, stack, waker, wake_stack), more) in by_ids {
        let at = window.end;
        let key = WaitKey {
            waiter: Who::of(analysis, thread, at),
            class: class.name(),
            wait: functions.of(stack).to_vec(),
            wait_in: functions.own(stack),
            waker: waker.map(|waker| Who::of(analysis, waker, at)),
            wake: functions.of(wake_stack).to_vec(),
        };
        let sum = sums.entry(key).or_default();
        sum.lengths.extend(more.lengths);
        sum.cut = (sum.cut.0 + more.cut.0, sum.cut.1 + more.cut.1);
        sum.unwanted |= class.is_unwanted() || analysis.stacks.is_unwanted(stack);
    }
    sums.values_mut().for_each(|sum| sum.lengths.sort_unstable());
    sums
}
