//! A stall, and what to look for.

use crate::candidate::{Candidate, StallKind};
use crate::explain::{Cause, Explanation, Piece, class_of};
use crate::patterns::{Finding, Pattern};
use crate::stalls::excuse::Rest;
use crate::{Analysis, WaitClass};
use unhitch_model::{ThreadId, Throttling, Window};

/// A stall with its explanation and its cause.
#[derive(Clone, PartialEq, Debug)]
pub struct Stall {
    /// What happened to the first victim.
    pub candidate: Candidate,
    /// Everyone who suffered from the same cause at the same time, the first victim included.
    pub victims: Vec<ThreadId>,
    /// Those of them that waited for another victim.
    pub waiters: Vec<Waiter>,
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
    /// Only this window, and the parts of stalls inside it; with victims, it is explained whole.
    pub window: Option<Window>,
    /// Only what had not ended when the recording did; of the threads named, what they were doing
    /// then.
    pub in_progress: bool,
}

impl Query {
    /// True when the query names a thread or a window: then there is an answer, stall or not.
    pub fn is_about_something(&self) -> bool {
        self.window.is_some() || !self.victims.is_empty()
    }
}

/// True for the shells in which people type.
fn is_shell(analysis: &Analysis<'_>, thread: ThreadId) -> bool {
    const SHELLS: [&str; 12] =
        ["ash", "bash", "csh", "dash", "elvish", "fish", "ksh", "mksh", "nu", "sh", "tcsh", "zsh"];
    let end = analysis.timeline.window().end;
    let name = analysis.trace.thread_name(thread, end);
    SHELLS.contains(&name.trim_start_matches('-'))
}

/// A thread that waited until a stall's victim got on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiter {
    /// The thread.
    pub thread: ThreadId,
    /// How long it slept, inside the stall, nanoseconds.
    pub waited_ns: u64,
}

/// How much a candidate matters: its length, four times that for an event loop, because someone
/// sits before it, and more where somebody was seen to.
pub(super) fn weight(candidate: &Candidate) -> u64 {
    let times = match candidate.is_seen_by_user() {
        true => 16,
        false if candidate.event_loop => 4,
        false => 1,
    };
    candidate.window.duration_ns().saturating_mul(times)
}

impl Query {
    /// The order of answers to a query that names threads: those that were not idle, and the first
    /// thread's own, come first.
    pub(super) fn rank(&self, stall: &Stall) -> (bool, bool) {
        let first = self.victims.first().is_none_or(|first| stall.victims.contains(first));
        (stall.candidate.kind == StallKind::Idle, !first)
    }
}

impl Stall {
    /// True if somebody sat before it, or somebody else kept its victims waiting: a thread, a disk,
    /// a quota. A command that waits for what it started does its work.
    pub(super) fn kept_somebody_waiting(&self) -> bool {
        let works = matches!(self.finding.pattern, Pattern::CpuBound | Pattern::TimerSleep);
        let own = works && self.kept_waiting_by().is_none();
        match self.candidate.kind {
            StallKind::Command => !works,
            _ => self.candidate.is_seen() || self.victims.len() > 1 || !own,
        }
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

impl Stall {
    /// False for an event loop that spent most of its absence in other waits with a timeout, none
    /// of which anybody ended, or in short sleeps as it always does: it polls there, and was not kept
    /// from anything; or at rest elsewhere, as a server that waits for its next connection; or a shell
    /// that waits for the command that was typed. Nor for a writer into a pipe of whose reader nothing
    /// is known but that it had nothing to do: that may be a pager before which somebody sits.
    pub(super) fn is_defensible(&self, analysis: &Analysis<'_>) -> bool {
        let operation = self.candidate.operation.as_ref();
        let is_message = operation.is_some_and(|operation| operation.class == WaitClass::Ipc);
        if self.candidate.kind == StallKind::UnwantedWait
            && is_message
            && !self.finding.pattern.is_definite()
        {
            return false;
        }
        if self.candidate.kind != StallKind::EventLoop {
            return true;
        }
        let explanation = &self.explanation;
        let is_most = |select: &dyn Fn(&Piece) -> bool| {
            let pieces = explanation.pieces.iter().filter(|piece| select(piece));
            let ns: u64 = pieces.map(|piece| piece.window.duration_ns()).sum();
            ns.saturating_mul(2) >= explanation.window.duration_ns()
        };
        let rest = Rest::new(analysis, explanation);
        let is_polled = |piece: &Piece| {
            let class = class_of(analysis, &piece.segment);
            let is_chosen = !matches!(class, WaitClass::Lock | WaitClass::Ipc | WaitClass::Network);
            piece.hop.is_none() && piece.cause == Cause::Timeout && is_chosen
                || rest.is_as_ever(piece)
        };
        let rests = || is_most(&|piece| explanation.is_rest(analysis, piece));
        let runs_command = || {
            is_shell(analysis, self.candidate.victim)
                && is_most(&|piece| explanation.is_for_process(analysis, piece))
        };
        !(is_most(&is_polled) || rests() || runs_command())
    }

    /// The culprit, when it is someone other than the victim.
    pub(super) fn kept_waiting_by(&self) -> Option<ThreadId> {
        self.finding.culprit.filter(|culprit| *culprit != self.candidate.victim)
    }
}
