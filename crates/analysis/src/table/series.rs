//! A measure of a table over time, by its groups: how much of it falls into each of the equal parts
//! of a window.
//!
//! Time is spread over the parts that it lies in, so that the parts of a group sum to the time of
//! its rows inside the window, to the nanosecond. What merely happens is counted where it happened.
//! What a counter grew by is spread evenly over the time between its two readings.

use super::column::{Column, Kind};
use super::rows::Row;
use super::stored::{Codes, STRIDE, Selection, Stored, Value};
use super::{Cell, NONE, Name};
use crate::cancel::{Cancel, Wanted};
use std::cmp::Reverse;
use unhitch_model::Window;

/// What to draw over time.
#[derive(Clone, Copy, Debug)]
pub struct SeriesQuestion<'q> {
    /// The column to group by; none for a single group.
    pub by: Option<&'static Column>,
    /// The measure to spread over time; none to count rows.
    pub measure: Option<&'static Column>,
    /// Which rows.
    pub selection: Selection<'q>,
    /// What is drawn.
    pub window: Window,
    /// The number of equal parts of the window.
    pub parts: usize,
    /// Maximum groups; the rest is added up.
    pub groups: usize,
}

/// What a measure counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SeriesUnit {
    /// Rows, or what happened.
    #[default]
    Times,
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
}

impl SeriesUnit {
    /// Its word in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Times => "count",
            Self::Nanoseconds => "ns",
            Self::Bytes => "bytes",
        }
    }
}

/// A measure over time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Series {
    /// What it counts.
    pub unit: SeriesUnit,
    /// The groups, the largest first.
    pub groups: Vec<SeriesGroup>,
    /// The number of groups that were added up to `others`.
    pub other_groups: usize,
    /// All of them together, part by part.
    pub others: Vec<u64>,
}

/// One group over time.
#[derive(Clone, PartialEq, Debug)]
pub struct SeriesGroup {
    /// Its key in the paths of a pivot tree.
    pub key: String,
    /// Its cell; none where nothing is grouped.
    pub value: Value,
    /// Everything inside the window.
    pub total: u64,
    /// Part by part.
    pub parts: Vec<u64>,
}

/// One group while rows are added: what lies in single parts, and where runs of whole parts begin
/// and end. *Why apart:* a wait of a minute is added in two steps, not in a thousand.
struct Growing {
    single: Vec<u64>,
    runs: Vec<i64>,
}

/// What a row adds: an amount, spread evenly from `start` to `end`.
#[derive(Clone, Copy)]
struct Placed {
    start: u64,
    end: u64,
    amount: u64,
}

/// The equal parts of a window.
struct Parts {
    from: u64,
    length: u64,
    count: u64,
}

impl Parts {
    fn edge(&self, part: u64) -> u64 {
        self.from + (u128::from(self.length) * u128::from(part) / u128::from(self.count)) as u64
    }

    /// The part that a time inside the window lies in.
    fn part_of(&self, time: u64) -> u64 {
        let offset = u128::from(time.saturating_sub(self.from));
        let guess = (offset * u128::from(self.count) / u128::from(self.length)) as u64;
        // Edges are rounded down, so that the next part may begin before the exact edge.
        let next = guess + 1;
        if next < self.count && self.edge(next) <= time { next } else { guess.min(self.count - 1) }
    }
}

impl Placed {
    /// All of the time from `start` to `end`.
    fn time(start: u64, end: u64) -> Self {
        Self { start, end, amount: end.saturating_sub(start) }
    }

    fn is_time(&self) -> bool {
        self.amount == self.end.saturating_sub(self.start)
    }

    /// What of it lies before `time`. *Why by difference:* parts then sum to the whole.
    fn before(&self, time: u64) -> u64 {
        let length = self.end.saturating_sub(self.start).max(1);
        let elapsed = time.clamp(self.start, self.end.max(self.start)) - self.start;
        (u128::from(self.amount) * u128::from(elapsed) / u128::from(length)) as u64
    }

    fn inside(&self, from: u64, until: u64) -> u64 {
        self.before(until).saturating_sub(self.before(from))
    }
}

impl Growing {
    fn new(parts: usize) -> Self {
        Self { single: vec![0; parts], runs: vec![0; parts + 1] }
    }

    fn add(&mut self, parts: &Parts, placed: Placed) {
        let start = placed.start.max(parts.from);
        let end = placed.end.min(parts.from + parts.length);
        if start >= end {
            return;
        }
        let (first, last) = (parts.part_of(start), parts.part_of(end - 1));
        if !placed.is_time() {
            for part in first..=last {
                self.single[part as usize] += placed.inside(parts.edge(part), parts.edge(part + 1));
            }
            return;
        }
        if first == last {
            self.single[first as usize] += end - start;
            return;
        }
        self.single[first as usize] += parts.edge(first + 1) - start;
        self.single[last as usize] += end - parts.edge(last);
        self.runs[first as usize + 1] += 1;
        self.runs[last as usize] -= 1;
    }

    fn finish(self, parts: &Parts) -> Vec<u64> {
        let mut running = 0i64;
        let part = |(part, (single, run)): (usize, (u64, i64))| {
            running += run;
            let width = parts.edge(part as u64 + 1) - parts.edge(part as u64);
            single + u64::try_from(running).unwrap_or(0).saturating_mul(width)
        };
        self.single.into_iter().zip(self.runs).enumerate().map(part).collect()
    }
}

impl Stored<'_> {
    /// A measure over time.
    pub fn series(&self, question: SeriesQuestion<'_>, cancel: &Cancel) -> Wanted<Series> {
        let rows = self.selected(question.selection, cancel)?;
        let codes = question.by.map(|by| self.codes(by, cancel)).transpose()?.flatten();
        let values = question.measure.map(|column| self.cells(column, cancel)).transpose()?;
        let (start, end) = (question.window.start.nanos(), question.window.end.nanos());
        if end <= start || question.parts == 0 {
            return Ok(Series::default());
        }
        let parts = Parts { from: start, length: end - start, count: question.parts as u64 };
        let count = rows.as_ref().map_or(self.len(), Vec::len);
        let row_at = |at: usize| rows.as_ref().map_or(at, |rows| rows[at] as usize);
        let unit = match question.measure {
            None => SeriesUnit::Times,
            Some(column) if column.kind == Kind::Duration => SeriesUnit::Nanoseconds,
            Some(_) => {
                let all_bytes = (0..count).map(row_at).all(|row| self.source.counts_bytes(row));
                if all_bytes { SeriesUnit::Bytes } else { SeriesUnit::Times }
            }
        };
        let placed = |row: usize| self.placed(question.measure, values, row);
        let mut totals = vec![0u64; codes.map_or(1, |codes| codes.cells.len())];
        for at in 0..count {
            if at.is_multiple_of(STRIDE) {
                cancel.check()?;
            }
            let row = row_at(at);
            let Some(placed) = placed(row) else { continue };
            totals[code_of(codes, row)] += placed.inside(start, end);
        }
        let mut order: Vec<usize> = (0..totals.len()).filter(|&code| totals[code] > 0).collect();
        order.sort_by_key(|&code| (Reverse(totals[code]), code));
        let shown = order.len().min(question.groups);
        let mut place = vec![shown; totals.len()];
        order.iter().take(shown).enumerate().for_each(|(at, &code)| place[code] = at);
        let mut growing: Vec<Growing> = (0..=shown).map(|_| Growing::new(question.parts)).collect();
        for at in 0..count {
            if at.is_multiple_of(STRIDE) {
                cancel.check()?;
            }
            let row = row_at(at);
            let Some(placed) = placed(row) else { continue };
            growing[place[code_of(codes, row)]].add(&parts, placed);
        }
        let others = growing.pop().map(|rest| rest.finish(&parts)).unwrap_or_default();
        let group = |(growing, &code): (Growing, &usize)| SeriesGroup {
            key: self.series_key(question.by, codes, code),
            value: match (question.by, codes) {
                (Some(by), Some(codes)) => self.value(by.kind, codes.cells[code]),
                _ => Value::Nothing,
            },
            total: totals[code],
            parts: growing.finish(&parts),
        };
        Ok(Series {
            unit,
            groups: growing.into_iter().zip(&order).map(group).collect(),
            other_groups: order.len() - shown,
            others,
        })
    }

    fn series_key(&self, by: Option<&Column>, codes: Option<&Codes>, code: usize) -> String {
        by.zip(codes).map_or(String::new(), |(by, codes)| self.key(by.kind, codes.cells[code]))
    }

    /// When the measured time of a row was; a count is a nanosecond at its time.
    fn placed(
        &self,
        measure: Option<&Column>,
        values: Option<&[Cell]>,
        row: usize,
    ) -> Option<Placed> {
        let Row { start, end, runnable_ns, .. } = *self.source.rows.get(row)?;
        let start = start.nanos();
        let Some((column, values)) = measure.zip(values) else {
            return Some(Placed::time(start, start + 1));
        };
        let value = values.get(row).copied().filter(|&value| value != NONE)?;
        let value = u64::try_from(value).ok()?;
        let before = |end: u64| Placed::time(end.saturating_sub(value), end);
        Some(match (self.name(), column.name) {
            (Name::Switches, "runnable" | "off-CPU") => before(start),
            (Name::Switches, "waited") => {
                before(start.saturating_sub(u64::try_from(runnable_ns).unwrap_or(0)))
            }
            (Name::Wakes, _) => before(start),
            (Name::Switches | Name::Samples, _) => Placed::time(start, start.saturating_add(value)),
            (Name::Counters, "spent" | "counted") => {
                Placed { start, end: end.nanos(), amount: value }
            }
            _ => Placed::time(start, end.nanos()),
        })
    }
}

fn code_of(codes: Option<&Codes>, row: usize) -> usize {
    codes.map_or(0, |codes| codes.of_row[row] as usize)
}

/// True for the measures that can be drawn over time: those of which it is known when they were.
pub fn is_over_time(table: Name, column: &Column) -> bool {
    match table {
        Name::Threads | Name::Cpus => false,
        Name::Counters if column.name == "counted" => true,
        _ => column.kind == Kind::Duration,
    }
}
