//! Atomics and spinning: the real ones, or loom's, which its models explore.

#[cfg(not(loom))]
pub use core::hint::spin_loop;
#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU32, Ordering};
#[cfg(loom)]
pub use loom::hint::spin_loop;
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, Ordering};

/// How often to try for the lock before going to sleep: takes some µs, about as much as a sleep and
/// a wake-up.
#[cfg(not(loom))]
pub const SPINS: u32 = 100;
#[cfg(loom)]
pub const SPINS: u32 = 0;
