//! Spinning: the victim, or the thread that it waited for, went round and round until it had a lock.
//!
//! Nothing shows who has such a lock. *Why the last sample:* the lock was taken then and free soon
//! after, so whoever released it was on a CPU in between. If only one other thread of the process was,
//! it is the likely one.

use super::case::Case;
use super::finding::{Evidence, Finding, Pattern};
use crate::explain::{Cause, Piece};
use crate::samples::spinning;
use crate::timeline::State;
use crate::wording::sentence::{Sentence, count, sentence};
use unhitch_model::{StackId, ThreadId, Time, Window};

/// The lock is taken to be released within so much of the last sample that saw it taken: a few times
/// the usual distance of samples, nanoseconds.
const SOON_NS: u64 = 30_000_000;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let wants_cpu = |piece: &Piece| matches!(piece.cause, Cause::Ran | Cause::WaitedForCpu);
    let (spinner, ns) = case.most_of(|piece, _| wants_cpu(piece))?;
    if !case.is_most(ns) {
        return None;
    }
    let Spin { samples, of, stack, last } = Spin::of(case, spinner)?;
    let suspect = suspect(case, spinner, last);
    let own = spinner == case.candidate.victim;
    let mut sentences = if own { Vec::new() } else { case.waits() };
    sentences.push(sentence!(
        "{} did not sleep but went round and round to get a lock: {} of its {} samples are in\n  {}",
        case.it_or_name(spinner),
        count(samples),
        count(of),
        case.stack(stack)
    ));
    sentences.extend(suspect.map(|suspect| {
        sentence!(
            "The lock was free soon after the last of them. Of the other threads of its process, \
             only {} came to a CPU then.",
            case.name(suspect)
        )
    }));
    let held = match suspect {
        Some(suspect) => sentence!(" {} seems to have had it.", case.name(suspect)),
        None => Sentence::default(),
    };
    let cause = sentence!("spinning for a lock.{}", held);
    let asleep = suspect.and_then(|suspect| case.longest_sleep(suspect));
    Some(Finding {
        culprit: suspect,
        function: crate::stacks::text::own_function(case.analysis, asleep.unwrap_or(stack)),
        sentences,
        evidence: Evidence::Inferred,
        evidence_words: Sentence::from("no event shows who had the lock"),
        advice: "Block on the lock instead of spinning for it, or never sleep while it is held."
            .to_owned(),
        ..case.finding(Pattern::LockStarvation, cause)
    })
}

/// The samples of a thread that went round and round.
struct Spin {
    samples: u64,
    /// Of how many.
    of: u64,
    /// Where.
    stack: StackId,
    /// When the last of them was taken.
    last: Time,
}

impl Spin {
    /// Nothing if fewer than half of the samples show it.
    fn of(case: &Case<'_>, thread: ThreadId) -> Option<Self> {
        let (trace, window) = (case.analysis.trace, case.explanation.window);
        let spinning = spinning(case.analysis, thread, window)?;
        let last = *spinning.last()?;
        Some(Self {
            samples: spinning.len() as u64,
            of: case.analysis.samples.of_thread(trace, thread, window).len() as u64,
            stack: trace.samples.stack[last],
            last: trace.samples.time[last],
        })
    }
}

/// The only other thread of the process that came to a CPU when the lock was released.
fn suspect(case: &Case<'_>, spinner: ThreadId, last: Time) -> Option<ThreadId> {
    let own = case.analysis.trace.threads.get(spinner).process;
    let soon =
        Window::new(Time::from_nanos(last.nanos().saturating_sub(SOON_NS)), last.plus(SOON_NS));
    let ran = |thread: &ThreadId| {
        let segments = case.analysis.segments(*thread, soon);
        segments.iter().any(|segment| segment.state == State::Ran)
    };
    let others = case.analysis.threads_of(own).iter().copied();
    let mut others = others.filter(|thread| *thread != spinner).filter(ran);
    let first = others.next()?;
    others.next().is_none().then_some(first)
}

impl Case<'_> {
    /// Where `thread` slept longest during the stall.
    fn longest_sleep(&self, thread: ThreadId) -> Option<StackId> {
        let segments = self.analysis.segments(thread, self.explanation.window);
        let asleep = segments.iter().filter(|segment| matches!(segment.state, State::Sleeping(_)));
        let longest = asleep.max_by_key(|segment| segment.window.duration_ns())?;
        let stack = longest.wait_stack(self.analysis.trace);
        (!stack.is_empty()).then_some(stack)
    }
}
