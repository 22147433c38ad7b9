//! `unhitch waits`: the waits that no rule classifies yet.

use crate::args::WaitsArgs;
use crate::done::Done;
use crate::load;
use crate::terminal::{complain, note_warnings, print_answer, print_json};
use serde_json::json;
use std::fmt::Write;
use unhitch_analysis::wording::{recording, units};
use unhitch_analysis::{Analysis, StackWaits};
use unhitch_model::Recorded;

/// Prints the waits that no rule classifies, longest first.
pub fn waits(args: &WaitsArgs) -> anyhow::Result<Done> {
    let trace = load::trace(&args.trace, load::For::of(args.json))?;
    let rules = load::rules(&args.rules)?;
    let analysis = Analysis::new(&trace, &rules);
    let all = unhitch_analysis::unclassified_waits(&analysis);
    let end = analysis.timeline.window().end;
    let lacking = recording::not_recorded(&trace, Recorded::Switches, "");
    if args.json {
        let row = |waits: &StackWaits| {
            let thread = units::thread(&trace, waits.most, end);
            json!({"waits": waits.waits, "waited_ns": waits.waited_ns, "thread": thread, "stack": trace.stack_names(waits.stack)})
        };
        let rows: Vec<serde_json::Value> = all.iter().take(args.top).map(row).collect();
        print_json(&rows)?;
        // The JSON is a list and has no place for these.
        lacking.iter().for_each(|lacking| complain(lacking.trim_end()));
        note_warnings(&trace);
        return Ok(Done::Yes);
    }
    let mut out = String::new();
    if let Some(lacking) = lacking {
        out.push_str(&lacking);
    } else if all.is_empty() {
        out.push_str("A rule classifies every wait in this trace.\n");
    } else {
        let _ = writeln!(out, "{:>12}  {:>8}  longest waiter, and stack", "waited", "waits");
    }
    for waits in all.iter().take(args.top) {
        let thread = units::thread(&trace, waits.most, end);
        let _ = writeln!(
            out,
            "{:>12}  {:>8}  {thread}",
            units::duration(waits.waited_ns),
            units::count(waits.waits)
        );
        let _ = writeln!(
            out,
            "{:>24}{}",
            "",
            unhitch_analysis::text::stack_text(&analysis, waits.stack)
        );
    }
    if all.len() > args.top {
        let more = units::plural((all.len() - args.top) as u64, "more stack");
        let _ = writeln!(out, "… and {more} (--top N shows more).");
    }
    print_answer(&out, &trace)?;
    Ok(Done::Yes)
}
