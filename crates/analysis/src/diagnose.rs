//! From a trace to its stalls, in one reading: candidates → explain → judge → merge → rank.
//!
//! [`stalls`](crate::stalls) proposes candidates, [`explain`](crate::explain) follows their waits,
//! [`patterns`](crate::patterns) names causes. What is left here is to choose which candidates are
//! worth explaining, to join views of one hang, and to put the worst first.

use crate::candidate::{Candidate, StallKind};
use crate::explain::throttling::main_throttling;
use crate::explain::{Cause, explain};
use crate::patterns::{Evidence, Finding, Pattern, judge};
use crate::stalls::{asked, candidates_of, in_progress, machine, ui_delay, unwanted_wait};
use crate::wording::sentence::{Sentence, sentence};
use crate::{Analysis, Explanation, WaitClass};
use rayon::prelude::*;
use std::cmp::Reverse;
use unhitch_model::{ThreadId, Throttling, Window};

/// Maximum candidates that are explained, the longest first.
const MAX_EXPLAINED: usize = 64;

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
    /// The control group's quota that kept the victim, or the thread it waited for, from running
    /// for most of the stall.
    pub throttling: Option<Throttling>,
}

/// What to look for.
#[derive(Clone, Default, Debug)]
pub struct Query {
    /// Only these threads, the one that matters most first; empty for all.
    pub victims: Vec<ThreadId>,
    /// Only what overlaps this window; with victims, the window itself is explained.
    pub window: Option<Window>,
    /// Only what had not ended when the recording did; of the threads named, what they were doing
    /// then.
    pub in_progress: bool,
}

/// The stalls of the trace that `query` asks for, worst first.
pub fn diagnose(analysis: &Analysis<'_>, query: &Query) -> Vec<Stall> {
    let mut merged = merge(judged(analysis, worth_explaining(analysis, query)));
    if merged.is_empty() && query.is_about_something() {
        merged = merge(judged_unusual(analysis, query));
    }
    merged.sort_by_key(|stall| {
        let candidate = &stall.candidate;
        let worst = Reverse(stall.severity());
        (query.rank(stall), worst, candidate.window.start, candidate.victim)
    });
    merged
}

/// The longest candidates.
fn worth_explaining(analysis: &Analysis<'_>, query: &Query) -> Vec<Candidate> {
    let mut candidates = candidates(analysis, query);
    if !query.victims.is_empty() && query.window.is_none() {
        // Besides a stall, what is unusual about the threads that the query names is one
        // particular wait.
        let unusual = most_unusual(analysis, query).into_iter();
        candidates.extend(unusual.filter(Candidate::is_unusual_wait));
    }
    candidates.sort_by_key(|candidate| {
        (Reverse(weight(candidate)), candidate.window.start, candidate.victim)
    });
    candidates.truncate(MAX_EXPLAINED);
    candidates
}

fn judged(analysis: &Analysis<'_>, candidates: Vec<Candidate>) -> Vec<Stall> {
    let stalls = candidates.into_par_iter().map(|candidate| stall(analysis, candidate));
    stalls.filter(Stall::is_defensible).collect()
}

/// A query is answered even where nothing is a stall.
fn judged_unusual(analysis: &Analysis<'_>, query: &Query) -> Vec<Stall> {
    let unusual = most_unusual(analysis, query).into_par_iter();
    unusual.map(|candidate| stall(analysis, candidate)).collect()
}

/// A candidate, explained and judged.
fn stall(analysis: &Analysis<'_>, candidate: Candidate) -> Stall {
    let explanation = explain(analysis, candidate.victim, candidate.window);
    let mut finding = judge(analysis, &candidate, &explanation);
    if let Some(release) = &candidate.machine {
        finding.sentences.extend(machine::sentences(analysis, release));
    }
    // Woken in vain, but that was not what kept it waiting: a wait for a lock like any other.
    let kind = match candidate.kind {
        StallKind::LockStarvation if finding.pattern != Pattern::LockStarvation => {
            StallKind::UnwantedWait
        }
        kind => kind,
    };
    let candidate = Candidate { kind, ..candidate };
    if candidate.kind == StallKind::Idle {
        mark_idle(&mut finding);
    }
    if candidate.kind == StallKind::UiDelay {
        finding.sentences.splice(0..0, ui_delay::sentence_of(analysis, &candidate));
    }
    let throttling = main_throttling(analysis, &explanation);
    Stall { victims: vec![candidate.victim], candidate, explanation, finding, throttling }
}

/// States that the wait is one for work or events, which is no hang by itself. A thread that
/// computed a reply or held a lock meanwhile is still named: the wait may have been for that.
fn mark_idle(finding: &mut Finding) {
    let head = "All waits of this thread that were recorded here were for work, for events or for \
                a set time; this is the longest.";
    finding.sentences.insert(0, Sentence::from(head));
    if finding.evidence == Evidence::Direct {
        finding.evidence = Evidence::Inferred;
        finding.evidence_words = sentence!(
            "{}, but nothing shows whether anybody wanted this wait to end",
            std::mem::take(&mut finding.evidence_words)
        );
    }
    if matches!(finding.pattern, Pattern::Unknown | Pattern::DeadEnd | Pattern::TimerSleep) {
        finding.pattern = Pattern::Unknown;
        finding.culprit = None;
        finding.cause = Sentence::from("none is known: it was idle, waiting for something to do.");
        finding.advice = String::new();
    }
}

/// Everything that the detectors propose.
fn candidates(analysis: &Analysis<'_>, query: &Query) -> Vec<Candidate> {
    let is_wanted = |thread: ThreadId| {
        is_recorded(analysis, thread)
            && (query.victims.is_empty() || query.victims.contains(&thread))
    };
    if let (Some(window), false) = (query.window, query.victims.is_empty()) {
        let named = query.victims.iter().map(|&victim| Candidate {
            kind: StallKind::Mark,
            victim,
            window: window.intersect(analysis.timeline.life(victim)),
            operation: None,
            event_loop: false,
            machine: None,
        });
        return named.filter(|candidate| !candidate.window.is_empty()).collect();
    }
    let overlaps = |candidate: &Candidate| {
        query.window.is_none_or(|window| candidate.window.overlaps(window))
            && (!query.in_progress || in_progress::is_in_progress(analysis, candidate))
    };
    let mut candidates: Vec<Candidate> = (1..analysis.timeline.threads() as u32)
        .into_par_iter()
        .map(ThreadId)
        .filter(|&thread| is_wanted(thread))
        .flat_map_iter(|thread| candidates_of(analysis, thread))
        .filter(overlaps)
        .collect();
    candidates.extend(machine::find(analysis, &candidates));
    candidates.retain(unwanted_wait::is_long);
    let reported = ui_delay::find(analysis).into_iter();
    candidates.extend(reported.filter(|candidate| is_wanted(candidate.victim)).filter(overlaps));
    candidates
}

/// What was most unusual about the threads that the query names; without any, about the threads
/// with the most unusual time in the window.
fn most_unusual(analysis: &Analysis<'_>, query: &Query) -> Vec<Candidate> {
    if query.in_progress {
        let present = |&thread: &ThreadId| in_progress::present(analysis, thread);
        return query.victims.iter().filter_map(present).take(MAX_EXPLAINED).collect();
    }
    let window = query.window.unwrap_or_else(|| analysis.timeline.window());
    let threads: Vec<ThreadId> = match query.victims.is_empty() {
        true => (1..analysis.timeline.threads() as u32)
            .map(ThreadId)
            .filter(|&thread| is_recorded(analysis, thread))
            .collect(),
        false => query.victims.clone(),
    };
    let unusual = |thread| asked::unusual(analysis, thread, window);
    let mut candidates: Vec<Candidate> = threads.into_par_iter().flat_map_iter(unusual).collect();
    if query.victims.is_empty() {
        let rank = |candidate: &Candidate| match candidate.kind {
            StallKind::Rhythm => 0,
            StallKind::Longest => 1,
            _ => 2,
        };
        candidates.sort_by_key(|candidate| {
            (rank(candidate), Reverse(candidate.window.duration_ns()), candidate.victim)
        });
    }
    candidates.truncate(MAX_EXPLAINED);
    candidates
}

/// False for threads that were recorded only where they met others: nothing can be said of them.
fn is_recorded(analysis: &Analysis<'_>, thread: ThreadId) -> bool {
    let trace = analysis.trace;
    trace.meta.only_pid.is_none_or(|pid| trace.threads.process_of(thread).pid == pid)
}

impl Query {
    /// True when the query names a thread or a window: then there is an answer, stall or not.
    pub fn is_about_something(&self) -> bool {
        self.window.is_some() || !self.victims.is_empty()
    }

    /// The order of answers to a query that names threads: those that were not idle, and the first
    /// thread's own, come first.
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

/// Two victims of one culprit with one pattern, at the same time; of one group of threads; of one quota; or of
/// one queue, in which each saw others last.
fn same_cause(a: &Stall, b: &Stall) -> bool {
    let (a_by, b_by) = (a.kept_waiting_by(), b.kept_waiting_by());
    let queue = a.finding.pattern.is_queue() && a.finding.function == b.finding.function;
    let group = a.finding.group_name.is_some() && a.finding.group_name == b.finding.group_name;
    let culprit = a_by.is_some() && (a_by == b_by || group || queue);
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

/// Which of two views of one hang is reported: the one with a definite verdict, that of a thread
/// with an event loop (somebody sits before it), the whole machine's, the starved operation's, the
/// one that the system itself reported, the longer. The whole machine may have been idle for only a
/// part of an event loop's absence, so there the longer one counts.
fn better(new: &Stall, old: &Stall) -> bool {
    let rank = |stall: &Stall| {
        (
            stall.finding.pattern.is_definite(),
            stall.candidate.event_loop,
            stall.candidate.machine.is_some() && !stall.candidate.event_loop,
            stall.candidate.kind == StallKind::LockStarvation,
            stall.candidate.kind == StallKind::UiDelay,
            stall.candidate.window.duration_ns(),
        )
    };
    rank(new) > rank(old)
}
