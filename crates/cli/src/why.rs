//! `unhitch why`: what hung, and what caused it.

use crate::args::WhyArgs;
#[cfg(target_os = "linux")]
use crate::args::{ReadingArgs, RulesArgs, TraceArgs, WindowArgs};
use crate::done::Done;
use crate::terminal::{print, print_json};
use crate::{load, selection};
use anyhow::Context;
#[cfg(target_os = "linux")]
use std::path::Path;
use unhitch_analysis::Analysis;
use unhitch_analysis::Query;
use unhitch_analysis::answer::{self, Why};
use unhitch_model::visible_path;

/// Default maximum of stalls explained in text.
const MAX_STALLS_TEXT: usize = 1;
/// Default maximum of stalls explained in JSON.
const MAX_STALLS_JSON: usize = 10;

/// Explains the stalls of a trace file.
pub fn why(args: &WhyArgs) -> anyhow::Result<Done> {
    let rules = load::rules(&args.rules)?;
    let trace = load::trace(&args.trace, load::For::of(args.json))?;
    let analysis = Analysis::new(&trace, &rules);
    let query = Query {
        victims: args
            .victim
            .as_deref()
            .map_or(Ok(Vec::new()), |name| selection::victims(&trace, name))?,
        window: match args.window.is_everything() {
            true => None,
            false => Some(selection::window(args.window, &trace, analysis.timeline.window())?),
        },
    };
    let mut stalls = unhitch_analysis::diagnose(&analysis, &query);
    if let Some(pid) = args.process {
        let life = unhitch_analysis::command(&analysis, pid);
        let life = life.with_context(|| format!("nothing was recorded about process {pid}"))?;
        stalls.retain(|stall| stall.candidate != life.candidate);
        stalls.insert(0, life);
    }
    if args.json {
        let file = args.trace.path.display().to_string();
        print_json(&Why::new(&analysis, &file, &stalls, args.top.unwrap_or(MAX_STALLS_JSON)))?;
    } else {
        if let Some(life) = stalls.first().filter(|_| args.process.is_some()) {
            print(&format!("{}\n", answer::took(&analysis, life)))?;
        }
        print(&answer::text_for(&analysis, &query, &stalls, args.top.unwrap_or(MAX_STALLS_TEXT)))?;
    }
    if let (Some(path), Some(stall)) = (&args.svg, stalls.first()) {
        std::fs::write(path, answer::svg(&analysis, stall)).with_context(|| visible_path(path))?;
    }
    Ok(if stalls.is_empty() { Done::NoStall } else { Done::Yes })
}

/// Explains a trace that was just recorded, as text or JSON.
#[cfg(target_os = "linux")]
pub fn explain(path: &Path, json: bool) -> anyhow::Result<Done> {
    let trace = TraceArgs { path: path.to_path_buf(), reading: ReadingArgs::default() };
    why(&WhyArgs {
        trace,
        victim: None,
        process: None,
        window: WindowArgs::default(),
        top: None,
        json,
        svg: None,
        rules: RulesArgs::default(),
    })
}
