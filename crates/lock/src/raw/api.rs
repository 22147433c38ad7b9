//! Implements the traits of `lock_api`: a mutex and a reader-writer lock.

use super::{Mode, Policy, Word};
use lock_api::GuardSend;

/// The mutex without its data, for [`lock_api::Mutex`]. See [`Mutex`](crate::Mutex) for the
/// parameters.
pub struct RawMutex<const ONE_IN: u32 = 100, const BOUND_US: u32 = 5_000>(Word);

/// The reader-writer lock without its data, for [`lock_api::RwLock`]. See [`RwLock`](crate::RwLock)
/// for the parameters.
pub struct RawRwLock<const ONE_IN: u32 = 100, const BOUND_US: u32 = 5_000>(Word);

impl<const ONE_IN: u32, const BOUND_US: u32> RawMutex<ONE_IN, BOUND_US> {
    const POLICY: Policy = Policy { one_in: ONE_IN, bound_us: BOUND_US };
}

impl<const ONE_IN: u32, const BOUND_US: u32> RawRwLock<ONE_IN, BOUND_US> {
    const POLICY: Policy = Policy { one_in: ONE_IN, bound_us: BOUND_US };
}

// SAFETY: in exclusive mode, `Word` has at most one owner (the loom models check it), whichever
// thread unlocks.
unsafe impl<const ONE_IN: u32, const BOUND_US: u32> lock_api::RawMutex
    for RawMutex<ONE_IN, BOUND_US>
{
    type GuardMarker = GuardSend;

    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self(Word::free());

    #[inline]
    fn lock(&self) {
        self.0.lock(Mode::Exclusive, Self::POLICY);
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.0.try_lock(Mode::Exclusive)
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.0.unlock(Mode::Exclusive, Self::POLICY);
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.0.is_held()
    }
}

// SAFETY: `unlock_fair` unlocks as `unlock` does.
unsafe impl<const ONE_IN: u32, const BOUND_US: u32> lock_api::RawMutexFair
    for RawMutex<ONE_IN, BOUND_US>
{
    #[inline]
    unsafe fn unlock_fair(&self) {
        self.0.unlock_fair(Mode::Exclusive, Self::POLICY);
    }
}

// SAFETY: `Word` is held by one writer or any number of readers (the loom models check it),
// whichever thread unlocks.
unsafe impl<const ONE_IN: u32, const BOUND_US: u32> lock_api::RawRwLock
    for RawRwLock<ONE_IN, BOUND_US>
{
    type GuardMarker = GuardSend;

    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self(Word::free());

    #[inline]
    fn lock_shared(&self) {
        self.0.lock(Mode::Shared, Self::POLICY);
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.0.try_lock(Mode::Shared)
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        self.0.unlock(Mode::Shared, Self::POLICY);
    }

    #[inline]
    fn lock_exclusive(&self) {
        self.0.lock(Mode::Exclusive, Self::POLICY);
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        self.0.try_lock(Mode::Exclusive)
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        self.0.unlock(Mode::Exclusive, Self::POLICY);
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.0.is_held()
    }

    #[inline]
    fn is_locked_exclusive(&self) -> bool {
        self.0.is_held_exclusively()
    }
}

// SAFETY: both unlock like their unfair counterparts.
unsafe impl<const ONE_IN: u32, const BOUND_US: u32> lock_api::RawRwLockFair
    for RawRwLock<ONE_IN, BOUND_US>
{
    #[inline]
    unsafe fn unlock_shared_fair(&self) {
        self.0.unlock_fair(Mode::Shared, Self::POLICY);
    }

    #[inline]
    unsafe fn unlock_exclusive_fair(&self) {
        self.0.unlock_fair(Mode::Exclusive, Self::POLICY);
    }
}
