//! A virtual machine's host took the CPUs on which something seemed to run.

use super::case::{Case, weaken};
use super::finding::{Finding, Pattern};
use crate::explain::Cause;
use crate::wording::sentence::{Sentence, duration, sentence};

/// Where running is what a stall is blamed on, and the host took half as much time or more, this is
/// told, and the verdict is not certain.
pub(super) fn beside_steal(case: &Case<'_>, mut finding: Finding) -> Finding {
    if !matches!(finding.pattern, Pattern::CpuBound | Pattern::LongHold) {
        return finding;
    }
    let machine = &case.analysis.trace.machine;
    let Some((before, after)) = machine.around(case.explanation.window) else { return finding };
    let Some((old, new)) = before.steal_ns.zip(after.steal_ns) else { return finding };
    let stolen = new.saturating_sub(old);
    let ran = case.ns_of(|piece, _| piece.cause == Cause::Ran);
    // A holder that slept did not run: the host took nothing from it.
    if stolen == 0 || stolen.saturating_mul(2) < ran || !case.is_most(ran) {
        return finding;
    }
    finding.sentences.push(sentence!(
        "In the {} around that time, the virtual machine's host took {} of CPU time: meanwhile \
         nothing ran, though a thread had the CPU.",
        duration(after.time.since(before.time)),
        duration(stolen)
    ));
    let words = "how much of the time the host took from it is not known";
    weaken(&mut finding, |_| Sentence::from(words));
    finding
}
