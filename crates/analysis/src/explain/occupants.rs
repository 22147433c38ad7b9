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
    let longest = |cpu: u16| {
        let had = analysis.cpus.occupancy(trace, cpu, window);
        let busy = had.filter(|had| had.thread.is_none_or(|thread| !thread.is_idle()));
        busy.map(|had| had.window.duration_ns()).max().unwrap_or(0)
    };
    Some(if longest(queued_on) > longest(ran_on) { queued_on } else { ran_on })
}

/// Who had the CPU for which a runnable piece waited, and when, in order; nobody known where
/// that CPU is not.
pub fn occupants(
    analysis: &Analysis<'_>,
    piece: &Piece,
) -> impl Iterator<Item = (Option<ThreadId>, Window)> {
    let window = piece.window;
    let cpu = match piece.burst {
        Some(_) => None,
        None => awaited_cpu(analysis, &piece.segment, window),
    };
    let known =
        cpu.into_iter().flat_map(move |cpu| analysis.cpus.occupancy(analysis.trace, cpu, window));
    let other = piece.burst.and_then(|burst| burst.occupant);
    known.map(|had| (had.thread, had.window)).chain(cpu.is_none().then_some((other, window)))
}
