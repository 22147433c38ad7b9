//! Giving up: long work asks now and then whether its answer is still wanted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Whether an answer is still wanted. Shared between who works and who waits.
#[derive(Debug, Default)]
pub struct Cancel {
    given_up: AtomicBool,
    deadline: Option<Instant>,
}

/// The answer was no longer wanted, or not ready by its deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("given up: nobody waits for the answer any more")]
pub struct Cancelled;

/// The outcome of work that can be given up.
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

    /// Nobody waits any more.
    pub fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    /// Fails when the answer is no longer wanted. Cheap enough to be asked every few thousand
    /// steps.
    pub fn check(&self) -> Wanted<()> {
        let late = || self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if self.given_up.load(Ordering::Relaxed) || late() { Err(Cancelled) } else { Ok(()) }
    }
}
