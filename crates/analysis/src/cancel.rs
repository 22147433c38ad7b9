//! Cancellation: long work checks regularly whether its answer is still wanted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Whether an answer is still wanted. Shared between the thread that works and the one that waits.
#[derive(Debug, Default)]
pub struct Cancel {
    given_up: AtomicBool,
    deadline: Option<Instant>,
}

/// The answer was no longer wanted, or not ready by its deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("cancelled: the answer is no longer wanted")]
pub struct Cancelled;

/// The outcome of work that can be cancelled.
pub type Wanted<T> = Result<T, Cancelled>;

impl Cancel {
    /// Work that is always wanted.
    pub const fn never() -> Self {
        Self { given_up: AtomicBool::new(false), deadline: None }
    }

    /// Work that is wanted until `deadline`.
    pub const fn at(deadline: Instant) -> Self {
        Self { given_up: AtomicBool::new(false), deadline: Some(deadline) }
    }

    /// Cancels the work.
    pub fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    /// Fails when the answer is no longer wanted. Cheap enough for every few thousand steps.
    pub fn check(&self) -> Wanted<()> {
        let late = || self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if self.given_up.load(Ordering::Relaxed) || late() { Err(Cancelled) } else { Ok(()) }
    }
}
