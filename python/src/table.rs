//! [`Table`]: rows of a trace, as an Arrow stream.

use crate::failure::{Outcome, because};
use arrow_array::RecordBatch;
use arrow_array::RecordBatchIterator;
use arrow_array::RecordBatchReader;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::collections::HashMap;
use unhitch_analysis::table;

/// Rows of a trace, in memory. Every call of `__arrow_c_stream__` gives a new stream over them.
#[pyclass(frozen, module = "unhitch._native")]
pub struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    /// One table of one batch.
    pub fn new(batch: RecordBatch) -> Self {
        Self { schema: batch.schema(), batches: vec![batch] }
    }
}

/// A capsule around a stream, by the Arrow PyCapsule interface.
pub fn capsule<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
}

/// A capsule around a schema.
pub fn schema_capsule<'py>(py: Python<'py>, schema: &SchemaRef) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = ffi_schema(schema)?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

fn ffi_schema(schema: &SchemaRef) -> Outcome<FFI_ArrowSchema> {
    FFI_ArrowSchema::try_from(schema.as_ref()).map_err(|error| because(&error))
}

/// A column's name, kind, unit and meaning.
pub type ColumnFacts = (String, String, Option<String>, String);

/// Each column's name, kind, unit and meaning.
pub fn column_facts(schema: &SchemaRef) -> Vec<ColumnFacts> {
    let facts = |field: &std::sync::Arc<arrow_schema::Field>| {
        let of = |key: &str| field.metadata().get(key).cloned();
        (
            field.name().clone(),
            of("kind").unwrap_or_default(),
            of("unit"),
            of("doc").unwrap_or_default(),
        )
    };
    schema.fields().iter().map(facts).collect()
}

#[pymethods]
impl Table {
    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface lets a producer ignore the request.
        drop(requested_schema);
        let batches: Vec<_> = self.batches.iter().cloned().map(Ok).collect();
        capsule(py, Box::new(RecordBatchIterator::new(batches, self.schema.clone())))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }

    /// Each column's name, kind, unit and meaning.
    fn columns(&self) -> Vec<ColumnFacts> {
        column_facts(&self.schema)
    }

    /// What the schema says about the trace.
    fn metadata(&self) -> HashMap<String, String> {
        self.schema.metadata().clone().into()
    }

    /// Bytes that the rows occupy.
    fn nbytes(&self) -> usize {
        self.batches.iter().map(RecordBatch::get_array_memory_size).sum()
    }
}

/// All tables, or one, with their columns, as `unhitch table --columns` prints them.
#[pyfunction]
#[pyo3(signature = (name=None))]
pub fn describe(name: Option<&str>) -> String {
    table::describe(name.and_then(table::Name::of_word))
}
