//! Slow device: the victim, or the thread it waited for, waited for a device other than a disk.

use super::case::Case;
use super::case::in_function;
use super::finding::{Finding, Pattern};
use crate::explain::Cause;
use crate::stacks::text::own_function;
use crate::wording::sentence::sentence;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let (waiter, ns) = case.most_of(|piece, _| piece.cause == Cause::Device)?;
    if !case.is_most(ns) {
        return None;
    }
    let segment = &case.longest(waiter, Cause::Device)?.segment;
    let function = own_function(case.analysis, segment.wait_stack(case.analysis.trace));
    let mut sentences = if waiter == case.candidate.victim { Vec::new() } else { case.waits() };
    sentences.push(sentence!(
        "{} waited for a device for {}, in\n  {}",
        case.it_or_name(waiter),
        case.part(ns),
        case.segment_stack(waiter, segment)
    ));
    let cause = sentence!("a slow device{}.", in_function(", waited for in ", &function));
    Some(Finding {
        culprit: Some(waiter),
        function,
        sentences,
        advice: "The kernel's log (`dmesg`) says whether the device's driver had to reset it."
            .into(),
        ..case.finding(Pattern::DeviceWait, cause)
    })
}
