//! Spinning: the victim, or the thread that it waited for, went round and round until it had a lock, or
//! until another thread or process had done something.
//!
//! Nothing shows who has such a lock. *Why the last sample:* the lock was taken then and free soon
//! after, so whoever released it was on a CPU in between. If only one other thread of the process was,
//! it is the likely one. Who is waited for otherwise works meanwhile: the only thread of the process, or
//! of the same program, that does.

use super::case::Case;
use super::finding::{Evidence, Finding, Pattern};
use crate::explain::{Cause, Piece, active_ns};
use crate::samples::{Spinning, spinning};
use crate::stacks::classes::SpinsFor;
use crate::stacks::text::own_function;
use crate::timeline::State;
use crate::wording::sentence::{Sentence, are, count, duration, plural, sentence};
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
    let spin = Spin::of(case, spinner)?;
    Some(match spin.wanted {
        SpinsFor::Lock => for_lock(case, spinner, &spin),
        SpinsFor::Event => for_event(case, spinner, &spin),
    })
}

fn for_lock(case: &Case<'_>, spinner: ThreadId, spin: &Spin) -> Finding {
    let suspect = suspect(case, spinner, spin.last);
    let mut sentences = spin.sentences(case, spinner, "to get a lock");
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
    let asleep = suspect.and_then(|suspect| case.longest_sleep(suspect));
    Finding {
        culprit: suspect,
        function: own_function(case.analysis, asleep.unwrap_or(spin.stack)),
        sentences,
        evidence: Evidence::Inferred,
        evidence_words: Sentence::from("no event shows who had the lock"),
        advice: "Block on the lock instead of spinning for it, or never sleep while it is held."
            .to_owned(),
        ..case.finding(Pattern::LockStarvation, sentence!("spinning for a lock.{}", held))
    }
}

fn for_event(case: &Case<'_>, spinner: ThreadId, spin: &Spin) -> Finding {
    let what = "until another thread or process had done something";
    let mut sentences = spin.sentences(case, spinner, what);
    let window = case.explanation.window;
    let worker = worker(case, spinner);
    let computing = worker.map(|worker| (worker, case.computing(worker, &[window])));
    let mut cause = sentence!("spinning {}", what);
    if let Some((worker, computing)) = &computing {
        let (name, ran_ns) = (case.name(*worker), active_ns(case.analysis, *worker, window));
        sentences.push(sentence!(
            "{}, the only other one of this program that worked meanwhile, did so for {} of {}.",
            name.clone(),
            duration(ran_ns),
            duration(window.duration_ns())
        ));
        sentences.extend((computing.samples > 0).then(|| computing.sentence.clone()));
        let place = &computing.place;
        cause.push(sentence!("; {} seems to be the one, which worked{}", name, place.clone()));
    }
    cause.push(Sentence::from("."));
    let function = computing.as_ref().map(|(_, computing)| computing.function.clone());
    Finding {
        culprit: worker,
        function: function.unwrap_or_else(|| own_function(case.analysis, spin.stack)),
        sentences,
        evidence: Evidence::Inferred,
        evidence_words: Sentence::from("no event shows for whom it spins"),
        advice: "Share the work more evenly, or let whoever waits sleep.".to_owned(),
        ..case.finding(Pattern::CpuBound, cause)
    }
}

/// The only other thread of the process, or else of a process of the same name and parent, that worked
/// for most of the stall and did not spin.
fn worker(case: &Case<'_>, spinner: ThreadId) -> Option<ThreadId> {
    let (analysis, window) = (case.analysis, case.explanation.window);
    let threads = &analysis.trace.threads;
    let works = |thread: &ThreadId| {
        active_ns(analysis, *thread, window).saturating_mul(2) >= window.duration_ns()
            && spinning(analysis, *thread, window).is_none()
    };
    let only = |all: &mut dyn Iterator<Item = ThreadId>| {
        let mut all = all.filter(works);
        let first = all.next()?;
        all.next().is_none().then_some(first)
    };
    let process = threads.get(spinner).process;
    let own = threads.process_of(spinner);
    let name = |leader: ThreadId| threads.name_at(leader, window.end);
    let siblings = threads.processes().filter(|(other, sibling)| {
        *other != process
            && sibling.parent_pid.is_some_and(|parent| own.parent_pid == Some(parent))
            && name(sibling.leader) == name(own.leader)
    });
    let colleagues = analysis.threads_of(process).iter().copied();
    only(&mut colleagues.filter(|thread| *thread != spinner))
        .or_else(|| only(&mut siblings.flat_map(|(id, _)| analysis.threads_of(id).iter().copied())))
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
    /// Until when it did.
    wanted: SpinsFor,
}

impl Spin {
    /// Nothing if fewer than half of the samples show it.
    fn of(case: &Case<'_>, thread: ThreadId) -> Option<Self> {
        let (trace, window) = (case.analysis.trace, case.explanation.window);
        let Spinning { samples, wanted } = spinning(case.analysis, thread, window)?;
        let last = *samples.last()?;
        Some(Self {
            samples: samples.len() as u64,
            of: case.analysis.samples.of_thread(trace, thread, window).len() as u64,
            stack: trace.samples.stack[last],
            last: trace.samples.time[last],
            wanted,
        })
    }

    fn sentences(&self, case: &Case<'_>, spinner: ThreadId, what: &'static str) -> Vec<Sentence> {
        let own = spinner == case.candidate.victim;
        let mut sentences = if own { Vec::new() } else { case.waits() };
        sentences.push(sentence!(
            "{} did not sleep but went round and round {}: {} of its {} {} in\n  {}",
            case.it_or_name(spinner),
            what,
            count(self.samples),
            plural(self.of, "sample"),
            are(self.samples),
            case.stack(self.stack)
        ));
        sentences
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
        let asleep = segments.iter().filter(|segment| segment.is_sleep());
        let longest = asleep.max_by_key(|segment| segment.window.duration_ns())?;
        let stack = longest.wait_stack(self.analysis.trace);
        (!stack.is_empty()).then_some(stack)
    }
}
