//! The cells that only the table of counters has.

use super::growths::{Growth, Unit};
use super::rows::Row;
use super::source::Source;
use super::{Cell, NONE};

fn growth<'s>(source: &'s Source<'_>, row: &Row) -> Option<&'s Growth> {
    source.counters.get(row.index as usize)
}

pub(super) fn of(source: &Source<'_>, row: &Row) -> Cell {
    growth(source, row).map_or(NONE, |growth| source.text(&growth.of))
}

pub(super) fn counter(source: &Source<'_>, row: &Row) -> Cell {
    growth(source, row).map_or(NONE, |growth| source.text(&growth.counter))
}

/// How much time was counted.
pub(super) fn spent(source: &Source<'_>, row: &Row) -> Cell {
    amount(source, row, |unit| unit == Unit::Nanoseconds)
}

/// How much of anything else was counted.
pub(super) fn counted(source: &Source<'_>, row: &Row) -> Cell {
    amount(source, row, |unit| unit != Unit::Nanoseconds)
}

fn amount(source: &Source<'_>, row: &Row, is_wanted: impl Fn(Unit) -> bool) -> Cell {
    let growth = growth(source, row).filter(|growth| is_wanted(growth.unit));
    growth.map_or(NONE, |growth| Cell::try_from(growth.amount).unwrap_or(Cell::MAX))
}

pub(super) fn unit(source: &Source<'_>, row: &Row) -> Cell {
    growth(source, row).map_or(NONE, |growth| {
        source.text(match growth.unit {
            Unit::Nanoseconds => "time",
            Unit::Bytes => "bytes",
            Unit::Times => "times",
        })
    })
}
