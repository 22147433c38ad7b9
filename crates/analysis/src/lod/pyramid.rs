//! A lane's slices in four bytes each, with sums and maxima over blocks of them, so that any window
//! is summed without walking through its slices.
//!
//! Slices are gapless: one ends where the next begins. A block holds 16 or 32 of them, each as its
//! distance from the block's start (27 bits), its state (4 bits) and whether it begins a cycle of
//! the thread (1 bit). A slice that begins farther away opens a new block. Each block stores how
//! long the lane was in each state *before* it: the sums between two times are then one difference
//! and at most two scans of a block. Above the blocks, a tree stores the longest slice of every 8
//! blocks, of every 64, and so on: slices long enough to be drawn are found by descending.

use super::state::LaneState;
use std::ops::Range;
use unhitch_model::{ThreadId, Time, Window};

/// Children of a node.
const FAN_OUT: usize = 8;
const STATE: u32 = 0b1111;
const BEGINS_CYCLE: u32 = 0b1_0000;
const LOW_BITS: u32 = 5;
/// Distances from here on do not fit into a slice, nanoseconds.
const DISTANCE_LIMIT: u64 = 1 << (32 - LOW_BITS);
const NO_SLOT: u8 = u8::MAX;

/// How long a lane was in each state, nanoseconds, by the state's number; the last elements stay
/// zero.
pub(super) type Sums = [u64; STATE as usize + 1];
const NO_SUMS: Sums = [0; STATE as usize + 1];

/// A slice with its times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stored {
    /// Its number on the lane.
    pub index: u32,
    pub start: u64,
    pub end: u64,
    pub state: LaneState,
}

impl Stored {
    pub fn len(&self) -> u64 {
        self.end - self.start
    }
}

/// What a lane stores in addition to its slices' times and states.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The thread of each slice, and the longest run of each block.
    Cpu,
    /// The number of each block's first cycle, which leads to its events.
    Thread,
}

/// The longest run of a block, or of the blocks below a node: its length and its number; zero for
/// none.
type Run = (u64, u32);

/// The slices of one lane. Built by pushing them in order.
pub(super) struct Pyramid {
    kind: Kind,
    slices: Vec<u32>,
    /// When each block's first slice begins, nanoseconds of the trace's clock.
    starts: Vec<u64>,
    /// That slice's number.
    firsts: Vec<u32>,
    /// The length of each block's longest slice.
    longest: Vec<u64>,
    /// CPUs only: each block's longest run.
    runs: Vec<Run>,
    /// CPUs only: the thread on it in each slice.
    who: Vec<ThreadId>,
    /// Threads only: the number of cycles that began before each block.
    cycles: Vec<u32>,
    /// For each block, how long the lane had been in each of `states`.
    before: Vec<u64>,
    states: Vec<LaneState>,
    /// The maxima over 8 blocks, 64, and so on.
    levels: Vec<(Vec<u64>, Vec<Run>)>,
    end: u64,
    growing: Growing,
}

/// State while slices are pushed.
struct Growing {
    sums: Sums,
    last: Option<(u64, LaneState)>,
    cycles: u32,
    slots: [u8; LaneState::COUNT],
    before: Vec<Sums>,
}

impl Pyramid {
    pub fn new(kind: Kind, slices: usize) -> Self {
        let blocks = slices / block_len(kind) + 1;
        Self {
            kind,
            slices: Vec::with_capacity(slices),
            starts: Vec::with_capacity(blocks),
            firsts: Vec::with_capacity(blocks),
            longest: Vec::with_capacity(blocks),
            runs: Vec::new(),
            who: Vec::new(),
            cycles: Vec::new(),
            before: Vec::new(),
            states: Vec::new(),
            levels: Vec::new(),
            end: 0,
            growing: Growing {
                sums: NO_SUMS,
                last: None,
                cycles: 0,
                slots: [NO_SLOT; LaneState::COUNT],
                before: Vec::with_capacity(blocks),
            },
        }
    }

    /// Adds the next slice, which ends the previous one. It begins no earlier than the previous one
    /// does.
    pub fn push(&mut self, start: Time, state: LaneState, begins_cycle: bool) {
        let start = self.close(start.nanos());
        let last = self.starts.last().zip(self.firsts.last());
        let in_block = last.filter(|(base, first)| {
            self.slices.len() - (**first as usize) < block_len(self.kind)
                && start - **base < DISTANCE_LIMIT
        });
        let base = match in_block {
            Some((base, _)) => *base,
            None => {
                self.starts.push(start);
                self.firsts.push(self.slices.len() as u32);
                self.longest.push(0);
                match self.kind {
                    Kind::Cpu => self.runs.push((0, 0)),
                    Kind::Thread => self.cycles.push(self.growing.cycles),
                }
                self.growing.before.push(self.growing.sums);
                start
            }
        };
        self.growing.cycles += u32::from(begins_cycle);
        self.slices.push(
            ((start - base) as u32) << LOW_BITS
                | if begins_cycle { BEGINS_CYCLE } else { 0 }
                | state as u32,
        );
        self.growing.last = Some((start, state));
    }

    /// The same for a CPU, with the thread on it.
    pub fn push_run(&mut self, start: Time, state: LaneState, who: ThreadId) {
        self.push(start, state, false);
        self.who.push(who);
    }

    /// The thread on the CPU in a slice.
    pub fn who(&self, slice: u32) -> Option<ThreadId> {
        self.who.get(slice as usize).copied()
    }

    /// Ends the last slice at `at`, but not before it began.
    fn close(&mut self, at: u64) -> u64 {
        let Some((start, state)) = self.growing.last else { return at };
        let at = at.max(start);
        let len = at - start;
        self.growing.sums[state as usize] += len;
        if self.growing.slots[state as usize] == NO_SLOT {
            self.growing.slots[state as usize] = self.states.len() as u8;
            self.states.push(state);
        }
        if let Some(longest) = self.longest.last_mut() {
            *longest = len.max(*longest);
        }
        if let Some(run) = self.runs.last_mut().filter(|run| state == LaneState::Ran && len > run.0)
        {
            *run = (len, self.slices.len() as u32 - 1);
        }
        at
    }

    /// Ends the last slice at `end`, and builds the tree.
    pub fn finish(mut self, end: Time) -> Self {
        self.end = self.close(end.nanos());
        let (before, states) = (std::mem::take(&mut self.growing.before), &self.states);
        self.before = before
            .iter()
            .flat_map(|sums| states.iter().map(|state| sums[*state as usize]))
            .collect();
        let (mut longest, mut runs) = (self.longest.clone(), self.runs.clone());
        while longest.len() > FAN_OUT {
            let longest_run = |nodes: &[Run]| {
                nodes.iter().fold((0, 0), |best, run| if run.0 > best.0 { *run } else { best })
            };
            let longest_of = |nodes: &[u64]| nodes.iter().copied().max().unwrap_or(0);
            longest = longest.chunks(FAN_OUT).map(longest_of).collect();
            runs = runs.chunks(FAN_OUT).map(longest_run).collect();
            self.levels.push((longest.clone(), runs.clone()));
        }
        self.slices.shrink_to_fit();
        self
    }

    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// The number of slices.
    pub fn len(&self) -> usize {
        self.slices.len()
    }

    /// Memory that it occupies, bytes.
    pub fn bytes(&self) -> usize {
        let blocks = size_of_val(&*self.starts)
            + size_of_val(&*self.firsts)
            + size_of_val(&*self.longest)
            + size_of_val(&*self.runs);
        let levels: usize = self
            .levels
            .iter()
            .map(|(longest, runs)| size_of_val(&**longest) + size_of_val(&**runs))
            .sum();
        size_of_val(&*self.slices)
            + blocks
            + levels
            + size_of_val(&*self.cycles)
            + size_of_val(&*self.before)
            + size_of_val(&*self.who)
    }

    /// From the first slice's start to the last one's end, nanoseconds of the trace's clock.
    pub fn span(&self) -> Range<u64> {
        self.start_of(0)..self.end
    }

    pub fn start_of(&self, block: usize) -> u64 {
        self.starts.get(block).copied().unwrap_or(self.end)
    }

    /// The slices of a block as stored, the number of the first, and when the block begins and
    /// ends.
    fn block(&self, block: usize) -> (&[u32], u32, Range<u64>) {
        let first = self.firsts.get(block).copied().unwrap_or(self.slices.len() as u32);
        let after = self.firsts.get(block + 1).map_or(self.slices.len(), |after| *after as usize);
        let slices = self.slices.get(first as usize..after).unwrap_or(&[]);
        (slices, first, self.start_of(block)..self.start_of(block + 1))
    }

    fn slices_of(&self, block: usize) -> impl Iterator<Item = Stored> + '_ {
        let (slices, first, span) = self.block(block);
        let starts = slices.iter().map(move |slice| span.start + u64::from(slice >> LOW_BITS));
        let ends = starts.clone().skip(1).chain([span.end]);
        slices.iter().zip(starts.zip(ends)).zip(first..).map(|((slice, (start, end)), index)| {
            Stored { index, start, end, state: LaneState::of_number((slice & STATE) as usize) }
        })
    }

    /// The number of the cycle that a slice belongs to; none before the first.
    pub fn cycle_of(&self, slice: u32) -> Option<usize> {
        let block = self.firsts.partition_point(|first| *first <= slice).checked_sub(1)?;
        let begun = self
            .block(block)
            .0
            .iter()
            .take((slice - self.firsts[block]) as usize + 1)
            .filter(|slice| **slice & BEGINS_CYCLE != 0);
        (*self.cycles.get(block)? as usize + begun.count()).checked_sub(1)
    }

    /// The last block that begins at or before `at`, searched from `near` on; the first one for an
    /// earlier time.
    pub fn block_at(&self, at: u64, near: usize) -> usize {
        // Doubling steps from where the last search ended: neighbouring columns are neighbouring
        // blocks.
        let (mut low, mut step) = (if self.start_of(near) <= at { near } else { 0 }, 1);
        while self.starts.get(low + step).is_some_and(|start| *start <= at) {
            low += step;
            step *= 2;
        }
        let high = (low + step).min(self.starts.len());
        low + self.starts[low.min(high)..high]
            .partition_point(|start| *start <= at)
            .saturating_sub(1)
    }

    /// How long the lane was in each state before `at`, which `block` holds.
    pub fn sums_before(&self, at: u64, block: usize) -> Sums {
        let mut sums = NO_SUMS;
        let from = block * self.states.len();
        for (state, before) in self.states.iter().zip(self.before.get(from..).unwrap_or(&[])) {
            sums[*state as usize] = *before;
        }
        self.each_before(at, block, |state, ns| sums[state] += ns);
        sums
    }

    /// The same for one state.
    pub fn sum_before(&self, state: LaneState, at: u64, block: usize) -> u64 {
        let slot = self.states.iter().position(|known| *known == state);
        let before = slot.and_then(|slot| self.before.get(block * self.states.len() + slot));
        let mut sum = before.copied().unwrap_or(0);
        self.each_before(at, block, |found, ns| {
            sum += if found == state as usize { ns } else { 0 }
        });
        sum
    }

    /// Calls `take` with the state of each slice of a block that begins before `at`, and how long it
    /// lasts until then.
    fn each_before(&self, at: u64, block: usize, mut take: impl FnMut(usize, u64)) {
        let (slices, _, span) = self.block(block);
        let mut next = slices.iter().map(|slice| span.start + u64::from(slice >> LOW_BITS)).skip(1);
        let mut start = span.start;
        for slice in slices {
            if start >= at {
                break;
            }
            let end = next.next().unwrap_or(span.end);
            take((slice & STATE) as usize, end.min(at) - start);
            start = end;
        }
    }

    /// How long the lane was in a state inside `window`.
    pub fn sum_inside(&self, state: LaneState, window: Window) -> u64 {
        let before = |time: Time| {
            let at = time.nanos().clamp(self.span().start, self.end);
            self.sum_before(state, at, self.block_at(at, 0))
        };
        before(window.end).saturating_sub(before(window.start))
    }

    /// CPUs only: calls `take` with every run inside `window`: the thread, how long it ran inside,
    /// and whether the run began inside.
    pub fn each_run(&self, window: Window, mut take: impl FnMut(ThreadId, u64, bool)) {
        let (from, to) = (window.start.nanos(), window.end.nanos());
        let blocks = self.block_at(from, 0)..self.starts.partition_point(|start| *start < to);
        let runs = blocks
            .flat_map(|block| self.slices_of(block))
            .filter(|slice| slice.state == LaneState::Ran);
        for slice in runs.filter(|slice| slice.start < to && slice.end > from) {
            if let Some(&who) = self.who.get(slice.index as usize) {
                take(who, slice.end.min(to) - slice.start.max(from), slice.start >= from);
            }
        }
    }

    /// Finds the slices that overlap `window` and last at least `min_ns` (1 or more), in order.
    pub fn long(&self, window: Range<u64>, min_ns: u64, found: &mut Vec<Stored>) {
        if self.starts.is_empty() || window.is_empty() {
            return;
        }
        let first = self.block_at(window.start, 0);
        let last = self.block_at(window.end - 1, first);
        let mut block = first;
        while block <= last {
            if self.longest[block] >= min_ns {
                let overlaps = |slice: &Stored| {
                    slice.len() >= min_ns && slice.start < window.end && slice.end > window.start
                };
                found.extend(self.slices_of(block).filter(overlaps));
                block += 1;
                continue;
            }
            // Climb to the largest subtree that begins here and holds no long slice.
            let (mut size, mut at) = (1, block);
            for (longest, _) in &self.levels {
                if at % FAN_OUT != 0 || longest[at / FAN_OUT] >= min_ns {
                    break;
                }
                (size, at) = (size * FAN_OUT, at / FAN_OUT);
            }
            block += size;
        }
    }

    /// CPUs only: the number of the slice that ran longest inside `window`, among those that last
    /// less than `below`. `blocks` hold the window's first and last instant.
    pub fn longest_run(
        &self,
        window: Range<u64>,
        blocks: (usize, usize),
        below: u64,
    ) -> Option<u32> {
        let mut best: Run = (0, 0);
        let scan = |block: usize, best: &mut Run| {
            let (slices, first, span) = self.block(block);
            for (at, slice) in slices
                .iter()
                .enumerate()
                .filter(|(_, slice)| **slice & STATE == LaneState::Ran as u32)
            {
                let start = span.start + u64::from(slice >> LOW_BITS);
                let end = slices
                    .get(at + 1)
                    .map_or(span.end, |next| span.start + u64::from(next >> LOW_BITS));
                let inside = end.min(window.end).saturating_sub(start.max(window.start));
                if inside > best.0 && end - start < below {
                    *best = (inside, first + at as u32);
                }
            }
        };
        let mut block = blocks.0 + 1;
        while block < blocks.1 {
            let (mut size, mut at, mut longest, mut run) =
                (1, block, self.longest[block], self.runs[block]);
            for (longest_above, runs_above) in &self.levels {
                let parent = at / FAN_OUT;
                if at % FAN_OUT != 0
                    || block + size * FAN_OUT > blocks.1
                    || longest_above[parent] >= below
                {
                    break;
                }
                (size, at, longest) = (size * FAN_OUT, parent, longest_above[parent]);
                run = runs_above.get(parent).copied().unwrap_or_default();
            }
            match longest < below {
                true if run.0 > best.0 => best = run,
                true => {}
                false => scan(block, &mut best),
            }
            block += size;
        }
        // The window cuts the blocks at both ends, so they are searched slice by slice. They come
        // last, because then few of them can have a longer run.
        for block in [blocks.0, blocks.1].into_iter().take(if blocks.1 > blocks.0 { 2 } else { 1 })
        {
            let may_have_longer =
                |block: usize| match (self.longest.get(block), self.runs.get(block)) {
                    (Some(longest), Some(run)) => *longest >= below || run.0 > best.0,
                    _ => true,
                };
            if may_have_longer(block) {
                scan(block, &mut best);
            }
        }
        (best.0 > 0).then_some(best.1)
    }
}

/// Slices per block. A CPU's blocks are smaller, because the longest run is searched inside them.
const fn block_len(kind: Kind) -> usize {
    match kind {
        Kind::Cpu => 16,
        Kind::Thread => 32,
    }
}
