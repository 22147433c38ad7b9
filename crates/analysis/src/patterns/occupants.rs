//! Who had the CPUs that somebody waited for.

use super::Case;
use crate::HotSpot;
use crate::answer::units;
use crate::crowd::{Party, parties};
use crate::explain::{Cause, Piece};
use rustc_hash::FxHashMap;
use unhitch_model::{ThreadId, Window};

/// So many entries are told.
const TOLD: usize = 3;

/// Who had the CPUs, most first.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Occupants(Vec<Party>);

impl Occupants {
    /// The thread or the crowd that had most; none where the CPUs were idle for longer than that.
    pub fn hog(&self) -> Option<&Party> {
        self.0.first().filter(|occupant| !occupant.thread.is_idle())
    }

    /// The first few of them, with their times; nothing where none is known.
    pub fn told(&self, case: &Case<'_>) -> Option<String> {
        let told: Vec<String> = self
            .0
            .iter()
            .take(TOLD)
            .map(|occupant| format!("{} {}", case.occupant(occupant), units::duration(occupant.ns)))
            .collect();
        (!told.is_empty()).then(|| told.join(", "))
    }
}

impl Case<'_> {
    /// Where an occupant was hot during the stall: a crowd in the functions of all its members.
    pub fn hot_of(&self, occupant: &Party) -> Option<HotSpot> {
        let threads = &self.analysis.trace.threads;
        let (named, window) =
            (|thread| threads.name_at(thread, self.at()), self.explanation.window);
        let members =
            threads.iter().map(|(thread, _)| thread).filter(|thread| match occupant.crowd {
                Some(name) => named(*thread) == name,
                None => *thread == occupant.thread,
            });
        let runs: Vec<(ThreadId, Window)> = members.map(|thread| (thread, window)).collect();
        self.analysis.hot_spot(&runs)
    }

    /// At which policy and priority a thread last came on a CPU during the stall, where that
    /// explains something.
    pub fn policy(&self, thread: ThreadId) -> String {
        let analysis = self.analysis;
        let arrival =
            analysis.timeline.last_arrival(analysis.trace, thread, self.explanation.window);
        let kernel = arrival.map(|switch| analysis.trace.switches.next_prio[switch]);
        let real_time =
            kernel.and_then(|kernel| units::real_time_priority(analysis.trace.meta.format, kernel));
        units::policy(analysis.trace.threads.get(thread), real_time)
    }

    /// Who had the CPUs that the picked pieces waited for.
    pub fn occupants(&self, select: impl Fn(&Piece) -> bool) -> Occupants {
        let mut sums: FxHashMap<ThreadId, u64> = FxHashMap::default();
        for piece in self
            .explanation
            .pieces
            .iter()
            .filter(|piece| piece.cause == Cause::WaitedForCpu && select(piece))
        {
            for (occupant, window) in self.analysis.occupants(piece) {
                if let Some(thread) = occupant {
                    *sums.entry(thread).or_default() += window.duration_ns();
                }
            }
        }
        Occupants(parties(self.analysis.trace, self.at(), sums))
    }

    /// `rustc 4711 [nice 10]`, or `98 threads named lab-worker`.
    pub fn occupant(&self, occupant: &Party) -> String {
        let policy =
            if occupant.crowd.is_none() { self.policy(occupant.thread) } else { String::new() };
        format!("{}{policy}", occupant.name(self.analysis.trace, self.at()))
    }
}
