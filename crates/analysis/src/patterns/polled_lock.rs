//! Who had a lock that nobody hands over: its waiter sleeps, looks, and sleeps again, and whoever
//! releases it wakes nobody (SQLite's lock on a database file).
//!
//! *Why the last sleep:* the lock was taken at the look before it and free at the look after it, so
//! whoever released it was on a CPU in between. Of all that were, the only one whose process uses
//! the library that polls for the lock is the likely one. If there are several, nobody is named.

use super::case::Case;
use super::finding::{Evidence, Finding, Pattern};
use crate::explain::{Cause, Hop, Piece, class_of, operations, woke_someone_of};
use crate::stacks::Layer;
use crate::stacks::text::own_function;
use crate::wording::sentence::{Sentence, count, duration, sentence};
use crate::{InterruptSource, Operation, Segment, State, WaitClass};
use std::cmp::Reverse;
use unhitch_model::{FrameId, ModuleId, ThreadId, Time, Window};

/// A thread that the victim waited for, or the victim itself, polls for a lock.
pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let polls = |piece: &Piece, _: Option<&Hop>| {
        matches!(piece.cause, Cause::Timeout | Cause::Timer)
            && class_of(case.analysis, &piece.segment) == WaitClass::Lock
    };
    let (sleeper, ns) = case.most_of(polls)?;
    if !case.is_most(ns) {
        return None;
    }
    let segments = case.analysis.segments(sleeper, case.explanation.window);
    let waits = operations(case.analysis, sleeper, &segments).into_iter();
    let locks = waits.filter(|wait| wait.class == WaitClass::Lock);
    let operation = locks.max_by_key(|wait| wait.window.duration_ns())?;
    let timeouts = own_timeouts(case, &operation);
    (operation.wakes_in_vain() > 0 && timeouts * 2 > operation.wakes.len())
        .then(|| finding(case, &operation, timeouts))
}

/// How many of the operation's wake-ups came from its own timer.
pub(super) fn own_timeouts(case: &Case<'_>, operation: &Operation) -> usize {
    let source = |wake| case.analysis.stacks.wake_source(case.analysis.trace, wake).interrupt;
    let is_timer = |wake: &&usize| {
        matches!(
            source(**wake),
            Some(InterruptSource::Timeout | InterruptSource::Alarm | InterruptSource::Timer)
        )
    };
    operation.wakes.iter().filter(is_timer).count()
}

/// Nobody woke it: it looked at the lock by its own timer, and never at the right moment.
pub(super) fn finding(case: &Case<'_>, operation: &Operation, timeouts: usize) -> Finding {
    let wakes = operation.wakes.len() as u64;
    let holder = case.main_holder().map(|(thread, _)| thread);
    let holder = holder.filter(|thread| *thread != case.candidate.victim);
    let suspect = if holder.is_none() { suspect(case, operation) } else { None };
    let held = match (holder, &suspect) {
        (Some(holder), _) => sentence!(" {} held the lock.", case.name(holder)),
        (None, Some(suspect)) => sentence!(" {} seems to have had it.", case.name(suspect.thread)),
        (None, None) => Sentence::default(),
    };
    let wanted = case.analysis.stacks.words(operation.stack).unwrap_or("lock");
    let cause = sentence!(
        "polling for a {}, which was taken at {} of {} checks.{}",
        wanted,
        count(operation.wakes_in_vain() as u64),
        count(wakes),
        held
    );
    let mut finding = Finding {
        culprit: holder.or(suspect.as_ref().map(|suspect| suspect.thread)),
        function: own_function(case.analysis, operation.stack),
        // Who had the lock each time it looked is inferred from who had it in between.
        evidence: Evidence::Inferred,
        evidence_words: sentence!(
            "{} of its {} wake-ups came from its own timer",
            count(timeouts as u64),
            count(wakes)
        ),
        sentences: vec![sentence!(
            "{} polled for a {}: its own timer woke it {} times (every {}), {} times in vain; \
             each time it waited in\n  {}",
            case.it_or_name(operation.thread),
            wanted,
            count(timeouts as u64),
            duration(operation.window.duration_ns() / wakes.max(1)),
            count(operation.wakes_in_vain() as u64),
            case.stack(operation.stack)
        )],
        advice: "Block on the lock instead of polling for it: a waiter that sleeps is woken when \
                 the lock is free."
            .to_owned(),
        ..case.finding(Pattern::LockStarvation, cause)
    };
    if operation.thread != case.candidate.victim {
        finding.sentences.splice(0..0, case.waited_in());
    }
    if let Some(suspect) = &suspect {
        finding.sentences.push(suspect.sentence(case));
        finding.evidence_words = sentence!(
            "{}; no event shows who had the lock",
            std::mem::take(&mut finding.evidence_words)
        );
    }
    finding
}

/// Who seems to have had the lock for which an operation polled.
struct Suspect {
    /// The thread.
    thread: ThreadId,
    /// The library, or the program, whose lock it is: the name of its file.
    library: String,
    /// The sleep during which the lock was released.
    released_in: Window,
}

impl Suspect {
    fn sentence(&self, case: &Case<'_>) -> Sentence {
        sentence!(
            "It was free after the last {}. Of the other processes that use {}, only {} was on a \
             CPU then and not woken by another of them.",
            duration(self.released_in.duration_ns()),
            self.library.as_str(),
            case.name(self.thread)
        )
    }
}

/// The suspect, if there is only one.
fn suspect(case: &Case<'_>, operation: &Operation) -> Option<Suspect> {
    let trace = case.analysis.trace;
    let module = library(case, operation)?;
    let released_in = last_sleep(case, operation)?;
    let own = trace.threads.get(operation.thread).process;
    let uses_library = |thread: ThreadId| {
        let spaces = trace.address_spaces.of(trace.threads.process_of(thread).pid);
        let path = trace.modules.get(module).map(|module| module.path);
        let mappings = spaces.iter().flat_map(|space| space.mappings());
        let mut paths = mappings.map(|mapping| trace.modules.get(mapping.module).map(|m| m.path));
        paths.any(|mapped| mapped == path)
    };
    let ran = |thread: ThreadId| {
        let segments = case.analysis.segments(thread, released_in);
        let runs = segments.iter().filter(|segment| segment.state == State::Ran);
        runs.map(|run| run.window.start).min()
    };
    let mut suspects: Vec<(ThreadId, Time)> = (1..case.analysis.timeline.threads() as u32)
        .map(ThreadId)
        .filter(|thread| trace.threads.get(*thread).process != own)
        .filter_map(|thread| Some((thread, ran(thread)?)))
        .filter(|(thread, _)| uses_library(*thread))
        .collect();
    // Who ran only because another suspect woke it did not release the lock.
    let wakes = |waker: ThreadId, woken: ThreadId| {
        woke_someone_of(case.analysis, waker, woken, released_in)
    };
    let all = suspects.clone();
    suspects.retain(|(thread, began)| {
        !all.iter().any(|(other, earlier)| earlier < began && wakes(*other, *thread))
    });
    let library = trace.modules.get(module).map(|module| trace.name(module.path))?;
    let name = library.rsplit('/').next().unwrap_or(library).to_owned();
    match suspects[..] {
        [(thread, _)] => Some(Suspect { thread, library: trace.shown(name), released_in }),
        _ => None,
    }
}

/// The file of the innermost code above the system's libraries.
fn library(case: &Case<'_>, operation: &Operation) -> Option<ModuleId> {
    let trace = case.analysis.trace;
    let frames = trace.stacks.user_frames(operation.stack);
    let is_own = |frame: &&FrameId| {
        matches!(case.analysis.stacks.layer(**frame), Layer::Program | Layer::Runtime)
    };
    Some(trace.stacks.frame(*frames.iter().find(is_own)?)?.module)
}

/// The last sleep of an operation that has ended.
fn last_sleep(case: &Case<'_>, operation: &Operation) -> Option<Window> {
    let segments = case.analysis.segments(operation.thread, operation.window);
    let is_sleep = |segment: &&Segment| segment.is_sleep();
    let sleeps = segments.iter().filter(is_sleep).filter(|_| !operation.open);
    sleeps.map(|sleep| sleep.window).max_by_key(|window| (window.end, Reverse(window.start)))
}
