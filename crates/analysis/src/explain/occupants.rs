//! Who had a CPU while a thread waited for it.

use super::explanation::Piece;
use crate::Analysis;
use crate::timeline::{Segment, State};
use unhitch_model::{ThreadId, Window};

/// A shorter wait for a CPU is the way there, from whichever CPU, nanoseconds.
const MIN_QUEUED_NS: u64 = 10_000_000;

/// The CPU for which a thread waited in `window`, a part of a segment in which it was runnable. It may
/// have queued on the CPU that it had left, until the one on which it then ran took it over. *Why by
/// the longest occupant:* a CPU whose threads took turns, or that was idle, would have let it run.
pub fn awaited_cpu(analysis: &Analysis<'_>, segment: &Segment, window: Window) -> Option<u16> {
    let trace = analysis.trace;
    if !matches!(segment.state, State::Runnable { .. }) {
        return None;
    }
    let ran_on = analysis.cpu_of(segment);
    let queued_on = segment.out().map(|out| trace.switches.cpu[out]);
    let is_long = window.duration_ns() >= MIN_QUEUED_NS;
    let Some((ran_on, queued_on)) = ran_on.zip(queued_on).filter(|(a, b)| a != b && is_long) else {
        return ran_on;
    };
    let longest = |cpu: u16| analysis.cpus.shares(trace, cpu, window).longest_busy_ns;
    Some(if longest(queued_on) > longest(ran_on) { queued_on } else { ran_on })
}

/// How long each thread had the CPU for which a runnable piece waited; nobody known where that CPU is
/// not.
pub(crate) fn occupant_shares(
    analysis: &Analysis<'_>,
    piece: &Piece,
) -> impl Iterator<Item = (Option<ThreadId>, u64)> {
    let (window, cpu) = (piece.window, cpu_of_piece(analysis, piece));
    let known =
        cpu.into_iter().flat_map(move |cpu| analysis.cpus.shares(analysis.trace, cpu, window).ns);
    let other = piece.burst.and_then(|burst| burst.occupant);
    known.chain(cpu.is_none().then_some((other, window.duration_ns())))
}

/// Who had that CPU, and when, in order.
pub(super) fn occupants(
    analysis: &Analysis<'_>,
    piece: &Piece,
) -> impl Iterator<Item = (Option<ThreadId>, Window)> {
    let (window, cpu) = (piece.window, cpu_of_piece(analysis, piece));
    let known =
        cpu.into_iter().flat_map(move |cpu| analysis.cpus.occupancy(analysis.trace, cpu, window));
    let other = piece.burst.and_then(|burst| burst.occupant);
    known.map(|had| (had.thread, had.window)).chain(cpu.is_none().then_some((other, window)))
}

/// The CPU for which a runnable piece waited; none for a burst, whose occupant is known.
fn cpu_of_piece(analysis: &Analysis<'_>, piece: &Piece) -> Option<u16> {
    match piece.burst {
        Some(_) => None,
        None => awaited_cpu(analysis, &piece.segment, piece.window),
    }
}
