//! Who had a CPU while a thread waited for it.

use super::explanation::Piece;
use crate::Analysis;
use unhitch_model::{ThreadId, Window};

/// Who had the CPU for which a runnable piece waited, and when, in order; nobody known where
/// that CPU is not.
pub fn occupants(
    analysis: &Analysis<'_>,
    piece: &Piece,
) -> impl Iterator<Item = (Option<ThreadId>, Window)> {
    let (cpu, window) = (analysis.cpu_of(&piece.segment), piece.window);
    let known =
        cpu.into_iter().flat_map(move |cpu| analysis.cpus.occupancy(analysis.trace, cpu, window));
    known.map(|had| (had.thread, had.window)).chain(cpu.is_none().then_some((None, window)))
}
