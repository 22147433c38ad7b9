//! One lane as it fits on a screen: what is wide enough to be drawn comes whole, everything
//! narrower as columns of pixels.

use super::pyramid::{Pyramid, Stored, Sums};
use super::state::LaneState;
use std::ops::Range;
use unhitch_model::{ThreadId, Time, Window};

/// A slice comes whole from so many columns on.
const WHOLE: u64 = 3;
/// A screen has no more columns.
pub const MOST_COLUMNS: u32 = 1 << 14;

/// A window of time seen through columns of pixels: column `i` begins at `start + i · length /
/// columns`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Screen {
    /// What is seen.
    pub window: Window,
    /// Through how many columns, 1 to [`MOST_COLUMNS`].
    columns: u32,
}

impl Screen {
    /// A window through so many columns; more or fewer than a screen has are brought into its
    /// range.
    pub fn new(window: Window, columns: u32) -> Self {
        Self { window, columns: columns.clamp(1, MOST_COLUMNS) }
    }

    /// How many columns.
    pub fn columns(&self) -> u32 {
        self.columns
    }

    /// When column `column` begins; that of the number of columns is the window's end.
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

    /// The shortest slice that comes whole, nanoseconds.
    pub fn shortest_whole_ns(&self) -> u64 {
        let ns = (u128::from(self.window.duration_ns()) * u128::from(WHOLE))
            .div_ceil(u128::from(self.columns));
        u64::try_from(ns).unwrap_or(u64::MAX).max(1)
    }

    /// The column that holds `time`, which must be inside the window.
    pub(super) fn column_of(&self, time: Time) -> u32 {
        let length = u128::from(self.window.duration_ns().max(1));
        // Edges are rounded down: of the columns that begin by then, the last.
        let begun = (u128::from(time.since(self.window.start)) + 1) * u128::from(self.columns);
        u32::try_from(begun.div_ceil(length) - 1).unwrap_or(u32::MAX).min(self.columns - 1)
    }
}

/// A slice that comes whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slice {
    /// From when to when, not clipped to the screen.
    pub window: Window,
    /// In which state.
    pub state: LaneState,
    /// CPU lanes: who ran. Thread lanes: who woke it, where a task did.
    pub thread: Option<ThreadId>,
    /// The switch that took the thread off its CPU; an index into the switches.
    pub out: Option<usize>,
    /// The wake-up that ended the sleep or began the wait for a CPU; an index into the wakings.
    pub wake: Option<usize>,
    /// The switch that put a thread on the CPU; an index into the switches.
    pub back: Option<usize>,
    /// Sample lanes: which sample; an index into the samples.
    pub sample: Option<usize>,
}

/// One column, without the slices that come whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// Which column.
    pub column: u32,
    /// The state that has most of it and is neither idle nor unknown; those two, the longer one,
    /// only where nothing else is.
    pub state: LaneState,
    /// CPU lanes: who ran longest in it.
    pub thread: Option<ThreadId>,
    /// How long all states but idle and unknown last in it, nanoseconds.
    pub busy_ns: u64,
    /// How long all slices in it last that do not come whole, nanoseconds.
    pub ns: u64,
    /// Sample lanes: how many samples do not come whole.
    pub samples: u32,
}

impl Cell {
    /// The share of the column that is busy, 1 to 255 (0: none of it).
    pub fn cover(&self, screen: &Screen) -> u8 {
        let width = screen.edge(self.column + 1).since(screen.edge(self.column)).max(1);
        let share = (u128::from(self.busy_ns) * 255).div_ceil(u128::from(width));
        u8::try_from(share).unwrap_or(u8::MAX)
    }
}

/// A lane through a screen. The lengths of its slices, clipped to the screen, and of its cells sum
/// to the time that the lane covers of it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct View {
    /// In order of time.
    pub slices: Vec<Slice>,
    /// In order of their columns; a column without one is covered by slices, or outside of what the
    /// lane covers.
    pub cells: Vec<Cell>,
    /// Where the lane's events were lost, clipped to the screen; what is said there is concluded
    /// from what was seen before and after.
    pub lost: Vec<Window>,
}

/// What a pyramid shows through a screen, before anybody is named.
pub(super) struct Raw {
    pub whole: Vec<Stored>,
    pub cells: Vec<Cell>,
    /// Of each cell the slice that ran longest.
    pub runs: Vec<Option<u32>>,
}

/// Looks at a lane; with `runs`, also for who ran longest in each column.
pub(super) fn look(pyramid: &Pyramid, screen: &Screen, runs: bool) -> Raw {
    let span = pyramid.span();
    let window =
        screen.window.start.nanos().max(span.start)..screen.window.end.nanos().min(span.end);
    let mut raw = Raw { whole: Vec::new(), cells: Vec::new(), runs: Vec::new() };
    if window.is_empty() || pyramid.is_empty() {
        return raw;
    }
    let least = screen.shortest_whole_ns();
    pyramid.long(window.clone(), least, &mut raw.whole);
    let (mut whole, mut at) = (0, Edge::new(pyramid, window.start, 0));
    let last = screen.column_of(Time::from_nanos(window.end - 1));
    for column in screen.column_of(Time::from_nanos(window.start))..=last {
        let end = screen.edge(column + 1).nanos().min(window.end);
        let start = screen.edge(column).nanos().max(window.start);
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
                    pyramid.longest_run(start..end, (at.block, last), least)
                })
                .flatten();
            raw.cells.push(cell);
            raw.runs.push(run);
        }
        at = next;
    }
    raw
}

/// How long a lane was in each state up to a time.
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
    let nothing_busy = ns == rest_ns;
    let mut most: Option<LaneState> = None;
    for state in LaneState::ALL {
        // Of equals the first in the registry.
        if state.is_busy() != nothing_busy
            && most.is_none_or(|most| sums[state as usize] > sums[most as usize])
        {
            most = Some(state);
        }
    }
    let state = most?;
    (ns > 0).then_some(Cell { column, state, thread: None, busy_ns: ns - rest_ns, ns, samples: 0 })
}

/// How long something ran in each column, added to `busy_ns`.
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
