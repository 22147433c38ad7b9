//! Answers a query: filters, groups, sums, sorts. All columns are integers throughout.

use super::column::{Column, Kind};
use super::query::{Aggregate, Query, Shown};
use super::source::Source;
use super::sum::Sum;
use super::{Cell, NONE};
use crate::Analysis;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use unhitch_model::Window;

/// A query's answer: its columns, with their cells in order.
pub struct Table<'a> {
    pub(super) source: Source<'a>,
    pub(super) outputs: Vec<Output>,
    /// The number of rows shown.
    pub(super) len: usize,
    /// The number of rows without the limit.
    pub(super) total: usize,
    /// The number of single rows that passed the filter, shown or not.
    pub(super) passed: usize,
    /// The number of those outside the span that all CPUs cover.
    pub(super) outside: usize,
    /// What it is sorted by.
    pub(super) sort: Shown,
}

/// One column of the answer.
pub(super) struct Output {
    pub shown: Shown,
    pub cells: Vec<Cell>,
    /// For counts and sums of groups: the total of the rows not shown.
    pub rest: Option<Cell>,
}

impl<'a> Table<'a> {
    /// Answers `query` for `window`, with at most `top` rows.
    pub fn new(analysis: &'a Analysis<'a>, query: &Query, window: Window, top: usize) -> Self {
        let source = Source::new(analysis, query.table, window);
        let source = if query.by.is_none() { source.with_own_stacks() } else { source };
        let rows = selected(&source, query);
        let outside =
            rows.iter().filter(|&&row| source.is_outside(&source.rows[row as usize])).count();
        let (passed, sort) = (rows.len(), query.sort_in(analysis.trace));
        let (outputs, total) = match &query.by {
            None => single(&source, query, sort, rows, top),
            Some(by) => grouped(&source, query, sort, by, &rows, top),
        };
        Self { source, len: total.min(top), total, passed, outside, sort, outputs }
    }

    /// The number of rows shown.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when no row passed.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The numbers of the rows that pass the filter.
pub(super) fn selected(source: &Source<'_>, query: &Query) -> Vec<u32> {
    let all = 0..source.rows.len() as u32;
    match &query.filter {
        None => all.collect(),
        Some(filter) => {
            all.zip(filter.select(source)).filter(|(_, pass)| *pass).map(|(row, _)| row).collect()
        }
    }
}

fn cell(source: &Source<'_>, column: &Column, row: u32) -> Cell {
    (column.cell)(source, &source.rows[row as usize])
}

/// Single rows. Only the column to sort by is computed for all of them.
fn single(
    source: &Source<'_>,
    query: &Query,
    sort: Shown,
    mut rows: Vec<u32>,
    top: usize,
) -> (Vec<Output>, usize) {
    let total = rows.len();
    if let Shown::Column(column) = sort {
        let keys: Vec<Cell> = rows.iter().map(|&row| cell(source, column, row)).collect();
        let order = sorted(source, column.kind, &keys, query.descending);
        rows = order.into_iter().map(|at| rows[at as usize]).collect();
    }
    rows.truncate(top);
    let output = |&shown: &Shown| {
        let cells = match shown {
            Shown::Column(column) | Shown::Aggregate(_, column) => {
                rows.iter().map(|&row| cell(source, column, row)).collect()
            }
            Shown::Count => vec![1; rows.len()],
        };
        Output { shown, cells, rest: None }
    };
    (query.shown.iter().map(output).collect(), total)
}

/// Groups. Every row gets the number of its group, column by column; then the aggregates are
/// computed over those numbers.
fn grouped(
    source: &Source<'_>,
    query: &Query,
    sort: Shown,
    by: &[&'static Column],
    rows: &[u32],
    top: usize,
) -> (Vec<Output>, usize) {
    let mut group_of = vec![0u32; rows.len()];
    // The first row of each group.
    let mut firsts: Vec<u32> = rows.first().copied().into_iter().collect();
    for column in by {
        let mut numbers: FxHashMap<(u32, Cell), u32> = FxHashMap::default();
        firsts.clear();
        for (group, &row) in group_of.iter_mut().zip(rows) {
            *group = *numbers.entry((*group, cell(source, column, row))).or_insert_with(|| {
                firsts.push(row);
                firsts.len() as u32 - 1
            });
        }
    }
    let mut shown = query.shown.clone();
    let sort = shown.iter().position(|known| known.same(sort)).unwrap_or_else(|| {
        shown.push(sort);
        shown.len() - 1
    });
    let mut outputs: Vec<Output> = shown
        .iter()
        .map(|&shown| {
            let cells = match shown {
                Shown::Column(column) => {
                    firsts.iter().map(|&row| cell(source, column, row)).collect()
                }
                Shown::Count => count(&group_of, firsts.len()),
                Shown::Aggregate(aggregate, column) => {
                    fold(source, aggregate, column, rows, &group_of, firsts.len())
                }
            };
            Output { shown, cells, rest: None }
        })
        .collect();
    let order = sorted(source, shown[sort].kind(), &outputs[sort].cells, query.descending);
    outputs.truncate(query.shown.len());
    for output in &mut outputs {
        let mut cells: Vec<Cell> = order.iter().map(|&at| output.cells[at as usize]).collect();
        if matches!(output.shown, Shown::Count | Shown::Aggregate(Aggregate::Sum, _)) {
            let rest = cells.get(top..).unwrap_or(&[]).iter().filter(|cell| **cell != NONE);
            output.rest = Some(rest.fold(0, |sum: Cell, cell| sum.saturating_add(*cell)));
        }
        cells.truncate(top);
        output.cells = cells;
    }
    (outputs, firsts.len())
}

fn count(group_of: &[u32], groups: usize) -> Vec<Cell> {
    let mut counts = vec![0; groups];
    group_of.iter().for_each(|&group| counts[group as usize] += 1);
    counts
}

/// The aggregate of each group; [`NONE`] if no row of it has a value.
fn fold(
    source: &Source<'_>,
    aggregate: Aggregate,
    column: &Column,
    rows: &[u32],
    group_of: &[u32],
    groups: usize,
) -> Vec<Cell> {
    let mut sums = vec![Sum::default(); groups];
    for (&row, &group) in rows.iter().zip(group_of) {
        sums[group as usize].add(cell(source, column, row));
    }
    sums.into_iter().map(|sum| sum.value(aggregate)).collect()
}

/// The indices of `keys` in order. [`NONE`] comes last; equal keys keep their order.
fn sorted(source: &Source<'_>, kind: Kind, keys: &[Cell], descending: bool) -> Vec<u32> {
    first_sorted(source, kind, keys, descending, keys.len())
}

/// The first `count` of the same.
pub(super) fn first_sorted(
    source: &Source<'_>,
    kind: Kind,
    keys: &[Cell],
    descending: bool,
    count: usize,
) -> Vec<u32> {
    // Texts are compared by their alphabetical rank, computed once.
    let ranks: Option<FxHashMap<Cell, Cell>> = (kind == Kind::Text).then(|| {
        let mut distinct: Vec<Cell> = keys.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        distinct.sort_by_cached_key(|&cell| source.with_text(cell, str::to_owned));
        distinct.into_iter().zip(0..).collect()
    });
    let rank =
        |key: Cell| ranks.as_ref().map_or(key, |ranks| ranks.get(&key).copied().unwrap_or(key));
    let keys: Vec<(bool, Cell)> =
        keys.iter().map(|&key| (key == NONE, if key == NONE { key } else { rank(key) })).collect();
    let mut order: Vec<u32> = (0..keys.len() as u32).collect();
    let compare = |&a: &u32, &b: &u32| {
        let ((a_none, a_key), (b_none, b_key)) = (keys[a as usize], keys[b as usize]);
        let by_key = if descending { b_key.cmp(&a_key) } else { a_key.cmp(&b_key) };
        a_none.cmp(&b_none).then(by_key).then(a.cmp(&b))
    };
    if count < order.len() {
        order.select_nth_unstable_by(count, compare);
        order.truncate(count);
    }
    order.par_sort_unstable_by(compare);
    order
}
