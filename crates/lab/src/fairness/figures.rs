//! The results of a measurement.

use super::readers::RwFigures;
use super::waits::Waits;
use serde::Serialize;

/// The results for all locks, in the order of [`LOCKS`].
#[derive(Clone, Debug, Serialize)]
pub struct Fairness {
    /// Number of CPUs that the process may use.
    pub cpus: usize,
    /// One entry per lock.
    pub locks: Vec<LockFigures>,
    /// One entry per reader-writer lock, in the order of [`RW_LOCKS`].
    pub rw_locks: Vec<RwFigures>,
    /// What was not measured, and why.
    pub notes: Vec<String>,
}

/// The results for one lock.
#[derive(Clone, Debug, Serialize)]
pub struct LockFigures {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a few words.
    pub what: &'static str,
    /// Time for an uncontended lock and unlock, in nanoseconds.
    pub uncontended_ns: f64,
    /// One entry per number of threads and length of critical section.
    pub contended: Vec<Contended>,
    /// Waiting for an owner that holds it 1 ms at a time with no gap, on another CPU; `None` if
    /// there is only one CPU.
    pub starved_two_cpus: Option<Starved>,
    /// The same, with both threads on one CPU.
    pub starved_one_cpu: Starved,
}

/// Several threads that acquire a lock as often as they can.
#[derive(Clone, Debug, Serialize)]
pub struct Contended {
    /// Number of threads.
    pub threads: usize,
    /// How long each thread holds the lock, and then stays away from it, in nanoseconds.
    pub section_ns: u64,
    /// Acquisitions per second, summed over all threads.
    pub per_second: f64,
    /// Acquisitions of the thread with the fewest, as a share of the average.
    pub least_share: f64,
    /// Number of sleeps per acquisition.
    pub sleeps: f64,
    /// CPU time of all threads per acquisition, including the section and the time away, in
    /// nanoseconds. It hardly depends on other load.
    pub cpu_ns: f64,
    /// Waits for the lock; if sections are short, only one in 32 is timed.
    pub waits: Waits,
}

/// A thread that requests the lock fifty times a second while another holds it 1 ms at a time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Starved {
    /// How long each request waited. A wait cut off by the end of a run counts with its length so
    /// far.
    pub waits: Waits,
    /// Futile wake-ups (that did not get the lock) per wait.
    pub vain_per_wait: f64,
    /// Maximum number of futile wake-ups in one wait.
    pub most_vain: u64,
    /// Runs that cut off the last wait.
    pub cut_short: u32,
}

impl Starved {
    pub(super) fn add(&mut self, run: Self) {
        let (before, of_run) = (self.waits.count() as f64, run.waits.count() as f64);
        self.vain_per_wait =
            (self.vain_per_wait * before + run.vain_per_wait * of_run) / (before + of_run).max(1.0);
        self.waits.add(&run.waits);
        self.most_vain = self.most_vain.max(run.most_vain);
        self.cut_short += run.cut_short;
    }
}
