//! Decodes the rings to rows, on all cores.
//!
//! 1. Cut the rings to runs of blocks, and walk them ([`super::segment`]).
//! 2. Look up the stacks that their records refer to ([`super::stacks`]).
//! 3. Leave the switches and wake-ups where they are: they are read, with their stacks, when the
//!    trace's columns are filled ([`super::replay`]). The stack of a wait was written when its thread
//!    came back, perhaps on another CPU: it goes to the switch at which the thread had left.

use super::facts;
use super::layout;
use super::replay::{Held, Replay, ReplayRun};
use super::segment::{self, Segment, Taken};
use super::sleepers::{self, Entry};
use super::stacks::{Chain, Chains, Definition, Definitions};
use super::walk::{self, Run};
use crate::perf_data::rows::{EarlierWait, KeptWait, Row, Rows};
use crate::scope::Scope;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use unhitch_model::{TaskState, Warnings, units};

/// What the rings hold.
#[derive(Default)]
pub(crate) struct Decoded<'a> {
    /// All but switches and wake-ups. In parts; those of one CPU follow each other, and each is sorted
    /// by time. Stacks are numbers of `chains`, from 1.
    pub(crate) rows: Vec<Rows>,
    /// Switches and wake-ups.
    pub(crate) replay: Replay<'a>,
    pub(crate) chains: Chains,
    /// First and last time by CPU; an empty window where the CPU has none.
    pub(crate) covered: Vec<(u64, u64)>,
    pub(crate) gaps: Vec<Gap>,
    /// Events before this were left out, if it is not 0: [`Scope::Newest`].
    pub(crate) since: u64,
    /// Number of records by kind.
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// What became of stacks, which are no records of their own.
    pub(crate) stack_counts: BTreeMap<&'static str, u64>,
    /// Threads that died: when, and which.
    pub(crate) exits: Vec<(u64, u32)>,
    /// Threads that were woken for the first time: when, and which.
    pub(crate) births: Vec<(u64, u32)>,
}

/// Where a part of a ring is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gap {
    pub(crate) cpu: u16,
    /// The last time before, and the first after.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// How many records it had, estimated by the rest of the rings; at least 1.
    pub(crate) events: u64,
}

/// Maximum number of lines about what one CPU lost, or about one reason.
const MAX_LINES: usize = 64;
/// Maximum length of all call chains: this many times that of the rings, or the second number of
/// bytes if that is more. A record of 16 bytes names 2 KiB of stacks, which few others do.
const MAX_CHAINS: (u64, u64) = (16, 64 << 20);

/// Decodes `rings.bin`, or the pieces of rings that were written instead. Damage goes to `warnings`.
/// Nothing of rings that are no longer than [`Scope::Newest`].
pub(crate) fn decode<'a>(parts: &[&'a [u8]], scope: Scope, warnings: &mut Warnings) -> Decoded<'a> {
    let (mut pieces, mut asleep, mut unread) = (Vec::new(), Vec::new(), BTreeMap::new());
    let mut streamed = false;
    for part in parts {
        match layout::read(part) {
            Ok((of_part, is_pieces, sleepers)) => {
                streamed |= is_pieces;
                pieces.extend(of_part);
                asleep.push(sleepers);
            }
            Err(why) => *unread.entry(why).or_insert(0) += 1,
        }
    }
    for (why, count) in unread.into_iter().take(MAX_LINES) {
        let what = match parts.len() {
            1 => "the rings in the trace file cannot be read".to_owned(),
            _ => format!("{} of the rings cannot be read", units::plural(count, "piece")),
        };
        warnings.add(format!("{what} ({why}): nothing that they held is shown"));
    }
    let runs = walk::runs(pieces, streamed);
    let since = match scope {
        Scope::Newest(len) => walk::newest(&runs, len),
        _ => 0,
    };
    if since == 0 && matches!(scope, Scope::Newest(_)) {
        return Decoded::default();
    }
    let mut segments: Vec<Segment<'_>> =
        runs.par_iter().map(|run| Segment::of(run, scope)).collect();
    let bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
    let room = bytes.saturating_mul(MAX_CHAINS.0).max(MAX_CHAINS.1);
    let mut decoder = Decoder { room, ..Decoder::default() };
    decoder.out.since = since;
    decoder.gaps(&runs, &segments, warnings);
    decoder.stacks(&mut segments);
    decoder.earlier_waits(&segments);
    for segment in &mut segments {
        decoder.add(segment);
    }
    asleep.into_iter().flat_map(sleepers::decode).for_each(|sleeper| decoder.sleeper(&sleeper));
    decoder.finish(warnings);
    let mut out = decoder.out;
    segments.iter_mut().for_each(|segment| segment.leave_out_before(since));
    out.rows = segments.iter_mut().map(|of| std::mem::take(&mut of.rows)).collect();
    out.rows.push(decoder.unseen);
    if scope != Scope::Stacks {
        let replayed = |(run, of): (_, Segment<'_>)| {
            let Segment { switches, wakings, waker_stacks, .. } = of;
            ReplayRun { run, switches, wakings, waker_stacks }
        };
        let read = runs.into_iter().zip(segments);
        let read = read.filter(|(_, of)| of.covered.is_some_and(|(_, last)| last >= since));
        out.replay.runs = read.map(replayed).collect();
        out.replay.since = since;
    }
    out
}

#[derive(Default)]
struct Decoder<'a> {
    out: Decoded<'a>,
    over_budget: u64,
    /// Of the waits that had not ended when the recording ended, and of those that began before it.
    unseen: Rows,
    /// From when on all CPUs are covered.
    covered_from: u64,
    damaged_blocks: u64,
    missing_stacks: u64,
    /// Bytes that further call chains may take, and how many would have taken more.
    room: u64,
    without_room: u64,
}

impl<'a> Decoder<'a> {
    /// Notes where rings are missing between the segments, and before the first.
    fn gaps(&mut self, runs: &[Run<'_>], segments: &[Segment<'_>], warnings: &mut Warnings) {
        let records: u64 = segments.iter().flat_map(|segment| segment.counts.values()).sum();
        let bytes = runs.iter().map(Run::len).sum::<u64>().max(1);
        let events = |missing: u64| {
            let events = u128::from(missing) * u128::from(records) / u128::from(bytes);
            u64::try_from(events).unwrap_or(u64::MAX).max(1)
        };
        let begin = segments.iter().filter_map(|segment| segment.covered).min();
        let begin = begin.map_or(0, |(first, _)| first);
        let mut lost: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
        let mut before: Option<&Segment<'_>> = None;
        for (run, segment) in runs.iter().zip(segments) {
            let cpu = run.cpu();
            let own = before.replace(segment).filter(|before| before.cpu == cpu);
            if run.missing_bytes == 0 {
                continue;
            }
            let from = own.and_then(|own| own.covered).map_or(begin, |(_, last)| last);
            let to = segment.covered.map_or(from, |(first, _)| first.max(from));
            self.out.gaps.push(Gap { cpu, from, to, events: events(run.missing_bytes) });
            let (bytes, places) = lost.entry(cpu).or_default();
            (*bytes, *places) = (bytes.saturating_add(run.missing_bytes), *places + 1);
        }
        for (cpu, (bytes, places)) in lost.iter().take(MAX_LINES) {
            warnings.add(format!(
                "CPU {cpu} lost {} of events, in {}: the recorder could not keep up",
                units::bytes(*bytes),
                units::plural(*places, "place")
            ));
        }
        if let Some(more) = lost.len().checked_sub(MAX_LINES + 1) {
            let cpus = units::plural(more as u64 + 1, "more CPU");
            warnings.add(format!("{cpus} lost events: the recorder could not keep up"));
        }
    }

    /// Looks up the stacks of all segments, and numbers their chains. *Why by CPU*: a pair of stacks
    /// is one chain, however many segments of its ring refer to it.
    fn stacks(&mut self, segments: &mut [Segment<'_>]) {
        for of_cpu in segments.chunk_by_mut(|one, other| one.cpu == other.cpu) {
            let definitions = of_cpu.iter_mut().flat_map(|segment| segment.definitions.drain(..));
            let mut definitions = Definitions::new(definitions);
            let mut known = FxHashMap::default();
            for segment in of_cpu {
                let number = |pair| {
                    let chain = || self.chain(definitions.chain(pair));
                    *known.entry(pair).or_insert_with(chain)
                };
                let numbers = segment.references.pairs().iter().copied().map(number);
                let numbers: Vec<u32> = std::iter::once(0).chain(numbers).collect();
                segment.number_stacks(&numbers);
            }
            self.missing_stacks += definitions.missing();
        }
    }

    /// The number of a chain, from 1; 0 if it is empty, or there is no room for it.
    fn chain(&mut self, chain: Chain) -> u32 {
        if chain.words.is_empty() {
            return 0;
        }
        let Some(room) = self.room.checked_sub(chain.words.len() as u64) else {
            self.without_room += 1;
            return 0;
        };
        self.room = room;
        self.out.chains.push(&chain)
    }

    /// Notes the waits that began before all CPUs are covered and ended after that.
    fn earlier_waits(&mut self, segments: &[Segment<'_>]) {
        let mut first: BTreeMap<u16, u64> = BTreeMap::new();
        for segment in segments {
            let from = segment.covered.map_or(u64::MAX, |(from, _)| from);
            first.entry(segment.cpu).and_modify(|first| *first = from.min(*first)).or_insert(from);
        }
        let covered = first.into_values().filter(|from| *from < u64::MAX);
        self.covered_from = covered.max().unwrap_or_default().max(self.out.since);
        let from = self.covered_from;
        let waits = segments.iter().flat_map(|segment| &segment.waits);
        for &Taken { tid, time: since, at: until, stack, .. } in
            waits.filter(|taken| taken.time < from && taken.at >= from)
        {
            let state = TaskState::Sleeping;
            self.earlier_wait(EarlierWait { tid, since, is_estimate: false, until, state }, stack);
        }
    }

    fn earlier_wait(&mut self, of: EarlierWait, stack: u32) {
        self.unseen.earlier_waits.push(Row { time: self.covered_from, stack, cpu: 0, of });
    }

    /// Takes over what concerns more than one segment.
    fn add(&mut self, segment: &mut Segment<'_>) {
        for (kind, count) in &segment.counts {
            *self.out.counts.entry(kind).or_default() += count;
        }
        for (kind, count) in &segment.stack_counts {
            *self.out.stack_counts.entry(kind).or_default() += count;
        }
        // Without a stack, which may be overwritten, the number of the place still is no longer that
        // of another.
        for taken in segment.waits.drain(..).filter(|taken| taken.stack != 0 || taken.place != 0) {
            *self.out.stack_counts.entry("wait stack").or_default() += u64::from(taken.stack != 0);
            self.out.replay.waits.add(&taken);
        }
        for taken in segment.wakers.drain(..).filter(|taken| taken.stack != 0 || taken.place != 0) {
            *self.out.stack_counts.entry("wake-up stack").or_default() +=
                u64::from(taken.stack != 0);
            self.out.replay.wakers.add(&taken);
        }
        for (tid, priority) in segment.priorities.drain(..) {
            self.out.replay.priorities.entry(tid).or_default().push(priority);
        }
        self.out.exits.append(&mut segment.exits);
        self.out.births.append(&mut segment.births);
        self.over_budget += segment.over_budget;
        self.damaged_blocks += segment.damaged_blocks;
        if let Some((first, last)) = segment.covered {
            let cpu = usize::from(segment.cpu);
            if self.out.covered.len() <= cpu {
                self.out.covered.resize(cpu + 1, (u64::MAX, 0));
            }
            let covered = &mut self.out.covered[cpu];
            *covered = (covered.0.min(first), covered.1.max(last));
        }
    }

    /// A wait that had not ended when the recording ended.
    fn sleeper(&mut self, entry: &Entry<'_>) {
        let (tid, syscall, arguments) = (entry.tid, entry.syscall, entry.arguments);
        let kernel_lock = entry.kernel_lock;
        let (owner, descriptor) =
            (entry.owner, entry.descriptor.map(facts::descriptor).map(Box::new));
        let of = KeptWait {
            tid,
            syscall,
            arguments,
            owner,
            kernel_lock,
            descriptor,
            ..Default::default()
        };
        self.unseen.kept_waits.push(Row { time: entry.left_ns, stack: 0, cpu: 0, of });
        let kernel = Definition { addresses: entry.kernel_stack, ..Definition::default() };
        let (pid, flags) = (entry.pid, 1 | entry.user_end << 1);
        let user = Definition { pid, flags, addresses: entry.user_stack, before: 0 };
        let stack = self.chain(Chain::of([kernel, user]));
        if stack != 0 {
            *self.out.stack_counts.entry("wait stack at the save").or_default() += 1;
            let time = entry.left_ns;
            self.out.replay.waits.add(&Taken {
                tid,
                time,
                at: u64::MAX,
                stack,
                place: 0,
                by_thread: false,
            });
        }
        if entry.is_estimate || entry.left_ns < self.covered_from {
            let state = segment::state(entry.state);
            let state = if state.is_runnable() { TaskState::Sleeping } else { state };
            let (since, is_estimate) = (entry.left_ns, entry.is_estimate);
            self.earlier_wait(
                EarlierWait { tid, since, is_estimate, until: u64::MAX, state },
                stack,
            );
        }
    }

    /// When everything was added.
    fn finish(&mut self, warnings: &mut Warnings) {
        let replay = &mut self.out.replay;
        replay.waits.finish();
        replay.wakers.finish();
        replay.priorities.values_mut().for_each(|list| list.sort_unstable());
        replay.held = Held::new(&self.out.covered, self.out.gaps.iter().map(|gap| gap.to));
        self.out.stack_counts.insert("over the budget for stacks", self.over_budget);
        if self.damaged_blocks > 0 {
            warnings.add(format!(
                "the rings have {}: what follows the damage is left out",
                units::plural(self.damaged_blocks, "damaged block")
            ));
        }
        if self.missing_stacks > 0 {
            let stacks = units::plural(self.missing_stacks, "stack");
            warnings.add(format!("missing, because the ring had overwritten it: {stacks}"));
        }
        if self.without_room > 0 {
            let stacks = units::plural(self.without_room, "stack");
            warnings.add(format!(
                "left out, because all would take too much memory for rings of this length: {stacks}"
            ));
        }
    }
}
