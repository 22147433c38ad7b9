//! A table's measure over time, by its groups.

use super::table::{cell, name_of, selection_of_rows};
use crate::Error;
use crate::loaded::Loaded;
use crate::params::{Params, wrong};
use serde_json::{Value as JsonValue, json};
use unhitch_analysis::Cancel;
use unhitch_analysis::table::{Column, Kind, SeriesQuestion, columns_of, is_over_time};
use unhitch_model::Window;

/// Maximum groups that are told apart: more colours nobody tells apart.
const MAX_GROUPS: usize = 24;

/// `GET series`
pub(super) fn series(
    loaded: &Loaded<'_>,
    params: &Params,
    cancel: &Cancel,
) -> Result<JsonValue, Error> {
    let name = name_of(params)?;
    let (selection, ignored) = selection_of_rows(loaded, params.selection(loaded)?, name);
    let filter = selection.filter(name)?;
    let column = |parameter: &'static str, word: &str| {
        let known = columns_of(name).find(|column| column.name == word);
        known.ok_or_else(|| wrong(parameter, word, "a column of the table"))
    };
    let by = params.get("by").map(|by| column("by", by)).transpose()?;
    let measure = match params.get("measure") {
        None | Some("count") => None,
        Some(text) => {
            let word = text.strip_prefix("sum:").unwrap_or(text);
            let column = column("measure", word)?;
            let fits = |column: &&'static Column| is_over_time(name, column);
            let none = || {
                wrong(
                    "measure",
                    text,
                    "count, or sum: with a measure of which it is known when it was",
                )
            };
            Some(Some(column).filter(fits).ok_or_else(none)?)
        }
    };
    let drawn = drawn(loaded, params)?;
    let question = SeriesQuestion {
        by,
        measure,
        selection: selection.of_rows(filter.as_ref()),
        window: drawn,
        parts: params.number("px", 600, 1..=super::view::MAX_PIXELS)?,
        groups: params.number("groups", 10, 1..=MAX_GROUPS)?,
    };
    let stored = loaded.table(name, params.window_of_table(loaded)?, cancel)?;
    let series = stored.series(question, cancel)?;
    let kind = by.map_or(Kind::Text, |by| by.kind);
    let groups = series.groups.iter().map(|group| {
        json!({
            "key": group.key, "cell": cell(loaded, &group.value, kind),
            "total": group.total, "values": group.parts,
        })
    });
    Ok(json!({
        "table": name.info().word, "by": by.map(|by| by.name),
        "unit": series.unit.word(),
        "from": loaded.at(drawn.start), "to": loaded.at(drawn.end), "px": question.parts,
        "groups": groups.collect::<Vec<_>>(),
        "other_groups": series.other_groups, "others": series.others,
        "ignored": ignored,
    }))
}

/// The window that is drawn. `from` and `to` are the selection, which may be another one.
fn drawn(loaded: &Loaded<'_>, params: &Params) -> Result<Window, Error> {
    let whole = loaded.window();
    let start = params.time("begin")?.map_or(whole.start, |at| loaded.time(at)).max(whole.start);
    let end = params.time("end")?.map_or(whole.end, |at| loaded.time(at)).min(whole.end);
    if end <= start {
        return Err(wrong("end", params.get("end").unwrap_or_default(), "a time after `begin`"));
    }
    Ok(Window::new(start, end))
}
