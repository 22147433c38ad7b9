//! `unhitch export`: writes a trace as a file of another tool.
//!
//! Formats are in the registry of `unhitch-export`, each with a writer that reports what the trace
//! has and the format cannot carry. That goes to standard error. A perf.data needs nothing but the
//! trace's events, and is written by `unhitch-formats`; Parquet by the Python package.

use crate::args::{ExportArgs, ExportFormat, wrong_usage};
use crate::done::Done;
use crate::terminal::{clear, note, note_warnings, print, progress as progress_line};
use crate::{load, python, selection};
use anyhow::{Context, bail};
use std::io::{ErrorKind, IsTerminal, Write, stderr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use unhitch_analysis::Analysis;
use unhitch_export::{Format, Job, Of, Progress};
use unhitch_formats::perf_data::{self, Exported, Selection, record::MAX_FRAMES};
use unhitch_formats::{Error, Existing, NewFile, Readers};
use unhitch_model::units::{count, plural};
use unhitch_model::{System, Trace, visible_path};

/// Who wrote the file, as it says itself.
const PRODUCER: &str = concat!("unhitch ", env!("CARGO_PKG_VERSION"));

/// How long writing takes until its progress is shown, and from one line to the next.
const PATIENCE: Duration = Duration::from_millis(300);

/// Writes the file and prints its name.
pub fn export(args: &ExportArgs) -> anyhow::Result<Done> {
    check(args);
    let path = args.output();
    let existing = if args.force { Existing::Replaced } else { Existing::Kept };
    // Before the trace is read, which may take a while.
    if existing == Existing::Kept && path.exists() {
        bail!(exists(&path));
    }
    match args.to {
        ExportFormat::Parquet => python::parquet(args, &path),
        ExportFormat::PerfData => export_file(args, None, &path, existing),
        ExportFormat::Known(format) => export_file(args, Some(format), &path, existing),
    }
}

/// Writes a file of this format, or else a `perf.data`.
fn export_file(
    args: &ExportArgs,
    format: Option<&Format>,
    path: &Path,
    existing: Existing,
) -> anyhow::Result<Done> {
    let mut line = ProgressLine::new();
    line.phase("reading the trace");
    let reader = load::Reader::new(&args.trace.reading);
    let trace = match format {
        None => reader.read_without_names(&args.trace.path)?,
        Some(format) => reader.read_for(&args.trace.path, load::For::of(format.name == "json"))?,
    };
    let selection = Selection {
        window: selection::window(args.window(), &trace, trace.extent())?,
        threads: match &args.victim {
            None => None,
            Some(name) => Some(selection::victims(&trace, name)?.into_iter().collect()),
        },
    };
    line.clear();
    note_warnings(&trace);
    let stop = remove_when_stopped(path)?;
    let mut file = NewFile::create(path, Readers::Owner, existing)?;
    let written = match format {
        None => {
            let show = &mut |share| line.share(share);
            perf_data::export_showing(&trace, &selection, PRODUCER, show, &mut file)
                .map(|exported| perf_data_notes(&trace, &exported))
                .map_err(full_disk)
        }
        Some(format) => write(args, format, &trace, &selection, &mut line, &mut file),
    };
    let written = written.and_then(|notes| file.flush().map(|()| notes).map_err(full_disk));
    line.clear();
    let notes = written.with_context(|| visible_path(path))?;
    let _uninterrupted = stop.lock();
    match file.publish() {
        Err(Error::Exists(_)) => bail!(exists(path)),
        result => drop(result?),
    }
    notes.iter().for_each(|line| note(line));
    print(&format!("{}\n", visible_path(path)))?;
    Ok(Done::Yes)
}

/// Writes what is known of a trace. Returns what is to be said about the file.
fn write(
    args: &ExportArgs,
    format: &Format,
    trace: &Trace,
    selection: &Selection,
    line: &mut ProgressLine,
    file: &mut NewFile,
) -> anyhow::Result<Vec<String>> {
    let rules = load::rules(&args.rules)?;
    line.phase("following the threads");
    let analysis = Analysis::new(trace, &rules);
    let of = args.of.map_or_else(Of::default, Of::from);
    let job = Job { analysis: &analysis, selection, of, producer: PRODUCER };
    let mut show = |share| line.share(share);
    let report = format.write(&job, file, &mut Progress::new(&mut show));
    Ok(report.map_err(full_disk)?.lines().to_vec())
}

/// What is being done, on a terminal.
struct ProgressLine {
    is_terminal: bool,
    last: Instant,
}

impl ProgressLine {
    fn new() -> Self {
        Self { is_terminal: stderr().is_terminal(), last: Instant::now() }
    }

    /// Something begins that cannot tell how far it is.
    fn phase(&self, what: &str) {
        if self.is_terminal {
            progress_line(&format!("exporting: {what}"));
        }
    }

    /// So much of the file is written, from 0 to 1.
    fn share(&mut self, share: f64) {
        if self.is_terminal && self.last.elapsed() >= PATIENCE {
            self.last = Instant::now();
            progress_line(&format!("exporting: {:.0} %", share * 100.0));
        }
    }

    fn clear(&self) {
        if self.is_terminal {
            clear();
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Ctrl-C and SIGTERM leave no incomplete file behind.
#[cfg(target_os = "linux")]
fn remove_when_stopped(path: &Path) -> anyhow::Result<Arc<Mutex<()>>> {
    let partial = NewFile::temporary(path);
    crate::signals::exit_after(move || {
        let _ = std::fs::remove_file(partial);
    })
}

/// Elsewhere, what Ctrl-C leaves keeps the name `.partial`.
#[cfg(not(target_os = "linux"))]
fn remove_when_stopped(_: &Path) -> anyhow::Result<Arc<Mutex<()>>> {
    Ok(Arc::default())
}

/// Refuses options that the format does not have.
fn check(args: &ExportArgs) {
    let refused = |why: &str| wrong_usage("export", &std::io::Error::other(why));
    if matches!(args.to, ExportFormat::Parquet)
        && !(args.victim.is_none() && args.window().is_everything())
    {
        refused("--victim, --from and --until are not for --to parquet: its tables are whole")
    }
    match (args.to, args.of.map(Of::from)) {
        (_, None) => {}
        (ExportFormat::Known(format), Some(of)) if format.has_one_kind => {
            if of == Of::WaitsAndWakes && format.name != "folded" {
                refused("--of waits+wakes is for --to folded: a sample has one stack elsewhere")
            }
        }
        _ => refused("--of is for --to pprof and --to folded: other files hold all stacks"),
    }
}

fn exists(path: &Path) -> String {
    format!("{}: exists already; --force replaces it", visible_path(path))
}

/// Adds what to do about a full disk.
fn full_disk(error: std::io::Error) -> anyhow::Error {
    let is_full = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
    let error = anyhow::Error::new(error);
    if is_full { error.context("nothing was written; choose another place with -o") } else { error }
}

/// What the file holds, what was left out, and what a `perf.data` cannot carry.
fn perf_data_notes(trace: &Trace, exported: &Exported) -> Vec<String> {
    let held = [
        (exported.switches, "context switch", "context switches"),
        (exported.wakings, "wake-up", "wake-ups"),
        (exported.samples, "CPU sample", "CPU samples"),
        (exported.contentions, "lock event", "lock events"),
    ];
    let no_place = [
        (trace.kept_waits.len() as u64, "system call of a wait", "system calls of waits"),
        (trace.futex_waits.len() as u64, "futex wait at the save", "futex waits at the save"),
        (trace.events.len() as u64, "event of another provider", "events of other providers"),
        (trace.machine.readings.len() as u64, "reading of counters", "readings of counters"),
    ];
    let mut notes = vec![format!("exported {}", list(&held))];
    if exported.frames_left_out > 0 {
        let why = match trace.meta.system {
            System::Windows => "Windows' addresses mean nothing to perf",
            _ => "it is not known where their code was mapped",
        };
        notes.push(format!("left out {}: {why}", plural(exported.frames_left_out, "stack frame")));
    }
    if exported.contentions_left_out > 0 {
        let number = plural(exported.contentions_left_out, "lock event");
        notes.push(format!("left out {number} on an unknown CPU"));
    }
    if exported.stacks_cut > 0 {
        let number = plural(exported.stacks_cut, "stack");
        notes.push(format!("cut {number} at the {MAX_FRAMES} frames that perf reads"));
    }
    let no_place = list(&no_place);
    if !no_place.is_empty() {
        notes.push(format!("left out what perf.data has no place for: {no_place}"));
    }
    if trace.meta.system == System::Linux && trace.stacks.len() > 1 {
        notes.push(
            "left out function names: perf finds them by itself, on the machine that was recorded"
                .to_owned(),
        );
    }
    notes
}

/// `3 things, 1 other`: what there is any of, by number, and its name for one and for many.
fn list(items: &[(u64, &str, &str)]) -> String {
    let some = items.iter().filter(|(number, ..)| *number > 0);
    let words = some.map(|(number, one, many)| {
        format!("{} {}", count(*number), if *number == 1 { one } else { many })
    });
    words.collect::<Vec<_>>().join(", ")
}
