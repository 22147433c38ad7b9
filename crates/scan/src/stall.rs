//! The maximum time for which we may have stalled the target: the duration of the longest system
//! call.
//!
//! Between two calls we hold no lock of the target. During a call, the kernel may hold its
//! `mmap_lock` (since Linux 6.17, the lock of one mapping), in the worst case all the time, even
//! while our thread waits for a CPU. So the wall time of a call is an upper bound of the stall that
//! it caused.

use serde::Serialize;
use std::time::Instant;

/// Times system calls that may hold a lock of the target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Calls {
    /// Number of calls.
    pub calls: u64,
    /// Wall time of the longest call in nanoseconds.
    pub longest_call_ns: u64,
    /// The name of the longest call.
    pub longest_call: &'static str,
}

impl Calls {
    /// Times a call.
    pub fn time<T>(&mut self, what: &'static str, call: impl FnOnce() -> T) -> T {
        self.time_ns(what, call).0
    }

    /// Times a call, and returns how long it took in nanoseconds.
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
