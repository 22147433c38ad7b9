//! Locks: which waits are for one lock, and who releases it.

mod hand_offs;
pub(crate) mod kernel_locks;
mod lock_address;
mod releases;
mod same_lock;
pub(crate) mod waiters;

pub(crate) use hand_offs::released_by_others;
pub(crate) use lock_address::is_same_address;
pub use lock_address::lock_of;
pub use releases::{Release, releases};
pub(crate) use same_lock::{is_same_lock, leaf, waits_for_lock};
