//! [`Scan`]: one table of many traces, one trace in memory at a time.

use crate::columns::{batch, dictionary, fields, schema, with_rows};
use crate::failure::{Failure, Outcome};
use crate::opened::{Opened, Reading, query};
use crate::stacks;
use crate::table::{ColumnFacts, capsule, column_facts, schema_capsule};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Int32Array, RecordBatch, RecordBatchReader, StringArray,
};
use arrow_schema::{ArrowError, Field, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use unhitch_analysis::table::{Query, Words};

/// Rows in a batch: what a consumer has to hold at a time.
const MAX_BATCH_ROWS: usize = 65_536;

/// What is asked of every trace.
enum Question {
    Table(Query),
    Stacks,
    Frames,
}

/// What a scan reads, shared by its streams.
struct Plan {
    paths: Vec<PathBuf>,
    question: Question,
    reading: Reading,
    skip_damaged: bool,
    schema: SchemaRef,
    skipped: Mutex<Vec<(String, String)>>,
    /// Why the last stream ended early.
    failure: Mutex<Option<String>>,
}

/// One table of many traces. Every call of `__arrow_c_stream__` reads the traces anew.
#[pyclass(frozen, module = "unhitch._native")]
pub struct Scan {
    plan: Arc<Plan>,
}

/// Plans a scan; reads nothing yet.
#[pyfunction]
#[pyo3(signature = (paths, table, *, filter=None, by=None, show=None, rules=None, names=true, skip_damaged=false))]
#[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
pub fn scan(
    paths: Vec<PathBuf>,
    table: &str,
    filter: Option<&str>,
    by: Option<&str>,
    show: Option<&str>,
    rules: Option<PathBuf>,
    names: bool,
    skip_damaged: bool,
) -> PyResult<Scan> {
    let question = match table {
        "stacks" | "frames" if filter.is_some() || by.is_some() || show.is_some() => {
            return Err(Failure::new(format!("`{table}` is always whole")).into());
        }
        "stacks" => Question::Stacks,
        "frames" => Question::Frames,
        table => Question::Table(query(table, Words { by, show, filter, sort: None })?),
    };
    let mut all = match &question {
        Question::Table(query) => fields(query),
        Question::Stacks => stacks::stack_fields(),
        Question::Frames => stacks::frame_fields(),
    };
    let doc = HashMap::from([("doc".to_owned(), "the file that the row is from".to_owned())]);
    all.insert(0, Field::new("trace", dictionary(), true).with_metadata(doc));
    let version = crate::columns::SCHEMA_VERSION.to_string();
    let facts = HashMap::from([
        ("unhitch.schema_version".to_owned(), version),
        ("unhitch.table".to_owned(), table.to_owned()),
    ]);
    let reading = Reading { rules, names, ..Reading::default() };
    let (schema, skipped, failure) = (schema(all, facts), Mutex::default(), Mutex::default());
    let plan = Plan { paths, question, reading, skip_damaged, schema, skipped, failure };
    Ok(Scan { plan: Arc::new(plan) })
}

impl Plan {
    /// The rows of one trace, with its path in front.
    fn rows(&self, path: &Path) -> Outcome<RecordBatch> {
        let opened = Opened::new(path, &self.reading)?;
        let rows = match &self.question {
            Question::Table(query) => {
                let window = opened.trace().extent();
                let mut table = opened.table(query, window, usize::MAX);
                let own = schema(fields(query), HashMap::new());
                batch(&opened, &mut table, &own)?
            }
            Question::Stacks => stacks::stacks(&opened)?,
            Question::Frames => stacks::frames(&opened)?,
        };
        let count = rows.num_rows();
        let path: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::new(
            Int32Array::from(vec![0; count]),
            Arc::new(StringArray::from(vec![opened.file.as_str()])),
        ));
        let arrays = std::iter::once(path).chain(rows.columns().iter().cloned()).collect();
        with_rows(&self.schema, arrays, count)
    }
}

/// Reads the traces of a plan one after the other.
struct Reader {
    plan: Arc<Plan>,
    next: usize,
    /// The rows of the open trace that are still to be given.
    rest: Option<RecordBatch>,
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(rest) = self.rest.take() {
                let given = rest.num_rows().min(MAX_BATCH_ROWS);
                if given < rest.num_rows() {
                    self.rest = Some(rest.slice(given, rest.num_rows() - given));
                }
                if given > 0 {
                    return Some(Ok(rest.slice(0, given)));
                }
            }
            let path = self.plan.paths.get(self.next)?.clone();
            self.next += 1;
            match self.plan.rows(&path) {
                Ok(rows) => self.rest = Some(rows),
                Err(failure) if self.plan.skip_damaged => {
                    let mut skipped =
                        self.plan.skipped.lock().unwrap_or_else(PoisonError::into_inner);
                    skipped.push((path.display().to_string(), failure.words()));
                }
                Err(failure) => {
                    self.next = self.plan.paths.len();
                    let words = failure.words();
                    let mut last = self.plan.failure.lock().unwrap_or_else(PoisonError::into_inner);
                    *last = Some(words.clone());
                    return Some(Err(ArrowError::ExternalError(words.into())));
                }
            }
        }
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        self.plan.schema.clone()
    }
}

#[pymethods]
impl Scan {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        self.plan.skipped.lock().unwrap_or_else(PoisonError::into_inner).clear();
        *self.plan.failure.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let reader = Reader { plan: Arc::clone(&self.plan), next: 0, rest: None };
        capsule(py, Box::new(reader))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.plan.schema)
    }

    /// Each column's name, kind, unit and meaning.
    fn columns(&self) -> Vec<ColumnFacts> {
        column_facts(&self.plan.schema)
    }

    /// What the schema says about the scan.
    fn metadata(&self) -> HashMap<String, String> {
        self.plan.schema.metadata().clone().into()
    }

    /// Why the last stream ended early; none if it did not.
    fn failure(&self) -> Option<String> {
        self.plan.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The files that the last stream could not read, each with the reason.
    fn skipped(&self) -> Vec<(String, String)> {
        self.plan.skipped.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
