//! The loader: turns a `perf.data` into a [`Trace`].
//!
//! 1. Walk over the record headers, collect the side-band and cut the data into chunks
//!    ([`super::walk`]).
//! 2. Decode the chunks to rows on all cores ([`super::decode`]).
//! 3. Resolve the threads and addresses of the rows with the side-band ([`super::tasks`],
//!    [`super::space`]).
//! 4. Sort the rows of each kind by time, merge them with what [rings](crate::ring) hold, and turn them
//!    into the trace's columns.
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
    merge::Merge,
    record::kind,
    resolve::{self, StackOverTime},
    rows::{
        self, Contention, Fact, KeptWait, KeptWake, Placement, Row, Rows, Sample, Switch, Waking,
    },
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
use std::{borrow::Cow, iter, mem, vec};
use unhitch_model::{
    ContentionKind, Contentions, Format, Meta, Placements, ProcessId, Samples, StackId, Strings,
    Switches, ThreadId, Threads, Time, Trace, Wakings, Warnings, linux::CLOCK_MONOTONIC, units,
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
    let columns = Columns { threads: ThreadIndex::new(&trace.threads), stacks };
    let none = Replay::default();
    let replay = Replayed { of: replay.unwrap_or(&none), numbers: &merged.of_chains };
    fill(&mut trace, merged.rows, replay, &columns);

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

/// Switches and wake-ups of rings, and the stacks of their chains.
#[derive(Clone, Copy)]
struct Replayed<'a> {
    of: &'a Replay<'a>,
    numbers: &'a [u32],
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

/// Number of threads that are remembered, by the low bits of their id.
const SEEN: usize = 256;

/// Looks threads up, and remembers those that have one incarnation only. *Why:* a few threads have
/// nearly all events.
struct Seen<'c> {
    columns: &'c Columns,
    known: Box<[(u32, ThreadId)]>,
}

impl<'c> Seen<'c> {
    fn new(columns: &'c Columns) -> Self {
        // Id 0 is the idle thread's, whatever place it would have.
        Self { columns, known: vec![(0, ThreadId::IDLE); SEEN].into() }
    }

    #[inline]
    fn thread(&mut self, tid: u32, time: Time) -> ThreadId {
        let known = &mut self.known[tid as usize % SEEN];
        if known.0 != tid {
            let found = self.columns.thread(tid, time);
            if !self.columns.threads.is_only(tid) {
                return found;
            }
            *known = (tid, found);
        }
        known.1
    }
}

fn fill(trace: &mut Trace, rows: Rows, replay: Replayed<'_>, columns: &Columns) {
    (trace.arrivals, trace.migrations) =
        (placements(&rows.arrivals, columns), placements(&rows.migrations, columns));
    trace.kept_waits = kept_waits(rows.kept_waits, columns, &trace.threads, &mut trace.strings);
    trace.kept_wakes = kept_wakes(&rows.kept_wakes, columns);
    trace.earlier_waits = earlier_waits(&rows.earlier_waits, columns);
    if !rows.facts.is_empty() {
        add_facts(trace, &rows.facts, columns);
    }
    let (switches, (wakings, (samples, contentions))) = rayon::join(
        || switches(rows.switches, replay, columns),
        || {
            rayon::join(
                || wakings(rows.wakings, replay, columns),
                || (samples(rows.samples, columns), contentions(rows.contentions, columns)),
            )
        },
    );
    (trace.switches, trace.wakings, trace.samples, trace.contentions) =
        (switches, wakings, samples, contentions);
    mark_over_budget(trace);
}

/// Waits without a stack, of which the recorder noted why.
fn mark_over_budget(trace: &mut Trace) {
    let switches = &mut trace.switches;
    for wait in trace.kept_waits.iter().filter(|wait| wait.is_over_budget) {
        let first = switches.time.partition_point(|time| *time < wait.time);
        let same_time = switches.time[first..].iter().take_while(|time| **time == wait.time);
        for at in first..first + same_time.count() {
            if switches.prev[at] == wait.thread && switches.stack[at].is_empty() {
                switches.stack[at] = StackId::OVER_BUDGET;
            }
        }
    }
}

fn add_facts(trace: &mut Trace, facts: &[Row<Fact>], columns: &Columns) {
    let nobody = trace.strings.intern("an interrupt, or not known");
    let nobody = trace.threads.unknown_of(ProcessId::UNKNOWN, nobody);
    ring::facts::add(trace, facts, |row| {
        let thread = columns.thread(row.of.tid, Time::from_nanos(row.time));
        (if row.of.tid == 0 { nobody } else { thread }, columns.stack(row))
    });
}

fn kept_waits(
    rows: Vec<Row<KeptWait>>,
    columns: &Columns,
    threads: &Threads,
    strings: &mut Strings,
) -> Vec<unhitch_model::KeptWait> {
    let mut out: Vec<unhitch_model::KeptWait> = rows
        .iter()
        .map(|row| {
            let time = Time::from_nanos(row.time);
            let thread = columns.thread(row.of.tid, time);
            unhitch_model::KeptWait {
                thread,
                time,
                syscall: u16::try_from(row.of.syscall).ok(),
                arguments: row.of.arguments,
                kernel_lock_avma: (row.of.kernel_lock != 0).then_some(row.of.kernel_lock),
                owner: Some(columns.thread(row.of.owner, time))
                    .filter(|owner| can_own(*owner, thread, &row.of, threads)),
                is_owner_at_return: row.of.is_owner_at_return,
                is_over_budget: row.of.is_over_budget,
                descriptor: row.of.descriptor.as_ref().map(|of| Box::new(descriptor(of, strings))),
            }
        })
        .collect();
    out.sort_unstable_by_key(|wait| (wait.thread, wait.time));
    out
}

fn kept_wakes(rows: &[Row<KeptWake>], columns: &Columns) -> Vec<unhitch_model::KeptWake> {
    let wake = |row: &Row<KeptWake>| {
        let time = Time::from_nanos(row.time);
        let wakee = columns.thread(row.of.wakee, time);
        unhitch_model::KeptWake { wakee, time, futex_avma: row.of.futex }
    };
    let mut out: Vec<unhitch_model::KeptWake> = rows.iter().map(wake).collect();
    out.sort_unstable_by_key(|wake| (wake.wakee, wake.time));
    out
}

/// By thread. One that was seen to begin comes before one that was not.
fn earlier_waits(
    rows: &[Row<rows::EarlierWait>],
    columns: &Columns,
) -> Vec<unhitch_model::EarlierWait> {
    let wait = |row: &Row<rows::EarlierWait>| unhitch_model::EarlierWait {
        thread: columns.thread(row.of.tid, Time::from_nanos(row.time)),
        since: Time::from_nanos(row.of.since),
        is_estimate: row.of.is_estimate,
        until: (row.of.until < u64::MAX).then(|| Time::from_nanos(row.of.until)),
        state: row.of.state,
        stack: columns.stack(row),
    };
    let mut out: Vec<unhitch_model::EarlierWait> = rows.iter().map(wait).collect();
    out.sort_by_key(|wait| (wait.thread, wait.is_estimate));
    out.dedup_by_key(|wait| wait.thread);
    out
}

/// True if a thread may own the lock that another waits for. The owner's id is from the lock's
/// memory. In a container that is an id of the container's, and may be that of any thread outside, so
/// the owner must be of the waiter's process. The kernel itself says who holds a file's lock.
fn can_own(owner: ThreadId, waiter: ThreadId, wait: &KeptWait, threads: &Threads) -> bool {
    /// fcntl(2) and flock(2) on x86-64, the only architecture on which waits have descriptors.
    const FILE_LOCKS: [i32; 2] = [72, 73];
    let process = |thread: ThreadId| threads.get(thread).process;
    let is_of_file = wait.descriptor.is_some() && FILE_LOCKS.contains(&wait.syscall);
    !owner.is_idle() && owner != waiter && (is_of_file || process(owner) == process(waiter))
}

fn descriptor(of: &rows::Descriptor, strings: &mut Strings) -> unhitch_model::Descriptor {
    let name = of.name.split(|byte| *byte == 0).next().unwrap_or_default();
    unhitch_model::Descriptor {
        fd: of.fd,
        kind: of.kind(),
        inode: of.inode,
        name: strings.intern(&String::from_utf8_lossy(name)),
        peer_inode: (of.peer_inode != 0).then_some(of.peer_inode),
        peer_address: of.peer_address(),
        local_port: of.local_port,
    }
}

fn switches(rows: Vec<Row<Switch>>, replay: Replayed<'_>, columns: &Columns) -> Switches {
    let mut out = Switches::with_capacity(rows.len() + replay.of.switch_count());
    let mut seen = Seen::new(columns);
    let of_rings = replay.of.switches(replay.numbers).into_iter().map(Source::Rings);
    for row in Merge::new(iter::once(Source::Rows(rows.into_iter())).chain(of_rings)) {
        let time = Time::from_nanos(row.time);
        out.push(unhitch_model::Switch {
            time,
            cpu: row.cpu,
            prev: seen.thread(row.of.prev, time),
            next: seen.thread(row.of.next, time),
            prev_state: row.of.prev_state,
            prev_reason: None,
            prev_prio: row.of.prev_prio,
            next_prio: row.of.next_prio,
            stack: columns.stack(&row),
        });
    }
    out
}

fn wakings(rows: Vec<Row<Waking>>, replay: Replayed<'_>, columns: &Columns) -> Wakings {
    let mut out = Wakings::with_capacity(rows.len() + replay.of.waking_count());
    let mut seen = Seen::new(columns);
    let of_rings = replay.of.wakings(replay.numbers).into_iter().map(Source::Rings);
    for row in Merge::new(iter::once(Source::Rows(rows.into_iter())).chain(of_rings)) {
        let time = Time::from_nanos(row.time);
        out.push(unhitch_model::Waking {
            time,
            cpu: row.cpu,
            waker: seen.thread(row.of.waker, time),
            wakee: seen.thread(row.of.wakee, time),
            target_cpu: row.of.target_cpu,
            flags: row.of.flags,
            stack: columns.stack(&row),
        });
    }
    out
}

/// What is merged: the sorted rows of the file's samples, and those of each ring.
enum Source<T, I> {
    Rows(vec::IntoIter<Row<T>>),
    Rings(I),
}

impl<T, I: Iterator<Item = Row<T>>> Iterator for Source<T, I> {
    type Item = Row<T>;

    #[inline]
    fn next(&mut self) -> Option<Row<T>> {
        match self {
            Self::Rows(rows) => rows.next(),
            Self::Rings(rows) => rows.next(),
        }
    }
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
