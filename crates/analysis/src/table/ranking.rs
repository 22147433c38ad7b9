//! The ranking of all functions by the time of the stacks that they are on.

use super::Cell;
use super::stack_paths::{GroupBy, Path, StackQuestion, asked, nouns, paths};
use super::stored::{Selection, Stored};
use crate::Analysis;
use crate::cancel::{Cancel, Wanted};
use crate::stacks::StackKind;
use crate::stacks::function_names::is_scaffold;
use crate::wording::units;
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::cmp::Reverse;
use std::fmt::Write;

/// A line of the ranking.
#[derive(Serialize, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// The function, module or file.
    pub name: String,
    /// Number of stacks with it.
    pub count: u64,
    /// Their time.
    pub total_ns: u64,
    /// The part of that in which it is the innermost.
    pub self_ns: u64,
}

/// All functions by the time of the stacks that they are on, except those that start every thread
/// or enter every system call.
#[derive(Serialize, Debug)]
pub struct Ranking {
    version: u32,
    of: &'static str,
    by: &'static str,
    /// Number of all stacks.
    pub all_count: u64,
    /// Their time.
    pub all_total_ns: u64,
    /// The most time first.
    pub ranking: Vec<Ranked>,
    #[serde(skip)]
    kind: StackKind,
}

impl Ranking {
    /// All functions, modules or files of the question.
    pub fn new(analysis: &Analysis<'_>, question: StackQuestion<'_>) -> Self {
        let (stored, rows) = asked(analysis, &question);
        let paths = paths(&stored, question.kind, question.by, Some(&rows), &Cancel::never());
        Self::ranked(&stored, question.kind, question.by, &paths.unwrap_or_default())
    }

    /// The same on a stored table, which must be that of `kind`.
    pub fn of(
        stored: &Stored<'_>,
        kind: StackKind,
        by: GroupBy,
        selection: Selection<'_>,
        cancel: &Cancel,
    ) -> Wanted<Self> {
        let rows = stored.selected(selection, cancel)?;
        Ok(Self::ranked(stored, kind, by, &paths(stored, kind, by, rows.as_deref(), cancel)?))
    }

    fn ranked(stored: &Stored<'_>, kind: StackKind, by: GroupBy, paths: &[Path]) -> Self {
        let source = &stored.source;
        let mut sums: FxHashMap<Cell, (u64, u64, u64)> = FxHashMap::default();
        for path in paths {
            let mut cells = path.cells.clone();
            cells.sort_unstable();
            cells.dedup();
            for cell in cells {
                let sum = sums.entry(cell).or_default();
                let innermost = if path.cells.last() == Some(&cell) { path.ns } else { 0 };
                *sum = (
                    sum.0 + path.count,
                    sum.1.saturating_add(path.ns),
                    sum.2.saturating_add(innermost),
                );
            }
        }
        let ranked = sums.into_iter().map(|(cell, (count, total_ns, self_ns))| {
            let name = source.with_text(cell, str::to_owned);
            Ranked { name, count, total_ns, self_ns }
        });
        let mut ranking: Vec<Ranked> = ranked.filter(|ranked| !is_scaffold(&ranked.name)).collect();
        ranking.sort_by(|a, b| {
            (Reverse((a.total_ns, a.count)), &a.name)
                .cmp(&(Reverse((b.total_ns, b.count)), &b.name))
        });
        Self {
            version: 1,
            of: kind.word(),
            by: by.word(),
            all_count: paths.iter().map(|path| path.count).sum(),
            all_total_ns: paths.iter().map(|path| path.ns).sum(),
            ranking,
            kind,
        }
    }

    /// The ranking as text, at most `top` lines.
    pub fn text(&self, top: usize) -> String {
        let (stacks, time) = nouns(self.kind);
        let mut out = format!(
            "{} {stacks}, {time} {}\n",
            units::count(self.all_count),
            units::duration(self.all_total_ns)
        );
        let _ = writeln!(
            out,
            "{:>10}  {time:>12}  {:>7}  {:>12}  {} on these stacks",
            "count", "share", "innermost", self.by
        );
        for ranked in self.ranking.iter().take(top) {
            let _ = writeln!(
                out,
                "{:>10}  {:>12}  {:>7}  {:>12}  {}",
                units::count(ranked.count),
                units::duration(ranked.total_ns),
                units::percent(ranked.total_ns, self.all_total_ns),
                units::duration(ranked.self_ns),
                ranked.name
            );
        }
        if self.ranking.len() > top {
            let (more, all) = ((self.ranking.len() - top) as u64, self.ranking.len() as u64);
            let _ = writeln!(
                out,
                "… and {} more of {} (--top N)",
                units::count(more),
                units::plural(all, self.by)
            );
        }
        out
    }
}
