//! The wake-ups that each thread issued, in order of time.

use crate::grouped::Grouped;
use crate::stacks::StackClasses;
use unhitch_model::Trace;

/// Indices into the wakings, by waker; without those that an interrupt issued meanwhile.
pub(crate) fn by_waker(trace: &Trace, stacks: &StackClasses) -> Grouped<u32> {
    let (wakers, threads) = (&trace.wakings.waker, trace.threads.len());
    let issued: Vec<bool> =
        (0..wakers.len()).map(|index| stacks.is_by_task(trace, index)).collect();
    let last = threads.saturating_sub(1);
    let by_waker = (0..).zip(wakers.iter().map(|waker| waker.index().min(last)));
    let issued = by_waker.zip(&issued).filter(|(_, issued)| **issued);
    Grouped::by(threads, issued.map(|((index, waker), _)| (waker, index)))
}
