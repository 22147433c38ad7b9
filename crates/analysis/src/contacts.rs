//! Who ever woke whom: a client and its server wake each other, a worker never wakes whoever writes
//! into its pipe.

use crate::stacks::StackClasses;
use rustc_hash::FxHashMap;
use unhitch_model::{ThreadId, Time, Trace};

/// Pairs that are remembered to have been seen, a power of two: most wake-ups repeat one of few.
const REMEMBERED: usize = 1 << 10;

/// The pairs of which one woke the other, by threads within a process and by processes otherwise, and
/// when it first did. *Why processes:* which of its threads a server lets answer may differ each time.
#[derive(Default)]
pub(crate) struct Contacts {
    first: FxHashMap<(ThreadId, ThreadId), Time>,
    /// The second of the pairs that begin with each.
    woken: FxHashMap<ThreadId, Vec<ThreadId>>,
}

impl Contacts {
    /// All wake-ups of the trace that a thread issued itself. *Why on one core:* many cores wait for
    /// it at once, and one that helped another out could come to wait for itself.
    pub(crate) fn new(trace: &Trace, stacks: &StackClasses) -> Self {
        let wakings = &trace.wakings;
        let mut contacts = Self::default();
        let mut seen = vec![None; REMEMBERED];
        for (index, threads) in wakings.waker.iter().zip(&wakings.wakee).enumerate() {
            let at = (threads.0.index() ^ threads.1.index().rotate_left(5)) % REMEMBERED;
            if seen[at] != Some(threads) && stacks.is_by_task(trace, index) {
                let parties = parties(trace, *threads.0, *threads.1);
                contacts.first.entry(parties).or_insert_with(|| {
                    contacts.woken.entry(parties.0).or_default().push(parties.1);
                    wakings.time[index]
                });
                seen[at] = Some(threads);
            }
        }
        contacts
    }

    /// The threads of its own process that a thread woke.
    pub(crate) fn woken_by(&self, one: ThreadId) -> impl Iterator<Item = ThreadId> {
        self.woken.get(&one).into_iter().flatten().copied()
    }

    /// True if each of the two woke the other.
    pub(crate) fn are_mutual(&self, trace: &Trace, one: ThreadId, other: ThreadId) -> bool {
        let (one, other) = parties(trace, one, other);
        self.first.contains_key(&(one, other)) && self.first.contains_key(&(other, one))
    }

    /// True if `one` had woken `other` before `time`.
    pub(crate) fn had_woken(
        &self,
        trace: &Trace,
        one: ThreadId,
        other: ThreadId,
        time: Time,
    ) -> bool {
        self.first.get(&parties(trace, one, other)).is_some_and(|first| *first < time)
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
