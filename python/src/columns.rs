//! Columns of integers become Arrow arrays: numbers by moving their buffer, texts and stacks as
//! dictionaries.

use crate::failure::{Outcome, because};
use crate::opened::Opened;
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Int64Array, PrimitiveArray, RecordBatch, StringArray,
};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use rustc_hash::FxHashMap;
use std::collections::HashMap;
use std::sync::Arc;
use unhitch_analysis::table::{ColumnType, Kind, NOTHING, Query, Table, TypedColumn};
use unhitch_model::StackId;

/// The version of the tables (docs/sql.md): columns may be added, never changed or removed.
pub const SCHEMA_VERSION: u32 = 1;

/// A text of which few are distinct.
pub fn dictionary() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// The name of a column: the key in JSON; a stack is given by its id.
pub fn name_of(column: &ColumnType) -> String {
    match column.kind {
        Kind::Stack(_) => format!("{}_id", column.key),
        _ => column.key.clone(),
    }
}

fn field(column: &ColumnType) -> Field {
    let (data_type, unit) = match column.kind {
        Kind::Text => (dictionary(), None),
        Kind::Stack(_) => (dictionary(), Some("content id of a row of `stacks`")),
        Kind::Duration => (DataType::Int64, Some("ns")),
        Kind::Time => (DataType::Int64, Some("ns of the trace's clock")),
        Kind::Count | Kind::Number => (DataType::Int64, None),
    };
    let mut metadata = HashMap::from([
        ("kind".to_owned(), column.kind.word().to_owned()),
        ("doc".to_owned(), column.doc.to_owned()),
    ]);
    metadata.extend(unit.map(|unit| ("unit".to_owned(), unit.to_owned())));
    Field::new(name_of(column), data_type, true).with_metadata(metadata)
}

/// The fields of a query's answer.
pub fn fields(query: &Query) -> Vec<Field> {
    query.column_types().iter().map(field).collect()
}

/// What the schema of a table of a trace says about the trace.
pub fn metadata(opened: &Opened, table: &str) -> HashMap<String, String> {
    let (trace, covered) = (opened.trace(), opened.analysis().timeline.window());
    let clock = match trace.meta.clock_id {
        Some(unhitch_model::linux::CLOCK_MONOTONIC) => "CLOCK_MONOTONIC".to_owned(),
        Some(id) => format!("clock {id}"),
        None => "not known".to_owned(),
    };
    let mut facts = HashMap::from([
        ("unhitch.schema_version".to_owned(), SCHEMA_VERSION.to_string()),
        ("unhitch.table".to_owned(), table.to_owned()),
        ("unhitch.file".to_owned(), opened.file.clone()),
        ("unhitch.clock".to_owned(), clock),
        ("unhitch.origin_ns".to_owned(), trace.origin().nanos().to_string()),
        ("unhitch.covered_start_ns".to_owned(), covered.start.nanos().to_string()),
        ("unhitch.covered_end_ns".to_owned(), covered.end.nanos().to_string()),
    ]);
    facts.extend(trace.meta.epoch_ns.map(|ns| ("unhitch.epoch_ns".to_owned(), ns.to_string())));
    facts
}

/// The answer to a query as one batch of rows.
pub fn batch(opened: &Opened, table: &mut Table<'_>, schema: &SchemaRef) -> Outcome<RecordBatch> {
    let rows = table.len();
    let columns = table.take_columns();
    let arrays = columns.into_iter().map(|column| array(opened, table, column)).collect();
    with_rows(schema, arrays, rows)
}

/// A batch of `rows` rows.
pub fn with_rows(schema: &SchemaRef, arrays: Vec<ArrayRef>, rows: usize) -> Outcome<RecordBatch> {
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)
        .map_err(|error| because(&error))
}

/// A schema with these facts about the trace.
pub fn schema(fields: Vec<Field>, metadata: HashMap<String, String>) -> SchemaRef {
    Arc::new(Schema::new_with_metadata(fields, metadata))
}

fn array(opened: &Opened, table: &Table<'_>, column: TypedColumn) -> ArrayRef {
    let TypedColumn { of, cells } = column;
    match of.kind {
        Kind::Text => {
            let text = |cell| Some(table.with_text(cell, str::to_owned));
            Arc::new(coded(&cells, text))
        }
        Kind::Stack(kind) => {
            let id = |cell| {
                let stack = StackId(u32::try_from(cell).ok()?);
                opened.ids().of_stack(opened.analysis(), kind, stack).map(|id| id.hex())
            };
            Arc::new(coded(&cells, id))
        }
        Kind::Duration | Kind::Time | Kind::Count | Kind::Number => Arc::new(numbers(cells)),
    }
}

/// Numbers, without a copy.
fn numbers(cells: Vec<i64>) -> Int64Array {
    let has_gaps = cells.contains(&NOTHING);
    let nulls = has_gaps.then(|| cells.iter().map(|&cell| cell != NOTHING).collect::<NullBuffer>());
    PrimitiveArray::new(ScalarBuffer::from(cells), nulls)
}

/// Cells as numbers of their distinct texts; null for a cell of nothing and for one without a text.
fn coded(cells: &[i64], text: impl Fn(i64) -> Option<String>) -> DictionaryArray<Int32Type> {
    let mut codes: FxHashMap<i64, Option<i32>> = FxHashMap::default();
    codes.insert(NOTHING, None);
    // Two cells may have one text; Arrow wants distinct ones.
    let mut by_text: FxHashMap<String, i32> = FxHashMap::default();
    let mut texts: Vec<String> = Vec::new();
    let mut keys: Vec<i32> = Vec::with_capacity(cells.len());
    let mut has_gaps = false;
    let (mut last_cell, mut last_code) = (NOTHING, None);
    for &cell in cells {
        if cell != last_cell {
            last_cell = cell;
            last_code = *codes.entry(cell).or_insert_with(|| {
                let text = text(cell)?;
                Some(*by_text.entry(text).or_insert_with_key(|text| {
                    texts.push(text.clone());
                    texts.len() as i32 - 1
                }))
            });
        }
        has_gaps |= last_code.is_none();
        keys.push(last_code.unwrap_or(-1));
    }
    let nulls = has_gaps.then(|| keys.iter().map(|&key| key >= 0).collect::<NullBuffer>());
    if has_gaps {
        keys.iter_mut().for_each(|key| *key = (*key).max(0));
    }
    // A dictionary must hold what its keys say, those of nulls included.
    if texts.is_empty() && has_gaps {
        texts.push(String::new());
    }
    let keys = PrimitiveArray::new(ScalarBuffer::from(keys), nulls);
    DictionaryArray::new(keys, Arc::new(StringArray::from(texts)))
}
