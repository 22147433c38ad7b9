//! Slow disk or file system: the victim, or the thread it waited for, waited for one.

use super::case::Case;
use super::case::{in_function, weaken};
use super::disks::{self, Shown};
use super::finding::{Finding, Pattern};
use super::group_limits;
use crate::WaitClass;
use crate::explain::{Cause, What};
use crate::facts::Device;
use crate::stacks::text::own_function;
use crate::waits::waits_for;
use crate::wording::sentence::{Sentence, count, duration, plural, sentence};
use unhitch_model::{System, ThreadId};

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let is_io = |share: &&crate::Share| share.what == What::Io;
    let ns: u64 = case.partition.iter().filter(is_io).map(|share| share.ns).sum();
    let own = || {
        let pieces = case.explanation.pieces.iter();
        pieces.filter(|piece| piece.hop.is_none() && piece.cause == Cause::Io)
    };
    let own_ns = own().map(|piece| piece.window.duration_ns()).sum();
    // One that mostly waited for the disk itself did so there, and not in its longest other wait.
    let wait = case.victims_wait().filter(|_| !case.is_most(own_ns));
    // A lock's owner that waits for a disk is a lock's owner first of all.
    if !case.is_most(ns) || wait.is_some_and(|hop| hop.class == WaitClass::Lock) {
        return None;
    }
    let (trace, victim) = (case.analysis.trace, case.candidate.victim);
    let (asked, asked_in) = match wait {
        Some(hop) => (hop.wait_stack, case.wait_stack(hop)),
        None => {
            let segment = &own().max_by_key(|piece| piece.window.duration_ns())?.segment;
            (segment.wait_stack(trace), case.segment_stack(victim, segment))
        }
    };
    let mut sentences = vec![sentence!(
        "It waited for a disk or a file system for {}, in\n  {}",
        case.part(ns),
        asked_in
    )];
    let (waiter, waited) = case.most_of(|piece, _| piece.cause == Cause::Io).unwrap_or((victim, 0));
    // What another program waited in says more than that it was waited for; the kernel's own threads
    // only do what they are asked for.
    let waited_in = case.longest(waiter, Cause::Io).map(|piece| piece.segment.wait_stack(trace));
    let waited_in = waited_in.filter(|stack| !trace.stacks.user_frames(*stack).is_empty());
    let function = own_function(case.analysis, waited_in.unwrap_or(asked));
    if waiter != victim
        && let Some(piece) = case.longest(waiter, Cause::Io)
    {
        sentences.push(sentence!(
            "Of that, {} waited for the device for {}, in\n  {}",
            case.name(waiter),
            duration(waited),
            case.segment_stack(waiter, &piece.segment)
        ));
    }
    sentences.extend(lengths(case));
    sentences.extend(other_waiters(case));
    let Shown { sentences: requests, served_elsewhere } = disks::shown(case, waiter);
    sentences.extend(requests);
    let limits = group_limits::io(case, waiter);
    let used_up = limits.iter().find(|limit| limit.is_used_up).map(|limit| limit.group.clone());
    let or_limit = used_up.as_ref().map_or_else(Sentence::default, |group| {
        sentence!(", or the limit on it of control group {}", group.clone())
    });
    sentences.extend(limits.into_iter().map(|limit| limit.sentence));
    let cause = sentence!(
        "a slow disk or file system{}{}.",
        or_limit,
        in_function(", waited for in ", &function)
    );
    let mut finding = Finding {
        culprit: Some(waiter),
        function,
        sentences,
        advice: match trace.meta.notes_facts || trace.meta.system != System::Linux {
            true => String::new(),
            false => {
                "The requests to the disk are not recorded; `--engine bpf` records them.".to_owned()
            }
        },
        ..case.finding(Pattern::IoWait, cause)
    };
    weaken_by(case, &mut finding, ns, served_elsewhere, used_up);
    Some(finding)
}

/// Weakens the finding by what is not known of the disk that was waited for, in all for `ns`.
fn weaken_by(
    case: &Case<'_>,
    finding: &mut Finding,
    ns: u64,
    served_elsewhere: Option<Device>,
    used_up: Option<String>,
) {
    if let Some(disk) = served_elsewhere {
        weaken(finding, |_| {
            sentence!(
                "disk {} is a file (a loop device) or another machine's (nbd), and what kept whoever \
                 serves it is not followed",
                disk.to_string()
            )
        });
    }
    if let Some(group) = used_up {
        weaken(finding, |_| {
            sentence!(
                "how long requests waited for the limit of control group {}, before the disk got \
                 them, is not recorded",
                group
            )
        });
    }
    let by_program = case.ns_of(|piece, _| {
        piece.cause == Cause::Io
            && case.analysis.stacks.asks_server(piece.segment.wait_stack(case.analysis.trace))
    });
    if by_program.saturating_mul(2) >= ns {
        weaken(finding, |_| {
            Sentence::from("a program serves this file system (FUSE); which one is not known")
        });
    }
}

/// How many waits for the device there were, and how long.
fn lengths(case: &Case<'_>) -> Option<Sentence> {
    let waits = case.explanation.pieces.iter().filter(|piece| piece.cause == Cause::Io);
    let mut lengths: Vec<u64> = waits.map(|piece| piece.window.duration_ns()).collect();
    lengths.sort_unstable();
    let (longest, median) = (lengths.last()?, lengths.get(lengths.len() / 2)?);
    (lengths.len() > 1).then(|| {
        sentence!(
            "{} for the device: median {}, longest {}.",
            plural(lengths.len() as u64, "wait"),
            duration(*median),
            duration(*longest)
        )
    })
}

/// Which other threads waited for disks meanwhile, and how long, longest first.
fn other_waiters(case: &Case<'_>) -> Option<Sentence> {
    /// Maximum threads that are listed.
    const MAX_LISTED: usize = 3;
    let window = case.explanation.window;
    let mut list = waits_for(case.analysis, window, WaitClass::is_disk);
    list.retain(|(thread, ns)| {
        *thread != case.candidate.victim && ns.saturating_mul(20) > window.duration_ns()
    });
    let waiter =
        |(thread, ns): &(ThreadId, u64)| sentence!("{} ({})", case.name(*thread), duration(*ns));
    let listed = Sentence::join(list.iter().take(MAX_LISTED).map(waiter), ", ");
    let more = match list.len().saturating_sub(MAX_LISTED) as u64 {
        0 => Sentence::default(),
        more => sentence!(" and {} more", count(more)),
    };
    (!list.is_empty()).then(|| sentence!("Meanwhile {}{} also waited for a disk.", listed, more))
}
