//! A table that keeps its rows and computes each column once, for the page, which queries the same
//! table again and again.
//!
//! Columns to group by are kept as small numbers, one per distinct cell. *Why:* grouping is then
//! counting in an array.

use super::column::{COLUMNS, Column, Kind};
use super::filter::Filter;
use super::rows::Row;
use super::source::Source;
use super::{Cell, NONE, Name};
use crate::Analysis;
use crate::cancel::{Cancel, Wanted};
use crate::diagnose::Stall;
use crate::stacks::StackKind;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::sync::{Arc, OnceLock};
use unhitch_model::{FrameId, ProcessId, StackId, ThreadId, Window};

/// Rows between two checks for cancellation.
pub(super) const STRIDE: usize = 1 << 16;

/// A table of one window.
pub struct Stored<'a> {
    pub(super) source: Source<'a>,
    cells: Vec<OnceLock<Vec<Cell>>>,
    codes: Vec<OnceLock<Codes>>,
}

/// A column as numbers.
pub(super) struct Codes {
    /// The number of each row's cell.
    pub of_row: Vec<u32>,
    /// The cell of each number.
    pub cells: Vec<Cell>,
}

/// Which rows of a table a question is about.
#[derive(Clone, Copy, Default, Debug)]
pub struct Selection<'q> {
    /// Only rows of these threads, or of `processes`; all if both are empty.
    pub threads: &'q [ThreadId],
    /// Only rows of these processes, or of `threads`.
    pub processes: &'q [ProcessId],
    /// Only rows that pass.
    pub filter: Option<&'q Filter>,
}

/// A cell's value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// No value.
    Nothing,
    /// A number; for times, nanoseconds of the trace's clock.
    Number(i64),
    /// A text.
    Text(String),
    /// A stack.
    Stack(StackKind, StackId),
}

impl<'a> Stored<'a> {
    /// Collects the rows of a table inside `window`; computes no column.
    pub fn new(analysis: &'a Analysis<'a>, name: Name, window: Window) -> Self {
        Self::of(Source::new(analysis, name, window))
    }

    /// The table of those of `stalls` that have a part in `window`.
    pub fn of_stalls(analysis: &'a Analysis<'a>, stalls: Arc<Vec<Stall>>, window: Window) -> Self {
        Self::of(Source::of_stalls(analysis, stalls, window))
    }

    fn of(source: Source<'a>) -> Self {
        Self {
            source,
            cells: COLUMNS.iter().map(|_| OnceLock::new()).collect(),
            codes: COLUMNS.iter().map(|_| OnceLock::new()).collect(),
        }
    }

    /// The table's name.
    pub fn name(&self) -> Name {
        self.source.name
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.source.rows.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.source.rows.is_empty()
    }

    /// Memory that rows and columns occupy, bytes.
    pub fn bytes(&self) -> usize {
        let cells: usize =
            self.cells.iter().filter_map(OnceLock::get).map(|cells| size_of_val(&**cells)).sum();
        let codes = self
            .codes
            .iter()
            .filter_map(OnceLock::get)
            .map(|codes| size_of_val(&*codes.of_row) + size_of_val(&*codes.cells));
        size_of_val(&*self.source.rows) + cells + codes.sum::<usize>()
    }

    /// The numbers of the selected rows; none if all are selected.
    pub(super) fn selected(
        &self,
        selection: Selection<'_>,
        cancel: &Cancel,
    ) -> Wanted<Option<Vec<u32>>> {
        cancel.check()?;
        let Selection { threads, processes, filter } = selection;
        let known = &self.source.analysis.trace.threads;
        let wanted: Option<Vec<bool>> = (!threads.is_empty() || !processes.is_empty()).then(|| {
            known
                .iter()
                .map(|(id, thread)| threads.contains(&id) || processes.contains(&thread.process))
                .collect()
        });
        let passes = filter.map(|filter| filter.select(&self.source));
        cancel.check()?;
        if wanted.is_none() && passes.is_none() {
            return Ok(None);
        }
        let pass = |row: &u32| {
            let thread =
                self.source.rows.get(*row as usize).map_or(ThreadId::IDLE, |row| row.thread);
            let own = wanted
                .as_ref()
                .is_none_or(|wanted| wanted.get(thread.index()).copied().unwrap_or(false));
            own && passes
                .as_ref()
                .is_none_or(|passes| passes.get(*row as usize).copied().unwrap_or(false))
        };
        Ok(Some((0..self.len() as u32).into_par_iter().filter(pass).collect()))
    }

    /// The selected rows, as indices of the trace's samples or events.
    pub fn indices(&self, selection: Selection<'_>, cancel: &Cancel) -> Wanted<Vec<usize>> {
        let index = |row: &Row| row.index as usize;
        Ok(match self.selected(selection, cancel)? {
            None => self.source.rows.iter().map(index).collect(),
            Some(rows) => rows.iter().filter_map(|&row| self.row(row)).map(index).collect(),
        })
    }

    /// The analysis behind the table.
    pub fn analysis(&self) -> &'a Analysis<'a> {
        self.source.analysis
    }

    /// The distinct stacks of a selection, leaf first, with the number and the time of their rows,
    /// in the order of their ids. The table must be [`Name::of_stacks`].
    pub(crate) fn weights(
        &self,
        kind: StackKind,
        selection: Selection<'_>,
        cancel: &Cancel,
    ) -> Wanted<Vec<(&'a [FrameId], u64, u64)>> {
        let rows = self.selected(selection, cancel)?;
        let weights = self.weigh(kind, rows.as_deref(), cancel)?;
        let frames = |(stack, (count, ns)): (u32, (u64, u64))| {
            (self.source.frames(kind, StackId(stack)), count, ns)
        };
        Ok((0..).zip(weights).filter(|(_, (count, _))| *count > 0).map(frames).collect())
    }

    /// By stack: the number and the time of its rows among `rows` (all for none).
    pub(super) fn weigh(
        &self,
        kind: StackKind,
        rows: Option<&[u32]>,
        cancel: &Cancel,
    ) -> Wanted<Vec<(u64, u64)>> {
        let stacks = self.source.analysis.trace.stacks.len();
        let count = rows.map_or(self.len(), <[u32]>::len);
        let part_len = count.div_ceil(rayon::current_num_threads()).max(STRIDE);
        let parts: Vec<Vec<(u64, u64)>> = (0..count.div_ceil(part_len))
            .into_par_iter()
            .map(|part| {
                let mut weights = vec![(0, 0); stacks];
                for at in part * part_len..((part + 1) * part_len).min(count) {
                    if at.is_multiple_of(STRIDE) {
                        cancel.check()?;
                    }
                    let Some(row) = self.row(rows.map_or(at as u32, |rows| rows[at])) else {
                        continue;
                    };
                    let ns = if kind == StackKind::Sample { row.ran_ns } else { row.slept_ns };
                    if let Some(weight) = weights.get_mut(row.stack.index()) {
                        let (count, sum): &mut (u64, u64) = weight;
                        (*count, *sum) =
                            (*count + 1, sum.saturating_add(u64::try_from(ns).unwrap_or(0)));
                    }
                }
                Ok(weights)
            })
            .collect::<Wanted<_>>()?;
        let mut parts = parts.into_iter();
        let mut all = parts.next().unwrap_or_default();
        for part in parts {
            all.iter_mut()
                .zip(part)
                .for_each(|(sum, more)| *sum = (sum.0 + more.0, sum.1.saturating_add(more.1)));
        }
        Ok(all)
    }

    pub(super) fn row(&self, row: u32) -> Option<&Row> {
        self.source.rows.get(row as usize)
    }

    pub(super) fn cell(&self, column: &Column, row: u32) -> Cell {
        match (self.cells.get(index_of(column)).and_then(OnceLock::get), self.row(row)) {
            (Some(cells), _) => cells.get(row as usize).copied().unwrap_or(NONE),
            (None, Some(row)) => (column.cell)(&self.source, row),
            (None, None) => NONE,
        }
    }

    /// A column's cells, computed when first asked for.
    pub(super) fn cells(&self, column: &Column, cancel: &Cancel) -> Wanted<&[Cell]> {
        cancel.check()?;
        let compute = || {
            self.source
                .rows
                .par_iter()
                .with_min_len(STRIDE)
                .map(|row| (column.cell)(&self.source, row))
                .collect()
        };
        Ok(self.cells.get(index_of(column)).map_or(&[], |cells| kept(cells, compute).as_slice()))
    }

    /// A column's cells as numbers, in the order of the cells' first occurrence.
    pub(super) fn codes(&self, column: &Column, cancel: &Cancel) -> Wanted<Option<&Codes>> {
        cancel.check()?;
        Ok(self.codes.get(index_of(column)).map(|codes| kept(codes, || self.encode(column))))
    }

    fn encode(&self, column: &Column) -> Codes {
        let part_len = self.len().div_ceil(rayon::current_num_threads()).max(STRIDE);
        let trace = self.source.analysis.trace;
        let numbers = || Numbers::new(trace.stacks.len().max(trace.strings.len()));
        // Each part numbers its own cells; their numbers are translated afterwards.
        let mut parts: Vec<(Vec<u32>, Vec<Cell>)> = self
            .source
            .rows
            .par_chunks(part_len)
            .map(|rows| {
                let mut numbers = numbers();
                (
                    rows.iter().map(|row| numbers.of((column.cell)(&self.source, row))).collect(),
                    numbers.cells,
                )
            })
            .collect();
        let mut numbers = numbers();
        let translations: Vec<Vec<u32>> = parts
            .iter()
            .map(|(_, own)| own.iter().map(|cell| numbers.of(*cell)).collect())
            .collect();
        parts.par_iter_mut().zip(&translations).for_each(|((of_row, _), translation)| {
            of_row.iter_mut().for_each(|number| *number = translation[*number as usize]);
        });
        let mut parts = parts.into_iter().map(|(of_row, _)| of_row);
        let mut of_row = parts.next().unwrap_or_default();
        parts.for_each(|part| of_row.extend_from_slice(&part));
        Codes { of_row, cells: numbers.cells }
    }

    /// A cell's value.
    pub(super) fn value(&self, kind: Kind, cell: Cell) -> Value {
        match kind {
            _ if cell == NONE => Value::Nothing,
            Kind::Text => Value::Text(self.source.with_text(cell, str::to_owned)),
            Kind::Stack(of) => {
                u32::try_from(cell).map_or(Value::Nothing, |stack| Value::Stack(of, StackId(stack)))
            }
            _ => Value::Number(cell),
        }
    }

    /// A group's key: distinguishes its cell from the others of the column, and stays the same
    /// whenever the table is read.
    pub(super) fn key(&self, kind: Kind, cell: Cell) -> String {
        match self.value(kind, cell) {
            Value::Nothing => "-".to_owned(),
            Value::Number(number) => format!("n{number}"),
            Value::Text(text) => format!("t{text}"),
            Value::Stack(_, stack) => format!("s{}", stack.0),
        }
    }

    /// The cell that a key stands for; none for a key of another column, or of a text that is nowhere.
    pub(super) fn cell_of(&self, kind: Kind, key: &str) -> Option<Cell> {
        match (key.split_at_checked(1)?, kind) {
            (("-", ""), _) => Some(NONE),
            (("t", text), Kind::Text) => self.source.find_text(text),
            (("s", stack), Kind::Stack(_)) => stack.parse::<u32>().ok().map(Cell::from),
            (("n", number), Kind::Duration | Kind::Time | Kind::Count | Kind::Number) => {
                number.parse().ok()
            }
            _ => None,
        }
    }
}

/// What is kept in `slot`, by `compute` if there is nothing yet. *Why not while the slot is locked:* who
/// computes it lets others help, and may meanwhile take up work that asks for the same, and wait for itself.
/// Two that ask at once may both compute it.
fn kept<T>(slot: &OnceLock<T>, compute: impl FnOnce() -> T) -> &T {
    match slot.get() {
        Some(known) => known,
        None => {
            let computed = compute();
            slot.get_or_init(|| computed)
        }
    }
}

/// Numbers cells in the order of their first occurrence.
struct Numbers {
    /// By cell, for small cells: names and stacks.
    dense: Vec<u32>,
    others: FxHashMap<Cell, u32>,
    cells: Vec<Cell>,
}

impl Numbers {
    const NEW: u32 = u32::MAX;

    fn new(small: usize) -> Self {
        Self { dense: vec![Self::NEW; small], others: FxHashMap::default(), cells: Vec::new() }
    }

    #[inline]
    fn of(&mut self, cell: Cell) -> u32 {
        let slot = match usize::try_from(cell).ok().and_then(|at| self.dense.get_mut(at)) {
            Some(slot) => slot,
            None => self.others.entry(cell).or_insert(Self::NEW),
        };
        if *slot == Self::NEW {
            *slot = self.cells.len() as u32;
            self.cells.push(cell);
        }
        *slot
    }
}

/// A column's index in the registry.
fn index_of(column: &Column) -> usize {
    COLUMNS.iter().position(|known| std::ptr::eq(known, column)).unwrap_or(usize::MAX)
}
