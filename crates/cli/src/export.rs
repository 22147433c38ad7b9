//! `unhitch export`: writes a trace as a file of another tool.
//!
//! Each format has an [`ExportFormat`], a writer in `unhitch-formats`, and a list of what the trace
//! has and the format cannot carry, which goes to standard error.

use crate::args::{ExportArgs, ExportFormat};
use crate::done::Done;
use crate::terminal::{note, print};
use crate::{load, selection};
use anyhow::{Context, bail};
use std::io::ErrorKind;
use unhitch_formats::perf_data::{self, Exported, Selection, record::MAX_FRAMES};
use unhitch_formats::{Error, Existing, NewFile, Readers};
use unhitch_model::units::{count, plural};
use unhitch_model::{System, Trace, visible_path};

/// Who wrote the file, as it says itself.
const PRODUCER: &str = concat!("unhitch ", env!("CARGO_PKG_VERSION"));

/// Writes the file and prints its name.
pub fn export(args: &ExportArgs) -> anyhow::Result<Done> {
    let path = args.output();
    let existing = if args.force { Existing::Replaced } else { Existing::Kept };
    // Before the trace is read, which may take a while.
    if existing == Existing::Kept && path.exists() {
        bail!(exists(&path));
    }
    let trace = load::Reader::new(&args.trace.reading).read_without_names(&args.trace.path)?;
    let selection = Selection {
        window: selection::window(args.window(), &trace, trace.extent())?,
        threads: match &args.victim {
            None => None,
            Some(name) => Some(selection::victims(&trace, name)?.into_iter().collect()),
        },
    };
    trace.warnings.lines().for_each(|warning| note(&format!("warning: {warning}")));
    let mut file = NewFile::create(&path, Readers::Owner, existing)?;
    let notes = match args.to {
        ExportFormat::PerfData => {
            let exported = perf_data::export(&trace, &selection, PRODUCER, &mut file)
                .map_err(full_disk)
                .with_context(|| visible_path(&path))?;
            perf_data_notes(&trace, &exported)
        }
    };
    match file.publish() {
        Err(Error::Exists(_)) => bail!(exists(&path)),
        result => drop(result?),
    }
    notes.iter().for_each(|line| note(line));
    print(&format!("{}\n", visible_path(&path)))?;
    Ok(Done::Yes)
}

fn exists(path: &std::path::Path) -> String {
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
