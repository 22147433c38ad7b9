//! The butterfly of a function: who calls it and what it calls, on wait stacks, wake stacks or CPU
//! samples.
//!
//! *Why on wake stacks:* "which function is on most of the stacks that wake somebody, and how much
//! waiting did those wake-ups end?" finds a saturated lock at once; following one wait after
//! another takes an evening. A stack counts once for a function, however often the function is on
//! it. Its callers and callees are those around its outermost call, so that every stack is on
//! exactly one path.

use super::Cell;
use super::source::Source;
use super::stack_paths::{GroupBy, Path, StackQuestion, asked, nouns, paths};
use super::stored::{Selection, Stored};
use crate::Analysis;
use crate::cancel::{Cancel, Wanted};
use crate::stacks::StackKind;
use crate::wording::units;
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::cmp::Reverse;
use std::fmt::Write;

/// Which wing of the butterfly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Towards the root.
    Callers,
    /// Towards the leaf.
    Callees,
}

/// A node of the tree.
#[derive(Serialize, Debug, PartialEq, Eq)]
pub struct Node {
    /// The function, module or file.
    pub name: String,
    /// Number of stacks through the node.
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
    /// The names that the user's word matched.
    pub matched: Vec<String>,
    /// Number of all stacks, with or without the function.
    pub all_count: u64,
    /// Their time.
    pub all_total_ns: u64,
    /// The function with its callers or callees.
    pub tree: Node,
    #[serde(skip)]
    kind: StackKind,
}

/// Maximum names printed of those that a user's word matches.
const MAX_MATCHED: usize = 5;

/// Maximum depth of the tree, frames; longer paths are cut at the end away from the function.
const MAX_DEPTH: usize = 512;

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
        for cell in way.take(MAX_DEPTH) {
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

/// The names on the paths that a user's word matches: those equal to it, else those that contain
/// it, in any case.
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
    /// The callers or callees of `function`; none if it is on no stack.
    pub fn new(
        analysis: &Analysis<'_>,
        question: StackQuestion<'_>,
        direction: Direction,
        function: &str,
    ) -> Option<Self> {
        let (stored, rows) = asked(analysis, &question);
        Self::grown(
            &stored,
            question.kind,
            question.by,
            direction,
            function,
            Some(&rows),
            &Cancel::never(),
        )
        .unwrap_or(None)
    }

    /// The same on a stored table, which must be that of `kind`.
    pub fn of(
        stored: &Stored<'_>,
        (kind, by, direction): (StackKind, GroupBy, Direction),
        function: &str,
        selection: Selection<'_>,
        cancel: &Cancel,
    ) -> Wanted<Option<Self>> {
        let rows = stored.selected(selection, cancel)?;
        Self::grown(stored, kind, by, direction, function, rows.as_deref(), cancel)
    }

    fn grown(
        stored: &Stored<'_>,
        kind: StackKind,
        by: GroupBy,
        direction: Direction,
        function: &str,
        rows: Option<&[u32]>,
        cancel: &Cancel,
    ) -> Wanted<Option<Self>> {
        let source = &stored.source;
        let paths = paths(stored, kind, by, rows, cancel)?;
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
            of: kind.word(),
            by: by.word(),
            direction: if direction == Direction::Callers { "callers" } else { "callees" },
            matched,
            all_count: paths.iter().map(|path| path.count).sum(),
            all_total_ns: paths.iter().map(|path| path.ns).sum(),
            tree: tree.finish(source, name),
            kind,
        }))
    }

    /// The tree as text, at most `top` lines: those with the most time.
    pub fn text(&self, top: usize) -> String {
        let (stacks, time) = nouns(self.kind);
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
            let (some, more) = self.matched.split_at(self.matched.len().min(MAX_MATCHED));
            let more =
                if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
            let _ = writeln!(
                out,
                "the name matches {}: {}{more}",
                units::plural(self.matched.len() as u64, self.by),
                some.join(", ")
            );
        }
        let _ =
            writeln!(out, "{:>10}  {time:>12}  {:>7}  {} of it", "count", "share", self.direction);
        let nodes = self.tree.flat();
        // A parent has no less time than its children and comes before them, so the parent of every
        // printed line is printed too.
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
    /// The tree as lines with their indent. An only child with all of its parent's time is not
    /// indented further, so that a chain does not become a staircase.
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
