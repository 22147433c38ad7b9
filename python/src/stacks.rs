//! The tables `stacks` and `frames`: what the content ids in other tables stand for.

use crate::columns::{dictionary, schema, with_rows};
use crate::content_id::{ContentId, function};
use crate::failure::Outcome;
use crate::opened::Opened;
use arrow_array::builder::{ListBuilder, StringBuilder, StringDictionaryBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field};
use rustc_hash::FxHashSet;
use std::collections::HashMap;
use std::sync::Arc;
use unhitch_analysis::StackKind;
use unhitch_model::{FrameId, StackId};

fn field(name: &str, data_type: DataType, doc: &str) -> Field {
    let metadata = HashMap::from([("doc".to_owned(), doc.to_owned())]);
    Field::new(name, data_type, true).with_metadata(metadata)
}

/// The fields of `stacks`.
pub fn stack_fields() -> Vec<Field> {
    let item = Arc::new(Field::new("item", DataType::Utf8, true));
    vec![
        field("stack_id", DataType::Utf8, "content id, the same in every recording"),
        field("depth", DataType::Int64, "number of functions"),
        field("kernel_depth", DataType::Int64, "how many of them are the kernel's, at the end"),
        field("leaf", dictionary(), "the innermost function"),
        field("folded", DataType::Utf8, "the functions, root first, with a semicolon in between"),
        field("frame_ids", DataType::List(item), "content ids of rows of `frames`, root first"),
    ]
}

/// The fields of `frames`.
pub fn frame_fields() -> Vec<Field> {
    vec![
        field("frame_id", DataType::Utf8, "content id, the same in every recording"),
        field("function", DataType::Utf8, "the function; without a name, module and offset"),
        field("module", dictionary(), "the file name of the program or library"),
        field("file", dictionary(), "the source file; null if unknown"),
        field("is_kernel", DataType::Boolean, "true for code of the kernel"),
    ]
}

/// The distinct stacks that rows of the trace's tables have: id, kernel's part, frames leaf first.
pub fn distinct(opened: &Opened) -> Vec<(ContentId, usize, &[FrameId])> {
    let (trace, analysis) = (opened.trace(), opened.analysis());
    let mut used: Vec<(StackKind, &StackId)> = Vec::new();
    used.extend(trace.switches.stack.iter().map(|stack| (StackKind::Wait, stack)));
    used.extend(trace.earlier_waits.iter().map(|wait| (StackKind::Wait, &wait.stack)));
    used.extend(trace.wakings.stack.iter().map(|stack| (StackKind::Wake, stack)));
    used.extend(trace.samples.stack.iter().map(|stack| (StackKind::Sample, stack)));
    used.extend(trace.events.stack.iter().map(|stack| (StackKind::Sample, stack)));
    let mut seen: FxHashSet<(StackKind, StackId)> = FxHashSet::default();
    let mut ids: FxHashSet<ContentId> = FxHashSet::default();
    let mut found = Vec::new();
    for (kind, &stack) in used {
        if !seen.insert((kind, stack)) {
            continue;
        }
        let Some(id) = opened.ids().of_stack(analysis, kind, stack) else { continue };
        if ids.insert(id) {
            let frames = analysis.stacks.frames(trace, kind, stack);
            let kernel = |frame: &&FrameId| function_is_kernel(opened, **frame);
            found.push((id, frames.iter().take_while(kernel).count(), frames));
        }
    }
    found.sort_unstable_by_key(|(id, ..)| *id);
    found
}

fn function_is_kernel(opened: &Opened, frame: FrameId) -> bool {
    let trace = opened.trace();
    let module = trace.stacks.frame(frame).and_then(|at| trace.modules.get(at.module));
    module.is_some_and(|module| module.kind.is_kernel())
}

/// The table `stacks`.
pub fn stacks(opened: &Opened) -> Outcome<RecordBatch> {
    let all = distinct(opened);
    let mut leaves = StringDictionaryBuilder::<Int32Type>::new();
    let mut frame_ids = ListBuilder::new(StringBuilder::new());
    let mut folded = StringBuilder::new();
    for (_, _, frames) in &all {
        let names: Vec<String> =
            frames.iter().rev().map(|&frame| function(opened.trace(), frame).name).collect();
        leaves.append_option(names.last());
        folded.append_value(names.join(";"));
        for &frame in frames.iter().rev() {
            frame_ids.values().append_option(opened.ids().of_frame(frame).map(ContentId::hex));
        }
        frame_ids.append(true);
    }
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(all.iter().map(|(id, ..)| Some(id.hex())).collect::<StringArray>()),
        Arc::new(all.iter().map(|(_, _, frames)| frames.len() as i64).collect::<Int64Array>()),
        Arc::new(all.iter().map(|(_, kernel, _)| *kernel as i64).collect::<Int64Array>()),
        Arc::new(leaves.finish()),
        Arc::new(folded.finish()),
        Arc::new(frame_ids.finish()),
    ];
    let facts = crate::columns::metadata(opened, "stacks");
    with_rows(&schema(stack_fields(), facts), arrays, all.len())
}

/// The table `frames`.
pub fn frames(opened: &Opened) -> Outcome<RecordBatch> {
    let mut all: Vec<(ContentId, FrameId)> = distinct(opened)
        .into_iter()
        .flat_map(|(_, _, frames)| frames)
        .filter_map(|&frame| Some((opened.ids().of_frame(frame)?, frame)))
        .collect();
    all.sort_unstable();
    all.dedup_by_key(|(id, _)| *id);
    let functions: Vec<_> = all.iter().map(|&(_, frame)| function(opened.trace(), frame)).collect();
    let mut modules = StringDictionaryBuilder::<Int32Type>::new();
    let mut files = StringDictionaryBuilder::<Int32Type>::new();
    for function in &functions {
        modules.append_value(&function.module);
        files.append_option((!function.file.is_empty()).then_some(&function.file));
    }
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(all.iter().map(|(id, _)| Some(id.hex())).collect::<StringArray>()),
        Arc::new(functions.iter().map(|function| Some(&function.name)).collect::<StringArray>()),
        Arc::new(modules.finish()),
        Arc::new(files.finish()),
        Arc::new(
            functions.iter().map(|function| Some(function.is_kernel)).collect::<BooleanArray>(),
        ),
    ];
    let facts = crate::columns::metadata(opened, "frames");
    with_rows(&schema(frame_fields(), facts), arrays, all.len())
}
