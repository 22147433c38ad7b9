//! When all processes are looked at, and which of them are then to be read.

use crate::procfs;
use rustc_hash::{FxHashMap, FxHashSet};
use std::time::{Duration, Instant};

/// How often processes are looked for that are new, or whose end was not reported.
const INTERVAL: Duration = Duration::from_secs(1);
/// The same where no process has begun since: only ends can have gone unreported.
const QUIET_INTERVAL: Duration = Duration::from_secs(30);
/// How many sweeps read a process: the first time may have been before its libraries were mapped.
const READINGS: u8 = 2;

pub(super) struct Sweeps {
    last: Instant,
    /// See [`procfs::newest_id`].
    newest_id: Option<u32>,
    /// How often each process that lives was read.
    readings: FxHashMap<u32, u8>,
}

impl Sweeps {
    pub(super) fn new() -> Self {
        Self { last: Instant::now(), newest_id: None, readings: FxHashMap::default() }
    }

    /// Whether to look at all processes again: a list of them costs more than all else that an idle
    /// machine asks for here.
    pub(super) fn is_due(&mut self) -> bool {
        let elapsed = self.last.elapsed();
        if elapsed < INTERVAL {
            return false;
        }
        let newest = procfs::newest_id();
        let is_quiet = newest.is_some() && newest == self.newest_id;
        self.newest_id = newest;
        let all_are_read = self.readings.values().all(|times| *times == READINGS);
        !is_quiet || !all_are_read || elapsed >= QUIET_INTERVAL
    }

    /// The processes to be read of those that live.
    pub(super) fn begin(&mut self, living: &FxHashSet<u32>) -> Vec<u32> {
        self.last = Instant::now();
        self.readings.retain(|pid, _| living.contains(pid));
        let mut unread = Vec::new();
        for pid in living {
            let times = self.readings.entry(*pid).or_default();
            if *times < READINGS {
                *times += 1;
                unread.push(*pid);
            }
        }
        unread
    }

    /// A process has ended, or may just have executed another program.
    pub(super) fn forget(&mut self, pid: u32) {
        self.readings.remove(&pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_is_read_twice_and_again_after_an_exec() {
        let mut sweeps = Sweeps::new();
        let mut begin = |pids: &[u32]| {
            let mut unread = sweeps.begin(&pids.iter().copied().collect());
            unread.sort_unstable();
            unread
        };
        assert_eq!(begin(&[1, 2]), [1, 2]);
        assert_eq!(begin(&[1, 2, 3]), [1, 2, 3]);
        assert_eq!(begin(&[1, 2, 3]), [3]);
        assert!(begin(&[1, 2, 3]).is_empty());
        // Another process with the id of one that ended.
        assert!(begin(&[2, 3]).is_empty());
        assert_eq!(begin(&[1, 2, 3]), [1]);
        sweeps.forget(2);
        assert_eq!(sweeps.begin(&[2, 3].into_iter().collect()), [2]);
    }
}
