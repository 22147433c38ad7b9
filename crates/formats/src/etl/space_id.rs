//! [`SpaceId`]: which address space an address belongs to.

use unhitch_model::ProcessId;

/// The kernel's address space, or that of a process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct SpaceId(pub u32);

impl SpaceId {
    pub(super) const KERNEL: Self = Self(0);

    pub(super) fn of(process: ProcessId) -> Self {
        Self(process.0.saturating_add(1))
    }
}

/// True for an address in the kernel's half.
#[inline]
pub(super) fn is_kernel_avma(avma: u64, pointer_bytes: usize) -> bool {
    avma >> (pointer_bytes * 8 - 1) != 0
}
