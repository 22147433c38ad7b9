//! The query parameters of a request, checked. Each error names the parameter and what it accepts.

use crate::Error;
use crate::loaded::Loaded;
use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use std::ops::RangeInclusive;
use unhitch_analysis::table::{self, Filter};
use unhitch_model::{ProcessId, ThreadId, Window};

/// Maximum threads or processes named in one request; the rest is ignored.
const MAX_IDS: usize = 4096;

/// The query parameters of a request.
pub(crate) struct Params(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        let query = Query::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        let Query(list) = query.map_err(|error| Error::Query(error.to_string()))?;
        Ok(Self(list))
    }
}

impl Params {
    /// A parameter; none if it is missing or empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// The parameters of one of two traces: `before_from` is the `from` of `before`; what is about
    /// both has no such prefix.
    pub fn of_side(&self, side: &str) -> Self {
        let own = |name: &str| name.strip_prefix(side)?.strip_prefix('_').map(str::to_owned);
        let list = self
            .0
            .iter()
            .map(|(name, value)| (own(name).unwrap_or_else(|| name.clone()), value.clone()));
        Self(list.collect())
    }

    /// A required parameter.
    pub fn text(&self, name: &'static str) -> Result<&str, Error> {
        self.get(name).ok_or_else(|| wrong(name, "", "a value"))
    }

    /// `0` or `1`.
    pub fn flag(&self, name: &'static str) -> Result<bool, Error> {
        match self.get(name) {
            None | Some("0") => Ok(false),
            Some("1") => Ok(true),
            Some(other) => Err(wrong(name, other, "0 or 1")),
        }
    }

    /// An integer; `default` if it is missing.
    pub fn number(
        &self,
        name: &'static str,
        default: usize,
        range: RangeInclusive<usize>,
    ) -> Result<usize, Error> {
        let Some(text) = self.get(name) else { return Ok(default) };
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            wrong(name, text, &format!("an integer from {} to {}", range.start(), range.end()))
        })
    }

    /// An id; none if it is missing.
    pub fn id(&self, name: &'static str) -> Result<Option<u32>, Error> {
        self.get(name)
            .map(|text| text.parse().map_err(|_| wrong(name, text, "an id (an integer)")))
            .transpose()
    }

    /// One of some words; the first if it is missing.
    pub fn choice<T: Copy>(&self, name: &'static str, choices: &[(&str, T)]) -> Result<T, Error> {
        let words = || choices.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        let found = match self.get(name) {
            None => choices.first(),
            Some(text) => choices.iter().find(|(word, _)| *word == text),
        };
        found.map(|(_, choice)| *choice).ok_or_else(|| {
            wrong(name, self.get(name).unwrap_or_default(), &format!("one of {}", words()))
        })
    }

    /// A time as the page has it.
    pub fn time(&self, name: &'static str) -> Result<Option<i64>, Error> {
        let Some(text) = self.get(name) else { return Ok(None) };
        // A number that the page computed may have a fraction or an exponent.
        let rounded =
            || text.parse::<f64>().ok().filter(|ns| ns.abs() < 9.0e18).map(|ns| ns.round() as i64);
        text.parse()
            .ok()
            .or_else(rounded)
            .map(Some)
            .ok_or_else(|| wrong(name, text, "nanoseconds since the trace's origin"))
    }

    /// Ids separated by commas.
    fn ids(&self, name: &'static str, count: usize) -> Result<Vec<u32>, Error> {
        let Some(text) = self.get(name) else { return Ok(Vec::new()) };
        let id = |text: &str| {
            text.parse()
                .ok()
                .filter(|&id| (id as usize) < count)
                .ok_or_else(|| wrong(name, text, "ids of this trace"))
        };
        text.split(',').take(MAX_IDS).map(id).collect()
    }

    /// The window asked for.
    pub fn window(&self, loaded: &Loaded<'_>) -> Result<Window, Error> {
        let whole = loaded.window();
        let from = self.time("from")?.map_or(whole.start, |from| loaded.time(from));
        let to = self.time("to")?.map_or(whole.end, |to| loaded.time(to));
        if to < from {
            return Err(wrong(
                "to",
                self.get("to").unwrap_or_default(),
                "a time not before `from`",
            ));
        }
        Ok(Window::new(from, to))
    }

    /// The window of a table: everything in the file, unless narrowed.
    pub fn window_of_table(&self, loaded: &Loaded<'_>) -> Result<Window, Error> {
        match (self.get("from"), self.get("to")) {
            (None, None) => Ok(loaded.trace.extent()),
            _ => Ok(self.window(loaded)?.intersect(loaded.trace.extent())),
        }
    }

    /// The selection asked for.
    pub fn selection(&self, loaded: &Loaded<'_>) -> Result<Selection, Error> {
        let threads = self.ids("thread", loaded.trace.threads.len())?;
        let processes = self.ids("process", loaded.trace.threads.processes().count())?;
        Ok(Selection {
            window: self.window(loaded)?.intersect(loaded.window()),
            threads: threads.into_iter().map(ThreadId).collect(),
            processes: processes.into_iter().map(ProcessId).collect(),
            filter: self.get("where").map(str::to_owned),
        })
    }
}

/// A part of a trace.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    pub window: Window,
    /// These threads, and those of `processes`. All threads if both are empty.
    pub threads: Vec<ThreadId>,
    pub processes: Vec<ProcessId>,
    pub filter: Option<String>,
}

impl Selection {
    /// True if it is not narrowed to threads.
    pub fn is_everyone(&self) -> bool {
        self.threads.is_empty() && self.processes.is_empty()
    }

    /// Whether it includes a thread.
    pub fn has(&self, loaded: &Loaded<'_>, thread: ThreadId) -> bool {
        self.is_everyone() || self.names(loaded, thread)
    }

    /// Whether it names a thread, itself or by its process.
    pub fn names(&self, loaded: &Loaded<'_>, thread: ThreadId) -> bool {
        self.threads.contains(&thread)
            || self.processes.contains(&loaded.trace.threads.get(thread).process)
    }

    /// The same for a table; `filter` comes from [`Selection::filter`].
    pub fn of_rows<'s>(&'s self, filter: Option<&'s Filter>) -> table::Selection<'s> {
        table::Selection { threads: &self.threads, processes: &self.processes, filter }
    }

    /// The filter for a table.
    pub fn filter(&self, table: table::Name) -> Result<Option<Filter>, Error> {
        self.filter.as_deref().map(|text| Filter::parse(table, text)).transpose().map_err(|error| {
            Error::Filter {
                at: error.text.get(..error.offset).unwrap_or("").encode_utf16().count(),
                found: error.found,
                expected: error.expected,
            }
        })
    }
}

/// The error for a parameter.
pub(crate) fn wrong(parameter: &'static str, found: &str, expected: &str) -> Error {
    let found = found.chars().filter(|letter| !letter.is_control()).take(80).collect();
    Error::Parameter { parameter, found, expected: expected.to_owned() }
}
