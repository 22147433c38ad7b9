//! A table's columns as typed arrays, for programs that take millions of rows: nothing is formatted.

use super::column::Kind;
use super::query::{Query, Shown};
use super::{Cell, NONE, Table};
use crate::wording::recording;

/// What a column holds, before any row is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnType {
    /// The key in JSON and CSV: `sum_waited_ns`.
    pub key: String,
    /// The kind of its cells. Times and durations are nanoseconds.
    pub kind: Kind,
    /// What it holds, in one line.
    pub doc: &'static str,
}

/// A column with its cells, in the order of the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedColumn {
    /// What it holds.
    pub of: ColumnType,
    /// Its cells; [`NOTHING`] where there is no value. The id of a text is for
    /// [`Table::with_text`], that of a stack is its [`StackId`](unhitch_model::StackId).
    pub cells: Vec<i64>,
}

/// The cell that holds nothing.
pub const NOTHING: i64 = NONE;

impl Shown {
    fn column_type(self) -> ColumnType {
        let doc = self.column().map_or("number of rows", |column| column.doc);
        ColumnType { key: self.key(), kind: self.kind(), doc }
    }
}

impl Query {
    /// The columns of the answer. They do not depend on the trace.
    pub fn column_types(&self) -> Vec<ColumnType> {
        self.shown.iter().map(|shown| shown.column_type()).collect()
    }
}

impl Table<'_> {
    /// Takes the columns out of the table. Texts can still be looked up afterwards.
    pub fn take_columns(&mut self) -> Vec<TypedColumn> {
        let outputs = std::mem::take(&mut self.outputs);
        let typed = |output: super::run::Output| TypedColumn {
            of: output.shown.column_type(),
            cells: output.cells,
        };
        outputs.into_iter().map(typed).collect()
    }

    /// Calls `read` with the text of a cell of a text column.
    pub fn with_text<R>(&self, cell: Cell, read: impl FnOnce(&str) -> R) -> R {
        self.source.with_text(cell, read)
    }

    /// Why columns are empty, one line for each kind of events that was not recorded.
    pub fn not_recorded(&self) -> Vec<&'static str> {
        let trace = self.source.analysis.trace;
        let of_table = self.source.name.needs().filter(|what| !trace.has(*what));
        let of_columns = self.outputs.iter().filter_map(|output| self.lacks(output));
        let mut lines: Vec<&str> =
            of_table.into_iter().chain(of_columns).map(recording::lacks).collect();
        lines.sort_unstable();
        lines.dedup();
        lines
    }
}
