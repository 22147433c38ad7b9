//! Dead end: the records that would tell are missing. Names what is missing and how to record it.

use super::case::Case;
use super::finding::{Evidence, Finding, Pattern};
use super::peers;
use crate::WaitClass;
use crate::explain::other_end::only_peer;
use crate::explain::{Cause, Piece, class_of, signalled_by};
use crate::stacks::text::own_function;
use crate::wording::recording;
use crate::wording::sentence::{Sentence, sentence};
use crate::wording::wait_words;
use unhitch_model::{ThreadId, Time, Window};

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let lost = case.ns_of(|piece, _| piece.cause == Cause::Lost);
    let outside = case.ns_of(|piece, _| piece.cause == Cause::Message);
    let unseen = outside
        + case.ns_of(|piece, _| piece.cause == Cause::UnknownWaker && is_unseen(case, piece));
    if !case.is_most(lost + unseen) {
        return None;
    }
    let unknown =
        case.explanation.pieces.iter().filter(|piece| {
            matches!(piece.cause, Cause::Lost | Cause::UnknownWaker | Cause::Message)
        });
    let longest = unknown.max_by_key(|piece| piece.window.duration_ns())?;
    let (why, advice) = match lost > unseen {
        true => why_lost(case),
        false => why_unseen(case, longest, outside.saturating_mul(2) > unseen),
    };
    let name = case.name(longest.thread);
    let mut sentences = vec![match lost > unseen {
        true => {
            sentence!("Nothing shows what {} did for {}: {}.", name, case.part(lost), why.clone())
        }
        false => sentence!("{} waited for {}; {}.", name, case.part(lost + unseen), why.clone()),
    }];
    let stack = longest.segment.wait_stack(case.analysis.trace);
    if !stack.is_empty() {
        let waited_in = case.segment_stack(longest.thread, &longest.segment);
        let on = peers::waited_on(case.analysis, longest.thread, &longest.segment, case.at());
        let wanted = wait_words::wanted(case.analysis, stack);
        let wanted = wanted.map_or(String::new(), |wanted| format!(" for {wanted}"));
        sentences.push(sentence!("It waited{}{} in\n  {}", wanted, on, waited_in));
    }
    sentences.extend(case.began_earlier(&longest.segment));
    sentences.extend(
        case.ended_later(longest.thread, &longest.segment).filter(|_| longest.cause != Cause::Lost),
    );
    let silent = silent_peer(case, longest);
    let last = interrupted(case, longest);
    let lock = case.analysis.stacks.words(stack).unwrap_or("lock");
    let cause = match (silent, born_later(case, longest)) {
        (Some(peer), _) => {
            sentence!("no answer from {}, which has the other end.", case.name(peer))
        }
        (None, Some(by)) => {
            sentence!("a {}; who had it before {} was started is not known.", lock, case.name(by))
        }
        (None, None) if is_unreleased(case, longest) => sentence!(
            "a {} that was not released before the recording ended; who has it is not known.",
            lock
        ),
        (None, None) => match last {
            Some(last) => sentence!("not known beyond {}: {}.", case.name(last), why.clone()),
            None => sentence!("not known: {}.", why.clone()),
        },
    };
    Some(Finding {
        function: own_function(case.analysis, stack),
        evidence: if lost > unseen { Evidence::Lost } else { Evidence::Inferred },
        evidence_words: why,
        sentences,
        advice: case.analysis.stacks.advice(stack).unwrap_or(advice).to_owned(),
        culprit: silent.or(last),
        ..case.finding(Pattern::DeadEnd, cause)
    })
}

/// True if nothing shows what would have ended the wait: a signal only interrupted it, or who ended
/// it was not there yet.
fn is_unseen(case: &Case<'_>, piece: &Piece) -> bool {
    piece.segment.wake().is_none()
        || signalled_by(case.analysis, &piece.segment).is_some()
        || born_later(case, piece).is_some()
}

/// The thread that released the lock, if it was born after this part of the wait for it.
fn born_later(case: &Case<'_>, piece: &Piece) -> Option<ThreadId> {
    let waker = case.analysis.trace.wakings.waker[piece.segment.wake()?];
    let is_lock = class_of(case.analysis, &piece.segment) == WaitClass::Lock;
    let born = case.analysis.timeline.life(waker).start;
    (is_lock && born >= piece.window.end).then_some(waker)
}

/// The only process that has the other end of what the thread waited on, if the wait did not end.
fn silent_peer(case: &Case<'_>, longest: &Piece) -> Option<ThreadId> {
    let peer = || only_peer(case.analysis, longest.thread, &longest.segment);
    is_waiting_at_end(case, longest).then(peer).flatten()
}

/// The thread that the victim waited for, if only a signal ended its own wait: it did not get on before
/// that. Nothing for a lock, which somebody else has.
fn interrupted(case: &Case<'_>, longest: &Piece) -> Option<ThreadId> {
    let (thread, segment) = (longest.thread, &longest.segment);
    let is_lock = class_of(case.analysis, segment) == WaitClass::Lock;
    let is_other = thread != case.candidate.victim && !is_lock;
    (is_other && signalled_by(case.analysis, segment).is_some()).then_some(thread)
}

/// True for a wait for a lock that was not released before the recording ended.
fn is_unreleased(case: &Case<'_>, longest: &Piece) -> bool {
    let is_lock = class_of(case.analysis, &longest.segment) == WaitClass::Lock;
    is_lock && is_waiting_at_end(case, longest)
}

/// True if the wait had not ended when the recording did. The piece itself may end before that,
/// with the window that was asked about.
fn is_waiting_at_end(case: &Case<'_>, longest: &Piece) -> bool {
    end_of_wait(case, longest) >= case.analysis.timeline.window().end
}

/// When the wait ended of which `longest` is a part.
fn end_of_wait(case: &Case<'_>, longest: &Piece) -> Time {
    let timeline = &case.analysis.timeline;
    timeline.end_of_sleep(case.analysis.trace, longest.thread, &longest.segment)
}

/// Why the trace does not show what a thread did, and what to do about it.
fn why_lost(case: &Case<'_>) -> (Sentence, &'static str) {
    let at_start = case.explanation.window.start <= case.analysis.timeline.window().start;
    match (is_overwritten(case, case.explanation.window), at_start) {
        (true, _) => (
            Sentence::from(
                "lost records, or the start or end of the recording, hide what it did meanwhile",
            ),
            "Record with larger buffers (--buffer), and save sooner after the hang.",
        ),
        (false, true) => {
            (Sentence::from("the start or end of the recording hides what it did meanwhile"), "")
        }
        (false, false) => (Sentence::from("the kernel did not report what it did meanwhile"), ""),
    }
}

fn is_overwritten(case: &Case<'_>, window: Window) -> bool {
    case.analysis.trace.losses.iter().any(|loss| loss.window.overlaps(window))
}

/// Why the trace does not show who ended `longest`, and what to do about it.
fn why_unseen(case: &Case<'_>, longest: &Piece, is_message: bool) -> (Sentence, &'static str) {
    let trace = case.analysis.trace;
    let silent = case.analysis.cpus.silent_cpus(trace);
    let is_waiting = is_waiting_at_end(case, longest);
    let until_end = Window::new(case.explanation.window.start, end_of_wait(case, longest));
    if let Some(by) = born_later(case, longest) {
        let by = case.name(by);
        (sentence!("{}, which released the lock in the end, did not exist yet", by), "")
    } else if let Some(by) = signalled_by(case.analysis, &longest.segment) {
        let by = case.name(by);
        (sentence!("it was still waiting when {} interrupted it by a signal", by), "")
    } else if is_message && !(is_waiting && silent_peer(case, longest).is_some()) {
        let why = "it waited for a message from the network, and the sender is not recorded";
        (Sentence::from(why), "")
    } else if is_waiting {
        let advice = match trace.wakings.is_empty() {
            true => recording::wakings(trace.meta.system),
            false => {
                "Save again after the wait has ended: the wake-up that ends it names the culprit."
            }
        };
        (Sentence::from("it was still waiting when the recording ended"), advice)
    } else if trace.wakings.is_empty() {
        let why = "the recording holds no wake-ups, so nothing shows who ended the wait";
        (Sentence::from(why), recording::wakings(trace.meta.system))
    } else if is_overwritten(case, until_end) {
        (
            Sentence::from("the wake-up that ended the wait is not in the recording"),
            "Record with larger buffers (--buffer).",
        )
    } else if !silent.is_empty() {
        let cpus: Vec<String> = silent.iter().map(u16::to_string).collect();
        let (noun, verb) = if cpus.len() == 1 { ("CPU", "reports") } else { ("CPUs", "report") };
        let why = sentence!(
            "no thread ended the wait, and {} {} {} no events while idle, so an interrupt there \
             ended it: a timer, a device or the network",
            noun,
            cpus.join(", "),
            verb
        );
        (why, "")
    } else {
        (Sentence::from("no thread was seen to end the wait, though no records were lost"), "")
    }
}
