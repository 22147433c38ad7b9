//! The table of events of all providers: its rows, and the columns that no other table has.

use super::Cell;
use super::rows::{Row, Source};
use crate::Analysis;
use unhitch_model::{EventKind, Window};

/// A row per event inside `window`.
pub(super) fn rows(analysis: &Analysis<'_>, window: Window) -> Vec<Row> {
    let events = &analysis.trace.events;
    let row = |index: usize| Row {
        index: index as u32,
        stack: events.stack[index],
        cpu: events.cpu[index],
        ..Row::at(events.time[index], events.time[index], events.thread[index])
    };
    events.range(window).map(row).collect()
}

fn kind<'a>(source: &Source<'a>, row: &Row) -> Option<&'a EventKind> {
    source.analysis.trace.events.kind_of(row.index as usize)
}

pub(super) fn provider(source: &Source<'_>, row: &Row) -> Cell {
    kind(source, row).map_or(super::NONE, |kind| Cell::from(kind.provider.0))
}

pub(super) fn name(source: &Source<'_>, row: &Row) -> Cell {
    kind(source, row).map_or(super::NONE, |kind| Cell::from(kind.name.0))
}

pub(super) fn id(source: &Source<'_>, row: &Row) -> Cell {
    kind(source, row).map_or(super::NONE, |kind| Cell::from(kind.id))
}

pub(super) fn opcode(source: &Source<'_>, row: &Row) -> Cell {
    kind(source, row).map_or(super::NONE, |kind| Cell::from(kind.opcode))
}

/// All fields in a line.
pub(super) fn fields(source: &Source<'_>, row: &Row) -> Cell {
    if kind(source, row).is_none() {
        return super::NONE;
    }
    let told = |(name, value): (String, String)| {
        if name.is_empty() { value } else { format!("{name}={value}") }
    };
    let fields = crate::user_marks::fields(source.analysis.trace, row.index as usize);
    source.text(&fields.into_iter().map(told).collect::<Vec<_>>().join(", "))
}
