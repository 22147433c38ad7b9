//! Stacks that a file has apart from the switches and wake-ups they belong to.

use crate::perf_data::rows::{Row, Switch, Waking};
use rustc_hash::FxHashMap;
use unhitch_model::StackId;

/// How far apart a stack and its event may be, nanoseconds: two tools read their clocks one after
/// the other in the same tracepoint.
const MAX_APART: u64 = 100_000;

/// Stacks with the thread and the time of an event.
#[derive(Default)]
pub(super) struct LateStacks {
    /// Of the wait that the thread ended at this time.
    ended: Vec<(u64, u32, StackId)>,
    /// Of the switch with which the thread left its CPU at about this time.
    left: Vec<(u64, u32, StackId)>,
    /// Of a wake-up that the thread issued at about this time.
    woke: Vec<(u64, u32, StackId)>,
}

impl LateStacks {
    /// The thread came back from a wait in this stack.
    pub fn ended(&mut self, time: u64, tid: u32, stack: StackId) {
        self.ended.push((time, tid, stack));
    }

    /// The thread left its CPU with this stack.
    pub fn left(&mut self, time: u64, tid: u32, stack: StackId) {
        self.left.push((time, tid, stack));
    }

    /// The thread woke another one with this stack.
    pub fn woke(&mut self, time: u64, tid: u32, stack: StackId) {
        self.woke.push((time, tid, stack));
    }

    /// Gives the rows, which are by time, their stacks. Returns the number of stacks that belong to
    /// no row.
    pub fn place(self, switches: &mut [Row<Switch>], wakings: &mut [Row<Waking>]) -> u64 {
        let Self { mut ended, mut left, mut woke } = self;
        let mut unplaced = 0;
        if !ended.is_empty() || !left.is_empty() {
            let leaves = by_thread(switches, |switch| switch.prev);
            ended.sort_by_key(|stack| stack.0);
            for (time, tid, stack) in ended {
                let rows = leaves.get(&tid).map_or(&[][..], Vec::as_slice);
                let before = rows.partition_point(|row| switches[*row as usize].time < time);
                let row = before.checked_sub(1).map(|at| rows[at] as usize);
                unplaced += give(switches, row, stack);
            }
            left.sort_by_key(|stack| stack.0);
            for (time, tid, stack) in left {
                let rows = leaves.get(&tid).map_or(&[][..], Vec::as_slice);
                let row = nearest(switches, rows, time);
                unplaced += give(switches, row, stack);
            }
        }
        if !woke.is_empty() {
            let issued = by_thread(wakings, |waking| waking.waker);
            woke.sort_by_key(|stack| stack.0);
            for (time, tid, stack) in woke {
                let rows = issued.get(&tid).map_or(&[][..], Vec::as_slice);
                let row = nearest(wakings, rows, time);
                unplaced += give(wakings, row, stack);
            }
        }
        unplaced
    }
}

fn by_thread<T>(rows: &[Row<T>], tid: impl Fn(&T) -> u32) -> FxHashMap<u32, Vec<u32>> {
    let mut by_thread = FxHashMap::<u32, Vec<u32>>::default();
    for (index, row) in rows.iter().enumerate() {
        by_thread.entry(tid(&row.of)).or_default().push(index as u32);
    }
    by_thread
}

/// The row nearest to `time` that has no stack yet.
fn nearest<T>(all: &[Row<T>], rows: &[u32], time: u64) -> Option<usize> {
    /// Maximum number of rows on each side that are looked at.
    const MAX_LOOKED_AT: usize = 16;
    let after = rows.partition_point(|row| all[*row as usize].time < time);
    let (before, after) = rows.split_at(after);
    let near = before.iter().rev().take(MAX_LOOKED_AT).chain(after.iter().take(MAX_LOOKED_AT));
    near.map(|row| *row as usize)
        .filter(|row| all[*row].stack == 0)
        .map(|row| (all[row].time.abs_diff(time), row))
        .filter(|(apart, _)| *apart <= MAX_APART)
        .min()
        .map(|(_, row)| row)
}

/// Returns 1 if the row cannot take the stack.
fn give<T>(rows: &mut [Row<T>], row: Option<usize>, stack: StackId) -> u64 {
    match row.and_then(|row| rows.get_mut(row)) {
        Some(row) if row.stack == 0 => {
            row.stack = stack.0;
            0
        }
        _ => 1,
    }
}
