//! Timer sleep: someone slept until a time of its own.
//!
//! *Why it is never direct evidence:* a program that sleeps and looks again may wait for something
//! that another thread has, and no event says for what it looks.

use super::{Case, Evidence, Finding, Pattern, place};
use crate::WaitClass;
use crate::answer::units;
use crate::explain::{Cause, Piece};
use crate::timeline::State;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let slept = |piece: &Piece| match (piece.cause, case.analysis.class_of(&piece.segment)) {
        (Cause::Timer, _) => true,
        // Whoever had the lock that did not come in time is to blame, not the clock.
        (Cause::Timeout, WaitClass::KernelIdle) => false,
        (Cause::Timeout, WaitClass::Lock) => piece.hop.is_some(),
        (Cause::Timeout, _) => true,
        _ => false,
    };
    let (sleeper, ns) = case.most_of(|piece, _| slept(piece))?;
    if !case.is_most(ns) {
        return None;
    }
    let longest = case.longest(sleeper, Cause::Timer).or(case.longest(sleeper, Cause::Timeout))?;
    let is_asleep = |piece: &&Piece| {
        piece.thread == sleeper && slept(piece) && matches!(piece.segment.state, State::Sleeping(_))
    };
    let sleeps = case.explanation.pieces.iter().filter(is_asleep).count() as u64;
    let stack = longest.segment.wait_stack(case.analysis.trace);
    let function = case.analysis.own_function(stack);
    let in_function = place(", in ", &function);
    let own = sleeper == case.candidate.victim;
    let who = if own { "It".to_owned() } else { case.name(sleeper) };
    let (slept_for, whole) = (units::duration(ns), units::duration(case.duration_ns()));
    let mut story = Vec::new();
    story.extend(case.waited_in().filter(|_| !own));
    story.push(match sleeps {
        0 | 1 => format!("{who} slept for {slept_for} of these {whole}, until a timer it had set itself, in\n  {}", case.told(stack)),
        _ => format!(
            "{who} slept {} times for {slept_for} in all of these {whole}, each time until a timer it had set itself, the longest in\n  {}",
            units::count(sleeps),
            case.told(stack)
        ),
    });
    let last = case.victims_wait().filter(|wait| wait.wake.is_some()).map(|wait| wait.by);
    story.extend(
        last.and_then(|last| case.let_go(last, &format!("{} ended the wait", case.name(last)))),
    );
    let is_sleep = longest.cause == Cause::Timer;
    let cause = match (own, is_sleep, sleeps > 1) {
        (true, true, false) => format!("a sleep that the program asked for{in_function}."),
        (true, true, true) => format!(
            "sleeps that the program asked for{in_function}: it may look for something each time."
        ),
        (true, false, _) => {
            format!(
                "waits with a timeout that nobody ended{in_function}: it was idle, or what it waited for did not come in time."
            )
        }
        (false, ..) => {
            format!("a sleep that {who} asked for while others waited for it{in_function}.")
        }
    };
    let (evidence, evidence_words) = match case.evidence() {
        (Evidence::Direct, _) => {
            (Evidence::Inferred, "its own timer was seen to end the sleep; for what it looks when it wakes is not recorded".to_owned())
        }
        weaker => weaker,
    };
    Some(Finding {
        pattern: Pattern::TimerSleep,
        culprit: Some(sleeper),
        crowd: None,
        function,
        evidence,
        evidence_words,
        story,
        cause,
        advice: String::new(),
        operation: None,
    })
}
