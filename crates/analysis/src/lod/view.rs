//! One lane on a screen: slices wide enough to be drawn are kept whole, narrower ones are merged
//! into columns of pixels.

use super::pyramid::{Pyramid, Stored, Sums};
use super::state::LaneState;
use std::ops::Range;
use unhitch_model::{ThreadId, Time, Window};

/// Minimum width of a slice that is kept whole, columns.
const MIN_WHOLE_COLUMNS: u64 = 3;
/// Maximum columns of a screen.
pub const MAX_COLUMNS: u32 = 1 << 14;

/// A window of time seen through columns of pixels: column `i` begins at `start + i · length /
/// columns`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Screen {
    /// What it shows.
    pub window: Window,
    /// The number of columns, 1 to [`MAX_COLUMNS`].
    columns: u32,
}

impl Screen {
    /// A window through a number of columns, which is clamped to what a screen can have.
    pub fn new(window: Window, columns: u32) -> Self {
        Self { window, columns: columns.clamp(1, MAX_COLUMNS) }
    }

    /// The number of columns.
    pub fn columns(&self) -> u32 {
        self.columns
    }

    /// When a column begins. The edge after the last column is the window's end.
    pub fn edge(&self, column: u32) -> Time {
        let (length, column, columns) =
            (self.window.duration_ns(), u64::from(column), u64::from(self.columns));
        let offset = match length.checked_mul(column) {
            Some(product) => product / columns,
            None => u64::try_from(u128::from(length) * u128::from(column) / u128::from(columns))
                .unwrap_or(u64::MAX),
        };
        self.window.start.plus(offset)
    }

    /// Minimum length of a slice that is kept whole, nanoseconds.
    pub fn min_whole_ns(&self) -> u64 {
        let ns = (u128::from(self.window.duration_ns()) * u128::from(MIN_WHOLE_COLUMNS))
            .div_ceil(u128::from(self.columns));
        u64::try_from(ns).unwrap_or(u64::MAX).max(1)
    }

    /// The column that holds `time`, which must be inside the window.
    pub(super) fn column_of(&self, time: Time) -> u32 {
        let length = u128::from(self.window.duration_ns().max(1));
        // Edges are rounded down: take the last of the columns that have begun by then.
        let begun = (u128::from(time.since(self.window.start)) + 1) * u128::from(self.columns);
        u32::try_from(begun.div_ceil(length) - 1).unwrap_or(u32::MAX).min(self.columns - 1)
    }
}

/// A slice that is kept whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slice {
    /// When, not clipped to the screen.
    pub window: Window,
    /// The state.
    pub state: LaneState,
    /// CPU lanes: the thread that ran. Thread lanes: the waker, if it was a task.
    pub thread: Option<ThreadId>,
    /// The switch that took the thread off its CPU; an index into the switches.
    pub out: Option<usize>,
    /// The wake-up that ended the sleep or began the wait for a CPU; an index into the wakings.
    pub wake: Option<usize>,
    /// The switch that put a thread on the CPU; an index into the switches.
    pub back: Option<usize>,
    /// Sample lanes: the sample; an index into the samples.
    pub sample: Option<usize>,
}

/// One column, without the slices that are kept whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// The number of the column.
    pub column: u32,
    /// The state with most of its time, not counting idle and unknown. If there is nothing else,
    /// the longer of these two.
    pub state: LaneState,
    /// CPU lanes: the thread that ran longest in it.
    pub thread: Option<ThreadId>,
    /// The time in it of all states except idle and unknown, nanoseconds.
    pub busy_ns: u64,
    /// The time in it of all slices that are not kept whole, nanoseconds.
    pub ns: u64,
    /// Sample lanes: the number of samples that are not slices.
    pub samples: u32,
}

impl Cell {
    /// The busy share of the column, 1 to 255 (0: not busy at all).
    pub fn cover(&self, screen: &Screen) -> u8 {
        let width = screen.edge(self.column + 1).since(screen.edge(self.column)).max(1);
        let share = (u128::from(self.busy_ns) * 255).div_ceil(u128::from(width));
        u8::try_from(share).unwrap_or(u8::MAX)
    }
}

/// A lane on a screen. The times of its slices, clipped to the screen, and of its cells add up to
/// the part of the screen that the lane covers.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct View {
    /// In order of time.
    pub slices: Vec<Slice>,
    /// In order of their columns. A column without a cell is covered by slices, or the lane does
    /// not cover it.
    pub cells: Vec<Cell>,
    /// Where the lane's events were lost, clipped to the screen. What the lane shows there is
    /// inferred from the events before and after.
    pub lost: Vec<Window>,
}

/// A lane on a screen, before threads and events are looked up.
pub(super) struct Raw {
    pub whole: Vec<Stored>,
    pub cells: Vec<Cell>,
    /// The slice that ran longest in each cell.
    pub runs: Vec<Option<u32>>,
}

/// Reduces a lane to a screen; with `runs`, also finds the longest run of each cell.
pub(super) fn look(pyramid: &Pyramid, screen: &Screen, runs: bool) -> Raw {
    let span = pyramid.span();
    let window =
        screen.window.start.nanos().max(span.start)..screen.window.end.nanos().min(span.end);
    let mut raw = Raw { whole: Vec::new(), cells: Vec::new(), runs: Vec::new() };
    if window.is_empty() || pyramid.is_empty() {
        return raw;
    }
    let min_ns = screen.min_whole_ns();
    pyramid.long(window.clone(), min_ns, &mut raw.whole);
    let (mut whole, mut at) = (0, Edge::new(pyramid, window.start, 0));
    let first = screen.column_of(Time::from_nanos(window.start));
    let last = screen.column_of(Time::from_nanos(window.end - 1));
    let mut end = screen.edge(first).nanos().max(window.start);
    for column in first..=last {
        let start = end;
        end = screen.edge(column + 1).nanos().min(window.end);
        if start >= end {
            continue;
        }
        while raw.whole.get(whole).is_some_and(|slice| slice.end <= start) {
            whole += 1;
        }
        if raw.whole.get(whole).is_some_and(|slice| slice.start <= start && slice.end >= end) {
            continue;
        }
        if at.time != start {
            at = Edge::new(pyramid, start, at.block);
        }
        let next = Edge::new(pyramid, end, at.block);
        let mut sums = difference(&next.sums, &at.sums);
        for slice in raw.whole[whole..].iter().take_while(|slice| slice.start < end) {
            let sum = &mut sums[slice.state as usize];
            *sum = sum.saturating_sub(slice.end.min(end).saturating_sub(slice.start.max(start)));
        }
        if let Some(cell) = cell(column, &sums) {
            let run = (runs && sums[LaneState::Ran as usize] > 0)
                .then(|| {
                    let last = if pyramid.start_of(next.block) < end {
                        next.block
                    } else {
                        pyramid.block_at(end - 1, at.block)
                    };
                    pyramid.longest_run(start..end, (at.block, last), min_ns)
                })
                .flatten();
            raw.cells.push(cell);
            raw.runs.push(run);
        }
        at = next;
    }
    raw
}

/// How long a lane had been in each state up to a time.
struct Edge {
    time: u64,
    block: usize,
    sums: Sums,
}

impl Edge {
    fn new(pyramid: &Pyramid, time: u64, near: usize) -> Self {
        let block = pyramid.block_at(time, near);
        Self { time, block, sums: pyramid.sums_before(time, block) }
    }
}

fn difference(later: &Sums, earlier: &Sums) -> Sums {
    std::array::from_fn(|state| later[state].saturating_sub(earlier[state]))
}

fn cell(column: u32, sums: &Sums) -> Option<Cell> {
    let ns: u64 = sums.iter().sum();
    let rest_ns = sums[LaneState::Idle as usize] + sums[LaneState::Unknown as usize];
    // Of equal times, the first state in the registry wins.
    let states = LaneState::ALL.into_iter().rev().filter(|state| state.is_busy() == (ns > rest_ns));
    let state = states.max_by_key(|state| sums[*state as usize])?;
    (ns > 0).then_some(Cell { column, state, thread: None, busy_ns: ns - rest_ns, ns, samples: 0 })
}

/// Adds the time that anything ran in each column to `busy_ns`.
pub(super) fn add_runs(pyramid: &Pyramid, screen: &Screen, busy_ns: &mut [u64]) {
    let span: Range<u64> = pyramid.span();
    if pyramid.is_empty() {
        return;
    }
    let (mut block, mut before) = (0, None);
    for (column, busy) in (0..=screen.columns).zip([&mut 0].into_iter().chain(busy_ns)) {
        let time = screen.edge(column).nanos().clamp(span.start, span.end);
        block = pyramid.block_at(time, block);
        let ran = pyramid.sum_before(LaneState::Ran, time, block);
        *busy += before.map_or(0, |before| ran.saturating_sub(before));
        before = Some(ran);
    }
}
