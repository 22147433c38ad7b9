//! Who ever woke whom: a client and its server wake each other, a worker never wakes whoever writes
//! into its pipe.

use crate::Analysis;
use rayon::prelude::*;
use rustc_hash::FxHashSet;
use unhitch_model::{ThreadId, Trace};

/// Wake-ups per part of the trace that one core looks at.
const WAKINGS_PER_PART: usize = 1 << 16;

/// The pairs of which one woke the other, by threads within a process and by processes otherwise.
/// *Why processes:* which of its threads a server lets answer may differ each time.
#[derive(Default)]
pub(crate) struct Contacts(FxHashSet<(ThreadId, ThreadId)>);

impl Contacts {
    /// All wake-ups of the trace that a thread issued itself.
    pub(crate) fn new(analysis: &Analysis<'_>) -> Self {
        let wakings = &analysis.trace.wakings;
        let parts: Vec<usize> = (0..wakings.time.len()).step_by(WAKINGS_PER_PART).collect();
        let of_part = |&start: &usize| {
            let mut pairs = FxHashSet::default();
            let mut last = None;
            for index in start..wakings.time.len().min(start + WAKINGS_PER_PART) {
                let threads = (wakings.waker[index], wakings.wakee[index]);
                // Most wake-ups repeat.
                if last != Some(threads) && analysis.stacks.is_by_task(analysis.trace, index) {
                    pairs.insert(parties(analysis.trace, threads.0, threads.1));
                    last = Some(threads);
                }
            }
            pairs
        };
        let all = parts.par_iter().map(of_part).reduce(FxHashSet::default, |mut all, part| {
            all.extend(part);
            all
        });
        Self(all)
    }

    /// True if each of the two woke the other.
    pub(crate) fn are_mutual(&self, trace: &Trace, one: ThreadId, other: ThreadId) -> bool {
        let (one, other) = parties(trace, one, other);
        self.0.contains(&(one, other)) && self.0.contains(&(other, one))
    }
}

/// The two threads if they are of one process, else the first threads of their processes.
fn parties(trace: &Trace, one: ThreadId, other: ThreadId) -> (ThreadId, ThreadId) {
    let threads = &trace.threads;
    match threads.get(one).process == threads.get(other).process {
        true => (one, other),
        false => (threads.process_of(one).leader, threads.process_of(other).leader),
    }
}
