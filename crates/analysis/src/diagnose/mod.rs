//! From a trace to its stalls, in one reading: candidates → explain → judge → merge → rank.
//!
//! [`stalls`](crate::stalls) proposes candidates, [`explain`](crate::explain) follows their waits,
//! [`patterns`](crate::patterns) names causes. What is left here is to choose which candidates are
//! worth explaining, to join views of one hang, and to put the worst first.

mod candidates;
mod merge;
mod rank;
mod stall;
mod triggered;
mod waiters;

use crate::candidate::{Candidate, StallKind};
use crate::explain::explain;
use crate::explain::throttling::main_throttling;
use crate::patterns::{Finding, Pattern, judge, weaken};
use crate::stalls::{command, excuse, input, machine, ui_delay};
use crate::wording::sentence::{Sentence, sentence};
use crate::{Analysis, Explanation};
use candidates::{most_unusual, worth_explaining};
use merge::merge;
use rayon::prelude::*;
pub use stall::{Query, Stall, Waiter};

/// The stalls of the trace that `query` asks for, worst first.
pub fn diagnose(analysis: &Analysis<'_>, query: &Query) -> Vec<Stall> {
    let found = worth_explaining(analysis, query).into_par_iter();
    let mut stalls: Vec<Stall> =
        found.filter_map(|candidate| found_stall(analysis, candidate)).collect();
    if !query.victims.is_empty() && query.window.is_none() {
        // Besides a stall, what is unusual about the threads that the query names is one
        // particular wait.
        stalls.extend(unusual(analysis, query, Candidate::is_unusual_wait));
    }
    let mut merged = merge(analysis, stalls);
    if merged.is_empty() && query.is_about_something() {
        merged = merge(analysis, unusual(analysis, query, |_| true));
    }
    merged.par_iter_mut().for_each(|stall| waiters::add(analysis, stall));
    rank::worst_first(analysis, &mut merged, query);
    if !query.is_about_something() && !query.in_progress {
        let explain = |query: &Query| diagnose(analysis, query).into_iter().next();
        triggered::put_first(analysis, &mut merged, explain);
    }
    merged
}

/// The life of the process with this id, the last one if there were several, explained, whether it is a stall or not.
pub fn command(analysis: &Analysis<'_>, pid: u32) -> Option<Stall> {
    let candidate = command::of_process(analysis, pid)?;
    let explanation = explain(analysis, candidate.victim, candidate.window);
    Some(stall(analysis, candidate, explanation))
}

/// A candidate that the detectors proposed, if it stands up as a stall.
fn found_stall(analysis: &Analysis<'_>, candidate: Candidate) -> Option<Stall> {
    let explanation = explain(analysis, candidate.victim, candidate.window);
    if candidate.is_break() && excuse::is_excused(analysis, candidate.kind, &explanation) {
        return None;
    }
    let stall = stall(analysis, candidate, explanation);
    let stands = match stall.candidate.kind {
        StallKind::Command => command::is_stall(analysis, &stall.explanation, &stall.finding),
        _ => stall.is_defensible(analysis),
    };
    stands.then_some(stall)
}

/// A query is answered even where nothing is a stall.
fn unusual(
    analysis: &Analysis<'_>,
    query: &Query,
    select: impl Fn(&Candidate) -> bool + Sync,
) -> Vec<Stall> {
    let candidates = most_unusual(analysis, query).into_par_iter().filter(|one| select(one));
    let explained = candidates.map(|candidate| {
        let explanation = explain(analysis, candidate.victim, candidate.window);
        let mut unusual = stall(analysis, candidate, explanation);
        // Nobody asked about this thread, and it had no stall: it is not to be called one.
        if query.victims.is_empty() && unusual.candidate.kind == StallKind::Rhythm {
            unusual.candidate.kind = StallKind::Longest;
        }
        unusual
    });
    explained.collect()
}

/// A candidate, judged.
fn stall(analysis: &Analysis<'_>, candidate: Candidate, mut explanation: Explanation) -> Stall {
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
    } else {
        explanation.blames = finding.culprit.filter(|culprit| *culprit != candidate.victim);
    }
    if matches!(candidate.kind, StallKind::Input | StallKind::UiDelay) {
        finding.sentences.splice(0..0, input::sentence_of(analysis, &candidate));
    }
    if candidate.kind == StallKind::UiDelay {
        finding.sentences.splice(0..0, ui_delay::sentence_of(analysis, &candidate));
    }
    let throttling = main_throttling(analysis, &explanation);
    Stall {
        victims: vec![candidate.victim],
        waiters: Vec::new(),
        candidate,
        explanation,
        finding,
        throttling,
    }
}

/// States that the wait is one for work or events, which is no hang by itself. A thread that
/// computed a reply or held a lock meanwhile is still named: the wait may have been for that.
fn mark_idle(finding: &mut Finding) {
    let head = "All waits of this thread that were recorded here were for work, for events or for \
                a set time; this is the longest.";
    finding.sentences.insert(0, Sentence::from(head));
    weaken(finding, |words| {
        sentence!("{}, but nothing shows whether anybody wanted this wait to end", words)
    });
    if matches!(finding.pattern, Pattern::Unknown | Pattern::DeadEnd | Pattern::TimerSleep) {
        finding.pattern = Pattern::Unknown;
        finding.culprit = None;
        finding.cause = Sentence::from("none is known: it was idle, waiting for something to do.");
        finding.advice = String::new();
    }
}
