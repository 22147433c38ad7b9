//! Rows to the columns of a trace: each thread id becomes the incarnation that it means at that time,
//! each stack's number the stack, and the switches and wake-ups of rings are merged with the others.

use super::merge::Merge;
use super::resolve::StackOverTime;
use super::rows::{
    self, Contention, Fact, KeptWait, KeptWake, Placement, Row, Rows, Sample, Switch, Waking,
};
use crate::ring::{self, replay::Replay};
use crate::thread_index::ThreadIndex;
use std::{iter, vec};
use unhitch_model::{
    ContentionKind, Contentions, Placements, Polled, ProcessId, Samples, StackId, Strings,
    Switches, ThreadId, Threads, Time, Trace, Wakings,
};

/// Switches and wake-ups of rings, and the stacks of their chains.
#[derive(Clone, Copy)]
pub(super) struct Replayed<'a> {
    pub(super) of: &'a Replay<'a>,
    pub(super) numbers: &'a [u32],
}

/// Converts the rows' thread ids and stack numbers to the trace's.
pub(super) struct Columns {
    pub(super) threads: ThreadIndex,
    pub(super) stacks: Vec<StackOverTime>,
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

/// Fills the columns of `trace`, whose threads are known.
pub(super) fn fill(trace: &mut Trace, rows: Rows, replay: Replayed<'_>, columns: &Columns) {
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
    let over = trace.kept_waits.iter().filter(|wait| wait.is_over_budget);
    let mut waits: Vec<(Time, ThreadId)> = over.map(|wait| (wait.time, wait.thread)).collect();
    waits.sort_unstable();
    // A damaged file may have all of them at one time.
    for at_once in waits.chunk_by(|one, other| one.0 == other.0) {
        let time = at_once[0].0;
        let first = switches.time.partition_point(|other| *other < time);
        let same_time = switches.time[first..].iter().take_while(|other| **other == time);
        for at in first..first + same_time.count() {
            let is_over = at_once.binary_search(&(time, switches.prev[at])).is_ok();
            if is_over && switches.stack[at].is_empty() {
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
        polled: (of.polled != 0)
            .then_some(Polled { to_read: of.polled & 1 != 0, to_write: of.polled & 2 != 0 }),
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
