//! `unhitch diff`: what differs between two recordings, or two folders of them, and why.

use crate::args::DiffArgs;
use crate::done::Done;
use crate::terminal::{note, print, print_json};
use crate::{load, selection};
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use unhitch_analysis::diff::{Diff, Summary, Who, text};
use unhitch_analysis::{Analysis, Query};
use unhitch_model::visible_path;

/// Compares two recordings, or two folders of them.
pub fn diff(args: &DiffArgs) -> anyhow::Result<Done> {
    let (before, after) = (recordings(&args.before)?, recordings(&args.after)?);
    let mut focus = None;
    let mut side = |paths: &[PathBuf]| {
        let mut summaries: Vec<Summary> = Vec::new();
        for path in paths {
            let summary = summary(args, path, focus.as_ref())?;
            // The same thread is looked at in all of them.
            if focus.is_none() {
                focus = summary.stall.as_ref().map(|stall| stall.victim.clone());
            }
            summaries.push(summary);
        }
        anyhow::Ok(summaries)
    };
    let (before, after) = (side(&before)?, side(&after)?);
    let diff = Diff::new(&before, &after);
    if args.json {
        print_json(&diff)?
    } else {
        print(&text(&diff))?
    }
    Ok(Done::Yes)
}

/// Reads one recording and reduces it to what is compared.
fn summary(args: &DiffArgs, path: &Path, focus: Option<&Who>) -> anyhow::Result<Summary> {
    let rules = load::rules(&args.rules)?;
    let whom = load::For::of(args.json);
    let trace = load::Reader::new(&args.reading).read_for(path, whom)?;
    let name = visible_path(path);
    trace.warnings.lines().for_each(|warning| note(&format!("warning: {name}: {warning}")));
    let analysis = Analysis::new(&trace, &rules);
    let victims = match &args.victim {
        None => Vec::new(),
        Some(victim) => selection::victims(&trace, victim).with_context(|| name.clone())?,
    };
    let query = Query { victims, ..Query::default() };
    Ok(Summary::new(&analysis, &name, &query, focus))
}

/// The recordings that an argument names: a file, or those in a folder, by name.
fn recordings(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).with_context(|| visible_path(path))?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let extension = path.extension().and_then(|extension| extension.to_str());
            path.is_file() && matches!(extension, Some("hitch" | "data" | "etl"))
        })
        .collect();
    found.sort();
    if found.is_empty() {
        bail!("{}: there is no recording in this folder", visible_path(path));
    }
    Ok(found)
}
