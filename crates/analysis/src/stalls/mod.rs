//! Finding stalls without being told: waits that someone must have wanted to end.
//!
//! Waiting is not a fault; an idle worker waits too. A finder therefore looks for a *reason* to
//! call a stretch of a thread's time a stall: an event loop that did not pump, a lock or a disk
//! that kept a thread, a thread that wanted a CPU. Each kind is one file and one line in
//! [`FINDERS`].

mod asked;
mod cpu_starvation;
mod event_loop;
mod lock_starvation;
mod machine;
pub(crate) mod ui_delay;
mod unwanted_wait;

pub use machine::MassRelease;

use crate::explain::Cause;
use crate::patterns::{Finding, Pattern, judge};
use crate::{Analysis, Explanation, Operation, Segment, WaitClass};
use rayon::prelude::*;
use unhitch_model::{ThreadId, Throttling, Window};

/// Only so many candidates are explained; the rest are smaller.
const MOST_EXPLAINED: usize = 64;

/// Why a stretch of time counts as a stall.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum StallKind {
    /// An event loop stayed away from its idle stack.
    EventLoop,
    /// A wait for a lock, a disk, memory, or a peer that does not take what is written to it.
    UnwantedWait,
    /// A thread wanted a CPU and did not get one.
    CpuStarvation,
    /// One operation, woken again and again in vain.
    LockStarvation,
    /// Most CPUs fell idle, and were back at once when many long waits ended.
    Machine,
    /// Windows reported that a thread did not look at its messages.
    UiDelay,
    /// A cycle of a thread that was asked about, far longer than its others at that place.
    Rhythm,
    /// A window that the user asked about.
    Mark,
    /// The longest wait of a thread that was asked about, where nothing about it is a stall.
    Longest,
    /// The same where it waited for nothing but work, events or a time.
    Idle,
}

impl StallKind {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EventLoop => "event_loop",
            Self::UnwantedWait => "unwanted_wait",
            Self::CpuStarvation => "cpu_starvation",
            Self::LockStarvation => "lock_starvation",
            Self::Machine => "machine",
            Self::UiDelay => "ui_delay",
            Self::Rhythm => "rhythm",
            Self::Mark | Self::Longest | Self::Idle => "mark",
        }
    }
}

/// A stretch of a thread's time that may be a stall.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    /// Why.
    pub kind: StallKind,
    /// Whose time.
    pub victim: ThreadId,
    /// Which time.
    pub window: Window,
    /// The blocked operation it consists of, if it is one.
    pub operation: Option<Operation>,
    /// True when the victim is an event loop: someone waits for its answer.
    pub event_loop: bool,
    /// The whole machine's part in it.
    pub machine: Option<Box<MassRelease>>,
}

/// A thread's time, as every finder sees it.
pub struct ThreadView<'a> {
    /// The thread.
    pub thread: ThreadId,
    /// The partition of its time.
    pub segments: &'a [Segment],
    /// Its blocked operations.
    pub operations: &'a [Operation],
    /// True when it is an event loop.
    pub event_loop: bool,
}

/// Finds the candidates of one kind in one thread's time.
pub type Finder = fn(&Analysis<'_>, &ThreadView<'_>, &mut Vec<Candidate>);

/// The registry of finders that look at one thread; [`machine`] looks at what they found,
/// [`ui_delay`] at what Windows reported.
pub const FINDERS: &[Finder] =
    &[lock_starvation::find, event_loop::find, unwanted_wait::find, cpu_starvation::find];

/// A stall with its explanation and its cause.
#[derive(Clone, PartialEq, Debug)]
pub struct Stall {
    /// What happened to the first victim.
    pub candidate: Candidate,
    /// Everyone who suffered from the same cause at the same time, the first victim included.
    pub victims: Vec<ThreadId>,
    /// Where the time went.
    pub explanation: Explanation,
    /// The verdict.
    pub finding: Finding,
    /// The control group's quota that kept the victim, or who held it up, from CPUs for most of it.
    pub throttling: Option<Throttling>,
}

/// What to look for.
#[derive(Clone, Default, Debug)]
pub struct Query {
    /// Only these threads, the one that matters most first; empty for all.
    pub victims: Vec<ThreadId>,
    /// Only what overlaps this window; with victims, the window itself is explained.
    pub window: Option<Window>,
}

impl Candidate {
    /// True for a wait that was picked because somebody asked, and that its thread did not choose.
    fn is_unusual_wait(&self) -> bool {
        self.kind == StallKind::Rhythm
            || (self.kind == StallKind::Longest && self.operation.is_some())
    }
}

impl Query {
    /// True when something was named: then there is an answer, stall or not.
    pub fn is_about_something(&self) -> bool {
        self.window.is_some() || !self.victims.is_empty()
    }

    /// The order of answers to a question about threads: those that were not idle, and the first
    /// thread's own, before the others'.
    fn rank(&self, stall: &Stall) -> (bool, bool) {
        let first = self.victims.first().is_none_or(|first| stall.victims.contains(first));
        (stall.candidate.kind == StallKind::Idle, !first)
    }
}

impl Stall {
    /// False for an event loop that spent most of its absence in other waits with a timeout, none
    /// of which anybody ended: it polls there, and was not kept from anything. Nor for a writer
    /// into a pipe of whose reader nothing is known but that it had nothing to do: that may be a
    /// pager before which somebody sits.
    fn is_defensible(&self) -> bool {
        let operation = self.candidate.operation.as_ref();
        let is_message = operation.is_some_and(|operation| operation.class == WaitClass::Ipc);
        if self.candidate.kind == StallKind::UnwantedWait
            && is_message
            && !self.finding.pattern.is_definite()
        {
            return false;
        }

        let polled = self
            .explanation
            .pieces
            .iter()
            .filter(|piece| piece.hop.is_none() && piece.cause == Cause::Timeout);
        let polled_ns: u64 = polled.map(|piece| piece.window.duration_ns()).sum();
        self.candidate.kind != StallKind::EventLoop
            || polled_ns * 2 < self.explanation.window.duration_ns()
    }

    /// The culprit, when it is someone other than the victim.
    fn kept_waiting_by(&self) -> Option<ThreadId> {
        self.finding.culprit.filter(|culprit| *culprit != self.candidate.victim)
    }

    /// How bad it is: how long, for how many, and whether there is a cause to act on.
    pub fn severity(&self) -> u64 {
        let cause = match self.finding.pattern {
            Pattern::Unknown | Pattern::DeadEnd => 1,
            Pattern::TimerSleep => 2,
            _ => 4,
        };
        // A busy machine starves many threads of a CPU a little: their number says less than that
        // of threads behind one lock.
        let most = if self.candidate.kind == StallKind::CpuStarvation { 2 } else { 10 };
        weight(&self.candidate).saturating_mul(self.victims.len().min(most) as u64 * cause)
    }
}

impl Analysis<'_> {
    /// The stalls of the trace, worst first.
    pub fn stalls(&self, query: &Query) -> Vec<Stall> {
        let mut candidates = self.candidates(query);
        if !query.victims.is_empty() && query.window.is_none() {
            // Beside a stall, what is unusual about those that were asked about is one particular
            // wait.
            candidates
                .extend(self.most_unusual(query).into_iter().filter(Candidate::is_unusual_wait));
        }
        candidates.sort_by_key(|candidate| {
            (std::cmp::Reverse(weight(candidate)), candidate.window.start, candidate.victim)
        });
        candidates.truncate(MOST_EXPLAINED);
        let stalls: Vec<Stall> = candidates
            .into_par_iter()
            .map(|candidate| self.judge(candidate))
            .filter(Stall::is_defensible)
            .collect();
        let mut merged = merge(stalls);
        if merged.is_empty() && query.is_about_something() {
            let unusual = self.most_unusual(query);
            merged =
                merge(unusual.into_par_iter().map(|candidate| self.judge(candidate)).collect());
        }
        merged.sort_by_key(|stall| {
            (
                query.rank(stall),
                std::cmp::Reverse(stall.severity()),
                stall.candidate.window.start,
                stall.candidate.victim,
            )
        });
        merged
    }

    /// What was most unusual about the threads that were asked about; without any, about whoever
    /// had the most unusual time in the window.
    fn most_unusual(&self, query: &Query) -> Vec<Candidate> {
        let window = query.window.unwrap_or_else(|| self.timeline.window());
        let asked: Vec<ThreadId> = match query.victims.is_empty() {
            true => (1..self.timeline.threads() as u32)
                .map(ThreadId)
                .filter(|&thread| self.is_recorded(thread))
                .collect(),
            false => query.victims.clone(),
        };
        let mut candidates: Vec<Candidate> =
            asked.into_par_iter().flat_map_iter(|thread| self.unusual(thread, window)).collect();
        if query.victims.is_empty() {
            let rank = |candidate: &Candidate| match candidate.kind {
                StallKind::Rhythm => 0,
                StallKind::Longest => 1,
                _ => 2,
            };
            candidates.sort_by_key(|candidate| {
                (
                    rank(candidate),
                    std::cmp::Reverse(candidate.window.duration_ns()),
                    candidate.victim,
                )
            });
        }
        candidates.truncate(MOST_EXPLAINED);
        candidates
    }

    /// False for threads that were recorded only where they met others: nothing can be said of
    /// them.
    fn is_recorded(&self, thread: ThreadId) -> bool {
        self.trace.meta.only_pid.is_none_or(|pid| self.trace.threads.process_of(thread).pid == pid)
    }

    fn candidates(&self, query: &Query) -> Vec<Candidate> {
        let wanted = |thread: ThreadId| {
            self.is_recorded(thread)
                && (query.victims.is_empty() || query.victims.contains(&thread))
        };
        if let (Some(window), false) = (query.window, query.victims.is_empty()) {
            let named = query.victims.iter().map(|&victim| Candidate {
                kind: StallKind::Mark,
                victim,
                window: window.intersect(self.timeline.life(victim)),
                operation: None,
                event_loop: false,
                machine: None,
            });
            return named.filter(|candidate| !candidate.window.is_empty()).collect();
        }
        let mut candidates: Vec<Candidate> = (1..self.timeline.threads() as u32)
            .into_par_iter()
            .map(ThreadId)
            .filter(|&thread| wanted(thread))
            .flat_map_iter(|thread| self.candidates_of(thread))
            .filter(|candidate| query.window.is_none_or(|window| candidate.window.overlaps(window)))
            .collect();
        candidates.extend(machine::find(self, &candidates));
        candidates.retain(unwanted_wait::is_long);
        let reported =
            ui_delay::find(self).into_iter().filter(|candidate| wanted(candidate.victim));
        candidates.extend(reported.filter(|candidate| {
            query.window.is_none_or(|window| candidate.window.overlaps(window))
        }));
        candidates
    }

    fn candidates_of(&self, thread: ThreadId) -> Vec<Candidate> {
        let segments = self.segments(thread, self.timeline.window());
        let operations = self.operations(thread, &segments);
        let view = ThreadView {
            thread,
            segments: &segments,
            operations: &operations,
            event_loop: event_loop::is_event_loop(self, &operations),
        };
        let mut found = Vec::new();
        FINDERS.iter().for_each(|find| find(self, &view, &mut found));
        found
    }

    fn judge(&self, candidate: Candidate) -> Stall {
        let explanation = self.explain(candidate.victim, candidate.window);
        let mut finding = judge(self, &candidate, &explanation);
        finding.story.extend(candidate.machine.iter().flat_map(|machine| machine.story(self)));
        // Woken in vain, but that was not what kept it waiting: a wait for a lock like any other.
        let kind = match candidate.kind {
            StallKind::LockStarvation if finding.pattern != Pattern::LockStarvation => {
                StallKind::UnwantedWait
            }
            kind => kind,
        };
        let candidate = Candidate { kind, ..candidate };
        if candidate.kind == StallKind::Idle {
            asked::mark_idle(&mut finding);
        }
        if candidate.kind == StallKind::UiDelay {
            finding.story.splice(0..0, ui_delay::story(self, &candidate).map(|(words, _)| words));
        }
        let throttling = self.main_throttling(&explanation);
        Stall { victims: vec![candidate.victim], candidate, explanation, finding, throttling }
    }
}

/// How much a candidate matters: its length, four times that for an event loop, because someone
/// sits before it.
fn weight(candidate: &Candidate) -> u64 {
    candidate.window.duration_ns().saturating_mul(if candidate.event_loop { 4 } else { 1 })
}

/// Joins stalls that overlap and have the same cause: of one thread, its views of one hang; of
/// several, the victims of one culprit, and the culprit's own view of what held it up.
fn merge(stalls: Vec<Stall>) -> Vec<Stall> {
    let mut merged: Vec<Stall> = Vec::new();
    for stall in stalls {
        if merged.iter().any(|known| is_culprits_view(known, &stall)) {
            continue;
        }
        match merged.iter_mut().find(|known| {
            is_culprits_view(&stall, known) || same_hang(known, &stall) || same_cause(known, &stall)
        }) {
            Some(known) if is_culprits_view(&stall, known) => *known = stall,
            Some(known) => {
                let mut victims = [known.victims.as_slice(), &stall.victims].concat();
                victims.sort_unstable();
                victims.dedup();
                if better(&stall, known) {
                    *known = stall;
                }
                known.victims = victims;
            }
            None => merged.push(stall),
        }
    }
    merged
}

/// Two views of one thread's hang: one window covers most of the other.
fn same_hang(a: &Stall, b: &Stall) -> bool {
    a.candidate.victim == b.candidate.victim && share(a, b) >= 0.5
}

/// Two victims of one culprit with one pattern, at the same time; of one crowd; of one quota; or of
/// one queue, in which each saw others last.
fn same_cause(a: &Stall, b: &Stall) -> bool {
    let (a_by, b_by) = (a.kept_waiting_by(), b.kept_waiting_by());
    let queue = a.finding.pattern.is_queue() && a.finding.function == b.finding.function;
    let crowd = a.finding.crowd.is_some() && a.finding.crowd == b.finding.crowd;
    let culprit = a_by.is_some() && (a_by == b_by || crowd || queue);
    a.finding.pattern == b.finding.pattern
        && (culprit && share(a, b) >= 0.5 || same_throttling(a, b))
}

/// Two victims of one quota that was used up in both: who came after the other ended suffers from
/// the same.
fn same_throttling(a: &Stall, b: &Stall) -> bool {
    /// Periods of the quota between two stalls that are one, at most.
    const MAX_PERIODS_BETWEEN: u64 = 10;
    let (Some(quota), Some(other)) = (a.throttling, b.throttling) else { return false };
    let (one, two) = (a.candidate.window, b.candidate.window);
    let between = one.start.since(two.end).max(two.start.since(one.end));
    quota.group == other.group && between <= quota.period_ns.saturating_mul(MAX_PERIODS_BETWEEN)
}

/// `view` is the same hang as its culprit experienced it: held up itself while it held up the
/// victim of `stall`. Who took a CPU from others was not held up: what it did then is a story of
/// its own.
fn is_culprits_view(stall: &Stall, view: &Stall) -> bool {
    let window = view.candidate.window;
    let covers = || {
        stall.candidate.window.intersect(window).duration_ns() as f64
            >= window.duration_ns() as f64 * 0.8
    };
    stall.finding.pattern != Pattern::CpuStarvation
        && stall.kept_waiting_by() == Some(view.candidate.victim)
        && covers()
}

/// What the windows share, as a part of the shorter one.
fn share(a: &Stall, b: &Stall) -> f64 {
    let (a, b) = (a.candidate.window, b.candidate.window);
    let shorter = a.duration_ns().min(b.duration_ns()).max(1);
    a.intersect(b).duration_ns() as f64 / shorter as f64
}

/// Which of two views of one hang is told: the one with a definite verdict, the event loop's, the
/// starved operation's, the one that the system itself reported, the longer.
fn better(new: &Stall, old: &Stall) -> bool {
    let rank = |stall: &Stall| {
        (
            stall.finding.pattern.is_definite(),
            stall.candidate.machine.is_some(),
            stall.candidate.event_loop,
            stall.candidate.kind == StallKind::LockStarvation,
            stall.candidate.kind == StallKind::UiDelay,
            stall.candidate.window.duration_ns(),
        )
    };
    rank(new) > rank(old)
}
