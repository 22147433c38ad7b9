//! [`Whole`]: every row of a table with every column, as JSON, for programs.
//!
//! *Why beside [`Table`](super::Table):* that keeps the cells that it shows. Here they are computed
//! as they are written, so that what is in memory does not depend on the number of columns.

use super::Name;
use super::column::key;
use super::column::{Column, columns_of};
use super::print::{CellJson, ColumnJson};
use super::rows::Row;
use super::source::Source;
use crate::Analysis;
use rustc_hash::FxHashSet;
use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use std::cell::RefCell;
use unhitch_model::{ThreadId, Window};

/// A whole table, to be written as JSON.
pub struct Whole<'w, 'a> {
    source: Source<'a>,
    columns: Vec<(&'static Column, String)>,
    /// Called with each row that is written.
    step: RefCell<&'w mut dyn FnMut()>,
}

impl<'w, 'a> Whole<'w, 'a> {
    /// Collects the rows inside `window`, of `threads` only if given. `step` is called when a row is
    /// written.
    pub fn new(
        analysis: &'a Analysis<'a>,
        name: Name,
        window: Window,
        threads: Option<&FxHashSet<ThreadId>>,
        step: &'w mut dyn FnMut(),
    ) -> Self {
        let mut source = Source::new(analysis, name, window).with_own_stacks();
        if let Some(threads) = threads {
            source.rows.retain(|row| threads.contains(&row.thread));
        }
        let columns = columns_of(name).map(|column| (column, key(column.name, column.kind)));
        Self { source, columns: columns.collect(), step: RefCell::new(step) }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.source.rows.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.source.rows.is_empty()
    }
}

impl Serialize for Whole<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let columns: Vec<ColumnJson> = self
            .columns
            .iter()
            .map(|(column, key)| ColumnJson { name: key.clone(), kind: column.kind.word() })
            .collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("table", self.source.name.info().word)?;
        map.serialize_entry("columns", &columns)?;
        map.serialize_entry("rows", &Rows(self))?;
        map.end()
    }
}

struct Rows<'r, 'w, 'a>(&'r Whole<'w, 'a>);
struct RowJson<'r, 'w, 'a>(&'r Whole<'w, 'a>, &'r Row);

impl Serialize for Rows<'_, '_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rows = serializer.serialize_seq(Some(self.0.len()))?;
        for row in &self.0.source.rows {
            rows.serialize_element(&RowJson(self.0, row))?;
            (self.0.step.borrow_mut())();
        }
        rows.end()
    }
}

impl Serialize for RowJson<'_, '_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Whole { source, columns, .. } = self.0;
        let mut map = serializer.serialize_map(Some(columns.len()))?;
        for (column, key) in columns {
            map.serialize_entry(
                key,
                &CellJson(source, column.kind, (column.cell)(source, self.1)),
            )?;
        }
        map.end()
    }
}
