//! The cells that only the table of events has.

use super::rows::Row;
use super::source::Source;
use super::{Cell, NONE};
use unhitch_model::EventKind;

fn kind<'a>(source: &Source<'a>, row: &Row) -> Option<&'a EventKind> {
    source.analysis.trace.events.kind_of(row.index as usize)
}

pub(super) fn provider(source: &Source<'_>, row: &Row) -> Cell {
    kind(source, row).map_or(NONE, |kind| Cell::from(kind.provider.0))
}

pub(super) fn name(source: &Source<'_>, row: &Row) -> Cell {
    kind(source, row).map_or(NONE, |kind| Cell::from(kind.name.0))
}

pub(super) fn id(source: &Source<'_>, row: &Row) -> Cell {
    kind(source, row).map_or(NONE, |kind| Cell::from(kind.id))
}

pub(super) fn opcode(source: &Source<'_>, row: &Row) -> Cell {
    kind(source, row).map_or(NONE, |kind| Cell::from(kind.opcode))
}

/// All fields on one line.
pub(super) fn fields(source: &Source<'_>, row: &Row) -> Cell {
    if kind(source, row).is_none() {
        return NONE;
    }
    let text = |(name, value): (String, String)| {
        if name.is_empty() { value } else { format!("{name}={value}") }
    };
    let fields = crate::user_marks::fields(source.analysis.trace, row.index as usize);
    source.text(&fields.into_iter().map(text).collect::<Vec<_>>().join(", "))
}
