//! The switches and wake-ups of the rings, with what the rest of the rings says of them: stacks,
//! priorities.
//!
//! *Why the blocks are walked a second time*: a record has 8 bytes, and its row 32. To write all rows
//! to memory, in the order of the rings, and sort them there took longer than to read the records again.

use super::kept_stacks::{Kept, KeptStacks};
use super::layout::{self, kind};
use super::segment::{Priority, Tally, WakerStack, state};
use super::walk::{Run, Walk, next_thread};
use crate::perf_data::rows::{Row, Switch, Waking};
use rustc_hash::FxHashMap;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use unhitch_model::{WakeFlags, linux::USUAL_PRIO};

/// The switches and wake-ups of all rings.
#[derive(Default)]
pub(crate) struct Replay<'a> {
    /// In order of CPU and position.
    pub(super) runs: Vec<ReplayRun<'a>>,
    /// Stacks of waits and of wakers.
    pub(super) waits: KeptStacks,
    pub(super) wakers: KeptStacks,
    /// By thread, in order of time.
    pub(super) priorities: FxHashMap<u32, Vec<Priority>>,
    pub(super) held: Held,
    /// Those before this are left out.
    pub(super) since: u64,
    /// How many waits and wake-ups have a stack of the same place, when all have been read.
    of_same_place: [AtomicU64; 2],
}

/// A run, and what is known of its rows.
pub(super) struct ReplayRun<'a> {
    pub(super) run: Run<'a>,
    pub(super) switches: Tally,
    pub(super) wakings: Tally,
    /// In order of the wake-ups.
    pub(super) waker_stacks: Vec<WakerStack>,
}

impl<'a> Replay<'a> {
    /// How many switches there are; more if those before a time are left out.
    pub(crate) fn switch_count(&self) -> usize {
        self.runs.iter().map(|of| of.switches.count).sum()
    }

    /// How many wake-ups there are, likewise.
    pub(crate) fn waking_count(&self) -> usize {
        self.runs.iter().map(|of| of.wakings.count).sum()
    }

    fn by_cpu(&self) -> impl Iterator<Item = &[ReplayRun<'a>]> {
        self.runs.chunk_by(|one, other| one.run.cpu() == other.run.cpu())
    }

    /// The switches of each CPU in order of time. `numbers` are those of their stacks, by the number of
    /// the chain.
    pub(crate) fn switches<'r>(&'r self, numbers: &'r [u32]) -> Vec<Rows<SwitchRows<'r, 'a>>> {
        let of_cpu = |runs: &'r [ReplayRun<'a>]| {
            let of = Position::new(self, runs, numbers);
            let rows = SwitchRows { of, priorities: Known::default(), places: Known::default() };
            Rows::new(rows, Tally::is_in_order(runs.iter().map(|of| of.switches)))
        };
        self.by_cpu().map(of_cpu).collect()
    }

    /// The same of wake-ups.
    pub(crate) fn wakings<'r>(&'r self, numbers: &'r [u32]) -> Vec<Rows<WakingRows<'r, 'a>>> {
        let of_cpu = |runs: &'r [ReplayRun<'a>]| {
            let of = Position::new(self, runs, numbers);
            let rows = WakingRows { of, waking: 0, places: Known::default() };
            Rows::new(rows, Tally::is_in_order(runs.iter().map(|of| of.wakings)))
        };
        self.by_cpu().map(of_cpu).collect()
    }

    /// The priority of a thread, and until when.
    fn priority(&self, tid: u32, time: u64) -> (i16, u64) {
        let Some(known) = self.priorities.get(&tid) else { return (USUAL_PRIO, u64::MAX) };
        let next = known.partition_point(|priority| priority.time <= time);
        let until = known.get(next).map_or(u64::MAX, |next| next.time);
        let prio = match next.checked_sub(1) {
            Some(last) => Some(known[last].prio),
            None => known.first().map(|first| first.before),
        };
        (prio.unwrap_or(USUAL_PRIO), until)
    }

    /// How many stacks were those of a place, when all rows have been read.
    pub(crate) fn stack_counts(&self) -> [(&'static str, u64); 2] {
        let [waits, wakers] = self.of_same_place.each_ref().map(|count| count.load(Relaxed));
        [("wait stack of the same place", waits), ("wake-up stack of the same place", wakers)]
    }

    /// What was read of one CPU had stacks of the same place.
    fn add_of_same_place(&self, kind: usize, count: u64) {
        self.of_same_place[kind].fetch_add(count, Relaxed);
    }
}

/// The rows of one CPU, in order of time: read as they are asked for, or read before and sorted.
pub(crate) enum Rows<I: Iterator> {
    Read(I),
    Sorted(std::vec::IntoIter<I::Item>),
}

impl<T, I: Iterator<Item = Row<T>>> Rows<I> {
    fn new(rows: I, is_in_order: bool) -> Self {
        if is_in_order {
            return Self::Read(rows);
        }
        let mut rows: Vec<Row<T>> = rows.collect();
        rows.sort_by_key(|row| row.time);
        Self::Sorted(rows.into_iter())
    }
}

impl<I: Iterator> Iterator for Rows<I> {
    type Item = I::Item;

    #[inline]
    fn next(&mut self) -> Option<I::Item> {
        match self {
            Self::Read(rows) => rows.next(),
            Self::Sorted(rows) => rows.next(),
        }
    }
}

/// Where the runs of one CPU are read.
struct Position<'r, 'a> {
    replay: &'r Replay<'a>,
    numbers: &'r [u32],
    runs: slice::Iter<'r, ReplayRun<'a>>,
    cpu: u16,
    walk: Option<Walk<'r, 'a>>,
    /// Of the run's wake-ups, those that are still to come.
    waker_stacks: &'r [WakerStack],
    of_same_place: u64,
}

impl<'r, 'a> Position<'r, 'a> {
    fn new(replay: &'r Replay<'a>, runs: &'r [ReplayRun<'a>], numbers: &'r [u32]) -> Self {
        let cpu = runs.first().map_or(0, |of| of.run.cpu());
        let runs = runs.iter();
        Self { replay, numbers, runs, cpu, walk: None, waker_stacks: &[], of_same_place: 0 }
    }

    /// The next record of this type in the run: see [`Walk::next_of`].
    #[inline]
    fn next(&mut self, of_type: u64) -> Option<(u64, u32, u64)> {
        self.walk.as_mut()?.next_of(of_type)
    }

    /// Goes on to the next run. `None` at the end.
    fn enter(&mut self) -> Option<()> {
        let of = self.runs.next()?;
        self.walk = Some(of.run.walk());
        self.waker_stacks = &of.waker_stacks;
        Some(())
    }

    /// The number of a chain's stack.
    #[inline]
    fn number(&self, chain: u32) -> u32 {
        self.numbers.get(chain as usize).copied().unwrap_or(0)
    }
}

/// The switches of one CPU.
pub(crate) struct SwitchRows<'r, 'a> {
    of: Position<'r, 'a>,
    priorities: Known<i16>,
    places: Known<Option<Kept>>,
}

impl Iterator for SwitchRows<'_, '_> {
    type Item = Row<Switch>;

    #[inline]
    fn next(&mut self) -> Option<Row<Switch>> {
        let since = self.of.replay.since;
        let (time, prev, payload) = loop {
            match self.of.next(kind::SWITCH) {
                Some(found) if found.0 < since => {}
                Some(found) => break found,
                None if self.of.enter().is_some() => {}
                None => {
                    let count = std::mem::take(&mut self.of.of_same_place);
                    self.of.replay.add_of_same_place(0, count);
                    return None;
                }
            }
        };
        let replay = self.of.replay;
        let next = next_thread(payload);
        let mut prio = |tid| self.priorities.at(tid, 0, time, || replay.priority(tid, time));
        let (prev_prio, next_prio) = (prio(prev), prio(next));
        let mut chain = replay.waits.at(prev, time);
        let place = (payload >> layout::SWITCH_PLACE_SHIFT & 7) as u8;
        if place != 0 && chain == 0 {
            let held_from = replay.held.from(time);
            let look = || replay.waits.before(prev, time, place);
            let kept = self.places.at(prev, place, time, look);
            if let Some(kept) = kept.filter(|kept| kept.time >= held_from) {
                chain = kept.chain;
                self.of.of_same_place += 1;
            }
        }
        let prev_state = state(payload >> layout::SWITCH_STATE_SHIFT & 15);
        let of = Switch { prev, next, prev_prio, next_prio, prev_state };
        Some(Row { time, stack: self.of.number(chain), cpu: self.of.cpu, of })
    }
}

/// The wake-ups of one CPU.
pub(crate) struct WakingRows<'r, 'a> {
    of: Position<'r, 'a>,
    /// The number of the next one in its run.
    waking: usize,
    places: Known<Option<Kept>>,
}

impl WakingRows<'_, '_> {
    /// The stack that was taken for the wake-up that was just read. A record may belong to the same
    /// wake-up as one before it.
    #[inline]
    fn own_stack(&mut self) -> Option<WakerStack> {
        let mut last = None;
        while let Some((own, rest)) = self.of.waker_stacks.split_first()
            && own.waking <= self.waking
        {
            last = Some(*own);
            self.of.waker_stacks = rest;
        }
        last
    }
}

impl Iterator for WakingRows<'_, '_> {
    type Item = Row<Waking>;

    #[inline]
    fn next(&mut self) -> Option<Row<Waking>> {
        let since = self.of.replay.since;
        let (time, waker, payload, own) = loop {
            match self.of.next(kind::WAKING) {
                Some((time, waker, payload)) => {
                    let own = self.own_stack();
                    self.waking += 1;
                    if time >= since {
                        break (time, waker, payload, own);
                    }
                }
                None if self.of.enter().is_some() => self.waking = 0,
                None => {
                    let count = std::mem::take(&mut self.of.of_same_place);
                    self.of.replay.add_of_same_place(1, count);
                    return None;
                }
            }
        };
        let replay = self.of.replay;
        let wakee = next_thread(payload);
        let mut flags = match payload >> layout::WAKING_CONTEXT_SHIFT & 3 {
            0 => WakeFlags::default(),
            1 => WakeFlags::default().with(WakeFlags::HARDIRQ),
            _ => WakeFlags::default().with(WakeFlags::NEW),
        };
        if own.is_some_and(|own| own.by_thread) {
            flags = WakeFlags::default().with(WakeFlags::SOFTIRQ);
        }
        let mut chain = own.map_or(0, |own| own.stack);
        let place = (payload >> layout::WAKING_PLACE_SHIFT & 7) as u8;
        if place != 0 && chain == 0 {
            let held_from = replay.held.from(time);
            let look = || replay.wakers.before(wakee, time, place);
            let kept = self.places.at(wakee, place, time, look);
            if let Some(kept) = kept.filter(|kept| kept.time >= held_from) {
                chain = kept.chain;
                if kept.by_thread {
                    flags = WakeFlags::default().with(WakeFlags::SOFTIRQ);
                }
                self.of.of_same_place += 1;
            }
        }
        let of = Waking { waker, wakee, target_cpu: self.of.cpu, flags };
        Some(Row { time, stack: self.of.number(chain), cpu: self.of.cpu, of })
    }
}

/// Number of places that are remembered.
const KNOWN: usize = 256;

/// What is known of threads, or of their places, and from when until when that holds. *Why:* a few
/// threads switch most of the time, at a few places.
struct Known<V>(Box<[KnownAt<V>]>);

#[derive(Clone, Copy, Default)]
struct KnownAt<V> {
    tid: u32,
    place: u8,
    from: u64,
    until: u64,
    value: V,
}

impl<V: Copy + Default> Default for Known<V> {
    fn default() -> Self {
        Self(vec![KnownAt::default(); KNOWN].into())
    }
}

impl<V: Copy> Known<V> {
    /// The value at `time`; if it is not known, `look` finds it, and until when it holds.
    #[inline]
    fn at(&mut self, tid: u32, place: u8, time: u64, look: impl FnOnce() -> (V, u64)) -> V {
        let known = &mut self.0[(tid as usize ^ usize::from(place) << 5) % KNOWN];
        let is_it = known.tid == tid && known.place == place;
        if !is_it || time < known.from || time >= known.until {
            let (value, until) = look();
            *known = KnownAt { tid, place, from: time, until, value };
        }
        known.value
    }
}

/// From when on nothing is missing.
#[derive(Default)]
pub(super) struct Held(Vec<u64>);

impl Held {
    pub(super) fn new(covered: &[(u64, u64)], gaps_end: impl Iterator<Item = u64>) -> Self {
        let held = covered.iter().filter(|(first, last)| first <= last);
        let by_all = held.map(|(first, _)| *first).max().unwrap_or(0);
        let mut times: Vec<u64> = gaps_end.map(|end| end.max(by_all)).collect();
        times.push(by_all);
        times.sort_unstable();
        Self(times)
    }

    /// Up to `time`.
    #[inline]
    fn from(&self, time: u64) -> u64 {
        if let [only] = self.0[..] {
            return only;
        }
        let next = self.0.partition_point(|from| *from <= time);
        self.0.get(next.saturating_sub(1)).copied().unwrap_or(0)
    }
}
