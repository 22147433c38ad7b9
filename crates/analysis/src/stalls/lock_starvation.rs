//! Operations woken again and again in vain.

use super::thread_view::ThreadView;
use crate::candidate::{Candidate, StallKind};
use crate::patterns::MIN_WAKES_IN_VAIN;
use crate::{Analysis, WaitClass};

/// Minimum length of the operation, nanoseconds: what is shorter, nobody notices.
const THRESHOLD_NS: u64 = 50_000_000;

pub(super) fn find(_: &Analysis<'_>, view: &ThreadView<'_>, found: &mut Vec<Candidate>) {
    for operation in view.operations {
        // A condition variable that is signalled often is a busy consumer; only a lock promises
        // progress with a wake-up.
        let lock = operation.class == WaitClass::Lock && !operation.pump;
        if lock
            && operation.wakes_in_vain() >= MIN_WAKES_IN_VAIN
            && operation.window.duration_ns() >= THRESHOLD_NS
        {
            found.push(Candidate {
                kind: StallKind::LockStarvation,
                victim: view.thread,
                window: operation.window,
                operation: Some(operation.clone()),
                event_loop: view.event_loop,
                machine: None,
            });
        }
    }
}
