//! `unhitch why`: what hung, and what caused it.

use crate::args::WhyArgs;
use crate::done::Done;
use crate::terminal::{print, print_json};
use crate::{checks, load, selection};
use anyhow::Context;
#[cfg(target_os = "linux")]
use std::{ffi::OsString, os::unix::process::CommandExt, path::Path, process::Command};
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
    let path = args.trace.as_deref().context("which trace?")?;
    let trace = load::Reader::new(&args.reading).read_for(path, load::For::of(args.json))?;
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
        in_progress: args.in_progress,
    };
    let found = unhitch_analysis::diagnose(&analysis, &query);
    let mut stalls = found.clone();
    if let Some(pid) = args.process {
        let life = unhitch_analysis::command(&analysis, pid);
        let life = life.with_context(|| format!("nothing was recorded about process {pid}"))?;
        stalls.retain(|stall| stall.candidate != life.candidate);
        stalls.insert(0, life);
    }
    if args.json {
        let file = path.display().to_string();
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
    if !args.checks.fail_on.is_empty() {
        let answer = answer::text_for(&analysis, &query, &stalls, MAX_STALLS_JSON);
        let is_broken = checks::check(&args.checks, &analysis, &found, args.process, &answer)?;
        return Ok(if is_broken { Done::Breach } else { Done::Yes });
    }
    Ok(if stalls.is_empty() { Done::NoStall } else { Done::Yes })
}

/// The process that explains a trace that was just recorded: this one has the rights to record, and
/// a trace has names and paths from strangers. `options` are those of `unhitch why`.
#[cfg(target_os = "linux")]
pub fn explainer(trace: &Path, options: &[OsString]) -> Command {
    // The kernel's link leads to the running program, whatever is at its path by now.
    let mut why = Command::new("/proc/self/exe");
    why.arg0("unhitch").arg("why").args(options).arg("--").arg(trace);
    why
}

/// The process that writes the report of a trace that was just recorded, for the same reason.
#[cfg(target_os = "linux")]
pub fn reporter(trace: &Path, report: &Path) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("unhitch").arg("report").arg("-o").arg(report).arg("--").arg(trace);
    command
}

/// Explains a trace that was just recorded.
#[cfg(target_os = "linux")]
pub fn explain(trace: &Path, options: &[OsString]) -> anyhow::Result<Done> {
    let status = explainer(trace, options)
        .status()
        .context("cannot start the process that explains the trace")?;
    match status.code() {
        Some(code) if code == i32::from(Done::Yes.exit_code()) => Ok(Done::Yes),
        Some(code) if code == i32::from(Done::NoStall.exit_code()) => Ok(Done::NoStall),
        _ => anyhow::bail!("the trace was not explained: {status}"),
    }
}
