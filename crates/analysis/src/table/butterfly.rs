//! The butterfly of a function: who calls it and what it calls, on wait stacks, wake stacks or CPU
//! samples; without a function, the ranking of all functions.
//!
//! *Why on wake stacks:* "which function is on most of the stacks that wake somebody, and how much
//! waiting did those wake-ups end?" finds a saturated lock at once, where following one wait after
//! another takes an evening. A stack counts once for a function, however often the function is on
//! it; callers and callees are those around its outermost call, so that every stack is on exactly
//! one path.

use super::column::{self, StackKind};
use super::query::Query;
use super::rows::{Source, frames};
use super::run::selected;
use super::stored::{Selection, Stored};
use super::{Cell, NONE, Name};
use crate::Analysis;
use crate::cancel::{Cancel, Wanted};
use crate::stacks::frames::is_scaffold;
use crate::wording::units;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::cmp::Reverse;
use std::fmt::Write;
use unhitch_model::{StackId, Window};

/// Which stacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Of {
    /// Where threads slept: how long.
    Wait,
    /// From where threads were woken: how long a sleep that ended.
    Wake,
    /// Where CPUs were seen executing: the time that the samples stand for.
    Sample,
}

impl Of {
    /// The table whose rows are counted; its filters and columns apply.
    pub const fn table(self) -> Name {
        match self {
            Self::Wait => Name::Waits,
            Self::Wake => Name::Wakes,
            Self::Sample => Name::Samples,
        }
    }

    /// The word for it in options and JSON.
    pub const fn word(self) -> &'static str {
        self.words().0
    }

    const fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Wait => ("wait", "waits", "waited"),
            Self::Wake => ("wake", "wake-ups", "wait ended"),
            Self::Sample => ("sample", "samples", "time"),
        }
    }

    pub(super) const fn stack_kind(self) -> StackKind {
        match self {
            Self::Wait => StackKind::Wait,
            Self::Wake => StackKind::Wake,
            Self::Sample => StackKind::Sample,
        }
    }
}

/// What a line of a butterfly is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// A function.
    Function,
    /// A module: an executable file, a library, the kernel.
    Module,
    /// A source file.
    File,
}

impl Level {
    /// The word for it in options and JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Module => "module",
            Self::File => "file",
        }
    }
}

/// Which wing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Towards the root.
    Callers,
    /// Towards the leaf.
    Callees,
}

/// What is asked; [`Query`] carries the filter, and must be of the table [`Of::table`].
#[derive(Clone, Copy, Debug)]
pub struct Question<'q> {
    /// Which stacks.
    pub of: Of,
    /// Which rows.
    pub query: &'q Query,
    /// When.
    pub window: Window,
    /// What a line is.
    pub level: Level,
}

/// A node of the tree: what was counted through here.
#[derive(Serialize, Debug, PartialEq, Eq)]
pub struct Node {
    /// The function, module or file.
    pub name: String,
    /// Stacks.
    pub count: u64,
    /// Their time.
    pub total_ns: u64,
    /// Callers or callees, the most time first.
    pub children: Vec<Node>,
}

/// The tree of one function's callers or callees.
#[derive(Serialize, Debug)]
pub struct Butterfly {
    version: u32,
    of: &'static str,
    by: &'static str,
    direction: &'static str,
    /// What the user's word matched.
    pub matched: Vec<String>,
    /// All stacks counted, with or without the function.
    pub all_count: u64,
    /// Their time.
    pub all_total_ns: u64,
    /// The function with its callers or callees.
    pub tree: Node,
    #[serde(skip)]
    kind: Of,
}

/// A line of the ranking.
#[derive(Serialize, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// The function, module or file.
    pub name: String,
    /// Stacks with it.
    pub count: u64,
    /// Their time.
    pub total_ns: u64,
    /// Of that, where it is the innermost.
    pub self_ns: u64,
}

/// All functions by the time of the stacks that they are on, but for those that start every thread
/// and enter every system call.
#[derive(Serialize, Debug)]
pub struct Ranking {
    version: u32,
    of: &'static str,
    by: &'static str,
    /// All stacks counted.
    pub all_count: u64,
    /// Their time.
    pub all_total_ns: u64,
    /// The most time first.
    pub ranking: Vec<Ranked>,
    #[serde(skip)]
    kind: Of,
}

/// Of the names that a user's word means, so many are told.
const MOST_MATCHED: usize = 5;

/// Deeper stacks are cut at their far end.
const DEEPEST: usize = 512;

/// A stack as a path of cells, root first, and what it weighs.
struct Path {
    cells: Vec<Cell>,
    count: u64,
    ns: u64,
}

/// A node while stacks are added.
#[derive(Default)]
struct Growing {
    count: u64,
    ns: u64,
    children: FxHashMap<Cell, Growing>,
}

impl Growing {
    fn add(&mut self, path: &Path) {
        self.count += path.count;
        self.ns = self.ns.saturating_add(path.ns);
    }

    fn grow(&mut self, path: &Path, way: &mut dyn Iterator<Item = Cell>) {
        let mut node = self;
        node.add(path);
        for cell in way.take(DEEPEST) {
            node = node.children.entry(cell).or_default();
            node.add(path);
        }
    }

    fn finish(self, source: &Source<'_>, name: String) -> Node {
        let mut children: Vec<Node> = self
            .children
            .into_iter()
            .map(|(cell, child)| child.finish(source, source.with_text(cell, str::to_owned)))
            .collect();
        children.sort_by(|a, b| {
            (Reverse((a.total_ns, a.count)), &a.name)
                .cmp(&(Reverse((b.total_ns, b.count)), &b.name))
        });
        Node { name, count: self.count, total_ns: self.ns, children }
    }
}

/// The stacks of some rows (all, if none are named), each once, as paths.
fn paths(
    stored: &Stored<'_>,
    of: Of,
    level: Level,
    rows: Option<&[u32]>,
    cancel: &Cancel,
) -> Wanted<Vec<Path>> {
    let source = &stored.source;
    let path = |(stack, (count, ns)): (u32, (u64, u64))| {
        let frames = frames(source.analysis, of.stack_kind(), StackId(stack)).iter().rev();
        let cells = frames.map(|&frame| match level {
            Level::Function => column::function_of(source, frame),
            Level::Module => column::module_of(source, frame),
            Level::File => column::file_of(source, frame),
        });
        let mut cells: Vec<Cell> = cells.filter(|cell| *cell != NONE).collect();
        if level != Level::Function {
            cells.dedup();
        }
        Path { cells, count, ns }
    };
    let weights = stored.weigh(of, rows, cancel)?;
    let weighty: Vec<(u32, (u64, u64))> =
        (0..).zip(weights).filter(|(_, (count, _))| *count > 0).collect();
    weighty
        .into_par_iter()
        .with_min_len(1 << 10)
        .map(|stack| cancel.check().map(|()| path(stack)))
        .collect()
}

/// The stored table of a question, and the rows that its filter picks.
fn asked<'a>(analysis: &'a Analysis<'a>, question: &Question<'_>) -> (Stored<'a>, Vec<u32>) {
    let stored = Stored::new(analysis, question.of.table(), question.window);
    let rows = selected(&stored.source, question.query);
    (stored, rows)
}

/// What a user's word means among the names on the paths: those equal to it, else those that
/// contain it, in any case.
fn matching(source: &Source<'_>, paths: &[Path], word: &str) -> Vec<Cell> {
    let mut cells: Vec<Cell> = paths.iter().flat_map(|path| path.cells.iter().copied()).collect();
    cells.sort_unstable();
    cells.dedup();
    let equal: Vec<Cell> =
        cells.iter().copied().filter(|&cell| source.with_text(cell, |text| text == word)).collect();
    if !equal.is_empty() {
        return equal;
    }
    let word = word.to_lowercase();
    cells.retain(|&cell| source.with_text(cell, |text| text.to_lowercase().contains(&word)));
    cells
}

impl Butterfly {
    /// The callers or callees of `function`; none when no stack has it.
    pub fn new(
        analysis: &Analysis<'_>,
        question: Question<'_>,
        direction: Direction,
        function: &str,
    ) -> Option<Self> {
        let (stored, rows) = asked(analysis, &question);
        Self::grown(
            &stored,
            question.of,
            question.level,
            direction,
            function,
            Some(&rows),
            &Cancel::never(),
        )
        .unwrap_or(None)
    }

    /// The same on a stored table, which must be that of `of`.
    pub fn of(
        stored: &Stored<'_>,
        (of, level, direction): (Of, Level, Direction),
        function: &str,
        selection: Selection<'_>,
        cancel: &Cancel,
    ) -> Wanted<Option<Self>> {
        let rows = stored.selected(selection, cancel)?;
        Self::grown(stored, of, level, direction, function, rows.as_deref(), cancel)
    }

    fn grown(
        stored: &Stored<'_>,
        of: Of,
        level: Level,
        direction: Direction,
        function: &str,
        rows: Option<&[u32]>,
        cancel: &Cancel,
    ) -> Wanted<Option<Self>> {
        let source = &stored.source;
        let paths = paths(stored, of, level, rows, cancel)?;
        let wanted = matching(source, &paths, function);
        let mut tree = Growing::default();
        for path in &paths {
            let Some(at) = path.cells.iter().position(|cell| wanted.contains(cell)) else {
                continue;
            };
            match direction {
                Direction::Callers => tree.grow(path, &mut path.cells[..at].iter().rev().copied()),
                Direction::Callees => tree.grow(path, &mut path.cells[at + 1..].iter().copied()),
            }
        }
        let mut matched: Vec<String> =
            wanted.iter().map(|&cell| source.with_text(cell, str::to_owned)).collect();
        matched.sort_unstable();
        let name = match matched.as_slice() {
            [] => return Ok(None),
            [one] => one.clone(),
            _ => format!("*{function}*"),
        };
        Ok(Some(Self {
            version: 1,
            of: of.word(),
            by: level.word(),
            direction: if direction == Direction::Callers { "callers" } else { "callees" },
            matched,
            all_count: paths.iter().map(|path| path.count).sum(),
            all_total_ns: paths.iter().map(|path| path.ns).sum(),
            tree: tree.finish(source, name),
            kind: of,
        }))
    }

    /// The tree for people, at most `top` lines of it, the weightiest.
    pub fn text(&self, top: usize) -> String {
        let (_, stacks, time) = self.kind.words();
        let mut out = format!(
            "{} is on {} of {} {stacks}: {time} {} of {} ({})\n",
            self.tree.name,
            units::count(self.tree.count),
            units::count(self.all_count),
            units::duration(self.tree.total_ns),
            units::duration(self.all_total_ns),
            units::percent(self.tree.total_ns, self.all_total_ns),
        );
        if let [_, _, ..] = self.matched.as_slice() {
            let (some, more) = self.matched.split_at(self.matched.len().min(MOST_MATCHED));
            let more =
                if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
            let _ = writeln!(
                out,
                "which means any of {}: {}{more}",
                self.matched.len(),
                some.join(", ")
            );
        }
        let _ =
            writeln!(out, "{:>10}  {time:>12}  {:>7}  {} of it", "count", "share", self.direction);
        let nodes = self.tree.flat();
        // The weightiest; a parent weighs no less than its child and comes before it, so whoever is
        // shown hangs on something shown.
        let mut order: Vec<usize> = (0..nodes.len()).collect();
        order.sort_by_key(|&at| Reverse((nodes[at].1.total_ns, nodes[at].1.count)));
        order.truncate(top);
        order.sort_unstable();
        for &(indent, node) in order.iter().map(|&at| &nodes[at]) {
            let (count, time) = (units::count(node.count), units::duration(node.total_ns));
            let share = units::percent(node.total_ns, self.tree.total_ns);
            let _ =
                writeln!(out, "{count:>10}  {time:>12}  {share:>7}  {:indent$}{}", "", node.name);
        }
        if nodes.len() > order.len() {
            let (rest, all) = (nodes.len() - order.len(), nodes.len());
            let _ = writeln!(
                out,
                "… and {} of {} smaller lines (--top N)",
                units::count(rest as u64),
                units::count(all as u64)
            );
        }
        out
    }
}

impl Node {
    /// The tree as lines with their indent. A child that carries all of its parent's weight stays
    /// at the parent's: a chain is no staircase.
    fn flat(&self) -> Vec<(usize, &Self)> {
        let (mut lines, mut open) = (Vec::new(), vec![(0, self)]);
        while let Some((indent, node)) = open.pop() {
            lines.push((indent, node));
            let alone = node
                .children
                .first()
                .is_some_and(|child| (child.total_ns, child.count) == (node.total_ns, node.count));
            open.extend(
                node.children
                    .iter()
                    .rev()
                    .map(|child| (if alone { indent } else { indent + 2 }, child)),
            );
        }
        lines
    }
}

impl Ranking {
    /// All functions, modules or files of the question.
    pub fn new(analysis: &Analysis<'_>, question: Question<'_>) -> Self {
        let (stored, rows) = asked(analysis, &question);
        Self::ranked(&stored, question.of, question.level, Some(&rows), &Cancel::never())
            .unwrap_or_else(|_| Self::empty(question))
    }

    /// The same on a stored table, which must be that of `of`.
    pub fn of(
        stored: &Stored<'_>,
        of: Of,
        level: Level,
        selection: Selection<'_>,
        cancel: &Cancel,
    ) -> Wanted<Self> {
        let rows = stored.selected(selection, cancel)?;
        Self::ranked(stored, of, level, rows.as_deref(), cancel)
    }

    fn empty(question: Question<'_>) -> Self {
        let (of, by) = (question.of.word(), question.level.word());
        Self {
            version: 1,
            of,
            by,
            all_count: 0,
            all_total_ns: 0,
            ranking: Vec::new(),
            kind: question.of,
        }
    }

    fn ranked(
        stored: &Stored<'_>,
        of: Of,
        level: Level,
        rows: Option<&[u32]>,
        cancel: &Cancel,
    ) -> Wanted<Self> {
        let source = &stored.source;
        let paths = paths(stored, of, level, rows, cancel)?;
        let mut sums: FxHashMap<Cell, (u64, u64, u64)> = FxHashMap::default();
        for path in &paths {
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
        Ok(Self {
            version: 1,
            of: of.word(),
            by: level.word(),
            all_count: paths.iter().map(|path| path.count).sum(),
            all_total_ns: paths.iter().map(|path| path.ns).sum(),
            ranking,
            kind: of,
        })
    }

    /// The ranking for people, at most `top` lines.
    pub fn text(&self, top: usize) -> String {
        let (_, stacks, time) = self.kind.words();
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
