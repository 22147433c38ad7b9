//! `unhitch list`: saved traces with their verdicts.

use crate::args::ListArgs;
use crate::done::Done;
use crate::terminal::{note, print, print_json};
use anyhow::Context;
use serde_json::{Value, json};
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use unhitch_formats::container;
use unhitch_model::{units, visible, visible_path};

/// Where the service keeps its traces.
const STATE: &str = "/var/lib/unhitch";
/// Maximum number of files that are looked at.
const MAX_FILES: usize = 100_000;

/// The folder to list.
pub fn folder(args: &ListArgs) -> PathBuf {
    let known = || {
        let state = PathBuf::from(STATE);
        if fs::read_dir(&state).is_ok() { state } else { PathBuf::from(".") }
    };
    args.folder.clone().unwrap_or_else(known)
}

/// Lists the traces of a folder.
pub fn list(args: &ListArgs) -> anyhow::Result<Done> {
    let folder = folder(args);
    let entries = fs::read_dir(&folder).with_context(|| visible_path(&folder))?;
    let mut traces: Vec<(SystemTime, PathBuf, Metadata)> = entries
        .flatten()
        .take(MAX_FILES)
        .filter_map(|entry| {
            let path = entry.path();
            let name = path.file_name()?.to_str()?;
            let about = (name.ends_with(".hitch") && !name.starts_with('.'))
                .then(|| fs::symlink_metadata(&path).ok())?
                .filter(Metadata::is_file)?;
            Some((about.modified().unwrap_or(UNIX_EPOCH), path, about))
        })
        .collect();
    traces.sort_by(|a, b| (b.0, &b.1).cmp(&(a.0, &a.1)));
    let (all, shown) = (traces.len(), traces.len().min(args.top));
    let traces: Vec<Value> =
        traces.iter().take(args.top).map(|(time, path, about)| entry(*time, path, about)).collect();
    if args.json {
        print_json(&json!({ "version": 1, "folder": folder.to_string_lossy(), "traces": traces }))?;
        return Ok(Done::Yes);
    }
    if all == 0 {
        note(&format!("there are no traces in {}", visible_path(&folder)));
    }
    print(&traces.iter().map(line).collect::<String>())?;
    if shown < all {
        note(&format!("… and {} more (--top N)", all - shown));
    }
    Ok(Done::Yes)
}

/// What is known of a trace without reading its records.
fn entry(modified: SystemTime, path: &Path, about: &Metadata) -> Value {
    let epoch = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut entry = json!({
        "path": path.to_string_lossy(),
        "name": path.file_name().unwrap_or_default().to_string_lossy(),
        "bytes": about.len(),
        "modified_epoch_ns": u64::try_from(epoch.as_nanos()).unwrap_or(u64::MAX),
        "by_hand": null, "trigger": null, "notes": "", "verdict": null, "error": null,
    });
    match container::read_save(path) {
        Ok(Some((Some(save), _))) => {
            entry["by_hand"] = json!(save.by_hand);
            entry["trigger"] = json!(save.trigger);
        }
        Ok(_) => {}
        Err(error) => entry["error"] = json!(error.to_string()),
    }
    if let Ok(Some((_, notes))) = container::read_meta(path) {
        entry["notes"] = json!(notes);
    }
    if let Some(verdict) = container::read_verdict(path) {
        entry["verdict"] = verdict;
    }
    entry
}

/// One line for people, and a second one for what the user wrote.
fn line(entry: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().trim().to_owned();
    let trigger = &entry["trigger"];
    let how = match (entry["by_hand"].as_bool(), text(&trigger["name"]), text(&trigger["kind"])) {
        (Some(true), ..) => "by hand".to_owned(),
        (Some(false), name, kind) if name.is_empty() => kind,
        (Some(false), name, _) => name,
        (None, ..) if entry["error"].is_string() => "not readable".to_owned(),
        (None, ..) => "recorded".to_owned(),
    };
    let verdict = &entry["verdict"];
    let answer = match (text(&verdict["line"]), text(&verdict["error"]), text(&entry["error"])) {
        (line, ..) if !line.is_empty() => line,
        (_, error, _) if !error.is_empty() => error,
        (.., error) if !error.is_empty() => error,
        _ => "not judged yet".to_owned(),
    };
    let size = units::bytes(entry["bytes"].as_u64().unwrap_or(0));
    let name = text(&entry["name"]);
    let mut out =
        format!("{}  {size:>9}  {}  {}\n", visible(&name), visible(&how), visible(&answer));
    let notes = text(&entry["notes"]);
    if let Some(first) = notes.lines().next().filter(|first| !first.is_empty()) {
        out.push_str(&format!("  note: {}\n", visible(first)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_why_and_what_and_nothing_controls_the_terminal() {
        let entry = json!({
            "name": "a.hitch", "bytes": 2048, "by_hand": false,
            "trigger": {"name": "editor", "kind": "wait"}, "notes": "mine\nmore",
            "verdict": {"line": "  1.6 s  at 3 s  x: y\u{1b}[2J"}, "error": null,
        });
        let shown = line(&entry);
        assert!(shown.contains("editor  1.6 s  at 3 s  x: y\\x1b[2J\n  note: mine\n"), "{shown}");
        let plain = line(&json!({ "name": "b.hitch", "bytes": 1 }));
        assert!(plain.contains("recorded  not judged yet"), "{plain}");
        // As a member of a group that reads verdicts, but no traces.
        let other = json!({
            "name": "c.hitch", "bytes": 1, "verdict": {"line": "why"}, "error": "Permission denied",
        });
        assert!(line(&other).contains("not readable  why"), "{}", line(&other));
    }
}
