//! The longest time for which we can have kept the target waiting: that of the longest single call
//! into the kernel.
//!
//! Between two calls we hold no lock of the target's. Within one, the kernel may hold its
//! `mmap_lock` (or, from Linux 6.17 on, the lock of one mapping) for all of it at worst: also while
//! our thread waits for a CPU. So the time of the call, by the wall clock, is an upper bound of the
//! stall that it caused.

use serde::Serialize;
use std::time::Instant;

/// Calls into the kernel that may hold a lock of the target's, timed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Calls {
    /// How many there were.
    pub calls: u64,
    /// The longest, nanoseconds of wall time.
    pub longest_call_ns: u64,
    /// Which call that was.
    pub longest_call: &'static str,
}

impl Calls {
    /// Makes a call.
    pub fn time<T>(&mut self, what: &'static str, call: impl FnOnce() -> T) -> T {
        self.time_ns(what, call).0
    }

    /// Makes a call, and says how long it took.
    pub fn time_ns<T>(&mut self, what: &'static str, call: impl FnOnce() -> T) -> (T, u64) {
        let start = Instant::now();
        let result = call();
        let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.calls += 1;
        if ns > self.longest_call_ns || self.calls == 1 {
            (self.longest_call_ns, self.longest_call) = (ns, what);
        }
        (result, ns)
    }
}
