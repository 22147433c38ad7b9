//! Locks: which waits are for one lock, and who releases it.

pub(crate) mod kernel_locks;
mod releases;
mod same_lock;

pub use releases::{Release, releases};
pub use same_lock::lock_of;
pub(crate) use same_lock::{is_same_address, is_same_lock, leaf, waits_for_lock};
