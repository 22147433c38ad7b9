//! Stacks as paths of functions, modules or files, with the time that each stands for: what the
//! butterfly and the ranking add up.

use super::query::Query;
use super::run::selected;
use super::stored::Stored;
use super::{Cell, NONE, Name, cells};
use crate::Analysis;
use crate::cancel::{Cancel, Wanted};
use crate::stacks::StackKind;
use rayon::prelude::*;
use unhitch_model::{StackId, Window};

/// What frames are grouped by: what a line of a butterfly or of a ranking is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupBy {
    /// A function.
    Function,
    /// A module: an executable file, a library, the kernel.
    Module,
    /// A source file.
    File,
}

impl GroupBy {
    /// The word for it in options and JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Module => "module",
            Self::File => "file",
        }
    }
}

/// What is asked of stacks.
#[derive(Clone, Copy, Debug)]
pub struct StackQuestion<'q> {
    /// Which stacks.
    pub kind: StackKind,
    /// Which rows: the filter of a query of the table [`Name::of_stacks`].
    pub query: &'q Query,
    /// When.
    pub window: Window,
    /// What the frames are grouped by.
    pub by: GroupBy,
}

/// A stack as a path of cells, root first, with the number of its rows and their time.
pub(super) struct Path {
    pub cells: Vec<Cell>,
    pub count: u64,
    pub ns: u64,
}

/// The distinct stacks of some rows (of all for none), as paths.
pub(super) fn paths(
    stored: &Stored<'_>,
    kind: StackKind,
    by: GroupBy,
    rows: Option<&[u32]>,
    cancel: &Cancel,
) -> Wanted<Vec<Path>> {
    let source = &stored.source;
    let path = |(stack, (count, ns)): (u32, (u64, u64))| {
        let frames = source.frames(kind, StackId(stack)).iter().rev();
        let cells = frames.map(|&frame| match by {
            GroupBy::Function => cells::function_of(source, frame),
            GroupBy::Module => cells::module_of(source, frame),
            GroupBy::File => cells::file_of(source, frame),
        });
        let mut cells: Vec<Cell> = cells.filter(|cell| *cell != NONE).collect();
        if by != GroupBy::Function {
            cells.dedup();
        }
        Path { cells, count, ns }
    };
    let weights = stored.weigh(kind, rows, cancel)?;
    let weighty: Vec<(u32, (u64, u64))> =
        (0..).zip(weights).filter(|(_, (count, _))| *count > 0).collect();
    weighty
        .into_par_iter()
        .with_min_len(1 << 10)
        .map(|stack| cancel.check().map(|()| path(stack)))
        .collect()
}

/// The stored table of a question, and the rows that pass its filter.
pub(super) fn asked<'a>(
    analysis: &'a Analysis<'a>,
    question: &StackQuestion<'_>,
) -> (Stored<'a>, Vec<u32>) {
    let stored = Stored::new(analysis, Name::of_stacks(question.kind), question.window);
    let rows = selected(&stored.source, question.query);
    (stored, rows)
}

/// What the rows with stacks of a kind are called, and their time.
pub(super) const fn nouns(kind: StackKind) -> (&'static str, &'static str) {
    match kind {
        StackKind::Wait => ("waits", "waited"),
        StackKind::Wake => ("wake-ups", "wait ended"),
        StackKind::Sample => ("samples", "time"),
    }
}
