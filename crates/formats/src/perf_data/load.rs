//! The loader: turns a `perf.data` into a [`Trace`].
//!
//! 1. Walk over the record headers, collect the side-band and cut the data into chunks
//!    ([`super::walk`]).
//! 2. Decode the chunks to rows on all cores ([`super::decode`]).
//! 3. Resolve the threads and addresses of the rows with the side-band ([`super::tasks`],
//!    [`super::space`]).
//! 4. Sort the rows of each kind by time, and turn them into the trace's columns ([`super::columns`]),
//!    together with what [rings](crate::ring) hold.
//!
//! The file's pages are released chunk by chunk, so that the rows replace the file in memory
//! instead of adding to it.

use super::{
    attr::flag,
    columns::{self, Columns, Replayed},
    coverage::{self, Covered},
    decode::Decoder,
    events::Events,
    expand,
    feature::FileDescription,
    header::Header,
    record::kind,
    resolve,
    rows::{Row, Rows, Sample, Switch},
    side_band::{self, Timed},
    space::Spaces,
    stack_table::StackTable,
    tasks::{self, Hints},
    walk::{self, Walker},
};
use crate::{
    Error,
    ring::{self, replay::Replay},
    scope::Scope,
    scripts::{ScriptFile, Scripts},
    thread_index::ThreadIndex,
};
use rayon::prelude::*;
use std::{borrow::Cow, mem};
use unhitch_model::{
    Format, Meta, Origin, Threads, Time, Trace, Warnings, linux::CLOCK_MONOTONIC, units,
};

/// Reads a whole file. `release` is called with each part of `bytes` that is no longer needed, or
/// only seldom.
pub(crate) fn load(bytes: &[u8], release: &(dyn Fn(&[u8]) + Sync)) -> Result<Trace, Error> {
    Parts { bytes, ..Parts::default() }.load(release)
}

/// A file, and what is kept beside it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Parts<'a> {
    /// The file.
    pub(crate) bytes: &'a [u8],
    /// The [`ring`]s that were recorded with it.
    pub(crate) rings: Option<&'a [u8]>,
    /// A file that describes the events of this one, in case the recording was interrupted.
    pub(crate) description: Option<&'a [u8]>,
    /// The functions of the scripts in its stacks.
    pub(crate) scripts: Option<&'a ScriptFile>,
    /// How much of the rings is read.
    pub(crate) scope: Scope,
}

impl Parts<'_> {
    /// Reads the file.
    pub(crate) fn load(self, release: &(dyn Fn(&[u8]) + Sync)) -> Result<Trace, Error> {
        let mut warnings = Warnings::default();
        let Header { mut about, data } = self.header(&mut warnings)?;
        let mut data = Cow::Borrowed(data);
        if walk::read_prologue(&data, &mut about, &mut warnings) {
            data = Cow::Owned(expand::expand(&data, &mut warnings));
            release(self.bytes);
        }
        let mut walker = Walker::new(&data);
        let events = Events::new(&about, &mut warnings);
        if events.list().is_empty() {
            return Err(Error::Unsupported(
                "the perf.data describes no events; without them no record can be read".to_owned(),
            ));
        }
        let mut decoders = decode_all(&events, &mut walker, release);
        let parts: Vec<&[u8]> = walker.rings.drain(..).chain(self.rings).collect();
        let mut rings =
            (!parts.is_empty()).then(|| ring::decode(&parts, self.scope, &mut warnings));
        let rows = rings.as_mut().map(|rings| mem::take(&mut rings.rows));
        if let (Some(rings), Some(rows)) = (&rings, rows) {
            decoders.push(Decoder::of_rings(&events, rows, rings));
        }
        let scripts = self.scripts.map(Scripts::new).unwrap_or_default();
        let replay = rings.as_ref().map(|rings| &rings.replay);
        let read = Read { walker, decoders, replay, scripts };
        let mut trace = assemble(&about, &events, read, warnings, release);
        if let Some(mut rings) = rings {
            trace.meta.notes_facts = true;
            if rings.since > 0 {
                trace.meta.newest_from = Some(Time::from_nanos(rings.since));
                let first = rings.covered.iter().map(|(first, _)| *first).min();
                let first = Time::from_nanos(first.unwrap_or_default());
                trace.meta.origin = Origin::At(trace.extent().start.min(first));
            }
            coverage::add_gaps(&rings.gaps, &mut trace);
            trace.meta.clock_id = Some(CLOCK_MONOTONIC);
            let owned = |(kind, count): (&str, u64)| (kind.to_owned(), count);
            trace.by_kind.extend(rings.counts.into_iter().map(owned));
            rings.stack_counts.extend(rings.replay.stack_counts());
            trace.stack_counts.extend(rings.stack_counts.into_iter().map(owned));
        }
        Ok(trace)
    }

    /// The file's header; what it lacks because the recording was interrupted comes from the
    /// description.
    fn header(&self, warnings: &mut Warnings) -> Result<Header<'_>, Error> {
        let Some(description) = self.description else {
            return Header::read(self.bytes, warnings);
        };
        let header = Header::read(self.bytes, &mut Warnings::default())?;
        Ok(Header { about: Header::read(description, warnings)?.about, data: header.data })
    }
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

/// What a trace is assembled from.
struct Read<'a> {
    walker: Walker<'a>,
    decoders: Vec<Decoder<'a>>,
    replay: Option<&'a Replay<'a>>,
    scripts: Scripts<'a>,
}

fn assemble(
    about: &FileDescription,
    events: &Events,
    read: Read<'_>,
    mut warnings: Warnings,
    release: &(dyn Fn(&[u8]) + Sync),
) -> Trace {
    let Read { walker, decoders, replay, scripts } = read;
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
    let stacks = resolve::resolve(&merged.stacks, &mut spaces, scripts, &mut trace);
    spaces.warn(&mut warnings);
    trace.address_spaces = spaces.into_address_spaces();
    drop(mem::replace(&mut merged.stacks, StackTable::new()));
    release(walker.data);

    let threads = mem::replace(&mut trace.threads, Threads::new(unhitch_model::NameId::EMPTY));
    trace.threads = tasks::build(threads, &mut trace.strings, &side_band, merged.hints);
    let of_trace = Columns { threads: ThreadIndex::new(&trace.threads), stacks };
    let none = Replay::default();
    let replay = Replayed { of: replay.unwrap_or(&none), numbers: &merged.of_chains };
    columns::fill(&mut trace, merged.rows, replay, &of_trace);

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
        clock_id: clock_id(about),
        epoch_ns: features
            .clock_id
            .map(|clock| i128::from(clock.wall_ns) - i128::from(clock.clock_ns)),
        sample_period_ns: events.sample_period_ns,
        producer: features.producer.clone(),
        ..Meta::default()
    }
}

/// The clock of the file's times, as far as it says so.
fn clock_id(about: &FileDescription) -> Option<u32> {
    let mut chosen = about.events.iter().filter(|event| event.attr.has(flag::USE_CLOCKID));
    let of_events = || u32::try_from(chosen.next()?.attr.clockid).ok();
    about.features.clock_id.map(|clock| clock.clockid).or_else(of_events)
}

/// What all chunks hold.
struct Merged<'a> {
    rows: Rows,
    stacks: StackTable<'a>,
    /// The stacks of the rings' chains.
    of_chains: Vec<u32>,
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
    let (mut chunks, mut of_chains) = (Vec::new(), Vec::new());
    for (decoder, numbers) in decoders.into_iter().zip(&numbers) {
        of_chains.extend(decoder.of_chains.iter().map(|stack| numbers[*stack as usize]));
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
    Merged { rows: sort_all(chunks), stacks, of_chains, hints, covered }
}

/// The rows of each chunk, with the numbers that the chunk's stacks have in the whole file.
type Chunks<'a, T> = Vec<(Vec<Row<T>>, &'a [u32])>;

fn sort_all(chunks: Vec<(usize, Rows, &[u32])>) -> Rows {
    let (mut switches, mut wakings, mut samples) = (Chunks::new(), Chunks::new(), Chunks::new());
    let (mut arrivals, mut migrations, mut contentions) =
        (Chunks::new(), Chunks::new(), Chunks::new());
    let (mut kept_waits, mut kept_wakes) = (Vec::new(), Vec::new());
    let (mut earlier_waits, mut facts) = (Chunks::new(), Chunks::new());
    for (_, rows, numbers) in chunks {
        switches.push((rows.switches, numbers));
        wakings.push((rows.wakings, numbers));
        samples.push((rows.samples, numbers));
        arrivals.push((rows.arrivals, numbers));
        migrations.push((rows.migrations, numbers));
        contentions.push((rows.contentions, numbers));
        kept_waits.extend(rows.kept_waits);
        kept_wakes.extend(rows.kept_wakes);
        earlier_waits.push((rows.earlier_waits, numbers));
        facts.push((rows.facts, numbers));
    }
    let (arrivals, migrations) = (sorted(arrivals), sorted(migrations));
    let (switches, (wakings, (samples, contentions))) = rayon::join(
        || sorted(switches),
        || rayon::join(|| sorted(wakings), || (sorted(samples), sorted(contentions))),
    );
    let (earlier_waits, facts) = (sorted(earlier_waits), sorted(facts));
    let mut rows = Rows {
        switches,
        wakings,
        samples,
        arrivals,
        migrations,
        contentions,
        kept_waits,
        kept_wakes,
        earlier_waits,
        facts,
    };
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
