//! [`Budget`]: an amount that several threads use up together.

use std::sync::atomic::{AtomicU64, Ordering};

/// What is left of an amount.
#[derive(Debug)]
pub(crate) struct Budget(AtomicU64);

impl Budget {
    pub(crate) fn new(amount: u64) -> Self {
        Self(AtomicU64::new(amount))
    }

    /// Takes `amount` of what is left. False, and nothing is taken, if there is not enough.
    pub(crate) fn take(&self, amount: u64) -> bool {
        let less = |left: u64| left.checked_sub(amount);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}
