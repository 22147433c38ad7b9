//! A trace that goes to Perfetto and comes back is the same: events, stacks, names, answer.

use crate::checks::{self, Tables, with_analysis};
use crate::traces;
use serde_json::Value;
use unhitch_analysis::{Analysis, Query, answer, diagnose};
use unhitch_export::Of;
use unhitch_formats::read_bytes;
use unhitch_model::{Lack, StackId, Trace, WakeFlags};

fn through_perfetto(analysis: &Analysis<'_>) -> Trace {
    read_bytes(&checks::export(analysis, "perfetto", Of::Waits)).unwrap()
}

/// Columns of tables that come back, with the order of their rows.
const TABLES: [(&str, &[&str]); 4] = [
    (
        "switches",
        &[
            "switched_in_ns",
            "cpu",
            "thread",
            "tid",
            "pid",
            "woken_by_tid",
            "wake_context",
            "wake_stack",
            "wait_stack",
            "off_cpu_ns",
            "waited_ns",
            "runnable_ns",
            "ran_for_ns",
            "state",
            "reason",
            "priority",
        ],
    ),
    (
        "waits",
        &[
            "blocked_at_ns",
            "woken_at_ns",
            "thread",
            "tid",
            "woken_by",
            "wake_stack",
            "wait_stack",
            "waited_ns",
            "reason",
        ],
    ),
    (
        "wakes",
        &[
            "woken_at_ns",
            "cpu",
            "thread",
            "tid",
            "woken_by",
            "woken_by_tid",
            "wake_context",
            "wake_stack",
            "waited_ns",
        ],
    ),
    ("samples", &["time_ns", "cpu", "thread", "tid", "stack", "weight_ns"]),
];

/// The rows of a table as texts, sorted.
fn rows(tables: &Tables, table: &str, columns: &[&str]) -> Vec<String> {
    let row =
        |row: &Value| columns.iter().map(|column| format!("{column} {} ", row[column])).collect();
    let mut rows: Vec<String> = tables.rows(table).iter().map(row).collect();
    rows.sort_unstable();
    rows
}

#[test]
fn a_trace_comes_back_from_perfetto() {
    for (name, trace) in traces() {
        with_analysis(trace, |before| {
            let back = through_perfetto(before);
            assert_eq!(back.spans, before.trace.spans, "{name}");
            assert_eq!(back.losses, before.trace.losses, "{name}");
            assert_eq!(back.origin(), before.trace.origin(), "{name}");
            assert_eq!(back.meta.clock_id, before.trace.meta.clock_id, "{name}");
            assert_eq!(back.meta.sample_period_ns, before.trace.meta.sample_period_ns, "{name}");
            assert_eq!(back.meta.lacks, before.trace.meta.lacks, "{name}");
            for warning in before.trace.warnings.lines() {
                assert!(back.warnings.lines().any(|line| line == warning), "{name}: {warning}");
            }
            with_analysis(back, |after| {
                let (was, is) = (Tables::of(before), Tables::of(after));
                for (table, columns) in TABLES {
                    let (was, is) = (rows(&was, table, columns), rows(&is, table, columns));
                    assert_eq!(was.len(), is.len(), "{name}: {table}");
                    let different = was.iter().zip(&is).find(|(was, is)| was != is);
                    assert_eq!(different, None, "{name}: {table}");
                }
                let text =
                    |of: &Analysis<'_>| answer::text(of, &diagnose(of, &Query::default()), 1);
                assert_eq!(text(before), text(after), "{name}");
            });
        });
    }
}

/// What another tool did not record stays unrecorded: its wake-ups are no better for having been
/// read and written by us.
#[test]
fn what_a_trace_lacks_it_lacks_after_perfetto() {
    let (_, mut trace) = traces().pop().unwrap();
    // Stacks would tell contexts.
    trace.wakings.stack.fill(StackId::EMPTY);
    trace.meta.lacks = vec![Lack::WakeStacks, Lack::Wakers, Lack::WakeContexts, Lack::Processes];
    with_analysis(trace, |before| {
        let back = through_perfetto(before);
        assert_eq!(back.meta.lacks, before.trace.meta.lacks);
        let new = before.trace.wakings.flags.iter().filter(|flags| flags.has(WakeFlags::NEW));
        let others = (before.trace.wakings.len() - new.count()) as u64;
        assert_eq!(back.by_kind.get("sched:sched_wakeup"), Some(&others));
        assert_eq!(back.by_kind.get("sched:sched_waking"), None);
        assert_eq!(back.wakings.time, before.trace.wakings.time);
    });
}
