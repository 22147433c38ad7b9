//! `unhitch waits`: what the wait rules do not know yet.

use crate::args::WaitsArgs;
use crate::{Done, load, print};
use serde_json::json;
use std::fmt::Write;
use unhitch_analysis::{Analysis, StackWaits, answer::units};

/// Prints the waits that no rule classifies, longest first.
pub fn waits(args: &WaitsArgs) -> anyhow::Result<Done> {
    let trace = load::trace(&args.trace)?;
    let rules = load::rules(&args.rules)?;
    let analysis = Analysis::new(&trace, &rules);
    let all = analysis.unclassified();
    let end = analysis.timeline.window().end;
    if args.json {
        let row = |waits: &StackWaits| {
            let thread = units::thread(&trace, waits.most, end);
            json!({"waits": waits.waits, "waited_ns": waits.waited_ns, "thread": thread, "stack": trace.stack_names(waits.stack)})
        };
        let rows: Vec<serde_json::Value> = all.iter().take(args.top).map(row).collect();
        print(&(serde_json::to_string(&rows)? + "\n"))?;
        return Ok(Done::Yes);
    }
    let mut out = String::new();
    if all.is_empty() {
        out.push_str("Every wait in this trace has a class.\n");
    } else {
        let _ = writeln!(out, "{:>12}  {:>8}  waited longest there, and where", "waited", "waits");
    }
    for waits in all.iter().take(args.top) {
        let thread = units::thread(&trace, waits.most, end);
        let _ = writeln!(out, "{:>12}  {:>8}  {thread}", units::duration(waits.waited_ns), units::count(waits.waits));
        let _ = writeln!(out, "{:>24}{}", "", analysis.told(waits.stack));
    }
    if all.len() > args.top {
        let _ = writeln!(out, "… and {} more stacks (--top N shows more).", all.len() - args.top);
    }
    print(&out)?;
    Ok(Done::Yes)
}
