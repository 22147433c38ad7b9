//! Computation: the victim itself worked most of the time, or the thread, or else the process, whose
//! message it waited for did. To work is to be on a CPU or to want one: a busy machine lets nobody
//! compute without a break.

use super::case::Case;
use super::finding::{Evidence, Finding, Pattern};
use crate::WaitClass;
use crate::explain::{Cause, Hop, Piece};
use crate::wording::sentence::sentence;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use unhitch_model::{ProcessId, ThreadId};

/// Whoever ran for less than this part of its work had no CPU rather than much to compute.
const MIN_RAN_PART: u64 = 4;

/// Who worked, and how long.
struct Work {
    /// The thread, or the one of the process that worked longest.
    who: ThreadId,
    /// Time on a CPU, nanoseconds.
    ran: u64,
    /// Time in which it wanted a CPU, nanoseconds.
    wanted_cpu: u64,
    /// The time is that of all its process's threads.
    is_process: bool,
}

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let Work { who, ran, wanted_cpu, is_process } = work(case)?;
    let own = who == case.candidate.victim;
    let windows = case.windows_of(|piece, hop| {
        piece.thread == who && piece.cause == Cause::Ran && is_work(piece, hop)
    });
    let computing = case.computing(who, &windows);
    let mut sentences = if own { Vec::new() } else { case.waits() };
    sentences.push(if sentences.is_empty() {
        let begin = match is_nearly_all(case, ran + wanted_cpu) {
            true => "Nobody kept it waiting: it",
            false => "Most of the time nobody kept it waiting: it",
        };
        sentence!(
            "{} was on a CPU for {} ({}){}.",
            begin,
            case.part(ran),
            case.percent(ran),
            case.without_cpu(wanted_cpu)
        )
    } else {
        sentence!(
            "{}, {}, {} on a CPU for {}{}.",
            case.name(who),
            awaited(case, who),
            if is_process { "and other threads of its process were" } else { "was" },
            case.part(ran),
            case.without_cpu(wanted_cpu)
        )
    });
    sentences.push(computing.sentence);
    sentences.extend(case.ended_wait_in(who, "It replied").filter(|_| !own));
    let place = computing.place;
    let cause = match (own, case.candidate.event_loop) {
        (true, true) => sentence!("its own computation on the event loop{}.", place),
        (true, false) => sentence!("its own computation{}.", place),
        (false, _) if place.is_empty() => {
            sentence!("the computation of {}, {}.", case.name(who), awaited(case, who))
        }
        (false, _) => {
            sentence!("the computation of {}, {},{}.", case.name(who), awaited(case, who), place)
        }
    };
    let mut finding = Finding {
        culprit: Some(who),
        function: computing.function,
        sentences,
        ..case.finding(Pattern::CpuBound, cause)
    };
    if own && finding.evidence == Evidence::Direct {
        let and_samples = if computing.samples > 0 { " and samples" } else { "" };
        finding.evidence_words = sentence!("its switches{} were seen", and_samples);
    }
    if own && case.candidate.event_loop {
        finding.advice = "Move the computation off the event loop, or split it up.".to_owned();
    }
    Some(finding)
}

/// What of `who` was waited for.
fn awaited(case: &Case<'_>, who: ThreadId) -> &'static str {
    match case.hop_to(who) {
        Some(hop) if hop.class == WaitClass::Process => "for whose end it waited",
        _ => "whose reply it waited for",
    }
}

fn is_work(piece: &Piece, hop: Option<&Hop>) -> bool {
    // Computing under a lock is another pattern.
    matches!(piece.cause, Cause::Ran | Cause::WaitedForCpu)
        && hop.is_none_or(|hop| hop.class != WaitClass::Lock)
}

/// The thread that worked for half of the stall; else the process whose threads did.
fn work(case: &Case<'_>) -> Option<Work> {
    let process = |thread: ThreadId| case.analysis.trace.threads.get(thread).process;
    let of = |select: &dyn Fn(ThreadId) -> bool| {
        let of = |cause: Cause| {
            case.ns_of(|piece, hop| {
                piece.cause == cause && is_work(piece, hop) && select(piece.thread)
            })
        };
        let (ran, wanted_cpu) = (of(Cause::Ran), of(Cause::WaitedForCpu));
        let computed = ran.saturating_mul(MIN_RAN_PART) >= ran + wanted_cpu;
        (computed && case.is_most(ran + wanted_cpu)).then_some((ran, wanted_cpu))
    };
    let (who, _) = case.most_of(is_work)?;
    if let Some((ran, wanted_cpu)) = of(&|thread| thread == who) {
        return Some(Work { who, ran, wanted_cpu, is_process: false });
    }
    let mut sums: FxHashMap<ProcessId, u64> = FxHashMap::default();
    for piece in case.pieces(is_work) {
        *sums.entry(process(piece.thread)).or_default() += piece.window.duration_ns();
    }
    let (most, _) = sums.into_iter().max_by_key(|&(process, ns)| (ns, Reverse(process)))?;
    let (ran, wanted_cpu) = of(&|thread| process(thread) == most)?;
    let (who, _) =
        case.most_of(|piece, hop| is_work(piece, hop) && process(piece.thread) == most)?;
    (who != case.candidate.victim).then_some(Work { who, ran, wanted_cpu, is_process: true })
}

/// True where what the partition has besides is not worth a word.
fn is_nearly_all(case: &Case<'_>, ns: u64) -> bool {
    const MAX_REST_PART: u64 = 10;
    case.duration_ns().saturating_sub(ns).saturating_mul(MAX_REST_PART) <= case.duration_ns()
}
