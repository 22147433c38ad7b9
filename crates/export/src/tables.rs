//! JSON: every table of `unhitch table` in one file, with all columns and rows.

use crate::job::{Job, Progress};
use crate::report::{Counted, Report};
use std::io::{self, Write};
use unhitch_analysis::table::{Name, TABLES, Whole};

/// The version of the file's structure. Fields may be added without a new one.
const VERSION: u32 = 1;

/// Writes a file.
///
/// # Errors
/// Those of `out`.
pub(crate) fn export(
    job: &Job<'_>,
    out: &mut dyn Write,
    progress: &mut Progress<'_>,
) -> io::Result<Report> {
    let (analysis, window) = (job.analysis, job.selection.window);
    let (trace, covered) = (analysis.trace, analysis.timeline.window());
    let head = serde_json::json!({
        "version": VERSION,
        "producer": job.producer,
        "host": trace.meta.host,
        "kernel": trace.meta.kernel,
        "clock_id": trace.meta.clock_id,
        "origin_ns": trace.origin().nanos(),
        "start_ns": window.start.nanos(),
        "end_ns": window.end.nanos(),
        "covered_start_ns": covered.start.nanos(),
        "covered_end_ns": covered.end.nanos(),
        "lost_events": trace.lost_events(),
        "warnings": trace.warnings.lines().collect::<Vec<_>>(),
    });
    let head = head.to_string();
    // The tables follow in the same object.
    let open = head.strip_suffix('}').unwrap_or(&head);
    write!(out, "{open},\"tables\":[")?;
    let rows = trace.switches.range(window).len() + trace.wakings.range(window).len();
    progress.expect(rows * 2 + trace.samples.range(window).len());
    let mut held: Vec<Counted> = Vec::new();
    // A CPU is no thread's.
    let wanted =
        TABLES.iter().filter(|table| job.selection.threads.is_none() || table.name != Name::Cpus);
    for (index, table) in wanted.enumerate() {
        if index > 0 {
            out.write_all(b",\n")?;
        }
        let mut step = || progress.step();
        let threads = job.selection.threads.as_ref();
        let whole = Whole::new(analysis, table.name, window, threads, &mut step);
        serde_json::to_writer(&mut *out, &whole)?;
        held.push((whole.len() as u64, one(table.name), table.word));
    }
    out.write_all(b"]}\n")?;
    let mut report = Report::default();
    report.held(&held);
    report.note(
        "left out what no table has: mappings, how stalls are explained \
         (`unhitch why --json` has that)",
    );
    Ok(report)
}

/// What a row of a table is.
const fn one(name: Name) -> &'static str {
    match name {
        Name::Switches => "switch",
        Name::Waits => "wait",
        Name::Wakes => "wake",
        Name::Samples => "sample",
        Name::Events => "event",
        Name::Stalls => "stall",
        Name::Lifetimes => "lifetime",
        Name::Threads => "thread",
        Name::Cpus => "cpu",
        Name::Marks => "mark",
        Name::Counters => "counter",
    }
}
