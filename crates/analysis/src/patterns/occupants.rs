//! Who had the CPUs that a thread waited for.

use super::case::Case;
use crate::explain::{Cause, Piece, occupant_shares};
use crate::samples::{HotSpot, hot_spot};
use crate::wording::sentence::{Sentence, duration, sentence};
use crate::wording::{ThreadGroup, thread_groups, units};
use rustc_hash::FxHashMap;
use unhitch_model::{ThreadId, Window};

/// Maximum entries that are listed.
const MAX_LISTED: usize = 3;

/// Who had the CPUs, most first.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Occupants(Vec<ThreadGroup>);

impl Occupants {
    /// The thread or group that had most; none where the CPUs were idle for longer than that.
    pub fn hog(&self) -> Option<&ThreadGroup> {
        self.0.first().filter(|occupant| !occupant.thread.is_idle())
    }

    /// The first few threads of them: `A, B and others`.
    pub fn names(&self, case: &Case<'_>) -> Sentence {
        let threads = || self.0.iter().filter(|occupant| !occupant.thread.is_idle());
        let first = threads().take(MAX_LISTED).map(|occupant| case.occupant(occupant));
        let names = Sentence::join(first, ", ");
        match threads().count() > MAX_LISTED {
            true => sentence!("{} and others", names),
            false => names,
        }
    }

    /// The first few of them, with their times; nothing where none is known.
    pub fn listed(&self, case: &Case<'_>) -> Option<Sentence> {
        let entry = |occupant: &ThreadGroup| {
            sentence!("{} {}", case.occupant(occupant), duration(occupant.ns))
        };
        (!self.0.is_empty())
            .then(|| Sentence::join(self.0.iter().take(MAX_LISTED).map(entry), ", "))
    }
}

impl Case<'_> {
    /// Where an occupant was hot during the stall; a group by all of its members.
    pub fn hot_of(&self, occupant: &ThreadGroup) -> Option<HotSpot> {
        let (threads, window) = (&self.analysis.trace.threads, self.explanation.window);
        let is_member = |thread: &ThreadId| match occupant.shared_name {
            Some(name) => threads.name_at(*thread, self.at()) == name,
            None => *thread == occupant.thread,
        };
        let members = threads.iter().map(|(thread, _)| thread).filter(is_member);
        let runs: Vec<(ThreadId, Window)> = members.map(|thread| (thread, window)).collect();
        hot_spot(self.analysis, &runs)
    }

    /// The policy and priority at which a thread last came on a CPU during the stall, where they
    /// explain something.
    pub fn policy(&self, thread: ThreadId) -> String {
        units::policy(self.analysis.trace.threads.get(thread), self.real_time_priority(thread))
    }

    /// True if a thread ran at a real-time priority during the stall.
    pub fn is_real_time(&self, thread: ThreadId) -> bool {
        self.real_time_priority(thread).is_some()
    }

    fn real_time_priority(&self, thread: ThreadId) -> Option<i16> {
        let crate::Analysis { trace, timeline, .. } = self.analysis;
        let arrival = timeline.last_arrival(trace, thread, self.explanation.window)?;
        trace.meta.system.real_time_priority(trace.switches.next_prio[arrival])
    }

    /// Who had the CPUs that the selected pieces waited for.
    pub fn occupants(&self, select: impl Fn(&Piece) -> bool) -> Occupants {
        let mut sums: FxHashMap<ThreadId, u64> = FxHashMap::default();
        let waits = self
            .explanation
            .pieces
            .iter()
            .filter(|piece| piece.cause == Cause::WaitedForCpu && select(piece));
        for piece in waits {
            for (occupant, ns) in occupant_shares(self.analysis, piece) {
                if let Some(thread) = occupant {
                    *sums.entry(thread).or_default() += ns;
                }
            }
        }
        Occupants(thread_groups(self.analysis.trace, self.at(), sums))
    }

    /// `rustc 4711 [nice 10]`, or `98 threads named lab-worker`.
    pub fn occupant(&self, occupant: &ThreadGroup) -> Sentence {
        let policy = match occupant.shared_name {
            Some(_) => String::new(),
            None => self.policy(occupant.thread),
        };
        sentence!("{}{}", occupant.name(self.analysis.trace, self.at()), policy)
    }
}
