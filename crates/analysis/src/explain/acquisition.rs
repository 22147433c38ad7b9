//! By which wait a thread came to a lock.

use super::explanation::Hop;
use super::wait_class::class_of;
use crate::Analysis;
use crate::locks::{is_same_address, is_same_lock, leaf, waits_for_lock};
use crate::stacks::WaitClass;
use crate::timeline::Segment;
use unhitch_model::StackId;

/// The last wait in `segments` by which their thread came to the lock that the sleeper of `hop`
/// waited for.
pub(super) fn acquisition(
    analysis: &Analysis<'_>,
    segments: &[Segment],
    hop: &Hop,
) -> Option<usize> {
    // The lock's address decides; if one of the two is unknown, the stacks do.
    let is_lock = |segment: &Segment, alike: &dyn Fn(StackId, StackId) -> bool| {
        let alike = || alike(segment.wait_stack(analysis.trace), hop.wait_stack);
        waits_for_lock(analysis, segment)
            && is_same_address(analysis, (hop.lock_avma, hop.sleeper), hop.by, segment)
                .unwrap_or_else(alike)
    };
    let same_lock =
        |segment: &Segment| is_lock(segment, &|one, other| is_same_lock(analysis, one, other));
    let same_leaf = |segment: &Segment| {
        is_lock(segment, &|one, other| leaf(analysis, one) == leaf(analysis, other))
    };
    let rested =
        |segment: &Segment| segment.is_sleep() && class_of(analysis, segment) != WaitClass::Lock;
    // Nobody waits for the lock that it has; and who slept for something else and waited for
    // such a lock after that, did not have it.
    let after_rest = segments.iter().rposition(rested).map_or(segments.len(), |rest| rest + 1);
    let first_after_rest =
        || segments.iter().skip(after_rest).position(same_leaf).map(|wait| wait + after_rest);
    segments.iter().rposition(same_lock).max(first_after_rest())
}
