//! Whom a group of a table is about: what the menu of its cell acts on.

use super::table::{name_of, path, selection_of_rows};
use crate::Error;
use crate::loaded::Loaded;
use crate::params::Params;
use serde_json::{Value, json};
use unhitch_analysis::Cancel;
use unhitch_analysis::table::{Name, PivotQuestion, Query, Words};

/// `GET members`
pub(super) fn members(
    loaded: &Loaded<'_>,
    params: &Params,
    cancel: &Cancel,
) -> Result<Value, Error> {
    let name = name_of(params)?;
    let (selection, _) = selection_of_rows(loaded, params.selection(loaded)?, name);
    let words =
        Words { by: params.get("by").or(Some("none")), show: None, filter: None, sort: None };
    let query = Query::new(name, words).map_err(|error| Error::Query(error.to_string()))?;
    let path = path(params)?;
    let (filter, opened) = (selection.filter(name)?, path.len().min(query.groups().len()));
    let question = PivotQuestion {
        query: &query,
        opened: &query.groups()[..opened],
        path: &path,
        selection: selection.of_rows(filter.as_ref()),
        page: (0, 0),
    };
    let stored = loaded.table(name, params.window_of_table(loaded)?, cancel)?;
    let members = stored.members(question, cancel)?;
    // A row about a CPU is about no thread.
    let threads = if name == Name::Cpus { Vec::new() } else { members.threads };
    let mut processes: Vec<u32> =
        threads.iter().map(|thread| loaded.trace.threads.get(*thread).process.0).collect();
    processes.sort_unstable();
    processes.dedup();
    Ok(json!({
        "threads": threads.iter().map(|thread| thread.0).collect::<Vec<_>>(),
        "processes": processes,
        "more": members.more,
        "from": members.window.map(|window| loaded.at(window.start)),
        "to": members.window.map(|window| loaded.at(window.end)),
    }))
}
