//! Timer sleep: a thread slept until a time of its own.
//!
//! *Why it is never direct evidence:* a program that sleeps and looks again may wait for something
//! that another thread has, and no event shows what it looks for.

use super::case::Case;
use super::case::{in_function, weaken};
use super::finding::{Finding, Pattern};
use crate::WaitClass;
use crate::explain::{Cause, Hop, Piece, class_of};
use crate::stacks::text::own_function;
use crate::timeline::Segment;
use crate::wording::sentence::{Sentence, count, sentence};
use crate::wording::wait_words;
use unhitch_model::ThreadId;

/// True if the recording, or what was asked about, ends before the sleep.
fn goes_on(case: &Case<'_>, sleep: &Piece) -> bool {
    let (end, wakings) = (case.explanation.window.end, &case.analysis.trace.wakings);
    let is_later = |wake: usize| wakings.time[wake] > end;
    sleep.window.end >= end && sleep.segment.wake().is_none_or(is_later)
}

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let slept = |piece: &Piece| match (piece.cause, class_of(case.analysis, &piece.segment)) {
        (Cause::Timer, _) => true,
        // Blame whoever did not release the lock in time, not the clock.
        (Cause::Timeout, WaitClass::KernelIdle) => false,
        (Cause::Timeout, WaitClass::Lock) => piece.hop.is_some(),
        (Cause::Timeout, _) => true,
        _ => false,
    };
    let (sleeper, ns) = case.most_of(|piece, _| slept(piece))?;
    if !case.is_most(ns) {
        return None;
    }
    let of = |cause: Cause| case.longest(sleeper, cause);
    let longest = [Cause::Timeout, Cause::Timer].into_iter().filter_map(of);
    let longest = longest.max_by_key(|piece| piece.window.duration_ns())?;
    let is_asleep =
        |piece: &&Piece| piece.thread == sleeper && slept(piece) && piece.segment.is_sleep();
    let sleeps = case.explanation.pieces.iter().filter(is_asleep);
    let sleeps: u64 = sleeps.map(|piece| u64::from(piece.count())).sum();
    let own = sleeper == case.candidate.victim;
    let goes_on = goes_on(case, longest);
    let mut sentences = if own { Vec::new() } else { case.waits() };
    sentences.push(match goes_on && sleeps <= 1 {
        true => sentence!(
            "{} slept for {}, and longer, until a time of its own, in\n  {}",
            case.it_or_name(sleeper),
            case.part(ns),
            case.segment_stack(sleeper, &longest.segment)
        ),
        false => case.slept(sleeper, sleeps, ns, &longest.segment),
    });
    let stack = longest.segment.wait_stack(case.analysis.trace);
    // The victim waited for the sleeper; or it slept again in the same place, until somebody ended that.
    let is_last = |wait: &&Hop| {
        let slept_on = || {
            wait.window.start >= longest.window.end
                && case.analysis.stacks.is_same_caller(stack, wait.wait_stack)
        };
        // A signal, also by the end of a child, interrupts a sleep, and is not what that was for.
        let interrupts = |wake: usize| {
            let stack = case.analysis.trace.wakings.stack[wake];
            case.analysis.stacks.signals(stack) || case.analysis.stacks.exits(stack)
        };
        wait.wake.is_some_and(|wake| !own || slept_on() && !interrupts(wake))
    };
    let last = case.victims_wait().filter(is_last).map(|wait| wait.by);
    sentences.extend(last.and_then(|last| {
        case.ended_wait_in(last, sentence!("{} ended the wait", case.name(last)))
    }));
    let function = own_function(case.analysis, stack);
    if let Some(last) =
        last.filter(|last| own && longest.cause == Cause::Timeout && *last != sleeper)
    {
        return Some(answered(case, last, sentences, function));
    }
    let cause = cause(case, longest, sleeps, &function);
    let mut finding = Finding {
        culprit: Some(sleeper),
        function,
        sentences,
        advice: case.analysis.stacks.advice(stack).unwrap_or_default().to_owned(),
        ..case.finding(Pattern::TimerSleep, cause)
    };
    weaken(&mut finding, |_| {
        Sentence::from(match goes_on {
            true => "it asked to sleep until a time, which had not come yet",
            false => {
                "its own timer was seen to end the sleep; what it looks for when it wakes is not \
                 recorded"
            }
        })
    });
    Some(finding)
}

/// The victim waited in `function` again and again until its timer expired, and `last` ended the last of
/// these waits: so it waited for that one.
fn answered(
    case: &Case<'_>,
    last: ThreadId,
    mut sentences: Vec<Sentence>,
    function: String,
) -> Finding {
    let computing = case.computing(last, &[case.explanation.window]);
    let place = match computing.place.is_empty() {
        true => in_function(", in ", &function),
        false => sentence!("; that was{}", computing.place),
    };
    sentences.extend((computing.samples > 0).then_some(computing.sentence));
    let cause = sentence!(
        "it waited for {}, which ended the last of these waits{}.",
        case.name(last),
        place
    );
    let mut finding = Finding {
        culprit: Some(last),
        function: if computing.function.is_empty() { function } else { computing.function },
        sentences,
        ..case.finding(Pattern::TimerSleep, cause)
    };
    weaken(&mut finding, |_| {
        Sentence::from(
            "its own timer ended all but the last of these waits; that they were for the same is \
             inferred",
        )
    });
    finding
}

/// What the sleeps were, of which this is the longest, in `function`.
fn cause(case: &Case<'_>, longest: &Piece, sleeps: u64, function: &str) -> Sentence {
    let stack = longest.segment.wait_stack(case.analysis.trace);
    let class = class_of(case.analysis, &longest.segment);
    let answer = wait_words::wanted(case.analysis, stack)
        .filter(|_| matches!(class, WaitClass::Network | WaitClass::Ipc));
    let place = in_function(", in ", function);
    let own = longest.thread == case.candidate.victim;
    match (own, longest.cause == Cause::Timer, sleeps > 1) {
        (true, false, _) if let Some(answer) = &answer => sentence!(
            "{} did not come in time{}; who owed it is not known.",
            answer.as_str(),
            place
        ),
        (true, true, false) => sentence!("a sleep that the program asked for{}.", place),
        (true, true, true) => {
            sentence!("sleeps that the program asked for{}: it may poll for something.", place)
        }
        (true, false, _) => sentence!(
            "waits that only their timeout ended{}: it was idle, or what it waited for did not \
             come in time.",
            place
        ),
        (false, ..) => sentence!(
            "a sleep that {} asked for while others waited for it{}.",
            case.name(longest.thread),
            place
        ),
    }
}

impl Case<'_> {
    /// How often and how long `sleeper` slept, and where longest.
    pub(super) fn slept(
        &self,
        sleeper: ThreadId,
        sleeps: u64,
        ns: u64,
        longest: &Segment,
    ) -> Sentence {
        if sleeps <= 1 {
            return sentence!(
                "{} slept for {}, until its own timer expired, in\n  {}",
                self.it_or_name(sleeper),
                self.part(ns),
                self.segment_stack(sleeper, longest)
            );
        }
        sentence!(
            "{} slept {} times, for {}, each time until its own timer expired. The longest sleep \
             was in\n  {}",
            self.it_or_name(sleeper),
            count(sleeps),
            self.part(ns),
            self.segment_stack(sleeper, longest)
        )
    }
}
