//! [`Trace`]: a recording, opened.

use crate::columns::{batch, fields, metadata, schema};
use crate::failure::{Failure, Outcome, because, check_fork};
use crate::opened::{Opened, Reading, query};
use crate::stacks;
use crate::table::Table;
use pyo3::prelude::*;
use std::path::PathBuf;
use unhitch_analysis::answer::{self, Why};
use unhitch_analysis::table::Words;
use unhitch_analysis::{Stall, diagnose};
use unhitch_model::{ThreadId, visible};

/// A recording, read.
#[pyclass(frozen, module = "unhitch._native")]
pub struct Trace {
    opened: Opened,
}

/// Reads a trace.
#[pyfunction]
#[pyo3(signature = (path, *, with_=Vec::new(), rules=None, names=true))]
pub fn open(
    py: Python<'_>,
    path: PathBuf,
    with_: Vec<PathBuf>,
    rules: Option<PathBuf>,
    names: bool,
) -> PyResult<Trace> {
    let reading = Reading { with: with_, rules, names };
    let opened = py.detach(|| Opened::new(&path, &reading))?;
    Ok(Trace { opened })
}

impl Trace {
    /// The threads that a name, pid or tid selects.
    fn victims(&self, name: &str) -> Outcome<Vec<ThreadId>> {
        let ids = self.opened.trace().threads_called(name);
        if ids.is_empty() {
            let words = format!("no thread or process in this trace is called {name:?}");
            return Err(Failure::new(words));
        }
        Ok(ids)
    }

    /// The stalls that a question is about.
    fn stalls(
        &self,
        victim: Option<&str>,
        (from, to): (Option<f64>, Option<f64>),
    ) -> Outcome<(unhitch_analysis::Query, Vec<Stall>)> {
        check_fork()?;
        let whole = self.opened.analysis().timeline.window();
        let window = match (from, to) {
            (None, None) => None,
            _ => Some(self.opened.window(from, to, whole)?),
        };
        let victims = victim.map_or(Ok(Vec::new()), |name| self.victims(name))?;
        let everything = victims.is_empty() && window.is_none();
        let query = unhitch_analysis::Query { victims, window, ..Default::default() };
        let stalls = match everything {
            true => self.opened.stalls().as_ref().clone(),
            false => diagnose(self.opened.analysis(), &query),
        };
        Ok((query, stalls))
    }
}

#[pymethods]
impl Trace {
    /// The answer: the `top` worst stalls by the JSON contract of `unhitch why --json`, and the
    /// worst in words, as `unhitch why` prints it.
    #[pyo3(signature = (*, victim=None, from_=None, to=None, top=10))]
    fn why(
        &self,
        py: Python<'_>,
        victim: Option<&str>,
        from_: Option<f64>,
        to: Option<f64>,
        top: usize,
    ) -> PyResult<(String, String)> {
        let answer = py.detach(|| -> Outcome<_> {
            let (query, stalls) = self.stalls(victim, (from_, to))?;
            let analysis = self.opened.analysis();
            let why = Why::new(analysis, &self.opened.file, &stalls, top);
            let json = serde_json::to_string(&why).map_err(|error| because(&error))?;
            let text = answer::text_for(analysis, &query, &stalls, 1);
            // Names come from the recorded programs; no name may control the terminal.
            Ok((json, text.lines().map(|line| visible(line).into_owned() + "\n").collect()))
        })?;
        Ok(answer)
    }

    /// A table, by the grammar of `unhitch table`.
    #[pyo3(signature = (name, *, filter=None, by=None, show=None, sort=None, top=None, from_=None, to=None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn table(
        &self,
        py: Python<'_>,
        name: &str,
        filter: Option<&str>,
        by: Option<&str>,
        show: Option<&str>,
        sort: Option<&str>,
        top: Option<usize>,
        from_: Option<f64>,
        to: Option<f64>,
    ) -> PyResult<Table> {
        let rows = py.detach(|| -> Outcome<_> {
            check_fork()?;
            let query = query(name, Words { by, show, filter, sort })?;
            let window = self.opened.window(from_, to, self.opened.trace().extent())?;
            let mut table = self.opened.table(&query, window, top.unwrap_or(usize::MAX));
            let mut facts = metadata(&self.opened, name);
            let lacks = table.not_recorded();
            if !lacks.is_empty() {
                facts.insert("unhitch.not_recorded".to_owned(), lacks.join("; "));
            }
            batch(&self.opened, &mut table, &schema(fields(&query), facts))
        })?;
        Ok(Table::new(rows))
    }

    /// The stacks of all tables.
    fn stacks(&self, py: Python<'_>) -> PyResult<Table> {
        Ok(Table::new(py.detach(|| stacks::stacks(&self.opened))?))
    }

    /// The functions on those stacks.
    fn frames(&self, py: Python<'_>) -> PyResult<Table> {
        Ok(Table::new(py.detach(|| stacks::frames(&self.opened))?))
    }

    /// The summary by the JSON contract of `unhitch info --json`.
    fn info_json(&self, py: Python<'_>) -> PyResult<String> {
        let json = py.detach(|| {
            let info = answer::Info::new(self.opened.trace());
            serde_json::to_string(&info).map_err(|error| because(&error))
        })?;
        Ok(json)
    }

    /// Everything that is damaged, lost or guessed.
    fn warnings(&self) -> Vec<String> {
        self.opened.trace().warnings.lines().collect()
    }
}
