//! The cells that only the tables of events and of marks have.

use super::rows::Row;
use super::source::Source;
use super::{Cell, NONE};
use unhitch_model::{EventKind, MARK_PROVIDER, Time, units};

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

/// What a mark says.
pub(super) fn mark_text(source: &Source<'_>, row: &Row) -> Cell {
    let (trace, event) = (source.analysis.trace, row.index as usize);
    if kind(source, row).is_none_or(|kind| kind.provider_guid != MARK_PROVIDER) {
        let marks = &source.analysis.marks;
        let known = marks.binary_search_by_key(&event, |mark| mark.event);
        return known.map_or(NONE, |at| source.text(&marks[at].words));
    }
    let fields = crate::user_marks::fields(trace, event);
    let value = |wanted: &str| {
        let found = fields.iter().find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.clone())
    };
    let number = |name: &str| value(name).and_then(|value| value.parse::<u64>().ok());
    let after = number("sent_ns").map(|sent| row.start.since(Time::from_nanos(sent)));
    let text = match (value("answered"), after) {
        (Some(yes), Some(after)) if yes == "true" => {
            format!("answered after {}", units::duration(after))
        }
        (Some(_), Some(after)) => format!("no answer for {}", units::duration(after)),
        _ => {
            let code = value("code").map(|code| format!("code {code}"));
            let parts = [value("text"), value("class"), code];
            parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
        }
    };
    source.text(&text)
}

/// A number that each of Unhitch's own marks has.
pub(super) fn mark_number(source: &Source<'_>, row: &Row, name: &str) -> Cell {
    let fields = crate::user_marks::fields(source.analysis.trace, row.index as usize);
    let value = fields.iter().find(|(known, _)| known == name);
    value.and_then(|(_, value)| value.parse().ok()).unwrap_or(NONE)
}
