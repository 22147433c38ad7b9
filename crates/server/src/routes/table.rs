//! The tables, one level of a pivot tree at a time.

use super::presets::PRESETS;
use super::view::thread_lane;
use crate::Error;
use crate::loaded::Loaded;
use crate::params::{Params, Selection, wrong};
use axum::Json;
use serde_json::{Value as JsonValue, json};
use unhitch_analysis::Cancel;
use unhitch_analysis::table::{
    Heading, Kind, Line, Name, PivotQuestion, Query, TABLES, Value, Words, columns_of, is_over_time,
};
use unhitch_analysis::wording::recording;
use unhitch_model::{Recorded, Time};

/// Maximum rows of one answer.
const MAX_ROWS: usize = 10_000;
/// Default number of rows of one answer.
const DEFAULT_ROWS: usize = 200;
/// Maximum depth of a pivot tree, levels: far more than people open.
const MAX_DEPTH: usize = 16;

/// `GET tables`
pub(super) async fn tables() -> Json<JsonValue> {
    let tables = TABLES.iter().map(|table| {
        let columns = columns_of(table.name).map(|column| {
            json!({
                "name": column.name,
                "aliases": column.aliases,
                "kind": column.kind.word(),
                "doc": column.doc,
                "sum": matches!(column.kind, Kind::Duration | Kind::Count),
                "over_time": is_over_time(table.name, column),
            })
        });
        json!({
            "table": table.word,
            "doc": table.doc,
            "by": table.by,
            "show": table.show,
            "aggregates": table.aggregates,
            "sort": table.sort,
            "columns": columns.collect::<Vec<_>>(),
        })
    });
    let presets = PRESETS.iter().map(|preset| {
        json!({
            "id": preset.id,
            "name": preset.name,
            "table": preset.table,
            "by": preset.by,
            "show": preset.show,
            "sort": preset.sort,
            "where": preset.filter,
            "graph": preset.graph,
            "over_time": preset.over_time,
        })
    });
    Json(json!({ "tables": tables.collect::<Vec<_>>(), "presets": presets.collect::<Vec<_>>() }))
}

/// The table asked for.
pub(super) fn name_of(params: &Params) -> Result<Name, Error> {
    let names: Vec<(&str, Name)> = TABLES.iter().map(|table| (table.word, table.name)).collect();
    params.text("table")?;
    params.choice("table", &names)
}

/// `GET table`
pub(super) fn table(
    loaded: &Loaded<'_>,
    params: &Params,
    cancel: &Cancel,
) -> Result<JsonValue, Error> {
    let name = name_of(params)?;
    let (selection, ignored) = selection_of_rows(loaded, params.selection(loaded)?, name);
    let (by, path) = (params.get("by"), path(params)?);
    let query = |by: Option<&str>, show, sort| {
        let words = Words { by: by.or(Some("none")), show, filter: None, sort };
        Query::new(name, words).map_err(|error| Error::Query(error.to_string()))
    };
    let groups = query(by, None, None)?;
    if path.len() > groups.groups().len() {
        return Err(wrong(
            "path",
            params.get("path").unwrap_or_default(),
            "at most as many keys as columns in `by`",
        ));
    }
    // The last group contains single rows, which have columns of their own.
    let is_leaf = path.len() == groups.groups().len();
    let shown = query(by.filter(|_| !is_leaf), params.get("show"), params.get("sort"))?;
    let filter = selection.filter(name)?;
    let page = (
        params.number("offset", 0, 0..=usize::MAX)?,
        params.number("limit", DEFAULT_ROWS, 1..=MAX_ROWS)?,
    );
    let question = PivotQuestion {
        query: &shown,
        opened: &groups.groups()[..path.len()],
        path: &path,
        selection: selection.of_rows(filter.as_ref()),
        page,
    };
    let level =
        loaded.table(name, params.window_of_table(loaded)?, cancel)?.level(question, cancel)?;
    let headings = &level.headings;
    let total = |(total, heading): (&Option<i64>, &Heading)| {
        total.map_or(JsonValue::Null, |total| cell(loaded, &Value::Number(total), heading.kind))
    };
    Ok(json!({
        "table": name.info().word,
        "level": path.len(),
        "by": headings.first().filter(|_| !is_leaf).and_then(|heading| heading.column),
        "columns": headings.iter().map(column).collect::<Vec<_>>(),
        "rows": level.lines.iter().map(|line| row(loaded, line, headings)).collect::<Vec<_>>(),
        "offset": page.0,
        "total": level.total,
        "totals": level.totals.iter().zip(headings).map(total).collect::<Vec<_>>(),
        "matched": level.matched,
        "outside": level.outside,
        "not_recorded": not_recorded(loaded, name, headings),
        "ignored": ignored,
        "cut": page.0.saturating_add(level.lines.len()) < level.total,
    }))
}

/// The selection in terms of the table's rows, and the parameters that do not apply to them: a CPU or
/// a counter belongs to no thread, and a lifetime is that of a process.
pub(super) fn selection_of_rows(
    loaded: &Loaded<'_>,
    mut selection: Selection,
    name: Name,
) -> (Selection, &'static [&'static str]) {
    let mut ignored: &[&str] = &[];
    match name {
        Name::Cpus | Name::Counters if !selection.is_everyone() => {
            (selection.threads, selection.processes) = (Vec::new(), Vec::new());
            ignored = &["thread", "process"];
        }
        Name::Lifetimes => {
            let process = |thread| loaded.trace.threads.get(thread).process;
            selection.processes.extend(selection.threads.drain(..).map(process));
        }
        _ => {}
    }
    (selection, ignored)
}

/// What the recording lacks for this table, or else for some of its columns.
fn not_recorded(loaded: &Loaded<'_>, name: Name, headings: &[Heading]) -> Vec<JsonValue> {
    let trace = loaded.trace;
    let lack = |what: Recorded, column: &str| {
        let advice = recording::advice(trace.meta.system, what);
        json!({ "column": column, "why": recording::lacks(what), "advice": advice })
    };
    if let Some(what) = name.needs().filter(|what| !trace.has(*what)) {
        return vec![lack(what, "")];
    }
    let columns = headings.iter().filter_map(|heading| heading.column);
    let lacking = columns.filter_map(|column| {
        let known = columns_of(name).find(|known| known.name == column)?;
        Some(lack(known.needs(name).find(|what| !trace.has(*what))?, column))
    });
    lacking.collect()
}

fn column(heading: &Heading) -> JsonValue {
    json!({
        "title": heading.title,
        "column": heading.column,
        "aggregate": heading.aggregate,
        "kind": heading.kind.word(),
    })
}

/// A row of the answer, with the window and the lane that show it in the timeline.
fn row(loaded: &Loaded<'_>, line: &Line, headings: &[Heading]) -> JsonValue {
    let cells = line.cells.iter().zip(headings);
    let cells: Vec<_> = cells.map(|(value, heading)| cell(loaded, value, heading.kind)).collect();
    let window = line.position.map(|position| position.window);
    let lane = line.position.and_then(|position| match position.thread {
        Some(thread) => Some(thread_lane(thread)),
        None => position.cpu.map(|cpu| format!("c{cpu}")),
    });
    json!({
        "key": line.key,
        "cells": cells,
        "children": line.children,
        "from": window.map(|window| loaded.at(window.start)),
        "to": window.map(|window| loaded.at(window.end)),
        "lane": lane,
    })
}

pub(super) fn cell(loaded: &Loaded<'_>, value: &Value, kind: Kind) -> JsonValue {
    match value {
        Value::Nothing => JsonValue::Null,
        Value::Text(text) => json!(text),
        Value::Number(number) if kind == Kind::Time => {
            json!(loaded.at(Time::from_nanos(u64::try_from(*number).unwrap_or(0))))
        }
        Value::Number(number) => json!(number),
        Value::Stack(kind, stack) => loaded.brief_stack(*kind, *stack),
    }
}

/// The keys of the opened groups.
pub(super) fn path(params: &Params) -> Result<Vec<String>, Error> {
    let Some(text) = params.get("path") else { return Ok(Vec::new()) };
    let keys: Option<Vec<String>> = serde_json::from_str(text).ok();
    let is_key = |key: &String| key == "-" || key.starts_with(['n', 't', 's']);
    let keys = keys.filter(|keys| keys.len() <= MAX_DEPTH && keys.iter().all(is_key));
    keys.ok_or_else(|| wrong("path", text, "a JSON array of keys as rows have them"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_can_be_asked_for() {
        for preset in PRESETS {
            let name = Name::of_word(preset.table).expect(preset.id);
            let (show, levels) = (preset.show.join(","), preset.by.len().max(1));
            for level in 0..levels {
                let by = preset.by.get(level).copied().unwrap_or("none");
                let words = Words {
                    by: Some(by),
                    show: Some(&show),
                    sort: Some(preset.sort),
                    filter: None,
                };
                assert!(
                    Query::new(name, words).is_ok(),
                    "{} by {by}: {:?}",
                    preset.id,
                    Query::new(name, words).err()
                );
            }
        }
    }
}
