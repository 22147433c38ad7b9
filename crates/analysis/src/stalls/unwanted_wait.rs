//! Waits that nobody chooses: locks, block devices, file systems, memory, being stopped, and any uninterruptible sleep.

use super::{Candidate, StallKind, ThreadView};
use crate::{Analysis, WaitClass};
use unhitch_model::TaskState;

/// Shorter waits are no stall of their own.
const THRESHOLD_NS: u64 = 100_000_000;
/// Shorter ones are not part of a machine's stall either.
const THRESHOLD_OF_MANY_NS: u64 = 50_000_000;

/// True for what is a stall by itself, and not only together with others.
pub(super) fn is_long(candidate: &Candidate) -> bool {
    candidate.kind != StallKind::UnwantedWait || candidate.window.duration_ns() >= THRESHOLD_NS
}

pub(super) fn find(_: &Analysis<'_>, view: &ThreadView<'_>, found: &mut Vec<Candidate>) {
    for operation in view.operations.iter().filter(|operation| operation.window.duration_ns() >= THRESHOLD_OF_MANY_NS) {
        let unwanted = match operation.class {
            WaitClass::Lock | WaitClass::BlockIo | WaitClass::FileSystem | WaitClass::Memory | WaitClass::Stopped => true,
            WaitClass::KernelIdle => false,
            // vfork and exec wait uninterruptibly for their child: that is a call's length, not a hang.
            WaitClass::Process | WaitClass::Timer => false,
            _ => operation.state == TaskState::DiskSleep,
        };
        if unwanted {
            found.push(Candidate {
                kind: StallKind::UnwantedWait,
                victim: view.thread,
                window: operation.window,
                operation: Some(operation.clone()),
                event_loop: view.event_loop,
                machine: None,
            });
        }
    }
}
