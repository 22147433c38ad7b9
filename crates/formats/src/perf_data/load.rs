//! The loader: turns a `perf.data` into a [`Trace`].
//!
//! 1. Walk over the record headers, collect the side-band and cut the data into chunks
//!    ([`super::walk`]).
//! 2. Decode the chunks to rows on all cores ([`super::decode`]).
//! 3. Resolve the threads and addresses of the rows with the side-band ([`super::tasks`],
//!    [`super::space`]).
//! 4. Sort the rows of each kind by time and turn them into the trace's columns.
//!
//! The file's pages are released chunk by chunk, so that the rows replace the file in memory
//! instead of adding to it.

use super::{
    attr::flag,
    coverage::{self, Covered},
    decode::Decoder,
    events::Events,
    expand,
    feature::FileDescription,
    header::Header,
    record::kind,
    resolve::{self, StackOverTime},
    rows::{Contention, KeptWait, Placement, Row, Rows, Sample, Switch, Waking},
    side_band::{self, Timed},
    space::Spaces,
    stack_table::StackTable,
    tasks::{self, Hints},
    walk::{self, Walker},
};
use crate::{Error, ring, thread_index::ThreadIndex};
use rayon::prelude::*;
use std::{borrow::Cow, mem};
use unhitch_model::{
    ContentionKind, Contentions, Format, Meta, Placements, Samples, StackId, Switches, ThreadId,
    Threads, Time, Trace, Wakings, Warnings, units,
};

/// Reads a whole file. `release` is called with each part of `bytes` that is no longer needed, or
/// only seldom.
pub(crate) fn load(bytes: &[u8], release: &(dyn Fn(&[u8]) + Sync)) -> Result<Trace, Error> {
    load_with_rings(bytes, None, release)
}

/// Reads a whole file and the [`ring`]s that were recorded with it.
pub(crate) fn load_with_rings(
    bytes: &[u8],
    rings: Option<&[u8]>,
    release: &(dyn Fn(&[u8]) + Sync),
) -> Result<Trace, Error> {
    let mut warnings = Warnings::default();
    let mut rings = rings.map(|rings| ring::decode(rings, &mut warnings));
    let Header { mut about, data } = Header::read(bytes, &mut warnings)?;
    let mut data = Cow::Borrowed(data);
    if walk::read_prologue(&data, &mut about, &mut warnings) {
        data = Cow::Owned(expand::expand(&data, &mut warnings));
        release(bytes);
    }
    let mut walker = Walker::new(&data);
    let events = Events::new(&about, &mut warnings);
    if events.list().is_empty() {
        return Err(Error::Unsupported(
            "the perf.data describes no events; without them no record can be read".to_owned(),
        ));
    }
    let mut decoders = decode_all(&events, &mut walker, release);
    let rows = rings.as_mut().map(|rings| mem::take(&mut rings.rows));
    if let (Some(rings), Some(rows)) = (&rings, rows) {
        decoders.push(Decoder::of_rings(&events, rows, rings));
    }
    let mut trace = assemble(&about, &events, walker, decoders, warnings, release);
    for (kind, count) in rings.iter().flat_map(|rings| &rings.counts) {
        trace.by_kind.insert((*kind).to_owned(), *count);
    }
    Ok(trace)
}

/// Decodes the chunks on all cores. Each core takes the next chunk when it is free, walks it, and
/// decodes it while it is still in the core's cache.
fn decode_all<'a>(
    events: &'a Events,
    walker: &mut Walker<'a>,
    release: &(dyn Fn(&[u8]) + Sync),
) -> Vec<Decoder<'a>> {
    let chunks = walker.enumerate().par_bridge();
    chunks
        .fold(
            || Decoder::new(events),
            |mut decoder, (index, chunk)| {
                decoder.decode(index, chunk);
                release(chunk);
                decoder
            },
        )
        .collect()
}

fn assemble<'a>(
    about: &FileDescription,
    events: &Events,
    walker: Walker<'a>,
    decoders: Vec<Decoder<'a>>,
    mut warnings: Warnings,
    release: &(dyn Fn(&[u8]) + Sync),
) -> Trace {
    if let Some(damage) = walker.damage() {
        warnings.add(damage);
    }
    let mut side_band: Vec<Timed<'_>> =
        walker.side_band.iter().filter_map(|record| side_band::read(record, events)).collect();
    if side_band.len() < walker.side_band.len() {
        warnings.add(format!(
            "left out {} other than samples",
            units::plural((walker.side_band.len() - side_band.len()) as u64, "damaged record")
        ));
    }
    side_band.sort_by_key(|timed| timed.time);

    let mut trace = Trace { meta: meta(about, events), ..Trace::default() };
    trace.by_kind = walker.counts.iter().map(|(kind, count)| (kind::name(*kind), *count)).collect();
    let mut merged = merge(decoders, events, &mut trace, &mut warnings);

    let mut build_ids = about.build_ids.clone();
    build_ids.extend(walker.build_ids.build_ids);
    let mut spaces = Spaces::new(&side_band, &build_ids, &mut trace);
    let stacks = resolve::resolve(&merged.stacks, &mut spaces, &mut trace);
    drop((spaces, mem::replace(&mut merged.stacks, StackTable::new())));
    release(walker.data);

    let threads = mem::replace(&mut trace.threads, Threads::new(unhitch_model::NameId::EMPTY));
    trace.threads = tasks::build(threads, &mut trace.strings, &side_band, merged.hints);
    let columns = Columns { threads: ThreadIndex::new(&trace.threads), stacks };
    fill(&mut trace, merged.rows, &columns);

    let backward = about.events.iter().any(|event| event.attr.has(flag::WRITE_BACKWARD));
    trace.spans = merged.covered.spans(backward);
    trace.meta.buffers = trace.spans.len() as u64;
    trace.losses = coverage::losses(&side_band, &trace, &mut warnings);
    trace.warnings = warnings;
    trace
}

fn meta(about: &FileDescription, events: &Events) -> Meta {
    let features = &about.features;
    Meta {
        format: Format::PerfData,
        host: features.host.clone(),
        kernel: features.kernel.clone(),
        arch: features.arch.clone(),
        cpus: u16::try_from(features.cpus_online).unwrap_or(u16::MAX),
        memory_bytes: features.memory_kib.saturating_mul(1024),
        epoch_ns: features
            .clock_id
            .map(|clock| i128::from(clock.wall_ns) - i128::from(clock.clock_ns)),
        sample_period_ns: events.sample_period_ns,
        producer: features.producer.clone(),
        ..Meta::default()
    }
}

/// What all chunks hold.
struct Merged<'a> {
    rows: Rows,
    stacks: StackTable<'a>,
    hints: Hints,
    covered: Covered,
}

fn merge<'a>(
    decoders: Vec<Decoder<'a>>,
    events: &Events,
    trace: &mut Trace,
    warnings: &mut Warnings,
) -> Merged<'a> {
    let (stacks, numbers) =
        StackTable::union(&decoders.iter().map(|decoder| &decoder.stacks).collect::<Vec<_>>());
    let mut hints = Hints::default();
    let mut covered = Covered::default();
    let mut counts = vec![0; events.list().len() + 1];
    let mut damaged = 0;
    let mut chunks = Vec::new();
    for (decoder, numbers) in decoders.into_iter().zip(&numbers) {
        chunks.extend(
            decoder.chunks.into_iter().map(|(index, rows)| (index, rows, numbers.as_slice())),
        );
        hints.names.extend(decoder.hints.names);
        hints.owners.extend(decoder.hints.owners);
        hints.lives.extend(decoder.hints.lives);
        covered.add(&decoder.covered);
        counts.iter_mut().zip(&decoder.counts).for_each(|(sum, count)| *sum += count);
        damaged += decoder.damaged;
    }
    chunks.sort_unstable_by_key(|(index, ..)| *index);
    if damaged > 0 {
        warnings.add(format!("left out {}", units::plural(damaged, "damaged sample")));
    }
    let names =
        events.list().iter().map(|event| event.name.as_str()).chain(["SAMPLE of an unknown event"]);
    for (name, count) in names.zip(counts).filter(|(_, count)| *count > 0) {
        *trace.by_kind.entry(name.to_owned()).or_default() += count;
    }
    Merged { rows: sort_all(chunks), stacks, hints, covered }
}

/// The rows of each chunk, with the numbers that the chunk's stacks have in the whole file.
type Chunks<'a, T> = Vec<(Vec<Row<T>>, &'a [u32])>;

fn sort_all(chunks: Vec<(usize, Rows, &[u32])>) -> Rows {
    let (mut switches, mut wakings, mut samples) = (Chunks::new(), Chunks::new(), Chunks::new());
    let (mut arrivals, mut migrations, mut contentions) =
        (Chunks::new(), Chunks::new(), Chunks::new());
    let mut kept_waits = Vec::new();
    for (_, rows, numbers) in chunks {
        switches.push((rows.switches, numbers));
        wakings.push((rows.wakings, numbers));
        samples.push((rows.samples, numbers));
        arrivals.push((rows.arrivals, numbers));
        migrations.push((rows.migrations, numbers));
        contentions.push((rows.contentions, numbers));
        kept_waits.extend(rows.kept_waits);
    }
    let (arrivals, migrations) = (sorted(arrivals), sorted(migrations));
    let (switches, (wakings, (samples, contentions))) = rayon::join(
        || sorted(switches),
        || rayon::join(|| sorted(wakings), || (sorted(samples), sorted(contentions))),
    );
    let mut rows =
        Rows { switches, wakings, samples, arrivals, migrations, contentions, kept_waits };
    identify_exiting(&mut rows.samples, &rows.switches);
    rows
}

/// One list by time. Each CPU's own rows are in order already, so laid out by CPU they form a few
/// long runs, which a merge sort handles fast.
fn sorted<T: Copy + Default>(chunks: Chunks<'_, T>) -> Vec<Row<T>> {
    let mut next = Vec::new();
    for row in chunks.iter().flat_map(|(rows, _)| rows) {
        let cpu = usize::from(row.cpu);
        if next.len() <= cpu {
            next.resize(cpu + 1, 0);
        }
        next[cpu] += 1;
    }
    let mut len = 0;
    for rows_of_cpu in &mut next {
        len += mem::replace(rows_of_cpu, len);
    }
    let mut all = vec![Row::default(); len];
    for (rows, stacks) in chunks {
        for row in rows {
            let at = &mut next[usize::from(row.cpu)];
            all[*at] = Row { stack: stacks[row.stack as usize], ..row };
            *at += 1;
        }
    }
    all.sort_by_key(|row| row.time);
    all
}

/// Gives samples of exiting threads, which have no id any more, the thread that was on the CPU by
/// the switches.
fn identify_exiting(samples: &mut [Row<Sample>], switches: &[Row<Switch>]) {
    if samples.iter().all(|row| row.of.tid != u32::MAX) {
        return;
    }
    let mut current = rustc_hash::FxHashMap::default();
    let mut switches = switches.iter().peekable();
    for sample in samples {
        while let Some(switch) = switches.next_if(|switch| switch.time <= sample.time) {
            current.insert(switch.cpu, switch.of.next);
        }
        if sample.of.tid == u32::MAX {
            sample.of.tid = current.get(&sample.cpu).copied().unwrap_or(0);
        }
    }
}

/// Converts the rows' thread ids and stack numbers to the trace's.
struct Columns {
    threads: ThreadIndex,
    stacks: Vec<StackOverTime>,
}

impl Columns {
    #[inline]
    fn thread(&self, tid: u32, time: Time) -> ThreadId {
        if tid == 0 { ThreadId::IDLE } else { self.threads.at(tid, time) }
    }

    #[inline]
    fn stack<T>(&self, row: &Row<T>) -> StackId {
        self.stacks
            .get(row.stack as usize)
            .map_or(StackId::EMPTY, |stack| stack.at(Time::from_nanos(row.time)))
    }
}

fn fill(trace: &mut Trace, rows: Rows, columns: &Columns) {
    (trace.arrivals, trace.migrations) =
        (placements(&rows.arrivals, columns), placements(&rows.migrations, columns));
    trace.kept_waits = kept_waits(rows.kept_waits, columns);
    let (switches, (wakings, (samples, contentions))) = rayon::join(
        || switches(rows.switches, columns),
        || {
            rayon::join(
                || wakings(rows.wakings, columns),
                || (samples(rows.samples, columns), contentions(rows.contentions, columns)),
            )
        },
    );
    (trace.switches, trace.wakings, trace.samples, trace.contentions) =
        (switches, wakings, samples, contentions);
}

fn kept_waits(rows: Vec<Row<KeptWait>>, columns: &Columns) -> Vec<unhitch_model::KeptWait> {
    let mut out: Vec<unhitch_model::KeptWait> = rows
        .iter()
        .map(|row| {
            let time = Time::from_nanos(row.time);
            unhitch_model::KeptWait {
                thread: columns.thread(row.of.tid, time),
                time,
                syscall: u16::try_from(row.of.syscall).ok(),
                arguments: row.of.arguments,
                kernel_lock_avma: (row.of.kernel_lock != 0).then_some(row.of.kernel_lock),
                owner: (row.of.owner != 0).then(|| columns.thread(row.of.owner, time)),
            }
        })
        .collect();
    out.sort_unstable_by_key(|wait| (wait.thread, wait.time));
    out
}

fn switches(rows: Vec<Row<Switch>>, columns: &Columns) -> Switches {
    let mut out = Switches::with_capacity(rows.len());
    for row in &rows {
        let time = Time::from_nanos(row.time);
        out.push(unhitch_model::Switch {
            time,
            cpu: row.cpu,
            prev: columns.thread(row.of.prev, time),
            next: columns.thread(row.of.next, time),
            prev_state: row.of.prev_state,
            prev_reason: None,
            prev_prio: row.of.prev_prio,
            next_prio: row.of.next_prio,
            stack: columns.stack(row),
        });
    }
    out
}

fn wakings(rows: Vec<Row<Waking>>, columns: &Columns) -> Wakings {
    let mut out = Wakings::with_capacity(rows.len());
    for row in &rows {
        let time = Time::from_nanos(row.time);
        out.push(unhitch_model::Waking {
            time,
            cpu: row.cpu,
            waker: columns.thread(row.of.waker, time),
            wakee: columns.thread(row.of.wakee, time),
            target_cpu: row.of.target_cpu,
            flags: row.of.flags,
            stack: columns.stack(row),
        });
    }
    out
}

fn samples(rows: Vec<Row<Sample>>, columns: &Columns) -> Samples {
    let mut out = Samples::with_capacity(rows.len());
    for row in &rows {
        let time = Time::from_nanos(row.time);
        out.push(unhitch_model::Sample {
            time,
            cpu: row.cpu,
            thread: columns.thread(row.of.tid, time),
            stack: columns.stack(row),
            in_interrupt: None,
        });
    }
    out
}

fn placements(rows: &[Row<Placement>], columns: &Columns) -> Placements {
    let mut out = Placements::with_capacity(rows.len());
    for row in rows {
        let time = Time::from_nanos(row.time);
        let thread = columns.thread(row.of.tid, time);
        out.push(unhitch_model::Placement { time, cpu: row.cpu, thread });
    }
    out
}

fn contentions(rows: Vec<Row<Contention>>, columns: &Columns) -> Contentions {
    let mut out = Contentions::with_capacity(rows.len());
    for row in &rows {
        let time = Time::from_nanos(row.time);
        out.push(unhitch_model::Contention {
            time,
            thread: columns.thread(row.of.tid, time),
            kind: if row.of.end { ContentionKind::End } else { ContentionKind::Begin },
            lock_avma: row.of.lock_avma,
            flags: row.of.flags,
            stack: columns.stack(row),
        });
    }
    out
}
