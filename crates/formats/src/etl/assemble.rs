//! Assembles the trace from decoded buffers: names and lifetimes first, then the stacks of each
//! event, then the columns.

use super::{
    buffer::u32_at,
    catalogue::Catalogue,
    clock::{Clock, LogHeader, utf16_z},
    columns::{self, Settled, StackIndex, by_time},
    coverage,
    event::NOBODY,
    hook,
    images::Spaces,
    join::{self, Definitions, Joined, Target},
    kinds::KindTable,
    merged::Merged,
    methods::Methods,
    parts::Parts,
    paths::Paths,
    provider_events::{self, Kind},
    rows::{Chunk, Naming, ProviderEvent, Ready, Sample, StackRecord, Switch},
    space_id::is_kernel_avma,
    tasks::{self, ProcessIndex},
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::mem;
use unhitch_model::{NameId, Threads, Trace, Warnings, units};

/// Fills `trace` with the content of the buffers.
pub(super) fn assemble(
    merged: Merged,
    headers: &[LogHeader],
    trace: &mut Trace,
    warnings: &mut Warnings,
) {
    let Merged { mut chunks, parts, kinds: kind_table } = merged;
    let first = headers.first().cloned().unwrap_or_default();
    let pointer_bytes = first.pointer_bytes;
    let zero = headers.iter().map(|header| header.zero).min().unwrap_or(0);
    let clock = Clock::new(zero, first.ticks_per_second());

    let naming = naming(&mut chunks);
    let mut rows = Rows::take(&mut chunks);
    let kinds = describe_kinds(&kind_table, &rows, &naming, pointer_bytes, trace, warnings);
    let processes = name_tasks(&rows, &naming, clock, pointer_bytes, trace, warnings);
    let paths = Paths::new(&naming, pointer_bytes, &mut trace.strings);
    let time = |ticks| clock.time(ticks);
    let spaces = Spaces::new(&naming, time, &processes, &paths, pointer_bytes, trace);

    let targets = Targets::new(&rows, &chunks, &kinds);
    let joined = targets.join(&mut rows, &parts, pointer_bytes, warnings);

    let settled = Settled::new(clock, &trace.threads);
    let methods = Methods::new(&rows.provider_events, &chunks, &kind_table, &processes, clock);
    warn_of_nameless_methods(methods.nameless(), warnings);
    let mut stacks = StackIndex::new(&processes, &spaces, &parts, methods);
    fill_columns(&rows, &targets, &joined, &settled, &mut stacks, trace);
    provider_events::add(
        &rows.provider_events,
        &chunks,
        &targets.provider_events,
        &joined.provider_events,
        &kinds,
        &paths,
        &settled,
        &processes,
        &mut stacks,
        trace,
    );

    describe_machine(&naming, trace);
    trace.spans = coverage::spans(&chunks, clock);
    trace.losses = coverage::losses(&chunks, headers, clock, &trace.spans, warnings);
    coverage::warn_of_early_events(&chunks, clock, warnings);
}

/// The rows of all buffers, each kind by time.
struct Rows {
    switches: Vec<Switch>,
    readies: Vec<Ready>,
    samples: Vec<Sample>,
    stacks: Vec<StackRecord>,
    definitions: Definitions,
    /// With the number of the chunk that has the payload.
    provider_events: Vec<(u32, ProviderEvent)>,
}

impl Rows {
    /// Takes the rows out of the chunks.
    fn take(chunks: &mut [Chunk]) -> Self {
        let switches = taken(chunks, |chunk| &mut chunk.switches);
        let readies = taken(chunks, |chunk| &mut chunk.readies);
        let samples = taken(chunks, |chunk| &mut chunk.samples);
        let stacks = taken(chunks, |chunk| &mut chunk.stacks);
        let definitions = taken(chunks, |chunk| &mut chunk.definitions);
        let events = taken(chunks, |chunk| &mut chunk.provider_events).into_iter().zip(0_u32..);
        let events: Vec<Vec<(u32, ProviderEvent)>> = events
            .map(|(events, chunk)| events.into_iter().map(|event| (chunk, event)).collect())
            .collect();
        // There are more stacks than anything else: they get a core of their own.
        let (stacks, (switches, readies, samples, definitions, provider_events)) = rayon::join(
            || by_time(stacks, |row| row.at),
            || {
                (
                    by_time(switches, |row| row.ticks),
                    by_time(readies, |row| row.ticks),
                    by_time(samples, |row| row.ticks),
                    Definitions::new(by_time(definitions, |row| row.at).into_iter()),
                    by_time(events, |(_, row)| row.ticks),
                )
            },
        );
        Self { switches, readies, samples, stacks, definitions, provider_events }
    }

    /// All threads that some event is about, each with the process that the first event to name one
    /// gives it; [`NOBODY`] if none does.
    fn threads(&self) -> FxHashMap<u32, u32> {
        let (scheduled, mut all) = rayon::join(
            || {
                let switched = self.switches.iter().flat_map(|row| [row.new_tid, row.old_tid]);
                let tids = switched.chain(self.readies.iter().map(|row| row.tid));
                tids.chain(self.samples.iter().map(|row| row.tid)).collect::<FxHashSet<u32>>()
            },
            || {
                let mut all: FxHashMap<u32, u32> = FxHashMap::default();
                let of_stacks = self.stacks.iter().map(|row| (row.tid, row.pid));
                let of_events = self.provider_events.iter().map(|(_, row)| (row.tid, row.pid));
                for (tid, pid) in of_stacks.chain(of_events) {
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
}

/// The events that name something, by time; those of equal times in the order of the file.
fn naming(chunks: &mut [Chunk]) -> Vec<Naming> {
    let mut all: Vec<Naming> =
        Vec::with_capacity(chunks.iter().map(|chunk| chunk.naming.len()).sum());
    chunks.iter_mut().for_each(|chunk| all.append(&mut chunk.naming));
    all.sort_by_key(|event| event.ticks);
    all
}

/// The rows of one kind, from each buffer.
fn taken<T>(chunks: &mut [Chunk], rows: impl Fn(&mut Chunk) -> &mut Vec<T>) -> Vec<Vec<T>> {
    chunks.iter_mut().map(|chunk| mem::take(rows(chunk))).collect()
}

/// Describes the file's kinds of events, and counts their events in the trace.
fn describe_kinds(
    table: &KindTable,
    rows: &Rows,
    naming: &[Naming],
    pointer_bytes: u8,
    trace: &mut Trace,
    warnings: &mut Warnings,
) -> Vec<Kind> {
    let mut kept = vec![false; table.kinds.len()];
    for (_, event) in &rows.provider_events {
        if let Some(kept) = kept.get_mut(event.kind as usize) {
            *kept = true;
        }
    }
    let mut catalogue = Catalogue::new(naming);
    let kinds = provider_events::kinds(table, &kept, &mut catalogue, pointer_bytes, trace);
    if catalogue.left_out > 0 {
        warnings.add(format!(
            "left out {} because the trace describes too many fields: events without a \
             description are shown as bytes",
            units::plural(catalogue.left_out, "event description")
        ));
    }
    for (kind, count) in kinds.iter().zip(&table.counts) {
        *trace.by_kind.entry(kind.name.clone()).or_default() += count;
    }
    kinds
}

/// Fills the trace's threads and processes; returns its processes by id.
fn name_tasks(
    rows: &Rows,
    naming: &[Naming],
    clock: Clock,
    pointer_bytes: u8,
    trace: &mut Trace,
    warnings: &mut Warnings,
) -> ProcessIndex {
    let threads = mem::replace(&mut trace.threads, Threads::new(NameId::EMPTY));
    let mentioned = rows.threads();
    let tasks = tasks::build(naming, &mentioned, clock, pointer_bytes, threads, &mut trace.strings);
    trace.threads = tasks.threads;
    if tasks.homeless > 0 {
        warnings.add(format!(
            "the trace names no process for {}",
            units::plural(tasks.homeless, "thread")
        ));
    }
    tasks.processes
}

/// The events that may have a stack, one list for each column.
struct Targets {
    switches: Vec<Target>,
    readies: Vec<Target>,
    samples: Vec<Target>,
    provider_events: Vec<Target>,
}

/// The stack of each of these events.
struct JoinedStacks {
    switches: Vec<Joined>,
    readies: Vec<Joined>,
    samples: Vec<Joined>,
    provider_events: Vec<Joined>,
}

impl Targets {
    fn new(rows: &Rows, chunks: &[Chunk], kinds: &[Kind]) -> Self {
        let (readies, (switches, samples, provider_events)) = rayon::join(
            || columns::targets_of_readies(&rows.readies, &rows.switches),
            || {
                let events = &rows.provider_events;
                let of_events = provider_events::targets(events, chunks, kinds, &rows.switches);
                (
                    columns::targets_of_switches(&rows.switches),
                    columns::targets_of_samples(&rows.samples),
                    of_events,
                )
            },
        );
        Self { switches, readies, samples, provider_events }
    }

    /// Finds the stack of each event. Frees the rows of stacks, which nothing needs afterwards.
    fn join(
        &self,
        rows: &mut Rows,
        parts: &Parts,
        pointer_bytes: u8,
        warnings: &mut Warnings,
    ) -> JoinedStacks {
        let is_kernel = |part: u32| {
            let first = parts.words(part).first();
            first.is_some_and(|avma| is_kernel_avma(*avma, usize::from(pointer_bytes)))
        };
        let columns = [&self.switches[..], &self.readies, &self.samples, &self.provider_events];
        let (records, definitions) =
            (mem::take(&mut rows.stacks), mem::take(&mut rows.definitions));
        let [switches, readies, samples, provider_events] =
            join::join(columns, &records, &definitions, is_kernel, warnings);
        JoinedStacks { switches, readies, samples, provider_events }
    }
}

fn warn_of_nameless_methods(nameless: usize, warnings: &mut Warnings) {
    match nameless {
        0 => {}
        1 => warnings.add(
            "1 .NET method was recorded without a name (MethodLoad, not MethodLoadVerbose): its \
             code is shown as addresses",
        ),
        count => warnings.add(format!(
            "{} .NET methods were recorded without names (MethodLoad, not MethodLoadVerbose): \
             their code is shown as addresses",
            units::count(count as u64)
        )),
    }
}

/// Fills the columns of switches, wake-ups and samples: their stacks on one core, the rest on
/// another.
fn fill_columns(
    rows: &Rows,
    targets: &Targets,
    joined: &JoinedStacks,
    settled: &Settled,
    stacks: &mut StackIndex<'_>,
    trace: &mut Trace,
) {
    let Rows { switches, readies, samples, .. } = rows;
    let threads = mem::replace(&mut trace.threads, Threads::new(NameId::EMPTY));
    let (stack_ids, columns) = rayon::join(
        || {
            let waits = columns::wait_stacks(switches, &joined.switches);
            let waits = waits
                .iter()
                .zip(switches)
                .map(|(joined, row)| stacks.stack(*joined, settled.clock.time(row.ticks), trace))
                .collect();
            let wakes = joined.readies.iter().zip(readies);
            let wakes = wakes
                .map(|(joined, row)| stacks.stack(*joined, settled.clock.time(row.ticks), trace))
                .collect();
            (waits, wakes, stacks.samples(samples, &joined.samples, settled, &threads, trace))
        },
        || {
            let wakings = columns::wakings(
                readies,
                &targets.readies,
                &joined.readies,
                switches,
                settled,
                &threads,
            );
            (columns::switches(switches, settled), wakings, columns::samples(samples, settled))
        },
    );
    trace.threads = threads;
    (trace.switches, trace.wakings, trace.samples) = columns;
    (trace.switches.stack, trace.wakings.stack, trace.samples.stack) = stack_ids;
}

/// Fills the facts about the machine.
fn describe_machine(naming: &[Naming], trace: &mut Trace) {
    for event in naming {
        match event.hook {
            hook::COMPUTER => {
                let name = event.payload.get(20..).map(|name| utf16_z(name).0).unwrap_or_default();
                if !name.is_empty() {
                    trace.meta.host = name;
                }
                let mib = u32_at(&event.payload, 8).unwrap_or(0);
                trace.meta.memory_bytes = u64::from(mib) << 20;
            }
            hook::BUILD_INFO => {
                let (lab, rest) = utf16_z(event.payload.get(8..).unwrap_or_default());
                let product = utf16_z(rest).0;
                if !product.is_empty() {
                    trace.meta.kernel = format!("{product}, build {lab}");
                }
            }
            // The interval is in units of 100 ns. The profiling timer is source 0.
            hook::SAMPLE_HOOKS_FIRST..=hook::SAMPLE_HOOKS_LAST => {
                let source = u32_at(&event.payload, 0);
                if let (Some(0), Some(interval)) = (source, u32_at(&event.payload, 4)) {
                    trace.meta.sample_period_ns = u64::from(interval) * 100;
                }
            }
            _ => {}
        }
    }
}
