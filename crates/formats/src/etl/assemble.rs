//! Decoded buffers to the trace: names and lives first, then stacks to their events, then the
//! columns.

use super::{
    catalogue::Catalogue,
    clock::{Clock, LogHeader, utf16_z},
    columns::{self, Settled, StackIndex, by_time},
    decode::is_kernel,
    event::NOBODY,
    hook,
    images::Spaces,
    join::{self, Definitions},
    load::Merged,
    methods::Methods,
    others,
    paths::Paths,
    rows::{Chunk, Naming, Other, Ready, Sample, StackRecord, Switch},
    tasks,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::mem;
use unhitch_model::{CpuSpan, Loss, NameId, Threads, Trace, Warnings, Window, units};

/// Fills `trace` with all that the buffers hold.
pub(super) fn assemble(
    merged: Merged,
    headers: &[LogHeader],
    trace: &mut Trace,
    warnings: &mut Warnings,
) {
    let Merged { mut chunks, parts, kinds } = merged;
    let first = headers.first().cloned().unwrap_or_default();
    let pointer_bytes = first.pointer_bytes;
    let clock = Clock::new(
        headers.iter().map(|header| header.zero).min().unwrap_or(0),
        first.ticks_per_second(),
    );

    let naming = naming(&mut chunks);
    let switches = taken(&mut chunks, |chunk| &mut chunk.switches);
    let readies = taken(&mut chunks, |chunk| &mut chunk.readies);
    let samples = taken(&mut chunks, |chunk| &mut chunk.samples);
    let records = taken(&mut chunks, |chunk| &mut chunk.stacks);
    let definitions = taken(&mut chunks, |chunk| &mut chunk.definitions);
    let others = taken(&mut chunks, |chunk| &mut chunk.others).into_iter().zip(0_u32..);
    let others =
        others.map(|(rows, chunk)| rows.into_iter().map(|row| (chunk, row)).collect()).collect();
    // What has the most rows on one core, the rest on another.
    let (records, (switches, readies, samples, definitions, rows)) = rayon::join(
        || by_time(records, |row| row.at),
        || {
            (
                by_time(switches, |row| row.ticks),
                by_time(readies, |row| row.ticks),
                by_time(samples, |row| row.ticks),
                Definitions::new(by_time(definitions, |row| row.at).into_iter()),
                by_time(others, |(_, row): &(u32, Other)| row.ticks),
            )
        },
    );

    let mut kept = vec![false; kinds.kinds.len()];
    rows.iter().for_each(|(_, row)| {
        kept.iter_mut().skip(row.kind as usize).take(1).for_each(|kept| *kept = true)
    });
    let mut catalogue = Catalogue::new(&naming);
    let kinds_of_trace = others::kinds(&kinds, &kept, &mut catalogue, pointer_bytes, trace);
    if catalogue.left_out > 0 {
        warnings.add(format!(
            "{} descriptions of events have more fields than can be kept: those are shown as bytes",
            catalogue.left_out
        ));
    }
    for (kind, count) in kinds_of_trace.iter().zip(&kinds.counts) {
        *trace.by_kind.entry(kind.name.clone()).or_default() += count;
    }

    let threads = mem::replace(&mut trace.threads, Threads::new(NameId::EMPTY));
    let mentioned = mentioned(&switches, &readies, &samples, &records, &rows);
    let mut built =
        tasks::build(&naming, &mentioned, clock, pointer_bytes, threads, &mut trace.strings);
    trace.threads = mem::replace(&mut built.threads, Threads::new(NameId::EMPTY));
    if built.homeless > 0 {
        warnings.add(format!(
            "the trace does not tell of {} threads what process they belong to",
            built.homeless
        ));
    }
    let paths = Paths::new(&naming, pointer_bytes, &mut trace.strings);
    let spaces = Spaces::new(
        &naming,
        |ticks| clock.time(ticks),
        &built.processes,
        &paths,
        pointer_bytes,
        trace,
    );

    let (targets_readies, (targets_switches, targets_samples, targets_others)) = rayon::join(
        || columns::targets_of_readies(&readies, &switches),
        || {
            let of_others = others::targets(&rows, &chunks, &kinds_of_trace, &switches);
            (
                columns::targets_of_switches(&switches),
                columns::targets_of_samples(&samples),
                of_others,
            )
        },
    );
    let kernel_part = |part: u32| {
        parts.words(part).first().is_some_and(|avma| is_kernel(*avma, usize::from(pointer_bytes)))
    };
    let targets = [&targets_switches[..], &targets_readies, &targets_samples, &targets_others];
    let [on_switch, on_ready, on_sample, on_other] =
        join::join(targets, &records, &definitions, kernel_part, warnings);
    drop((records, definitions));

    let settled = Settled::new(clock, &trace.threads);
    let methods = Methods::new(&rows, &chunks, &kinds, &built.processes, clock);
    match methods.nameless() {
        0 => {}
        1 => warnings.add(
            "1 method of .NET was recorded without a name (MethodLoad, not MethodLoadVerbose): \
             its code is shown as addresses",
        ),
        count => warnings.add(format!(
            "{} methods of .NET were recorded without names (MethodLoad, not MethodLoadVerbose): \
             their code is shown as addresses",
            units::count(count as u64)
        )),
    }
    let mut stacks = StackIndex::new(&built.processes, &spaces, &parts, methods);
    // Stacks become the trace's on one core, what else there is of the columns on another.
    let threads = mem::replace(&mut trace.threads, Threads::new(NameId::EMPTY));
    let (stack_ids, rest) = rayon::join(
        || {
            let waits = columns::wait_stacks(&switches, &on_switch);
            let waits = waits
                .iter()
                .zip(&switches)
                .map(|(joined, row)| stacks.stack(*joined, clock.time(row.ticks), trace))
                .collect();
            let wakes = on_ready
                .iter()
                .zip(&readies)
                .map(|(joined, row)| stacks.stack(*joined, clock.time(row.ticks), trace))
                .collect();
            (waits, wakes, stacks.samples(&samples, &on_sample, &settled, &threads, trace))
        },
        || {
            let wakings = columns::wakings(
                &readies,
                &targets_readies,
                &on_ready,
                &switches,
                &settled,
                &threads,
            );
            (columns::switches(&switches, &settled), wakings, columns::samples(&samples, &settled))
        },
    );
    trace.threads = threads;
    (trace.switches, trace.wakings, trace.samples) = rest;
    (trace.switches.stack, trace.wakings.stack, trace.samples.stack) = stack_ids;
    others::add(
        &rows,
        &chunks,
        &targets_others,
        &on_other,
        &kinds_of_trace,
        &paths,
        &settled,
        &built.processes,
        &mut stacks,
        trace,
    );

    machine(&naming, trace);
    trace.spans = spans(&chunks, clock);
    trace.losses = losses(&chunks, headers, clock, &trace.spans, warnings);
    early(&chunks, clock, warnings);
}

/// The events that name something, by time; of equal times in the order of the file.
fn naming(chunks: &mut [Chunk]) -> Vec<Naming> {
    let mut all: Vec<Naming> =
        Vec::with_capacity(chunks.iter().map(|chunk| chunk.naming.len()).sum());
    chunks.iter_mut().for_each(|chunk| all.append(&mut chunk.naming));
    all.sort_by_key(|event| event.ticks);
    all
}

/// The rows of one kind of each buffer.
fn taken<T>(chunks: &mut [Chunk], rows: impl Fn(&mut Chunk) -> &mut Vec<T>) -> Vec<Vec<T>> {
    chunks.iter_mut().map(|chunk| mem::take(rows(chunk))).collect()
}

/// All threads that any event is about, with their process where one says so: the first that does.
fn mentioned(
    switches: &[Switch],
    readies: &[Ready],
    samples: &[Sample],
    records: &[StackRecord],
    others: &[(u32, Other)],
) -> FxHashMap<u32, u32> {
    let (scheduled, mut all) = rayon::join(
        || {
            let tids = switches
                .iter()
                .flat_map(|row| [row.new_tid, row.old_tid])
                .chain(readies.iter().map(|row| row.tid));
            tids.chain(samples.iter().map(|row| row.tid)).collect::<FxHashSet<u32>>()
        },
        || {
            let mut all: FxHashMap<u32, u32> = FxHashMap::default();
            for (tid, pid) in records
                .iter()
                .map(|row| (row.tid, row.pid))
                .chain(others.iter().map(|(_, row)| (row.tid, row.pid)))
            {
                let known = all.entry(tid).or_insert(pid);
                if *known == NOBODY {
                    *known = pid;
                }
            }
            all
        },
    );
    for tid in scheduled {
        all.entry(tid).or_insert(NOBODY);
    }
    all.remove(&NOBODY);
    all
}

/// What the trace says of the machine.
fn machine(naming: &[Naming], trace: &mut Trace) {
    for event in naming {
        match event.hook {
            hook::COMPUTER => {
                let name = event.payload.get(20..).map(|name| utf16_z(name).0).unwrap_or_default();
                if !name.is_empty() {
                    trace.meta.host = name;
                }
                let mib = super::buffer::u32_at(&event.payload, 8).unwrap_or(0);
                trace.meta.memory_bytes = u64::from(mib) << 20;
            }
            hook::BUILD_INFO => {
                let (lab, rest) = utf16_z(event.payload.get(8..).unwrap_or_default());
                let product = utf16_z(rest).0;
                if !product.is_empty() {
                    trace.meta.kernel = format!("{product}, build {lab}");
                }
            }
            // In 100 ns; the profiling timer has number 0.
            hook::SAMPLE_HOOKS_FIRST..=hook::SAMPLE_HOOKS_LAST => {
                let source = super::buffer::u32_at(&event.payload, 0);
                if let (Some(0), Some(interval)) =
                    (source, super::buffer::u32_at(&event.payload, 4))
                {
                    trace.meta.sample_period_ns = u64::from(interval) * 100;
                }
            }
            _ => {}
        }
    }
}

/// What each CPU's events cover: from its first scheduling event, since a circular session keeps of
/// each CPU what it has; to its last. Without scheduling events, all that the trace spans.
fn spans(chunks: &[Chunk], clock: Clock) -> Vec<CpuSpan> {
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

/// Where buffers say that events are missing: between the last event before on that CPU and their
/// first; and where events say so.
fn losses(
    chunks: &[Chunk],
    headers: &[LogHeader],
    clock: Clock,
    spans: &[CpuSpan],
    warnings: &mut Warnings,
) -> Vec<Loss> {
    let events: u64 = headers.iter().map(|header| u64::from(header.events_lost)).sum();
    let buffers: u64 = headers.iter().map(|header| u64::from(header.buffers_lost)).sum();
    if events > 0 {
        warnings.add(format!("{events} events were lost: the session had no free buffer for them"));
    }
    if buffers > 0 {
        warnings.add(format!("{buffers} buffers were lost: they could not be written in time"));
    }
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
    if let Some(first) = losses.first() {
        let (places, at) = (
            units::plural(losses.len() as u64, "place"),
            units::duration(first.window.end.nanos()),
        );
        warnings.add(format!(
            "events are missing in {places}, first on CPU {} before {at} from the start: waits and running times around are wrong",
            first.cpu
        ));
    }
    match losses.first_mut() {
        // The header has one number for all.
        Some(loss) => loss.events = events,
        None if events > 0 => {
            let at = spans.first().map(|span| span.window.end).unwrap_or_default();
            losses.push(Loss {
                cpu: spans.first().map_or(0, |span| span.cpu),
                window: Window::new(at, at),
                events,
            });
            warnings.add(
                "where events were lost is not told: waits and running times near it are wrong",
            );
        }
        None => {}
    }
    losses
}

/// Events before the beginning have no time of their own.
fn early(chunks: &[Chunk], clock: Clock, warnings: &mut Warnings) {
    let early = chunks
        .iter()
        .filter_map(|chunk| chunk.ticks)
        .filter(|(first, _)| clock.is_before(*first))
        .count();
    if early > 0 {
        warnings.add(format!("{early} buffers hold events from before the trace's start; those are told as at its start"));
    }
}
