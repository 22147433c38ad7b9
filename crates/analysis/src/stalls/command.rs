//! One-shot commands: a process that began in the recording has one operation, its life. It may not
//! have ended when the recording does.
//!
//! *Why not each process of a build:* its parent waits for it, and tells what was slow. So only
//! commands count that something older started, a shell or a server, which waits for the command and
//! starts others only now and then. Its own
//! computation is what a command is there for; what it waited for may be a stall.

use super::busy::process_ran_ns;
use crate::candidate::{Candidate, StallKind};
use crate::explain::{Cause, Explanation, Piece, class_of};
use crate::family::descends;
use crate::patterns::{Finding, Pattern};
use crate::{Analysis, WaitClass};
use rustc_hash::FxHashMap;
use unhitch_model::{Process, ThreadId, Time, Window};

/// Minimum life of a command, nanoseconds: who waits for a shorter one does not notice.
const MIN_LIFE_NS: u64 = 100_000_000;
/// Maximum commands of one parent: a parent of more works through a list.
const MAX_SIBLINGS: usize = 8;
/// A parent that runs for this part of the time, or a larger one, works on and does not wait.
const BUSY_PART: u64 = 10;

/// The commands that ran during the recording.
pub(crate) fn find(analysis: &Analysis<'_>) -> Vec<Candidate> {
    let threads = &analysis.trace.threads;
    let mut by_parent: FxHashMap<u32, Vec<Candidate>> = FxHashMap::default();
    for (_, process) in threads.processes() {
        let parent = process.parent_pid.and_then(|pid| {
            let window = life_that_began(analysis, process.leader)?;
            let parent = threads.at(pid, window.start)?;
            let is_older = life_that_began(analysis, threads.process_of(parent).leader).is_none();
            (is_older && !is_busy(analysis, parent, window)).then_some((pid, window))
        });
        if let Some((pid, window)) = parent {
            by_parent.entry(pid).or_default().push(candidate(process, window));
        }
    }
    let mut found: Vec<Candidate> = by_parent
        .into_values()
        .filter(|siblings| siblings.len() <= MAX_SIBLINGS)
        .flatten()
        .filter(|command| command.window.duration_ns() >= MIN_LIFE_NS)
        .collect();
    found.sort_by_key(|command| (command.window, command.victim));
    found
}

/// The command with this process id that ran last, stall or not.
pub(crate) fn of_process(analysis: &Analysis<'_>, pid: u32) -> Option<Candidate> {
    let process = analysis.trace.threads.process_of(analysis.trace.threads.at(pid, Time::MAX)?);
    let life = analysis.timeline.life(process.leader);
    (process.pid == pid && !life.is_empty()).then(|| candidate(process, life))
}

fn candidate(process: &Process, window: Window) -> Candidate {
    Candidate {
        kind: StallKind::Command,
        victim: process.leader,
        window,
        operation: None,
        event_loop: false,
        machine: None,
    }
}

/// True if the process of `thread` computed meanwhile.
fn is_busy(analysis: &Analysis<'_>, thread: ThreadId, window: Window) -> bool {
    process_ran_ns(analysis, thread, window).saturating_mul(BUSY_PART) >= window.duration_ns()
}

/// The life of a thread that began while the recording went on.
fn life_that_began(analysis: &Analysis<'_>, thread: ThreadId) -> Option<Window> {
    let (life, whole) = (analysis.timeline.life(thread), analysis.timeline.window());
    (life.start > whole.start && !life.is_empty()).then_some(life)
}

/// True if one cause took most of the command's life, and it was not the command's own doing: a
/// disk or a lock, a process that it started, a server that it asked, an answer that never came. *Why not whoever writes into
/// its pipe:* the rest of a pipeline is there to read.
pub(crate) fn is_stall(
    analysis: &Analysis<'_>,
    explanation: &Explanation,
    found: &Finding,
) -> bool {
    let victim = explanation.victim;
    let threads = &analysis.trace.threads;
    let contacts = analysis.contacts();
    let is_others = |thread: ThreadId| {
        threads.get(thread).process != threads.get(victim).process
            && (descends(analysis, thread, victim, explanation.window.end)
                || contacts.are_mutual(analysis.trace, victim, thread))
    };
    // It slept and looked, until what it had started was over.
    let polled = found.polled.or(found.culprit);
    let is_polled = found.pattern == Pattern::TimerSleep && polled.is_some_and(is_others);
    let is_owed = |piece: &Piece| {
        let class = class_of(analysis, &piece.segment);
        piece.cause == Cause::Timeout && matches!(class, WaitClass::Network | WaitClass::Ipc)
    };
    let counts = |piece: &&Piece| {
        let lock = || explanation.hop_of(piece).is_some_and(|hop| hop.class == WaitClass::Lock);
        matches!(piece.cause, Cause::Io | Cause::Device | Cause::Memory | Cause::Stopped)
            || is_others(piece.thread)
            || is_owed(piece)
            || is_polled && matches!(piece.cause, Cause::Timer | Cause::Timeout)
            || lock()
    };
    let by_others: u64 =
        explanation.pieces.iter().filter(counts).map(|piece| piece.window.duration_ns()).sum();
    found.pattern.is_definite()
        && by_others >= MIN_LIFE_NS
        && by_others.saturating_mul(2) >= explanation.window.duration_ns()
}
