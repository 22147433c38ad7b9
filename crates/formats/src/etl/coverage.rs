//! What each CPU's events cover, and where events are missing.

use super::{
    clock::{Clock, LogHeader},
    rows::Chunk,
};
use rustc_hash::FxHashMap;
use unhitch_model::{CpuSpan, Loss, Warnings, Window, units};

/// What each CPU's events cover: from its first to its last scheduling event, because a circular
/// session keeps a different length of time for each CPU. Without scheduling events, all that the
/// trace spans.
pub(super) fn spans(chunks: &[Chunk], clock: Clock) -> Vec<CpuSpan> {
    let mut by_cpu: FxHashMap<u16, (i64, i64)> = FxHashMap::default();
    let scheduled = chunks.iter().any(|chunk| chunk.scheduling.is_some());
    let range = |chunk: &Chunk| if scheduled { chunk.scheduling } else { chunk.ticks };
    for (cpu, (first, last)) in chunks.iter().filter_map(|chunk| Some((chunk.cpu, range(chunk)?))) {
        let span = by_cpu.entry(cpu).or_insert((first, last));
        *span = (span.0.min(first), span.1.max(last));
    }
    let earliest = by_cpu.values().map(|(first, _)| *first).min().unwrap_or(0);
    let mut spans: Vec<CpuSpan> = by_cpu
        .into_iter()
        .map(|(cpu, (first, last))| {
            let start = if scheduled { first } else { earliest };
            CpuSpan { cpu, window: Window::new(clock.time(start), clock.time(last).plus(1)) }
        })
        .collect();
    spans.sort_by_key(|span| span.cpu);
    spans
}

/// Where events are missing: before buffers that are flagged so, back to the last event of their
/// CPU, and where an event reports a loss.
pub(super) fn losses(
    chunks: &[Chunk],
    headers: &[LogHeader],
    clock: Clock,
    spans: &[CpuSpan],
    warnings: &mut Warnings,
) -> Vec<Loss> {
    let events: u64 = headers.iter().map(|header| u64::from(header.events_lost)).sum();
    let buffers: u64 = headers.iter().map(|header| u64::from(header.buffers_lost)).sum();
    if events > 0 {
        let lost = units::plural(events, "event");
        warnings.add(format!("ETW lost {lost}: the session had no free buffer"));
    }
    if buffers > 0 {
        let lost = units::plural(buffers, "buffer");
        warnings.add(format!("ETW lost {lost}: writing could not keep up"));
    }
    let mut losses = windows(chunks, clock);
    if let Some(first) = losses.first() {
        let (places, at) = (
            units::plural(losses.len() as u64, "place"),
            units::duration(first.window.end.nanos()),
        );
        warnings.add(format!(
            "events are missing in {places}; the first gap is on CPU {} and ends {at} after the \
             start: waits and running times near missing events are wrong",
            first.cpu
        ));
    }
    match losses.first_mut() {
        // The header has one number for all losses.
        Some(loss) => loss.events = events,
        None if events > 0 => {
            let at = spans.first().map(|span| span.window.end).unwrap_or_default();
            losses.push(Loss {
                cpu: spans.first().map_or(0, |span| span.cpu),
                window: Window::new(at, at),
                events,
            });
            warnings.add(
                "events were lost, but the trace does not say where: waits and running times \
                 around the gap are wrong",
            );
        }
        None => {}
    }
    losses
}

/// The losses that buffers and events report, by start.
fn windows(chunks: &[Chunk], clock: Clock) -> Vec<Loss> {
    let mut losses = Vec::new();
    let mut before: FxHashMap<u16, i64> = FxHashMap::default();
    for chunk in chunks {
        let Some((first, last)) = chunk.ticks else { continue };
        let start = before.get(&chunk.cpu).copied().unwrap_or(first).min(first);
        let flagged = chunk.lost.then_some((start, first));
        let windows = flagged
            .iter()
            .chain(&chunk.losses)
            .map(|(from, to)| Window::new(clock.time(*from), clock.time(*to)));
        losses.extend(windows.map(|window| Loss { cpu: chunk.cpu, window, events: 0 }));
        let known = before.entry(chunk.cpu).or_insert(last);
        *known = last.max(*known);
    }
    losses.sort_by_key(|loss| (loss.window.start, loss.cpu));
    losses
}

/// Warns of events before the trace's start, which get the time of the start.
pub(super) fn warn_of_early_events(chunks: &[Chunk], clock: Clock, warnings: &mut Warnings) {
    let early = chunks
        .iter()
        .filter_map(|chunk| chunk.ticks)
        .filter(|(first, _)| clock.is_before(*first))
        .count();
    if early > 0 {
        warnings.add(format!(
            "events from before the trace's start, in {}, are shown at the start",
            units::plural(early as u64, "buffer")
        ));
    }
}
