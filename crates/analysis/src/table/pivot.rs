//! A pivot tree, one page of one level at a time: the groups inside an opened group, or its single
//! rows, sorted.
//!
//! Only what is on the screen is computed: for a closed group, only its own line. Every core sums
//! its part of the rows in arrays with one element per distinct cell; the sums are then added.

use super::column::Column;
use super::query::{Heading, Query, Shown};
use super::rows::Row;
use super::run::first_sorted;
use super::stored::{Codes, STRIDE, Selection, Stored, Value};
use super::sum::Sum;
use super::{Cell, NONE, Name};
use crate::cancel::{Cancel, Wanted};
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::ops::Range;
use unhitch_model::{ThreadId, Window};

/// A page of a level.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PivotLevel {
    /// The columns; in a level of groups, the column to group by comes first.
    pub headings: Vec<Heading>,
    /// The page's lines.
    pub lines: Vec<Line>,
    /// The number of lines of the level.
    pub total: usize,
    /// For groups: each aggregate over the whole level.
    pub totals: Vec<Option<i64>>,
    /// The number of single rows in the level.
    pub matched: usize,
    /// The number of those outside the span that all CPUs cover.
    pub outside: usize,
}

/// A group, or a single row.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// For a group: its key in paths.
    pub key: Option<String>,
    /// One per heading.
    pub cells: Vec<Value>,
    /// For a group whose next level is single rows: their number.
    pub children: Option<u64>,
    /// For a single row: where it is on the timeline.
    pub position: Option<Position>,
}

/// Where a row is on the timeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// When; for an event, an empty window.
    pub window: Window,
    /// The thread whose lane it is on; none for a row about a CPU.
    pub thread: Option<ThreadId>,
    /// The CPU, if it is known.
    pub cpu: Option<u16>,
}

/// Which page of a pivot tree to compute. The filter is the selection's, not the query's.
#[derive(Clone, Copy, Debug)]
pub struct PivotQuestion<'q> {
    /// The columns to group by, from the outside in (single rows if there are none), and to show.
    pub query: &'q Query,
    /// The columns of the opened groups, from the outside in.
    pub opened: &'q [&'static Column],
    /// The keys of the opened groups, one per column in `opened`.
    pub path: &'q [String],
    /// Which rows.
    pub selection: Selection<'q>,
    /// The first line of the page, and the maximum number of lines.
    pub page: (usize, usize),
}

/// Whom the rows of a group are about, and when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Members {
    /// The threads, in the order of their ids, at most [`Members::MAX`] of them.
    pub threads: Vec<ThreadId>,
    /// True if there are more.
    pub more: bool,
    /// From the first row's start to the last one's end; none without rows.
    pub window: Option<Window>,
}

impl Members {
    /// Maximum threads.
    pub const MAX: usize = 64;
}

/// The cells of each output column by group, and each column over all groups.
type Aggregates = (Vec<Vec<Cell>>, Vec<Option<Cell>>);

impl Stored<'_> {
    /// A page of a level. A path to a group that does not exist leads to an empty level.
    pub fn level(&self, question: PivotQuestion<'_>, cancel: &Cancel) -> Wanted<PivotLevel> {
        let mut rows = self.selected(question.selection, cancel)?;
        for (column, key) in question.opened.iter().zip(question.path) {
            rows = Some(self.inside(column, key, rows, cancel)?);
        }
        let page = question.page.0..question.page.0.saturating_add(question.page.1);
        match question.query.groups().get(question.path.len()) {
            Some(column) => self.groups(
                question.query,
                column,
                question.path.len(),
                rows.as_deref(),
                page,
                cancel,
            ),
            None => self.singles(question.query, rows, page, cancel),
        }
    }

    /// The members of an opened group. *Why not sent with every group:* only the menu of one needs
    /// them, and they take a pass over all rows.
    pub fn members(&self, question: PivotQuestion<'_>, cancel: &Cancel) -> Wanted<Members> {
        let mut rows = self.selected(question.selection, cancel)?;
        for (column, key) in question.opened.iter().zip(question.path) {
            rows = Some(self.inside(column, key, rows, cancel)?);
        }
        let rows = rows.unwrap_or_else(|| (0..self.len() as u32).collect());
        let (mut threads, mut more, mut window) = (BTreeSet::new(), false, None::<Window>);
        for part in rows.chunks(STRIDE) {
            cancel.check()?;
            for row in part.iter().filter_map(|&row| self.row(row)) {
                if threads.len() < Members::MAX || threads.contains(&row.thread) {
                    threads.insert(row.thread);
                } else {
                    more = true;
                }
                let own = Window::new(row.start, row.end);
                window = Some(window.map_or(own, |window| window.joined(own)));
            }
        }
        Ok(Members { threads: threads.into_iter().collect(), more, window })
    }

    /// Those of `rows` (all for none) whose cell has that key.
    fn inside(
        &self,
        column: &'static Column,
        key: &str,
        rows: Option<Vec<u32>>,
        cancel: &Cancel,
    ) -> Wanted<Vec<u32>> {
        let Some(codes) = self.codes(column, cancel)? else { return Ok(Vec::new()) };
        let wanted = self
            .cell_of(column.kind, key)
            .and_then(|cell| codes.cells.iter().position(|known| *known == cell));
        let Some(wanted) = wanted.map(|code| code as u32) else { return Ok(Vec::new()) };
        let is_inside = |row: &u32| codes.of_row[*row as usize] == wanted;
        Ok(match rows {
            Some(rows) => rows.into_par_iter().filter(is_inside).collect(),
            None => (0..self.len() as u32).into_par_iter().filter(is_inside).collect(),
        })
    }

    fn groups(
        &self,
        query: &Query,
        column: &'static Column,
        level: usize,
        rows: Option<&[u32]>,
        page: Range<usize>,
        cancel: &Cancel,
    ) -> Wanted<PivotLevel> {
        let Some(codes) = self.codes(column, cancel)? else { return Ok(PivotLevel::default()) };
        let aggregated = |shown: &Shown| !matches!(shown, Shown::Column(_));
        let mut shown: Vec<Shown> = query.shown.iter().copied().filter(aggregated).collect();
        let shown_len = shown.len();
        let wanted = query.sort_in(self.source.analysis.trace);
        let mut sort = shown.iter().position(|known| known.same(wanted));
        if sort.is_none() && aggregated(&wanted) {
            sort = Some(shown_len);
            shown.push(wanted);
        }
        let counts = self.counts(rows, codes, cancel)?;
        let present: Vec<u32> =
            (0..codes.cells.len() as u32).filter(|code| counts[*code as usize] > 0).collect();
        let (columns, mut totals) =
            self.aggregates(&shown, rows, codes, (&counts, &present), cancel)?;
        cancel.check()?;
        let own: Vec<Cell> = present.iter().map(|code| codes.cells[*code as usize]).collect();
        let total = present.len();
        let page = page.start.min(total)..page.end.min(total);
        let order = match sort {
            Some(at) => first_sorted(
                &self.source,
                shown[at].kind(),
                &columns[at],
                query.descending,
                page.end,
            ),
            None => first_sorted(&self.source, column.kind, &own, query.descending, page.end),
        };
        let last = level + 1 == query.groups().len();
        let line = |at: &u32| {
            let at = *at as usize;
            let of_shown =
                |(shown, column): (&Shown, &Vec<Cell>)| self.value(shown.kind(), column[at]);
            Line {
                key: Some(self.key(column.kind, own[at])),
                cells: [self.value(column.kind, own[at])]
                    .into_iter()
                    .chain(shown[..shown_len].iter().zip(&columns).map(of_shown))
                    .collect(),
                children: last.then_some(counts[present[at] as usize]),
                position: None,
            }
        };
        totals.truncate(shown_len);
        Ok(PivotLevel {
            headings: [Shown::Column(column)]
                .iter()
                .chain(&shown[..shown_len])
                .map(|shown| shown.heading())
                .collect(),
            lines: order.get(page).unwrap_or(&[]).iter().map(line).collect(),
            total,
            totals: [None].into_iter().chain(totals).collect(),
            matched: rows.map_or(self.len(), <[u32]>::len),
            outside: self.outside(rows),
        })
    }

    /// The cells of each of `shown`, counts and aggregates, for the groups `present`, and each over
    /// all groups. A column with several aggregates is added up once.
    fn aggregates(
        &self,
        shown: &[Shown],
        rows: Option<&[u32]>,
        codes: &Codes,
        (counts, present): (&[u64], &[u32]),
        cancel: &Cancel,
    ) -> Wanted<Aggregates> {
        let (mut columns, mut totals) = (Vec::new(), Vec::new());
        let mut summed: Vec<(&Column, Vec<Sum>)> = Vec::new();
        for shown in shown {
            let (column, total) = match *shown {
                Shown::Aggregate(aggregate, column) => {
                    let known = summed.iter().position(|(known, _)| std::ptr::eq(*known, column));
                    let at = known.unwrap_or(summed.len());
                    if known.is_none() {
                        summed.push((
                            column,
                            self.sums(rows, codes, self.cells(column, cancel)?, cancel)?,
                        ));
                    }
                    let sums = &summed[at].1;
                    let mut total = Sum::default();
                    sums.iter().for_each(|sum| total.join(*sum));
                    (
                        present
                            .iter()
                            .map(|code| sums[*code as usize].value(aggregate))
                            .collect::<Vec<Cell>>(),
                        total.value(aggregate),
                    )
                }
                Shown::Count | Shown::Column(_) => (
                    present.iter().map(|code| counts[*code as usize] as Cell).collect(),
                    counts.iter().sum::<u64>() as Cell,
                ),
            };
            totals.push(Some(total).filter(|total| *total != NONE));
            columns.push(column);
        }
        Ok((columns, totals))
    }

    /// The number of rows (of all for none) in each group.
    fn counts(&self, rows: Option<&[u32]>, codes: &Codes, cancel: &Cancel) -> Wanted<Vec<u64>> {
        self.grouped(
            rows,
            codes,
            |count: &mut u64, _| *count += 1,
            |count, more| *count += more,
            cancel,
        )
    }

    /// The sums of the rows' values (of all rows for none) in each group, without rows that have no
    /// value.
    fn sums(
        &self,
        rows: Option<&[u32]>,
        codes: &Codes,
        values: &[Cell],
        cancel: &Cancel,
    ) -> Wanted<Vec<Sum>> {
        let add = |sum: &mut Sum, row: usize| sum.add(values[row]);
        self.grouped(rows, codes, add, Sum::join, cancel)
    }

    /// Adds every row (all for none) to its group, each core a part of the rows.
    fn grouped<T: Copy + Default + Send>(
        &self,
        rows: Option<&[u32]>,
        codes: &Codes,
        add: impl Fn(&mut T, usize) + Sync,
        join: impl Fn(&mut T, T),
        cancel: &Cancel,
    ) -> Wanted<Vec<T>> {
        let count = rows.map_or(self.len(), <[u32]>::len);
        let part_len = count.div_ceil(rayon::current_num_threads()).max(STRIDE);
        let parts: Vec<Vec<T>> = (0..count.div_ceil(part_len))
            .into_par_iter()
            .map(|part| {
                let mut groups = vec![T::default(); codes.cells.len()];
                let mine = part * part_len..((part + 1) * part_len).min(count);
                for from in mine.clone().step_by(STRIDE) {
                    cancel.check()?;
                    let stride = from..(from + STRIDE).min(mine.end);
                    let mut take = |row: usize| add(&mut groups[codes.of_row[row] as usize], row);
                    match rows {
                        Some(rows) => rows[stride].iter().for_each(|row| take(*row as usize)),
                        None => stride.for_each(take),
                    }
                }
                Ok(groups)
            })
            .collect::<Wanted<_>>()?;
        let mut parts = parts.into_iter();
        let mut all = parts.next().unwrap_or_else(|| vec![T::default(); codes.cells.len()]);
        for part in parts {
            all.iter_mut().zip(part).for_each(|(group, more)| join(group, more));
        }
        Ok(all)
    }

    /// Single rows. Only the column to sort by is computed for all of them.
    fn singles(
        &self,
        query: &Query,
        rows: Option<Vec<u32>>,
        page: Range<usize>,
        cancel: &Cancel,
    ) -> Wanted<PivotLevel> {
        let mut rows = rows.unwrap_or_else(|| (0..self.len() as u32).collect());
        let (total, outside) = (rows.len(), self.outside(Some(&rows)));
        let page = page.start.min(total)..page.end.min(total);
        if let Shown::Column(column) = query.sort_in(self.source.analysis.trace) {
            let all = self.cells(column, cancel)?;
            let keys: Vec<Cell> = rows.iter().map(|row| all[*row as usize]).collect();
            rows = first_sorted(&self.source, column.kind, &keys, query.descending, page.end)
                .into_iter()
                .map(|at| rows[at as usize])
                .collect();
        }
        cancel.check()?;
        let columns: Vec<&'static Column> = query
            .shown
            .iter()
            .filter_map(|shown| match shown {
                Shown::Column(column) | Shown::Aggregate(_, column) => Some(*column),
                Shown::Count => None,
            })
            .collect();
        let line = |row: &u32| Line {
            key: None,
            cells: columns
                .iter()
                .map(|column| self.value(column.kind, self.cell(column, *row)))
                .collect(),
            children: None,
            position: self.position(*row),
        };
        Ok(PivotLevel {
            headings: columns.iter().map(|column| Shown::Column(column).heading()).collect(),
            lines: rows.get(page).unwrap_or(&[]).iter().map(line).collect(),
            total,
            totals: vec![None; columns.len()],
            matched: total,
            outside,
        })
    }

    /// The number of rows (of all for none) outside the span that all CPUs cover.
    fn outside(&self, rows: Option<&[u32]>) -> usize {
        let covered = self.source.analysis.timeline.window();
        if self.source.window.intersect(covered) == self.source.window {
            return 0;
        }
        let is_outside = |row: &Row| self.source.is_outside(row);
        match rows {
            Some(rows) => rows
                .par_iter()
                .filter_map(|&row| self.row(row))
                .filter(|row| is_outside(row))
                .count(),
            None => self.source.rows.par_iter().filter(|row| is_outside(row)).count(),
        }
    }

    fn position(&self, row: u32) -> Option<Position> {
        let row = self.row(row)?;
        let about_cpu = self.name() == Name::Cpus;
        Some(Position {
            window: Window::new(row.start, row.end),
            thread: (!about_cpu).then_some(row.thread),
            cpu: (row.cpu != u16::MAX).then_some(row.cpu),
        })
    }
}
