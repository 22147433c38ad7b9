//! What each CPU's events cover, and where events are missing.

use super::side_band::{SideBand, Timed};
use crate::ring::Gap;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use unhitch_model::{CpuSpan, Loss, Time, Trace, Warnings, Window, units};

/// First and last time of each CPU's events, an empty window where there are none.
#[derive(Default)]
pub(crate) struct Covered(Vec<(u64, u64)>);

impl Covered {
    pub(crate) fn add(&mut self, other: &[(u64, u64)]) {
        if self.0.len() < other.len() {
            self.0.resize(other.len(), (u64::MAX, 0));
        }
        for ((first, last), (other_first, other_last)) in self.0.iter_mut().zip(other) {
            *first = (*first).min(*other_first);
            *last = (*last).max(*other_last);
        }
    }

    /// What each CPU's events cover. A recorder that keeps everything starts all CPUs together; one
    /// that overwrites its rings keeps what each CPU's ring still holds.
    pub(crate) fn spans(&self, each_from_its_first: bool) -> Vec<CpuSpan> {
        let earliest = self.0.iter().map(|(first, _)| *first).min().unwrap_or(0);
        let covered = self.0.iter().enumerate().filter(|(_, (first, last))| first <= last);
        covered
            .map(|(cpu, (first, last))| {
                let start = if each_from_its_first { *first } else { earliest };
                CpuSpan {
                    cpu: cpu as u16,
                    window: Window::new(Time::from_nanos(start), Time::from_nanos(*last).plus(1)),
                }
            })
            .collect()
    }
}

/// Adds the gaps in rings.
pub(crate) fn add_gaps(gaps: &[Gap], trace: &mut Trace) {
    trace.losses.extend(gaps.iter().map(|gap| Loss {
        cpu: gap.cpu,
        window: Window::new(Time::from_nanos(gap.from), Time::from_nanos(gap.to)),
        events: gap.events,
    }));
    trace.losses.sort_by_key(|loss| (loss.window.start, loss.cpu));
}

/// The windows in which events were lost: from the last event of that CPU before the report of the
/// loss to the report.
pub(crate) fn losses(side_band: &[Timed<'_>], trace: &Trace, warnings: &mut Warnings) -> Vec<Loss> {
    let mut losses: Vec<Loss> = Vec::new();
    let mut by_cpu = BTreeMap::<Option<u16>, u64>::new();
    // Records come by time. Those at time zero are the totals that perf adds when it ends.
    for Timed { time, cpu, record } in side_band.iter().rev() {
        let SideBand::Lost { events } = *record else { continue };
        let cpu = cpu.and_then(|cpu| u16::try_from(cpu).ok());
        if *time == Time::ZERO && by_cpu.contains_key(&cpu) {
            continue;
        }
        let lost = by_cpu.entry(cpu).or_default();
        *lost = lost.saturating_add(events);
        let Ok(span) = trace.spans.binary_search_by_key(&cpu, |span| Some(span.cpu)) else {
            continue;
        };
        let span = &trace.spans[span];
        let window =
            if *time == Time::ZERO { span.window } else { Window::new(span.window.start, *time) };
        losses.push(Loss { cpu: span.cpu, window, events });
    }
    for (cpu, events) in by_cpu {
        let cpu = cpu.map_or("an unknown CPU".to_owned(), |cpu| format!("CPU {cpu}"));
        let events = units::plural(events, "event");
        warnings.add(format!("{cpu} lost {events}: the recorder could not keep up"));
    }
    if !losses.is_empty() {
        losses.sort_by_key(|loss| loss.window.end);
        narrow(&mut losses, &trace.switches.time, &trace.switches.cpu);
        narrow(&mut losses, &trace.wakings.time, &trace.wakings.cpu);
        narrow(&mut losses, &trace.samples.time, &trace.samples.cpu);
        losses.sort_by_key(|loss| (loss.window.start, loss.cpu));
    }
    losses
}

/// Moves the start of each window up to the last of these events, or the last loss, on its CPU.
fn narrow(losses: &mut [Loss], times: &[Time], cpus: &[u16]) {
    let mut last = FxHashMap::<u16, Time>::default();
    let mut events = times.iter().zip(cpus).peekable();
    for loss in losses {
        while let Some((time, cpu)) = events.next_if(|(time, _)| **time < loss.window.end) {
            last.insert(*cpu, *time);
        }
        if let Some(before) = last.insert(loss.cpu, loss.window.end) {
            loss.window.start = loss.window.start.max(before).min(loss.window.end);
        }
    }
}
