//! The tables of a fleet: their columns, and the rows of one recording.

use super::Tables;
use super::edges::{Edge, edges, path, role};
use super::normal::{folded, function};
use crate::columns::{SCHEMA_VERSION, with_rows};
use crate::content_id::ContentId;
use crate::failure::Outcome;
use crate::opened::{Opened, query};
use crate::stacks::distinct;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use std::sync::Arc;
use unhitch_analysis::Stall;
use unhitch_analysis::table::{Kind, NOTHING, TypedColumn, Words};
use unhitch_model::units::hex;
use unhitch_model::{Date, ModuleKind, SaveReason, Trace};

/// Maximum waits of a recording that `wait_patterns` keeps: those with the longest sums.
const MAX_WAIT_PATTERNS: usize = 300;

/// Letters of a process name that Linux keeps.
const MAX_PROCESS_NAME: usize = 15;

/// A cell: a text or a number, or nothing.
enum Cell {
    Text(Option<String>),
    Number(Option<i64>),
}

fn text(text: impl Into<String>) -> Cell {
    Cell::Text(Some(text.into()))
}

fn some_text(text: Option<impl Into<String>>) -> Cell {
    Cell::Text(text.map(Into::into))
}

fn number(number: impl TryInto<i64>) -> Cell {
    Cell::Number(number.try_into().ok())
}

fn id(id: Option<ContentId>) -> Cell {
    Cell::Text(id.map(ContentId::hex))
}

/// Rows of one table.
struct Rows {
    columns: &'static [(&'static str, bool)],
    rows: Vec<Vec<Cell>>,
}

/// Columns that hold numbers are marked.
macro_rules! columns {
    ($($name:literal $($number:ident)?),* $(,)?) => {
        &[$(($name, columns!(@ $($number)?))),*]
    };
    (@ ns) => { true };
    (@ n) => { true };
    (@) => { false };
}

impl Rows {
    fn new(columns: &'static [(&'static str, bool)]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    fn batch(self) -> Outcome<RecordBatch> {
        let field = |&(name, is_number): &(&str, bool)| {
            let data_type = if is_number { DataType::Int64 } else { DataType::Utf8 };
            Field::new(name, data_type, true)
        };
        let version = ("unhitch.schema_version".to_owned(), SCHEMA_VERSION.to_string());
        let fields: Vec<Field> = self.columns.iter().map(field).collect();
        let schema =
            Arc::new(Schema::new_with_metadata(fields, std::collections::HashMap::from([version])));
        let column = |(at, &(_, is_number)): (usize, &(&str, bool))| -> ArrayRef {
            if is_number {
                let number = |row: &Vec<Cell>| match row.get(at) {
                    Some(Cell::Number(number)) => *number,
                    _ => None,
                };
                Arc::new(self.rows.iter().map(number).collect::<Int64Array>())
            } else {
                let text = |row: &Vec<Cell>| match row.get(at) {
                    Some(Cell::Text(text)) => text.clone(),
                    _ => None,
                };
                Arc::new(self.rows.iter().map(text).collect::<StringArray>())
            }
        };
        let arrays = self.columns.iter().enumerate().map(column).collect();
        with_rows(&schema, arrays, self.rows.len())
    }
}

/// The day (UTC) on which a recording begins, `1970-01-01` where its file does not say.
pub fn day(trace: &Trace) -> String {
    let days = recorded_ns(trace).unwrap_or(0).div_euclid(86_400_000_000_000);
    Date::after_epoch(days).to_string()
}

/// When a recording begins, nanoseconds since the Unix epoch.
fn recorded_ns(trace: &Trace) -> Option<i64> {
    let start = i128::from(trace.extent().start.nanos());
    i64::try_from(trace.meta.epoch_ns? + start).ok()
}

/// All rows of a recording, by table.
pub fn all(opened: &Opened, trace_id: &str, bytes: u64) -> Outcome<Tables> {
    let stalls = opened.stalls();
    let trees: Vec<Vec<Edge>> = stalls.iter().map(|stall| edges(opened, stall)).collect();
    Ok(vec![
        ("traces", traces(opened, trace_id, bytes).batch()?),
        ("programs", programs(opened, trace_id).batch()?),
        ("stalls", stall_rows(opened, trace_id, stalls).batch()?),
        ("causes", causes(opened, trace_id, stalls).batch()?),
        ("edges", edge_rows(trace_id, &trees).batch()?),
        ("wait_patterns", wait_patterns(opened, trace_id)?.batch()?),
        ("stacks", stacks(opened, trace_id).batch()?),
        ("frames", frames(opened, trace_id).batch()?),
    ])
}

fn traces(opened: &Opened, trace_id: &str, bytes: u64) -> Rows {
    let (trace, analysis) = (opened.trace(), opened.analysis());
    let mut rows = Rows::new(columns![
        "trace_id", "host", "recorded_ns" ns, "duration_ns" ns, "system", "kernel", "arch",
        "cpus" n, "producer", "switches" n, "wakeups" n, "samples" n, "lost_events" n,
        "warnings" n, "stalls" n, "marks" n, "is_interrupted" n, "bytes" n, "trigger",
        "trigger_name", "covered_ns" ns, "uncovered_events" n,
    ]);
    let meta = &trace.meta;
    let hit = meta.save.as_ref().and_then(|reason| reason.trigger.as_ref());
    rows.rows.push(vec![
        text(trace_id),
        text(meta.host.as_str()),
        Cell::Number(recorded_ns(trace)),
        number(analysis.timeline.window().duration_ns()),
        text(format!("{:?}", meta.system).to_lowercase()),
        text(meta.kernel.as_str()),
        text(meta.arch.as_str()),
        number(analysis.cpus.cpus() as u64),
        text(meta.producer.as_str()),
        number(trace.switches.len() as u64),
        number(trace.wakings.len() as u64),
        number(trace.samples.len() as u64),
        number(trace.lost_events()),
        number(trace.warnings.lines().count() as u64),
        number(opened.stalls().len() as u64),
        number(analysis.marks.len() as u64),
        number(u64::from(meta.is_interrupted)),
        number(bytes),
        some_text(meta.save.as_ref().and_then(trigger_kind)),
        some_text(hit.map(|hit| hit.name.as_str()).filter(|name| !name.is_empty())),
        number(trace.common_window().duration_ns()),
        number(trace.uncovered_events()),
    ]);
    rows
}

/// What made the recorder save: a trigger's kind, or `hand`; none where the file does not say.
fn trigger_kind(reason: &SaveReason) -> Option<&str> {
    match &reason.trigger {
        Some(hit) => Some(&hit.kind),
        None => reason.by_hand.then_some("hand"),
    }
}

/// Programs and libraries with their build ids: which version of what the recording saw.
fn programs(opened: &Opened, trace_id: &str) -> Rows {
    let trace = opened.trace();
    let mut rows = Rows::new(columns!["trace_id", "program", "process", "build_id"]);
    let mut all: Vec<(String, String)> = trace
        .modules
        .iter()
        .filter(|(_, module)| matches!(module.kind, ModuleKind::File | ModuleKind::Image { .. }))
        .map(|(id, module)| (module, trace.modules.build_id(id)))
        .filter(|(_, build_id)| !build_id.is_empty())
        .map(|(module, build_id)| {
            let name = module.kind.file_name(trace.name(module.path));
            (name.to_owned(), hex(build_id))
        })
        .collect();
    all.sort_unstable();
    all.dedup();
    let row = |(program, build_id): (String, String)| {
        // Linux cuts the name of a process.
        let process: String = program.chars().take(MAX_PROCESS_NAME).collect();
        vec![text(trace_id), text(program), text(folded(&process)), text(build_id)]
    };
    rows.rows = all.into_iter().map(row).collect();
    rows
}

fn stall_rows(opened: &Opened, trace_id: &str, stalls: &[Stall]) -> Rows {
    let trace = opened.trace();
    let mut rows = Rows::new(columns![
        "trace_id", "stall" n, "kind", "start_ns" ns, "duration_ns" ns, "process", "thread",
        "victims" n,
    ]);
    for (index, stall) in stalls.iter().enumerate() {
        let (window, victim) = (stall.explanation.window, stall.candidate.victim);
        rows.rows.push(vec![
            text(trace_id),
            number(index as u64 + 1),
            text(stall.candidate.kind.name()),
            number(window.start.since(trace.origin())),
            number(window.duration_ns()),
            text(folded(trace.process_name(victim, window.end))),
            text(folded(trace.thread_name(victim, window.end))),
            number(stall.victims.len() as u64),
        ]);
    }
    rows
}

fn causes(opened: &Opened, trace_id: &str, stalls: &[Stall]) -> Rows {
    let mut rows = Rows::new(columns![
        "trace_id", "stall" n, "cause_id", "pattern", "culprit", "function", "evidence",
        "duration_ns" ns, "cause",
    ]);
    for (index, stall) in stalls.iter().enumerate() {
        let finding = &stall.finding;
        let culprit = finding.culprit.map(|culprit| role(opened, &stall.explanation, culprit));
        let name = function(&finding.function);
        let pattern = finding.pattern.name();
        let known_by = ["cause", pattern, culprit.as_deref().unwrap_or(""), &name];
        rows.rows.push(vec![
            text(trace_id),
            number(index as u64 + 1),
            id(Some(ContentId::of(known_by.map(str::as_bytes)))),
            text(pattern),
            some_text(culprit),
            text(name),
            text(finding.evidence.name()),
            number(stall.explanation.window.duration_ns()),
            text(finding.cause.to_string()),
        ]);
    }
    rows
}

fn edge_rows(trace_id: &str, trees: &[Vec<Edge>]) -> Rows {
    let mut rows = Rows::new(columns![
        "trace_id", "stall" n, "edge" n, "parent" n, "depth" n, "class", "sleeper", "waker",
        "wait_function", "wake_function", "wait_stack_id", "wake_stack_id", "waits" n,
        "own_ns" ns, "total_ns" ns, "path_id", "path",
    ]);
    for (stall, tree) in trees.iter().enumerate() {
        for (at, edge) in tree.iter().enumerate() {
            let path = path(tree, at);
            rows.rows.push(vec![
                text(trace_id),
                number(stall as u64 + 1),
                number(at as u64),
                Cell::Number(edge.parent.and_then(|parent| i64::try_from(parent).ok())),
                number(edge.depth),
                text(edge.class),
                text(edge.sleeper.as_str()),
                text(edge.waker.as_str()),
                text(edge.wait_function.as_str()),
                text(edge.wake_function.as_str()),
                id(edge.wait_stack),
                id(edge.wake_stack),
                number(edge.waits),
                number(edge.own_ns),
                number(edge.total_ns),
                id(Some(ContentId::of([b"path", path.as_bytes()]))),
                text(path),
            ]);
        }
    }
    rows
}

/// All waits of the recording but idle ones, slow or not, by who waited where and who ended it
/// where.
fn wait_patterns(opened: &Opened, trace_id: &str) -> Outcome<Rows> {
    let words = Words {
        by: Some("process,reason,wait stack,woken by process,wake stack"),
        show: Some("count,sum:waited,max:waited"),
        filter: Some("not (reason = idle or reason = kernel_idle)"),
        sort: None,
    };
    let (query, window) = (query("waits", words)?, opened.trace().extent());
    let mut table = opened.table(&query, window, usize::MAX);
    let (len, columns) = (table.len(), table.take_columns());
    let name = |column: &TypedColumn, row: usize| match column.cells.get(row) {
        Some(&cell) if cell != NOTHING => table.with_text(cell, folded),
        _ => String::new(),
    };
    let own_function = |column: &TypedColumn, row: usize| {
        let stack = column.cells.get(row).and_then(|&cell| u32::try_from(cell).ok());
        let stack = stack.map_or(unhitch_model::StackId::EMPTY, unhitch_model::StackId);
        function(&unhitch_analysis::text::own_function(opened.analysis(), stack))
    };
    let mut sums: std::collections::BTreeMap<[String; 3], [i64; 3]> = Default::default();
    for row in 0..len {
        let [process, reason, wait, waker, wake, count, sum, max] = columns.as_slice() else {
            break;
        };
        let waited_in = own_function(wait, row);
        if waited_in.is_empty() {
            // Where it waited was not recorded, which says nothing about the program.
            continue;
        }
        debug_assert!(matches!(wait.of.kind, Kind::Stack(_)) && sum.of.kind == Kind::Duration);
        let path = format!(
            "{} in {} <- {} {}",
            name(reason, row),
            waited_in,
            name(waker, row),
            own_function(wake, row)
        );
        let number = |column: &TypedColumn| {
            column.cells.get(row).copied().filter(|&cell| cell != NOTHING).unwrap_or(0)
        };
        let entry = sums.entry([name(process, row), name(reason, row), path]).or_default();
        entry[0] += number(count);
        entry[1] = entry[1].saturating_add(number(sum));
        entry[2] = entry[2].max(number(max));
    }
    let mut all: Vec<_> = sums.into_iter().collect();
    // Stable: equal sums stay in the order of their names.
    all.sort_by_key(|(_, [_, sum, _])| std::cmp::Reverse(*sum));
    all.truncate(MAX_WAIT_PATTERNS);
    let mut rows = Rows::new(columns![
        "trace_id", "process", "class", "pattern_id", "pattern", "waits" n, "sum_ns" ns,
        "max_ns" ns,
    ]);
    rows.rows = all
        .into_iter()
        .map(|([process, class, path], [count, sum, max])| {
            let known_by = [b"wait", process.as_bytes(), path.as_bytes()];
            vec![
                text(trace_id),
                text(process.as_str()),
                text(class),
                id(Some(ContentId::of(known_by))),
                text(path.as_str()),
                number(count),
                number(sum),
                number(max),
            ]
        })
        .collect();
    Ok(rows)
}

fn stacks(opened: &Opened, trace_id: &str) -> Rows {
    let mut rows = Rows::new(columns![
        "trace_id", "stack_id", "depth" n, "kernel_depth" n, "leaf", "folded",
    ]);
    for (stack, kernel_depth, frames) in distinct(opened) {
        let name = |&frame| crate::content_id::function(opened.trace(), frame).name;
        let names: Vec<String> = frames.iter().rev().map(name).collect();
        rows.rows.push(vec![
            text(trace_id),
            id(Some(stack)),
            number(names.len() as u64),
            number(kernel_depth as u64),
            some_text(names.last().cloned()),
            text(names.join(";")),
        ]);
    }
    rows
}

fn frames(opened: &Opened, trace_id: &str) -> Rows {
    let mut rows = Rows::new(columns![
        "trace_id", "frame_id", "function", "module", "file", "is_kernel" n,
    ]);
    let mut all: Vec<_> = distinct(opened)
        .into_iter()
        .flat_map(|(_, _, frames)| frames)
        .filter_map(|&frame| Some((opened.ids().of_frame(frame)?, frame)))
        .collect();
    all.sort_unstable();
    all.dedup_by_key(|(id, _)| *id);
    for (frame_id, frame) in all {
        let function = crate::content_id::function(opened.trace(), frame);
        rows.rows.push(vec![
            text(trace_id),
            id(Some(frame_id)),
            text(function.name),
            text(function.module),
            some_text((!function.file.is_empty()).then_some(function.file)),
            number(u64::from(function.is_kernel)),
        ]);
    }
    rows
}
