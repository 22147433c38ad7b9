//! The loader: a `perf.data` to a [`Trace`].
//!
//! 1. A walk over the record headers sorts out the side-band and cuts the data into chunks
//!    ([`super::walk`]).
//! 2. The chunks are decoded to rows on all cores ([`super::decode`]).
//! 3. What rows say of threads and addresses is settled with the side-band ([`super::tasks`],
//!    [`super::space`]).
//! 4. The rows of each kind are sorted by time and become the trace's columns.
//!
//! The file's pages are let go chunk by chunk, so that rows take the place of the file in memory
//! instead of joining it.

use super::{
    attr::flag,
    coverage::{self, Covered},
    decode::{Contention, Decoder, Placement, Row, Rows, Sample, Switch, Waking},
    events::Events,
    expand,
    feature::About,
    header::Header,
    record::kind,
    resolve::{self, Resolved},
    side_band::{self, Timed},
    space::Spaces,
    stack_table::StackTable,
    tasks::{self, Hints, ThreadIndex},
    walk::{self, Walker},
};
use crate::Error;
use rayon::prelude::*;
use std::{borrow::Cow, mem};
use unhitch_model::{
    ContentionKind, Contentions, Format, Meta, Placements, Samples, StackId, Switches, ThreadId,
    Threads, Time, Trace, Wakings, Warnings,
};

/// Reads a whole file. `release` is told which parts of `bytes` are not needed any more, or seldom.
pub(crate) fn load(bytes: &[u8], release: &(dyn Fn(&[u8]) + Sync)) -> Result<Trace, Error> {
    let mut warnings = Warnings::default();
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
            "the perf.data names no events: without them no record can be read".to_owned(),
        ));
    }
    let decoders = decode_all(&events, &mut walker, release);
    Ok(assemble(&about, &events, walker, decoders, warnings, release))
}

/// Whichever core is free takes the next chunk: it walks it and decodes it while it is in its
/// cache.
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
    about: &About,
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
            "{} records beside the samples are damaged and were left out",
            walker.side_band.len() - side_band.len()
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

fn meta(about: &About, events: &Events) -> Meta {
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

/// All chunks together.
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
        warnings.add(format!("{damaged} samples are damaged and were left out"));
    }
    let names =
        events.list().iter().map(|event| event.name.as_str()).chain(["SAMPLE of no known event"]);
    for (name, count) in names.zip(counts).filter(|(_, count)| *count > 0) {
        *trace.by_kind.entry(name.to_owned()).or_default() += count;
    }
    Merged { rows: sort_all(chunks), stacks, hints, covered }
}

/// Rows with the numbers that their stacks have in the whole file.
type Chunks<'a, T> = Vec<(Vec<Row<T>>, &'a [u32])>;

fn sort_all(chunks: Vec<(usize, Rows, &[u32])>) -> Rows {
    let (mut switches, mut wakings, mut samples) = (Chunks::new(), Chunks::new(), Chunks::new());
    let (mut arrivals, mut migrations, mut contentions) =
        (Chunks::new(), Chunks::new(), Chunks::new());
    for (_, rows, numbers) in chunks {
        switches.push((rows.switches, numbers));
        wakings.push((rows.wakings, numbers));
        samples.push((rows.samples, numbers));
        arrivals.push((rows.arrivals, numbers));
        migrations.push((rows.migrations, numbers));
        contentions.push((rows.contentions, numbers));
    }
    let (arrivals, migrations) = (sorted(arrivals), sorted(migrations));
    let (switches, (wakings, (samples, contentions))) = rayon::join(
        || sorted(switches),
        || rayon::join(|| sorted(wakings), || (sorted(samples), sorted(contentions))),
    );
    let mut rows = Rows { switches, wakings, samples, arrivals, migrations, contentions };
    place_exiting(&mut rows.samples, &rows.switches);
    rows
}

/// One list by time. A CPU's own rows are in order already: laid out by CPU they are a few long
/// runs, which a merging sort likes.
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

/// A thread that is exiting has no id any more when it is sampled; the switches tell who was on the
/// CPU.
fn place_exiting(samples: &mut [Row<Sample>], switches: &[Row<Switch>]) {
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

/// What turns rows into columns.
struct Columns {
    threads: ThreadIndex,
    stacks: Vec<Resolved>,
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

fn switches(rows: Vec<Row<Switch>>, columns: &Columns) -> Switches {
    let len = rows.len();
    let mut out = Switches {
        time: Vec::with_capacity(len),
        cpu: Vec::with_capacity(len),
        prev: Vec::with_capacity(len),
        next: Vec::with_capacity(len),
        prev_state: Vec::with_capacity(len),
        prev_reason: Vec::new(),
        prev_prio: Vec::with_capacity(len),
        next_prio: Vec::with_capacity(len),
        stack: Vec::with_capacity(len),
    };
    for row in &rows {
        let time = Time::from_nanos(row.time);
        out.time.push(time);
        out.cpu.push(row.cpu);
        out.prev.push(columns.thread(row.of.prev, time));
        out.next.push(columns.thread(row.of.next, time));
        out.prev_state.push(row.of.prev_state);
        out.prev_prio.push(row.of.prev_prio);
        out.next_prio.push(row.of.next_prio);
        out.stack.push(columns.stack(row));
    }
    out
}

fn wakings(rows: Vec<Row<Waking>>, columns: &Columns) -> Wakings {
    let len = rows.len();
    let mut out = Wakings {
        time: Vec::with_capacity(len),
        cpu: Vec::with_capacity(len),
        waker: Vec::with_capacity(len),
        wakee: Vec::with_capacity(len),
        target_cpu: Vec::with_capacity(len),
        flags: Vec::with_capacity(len),
        stack: Vec::with_capacity(len),
    };
    for row in &rows {
        let time = Time::from_nanos(row.time);
        out.time.push(time);
        out.cpu.push(row.cpu);
        out.waker.push(columns.thread(row.of.waker, time));
        out.wakee.push(columns.thread(row.of.wakee, time));
        out.target_cpu.push(row.of.target_cpu);
        out.flags.push(row.of.flags);
        out.stack.push(columns.stack(row));
    }
    out
}

fn samples(rows: Vec<Row<Sample>>, columns: &Columns) -> Samples {
    let mut out = Samples::default();
    for row in &rows {
        let time = Time::from_nanos(row.time);
        out.time.push(time);
        out.cpu.push(row.cpu);
        out.thread.push(columns.thread(row.of.tid, time));
        out.stack.push(columns.stack(row));
    }
    out
}

fn placements(rows: &[Row<Placement>], columns: &Columns) -> Placements {
    let mut out = Placements::default();
    for row in rows {
        let time = Time::from_nanos(row.time);
        out.time.push(time);
        out.cpu.push(row.cpu);
        out.thread.push(columns.thread(row.of.tid, time));
    }
    out
}

fn contentions(rows: Vec<Row<Contention>>, columns: &Columns) -> Contentions {
    let mut out = Contentions::default();
    for row in &rows {
        let time = Time::from_nanos(row.time);
        out.time.push(time);
        out.thread.push(columns.thread(row.of.tid, time));
        out.kind.push(if row.of.end { ContentionKind::End } else { ContentionKind::Begin });
        out.lock_avma.push(row.of.lock_avma);
        out.flags.push(row.of.flags);
        out.stack.push(columns.stack(row));
    }
    out
}
