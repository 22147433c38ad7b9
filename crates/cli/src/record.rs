//! `unhitch record`: records one trace.

use crate::args::{RecordArgs, RecorderArgs};
use crate::done::Done;
use crate::names::namer;
use crate::signals;
use crate::terminal::{clear, note, print, progress as progress_line};
use crate::why::{explainer, reporter};
use anyhow::{Context, bail};
use std::io::{IsTerminal, stderr};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use unhitch_formats::container::Readers;
use unhitch_model::{units, visible_path};
use unhitch_record::{Extras, Options, Progress, SaveTarget, Saved, Until, record as record_until};

/// Records and prints the file's name.
pub fn record(args: &RecordArgs) -> anyhow::Result<Done> {
    let until = match (args.duration, args.run.is_empty()) {
        (Some(duration), _) => Until::For(duration),
        (None, false) => Until::Command(args.run.clone()),
        (None, true) => {
            note("recording; press Ctrl-C to stop");
            Until::Stopped
        }
    };
    let stop = signals::stop()?;
    let mut namer = namer();
    let target = target(args.output.as_ref(), "record");
    let is_terminal = stderr().is_terminal();
    let mut options = options(&args.recorder);
    options.max_bytes = args.max_size;
    let recorded = record_until(
        &options,
        &until,
        &target,
        &mut namer,
        &Extras::default(),
        &mut |progress| show(progress, is_terminal),
        &stop,
    );
    if is_terminal {
        clear();
    }
    let recorded = recorded?;
    if let Some(status) = recorded.status.filter(|status| !status.success()) {
        note(&format!("note: the command ended with {status}"));
    }
    report_saved(&recorded.saved);
    print(&format!("{}\n", visible_path(&recorded.saved.path)))?;
    if let Some(path) = &args.report {
        report(&recorded.saved, path)?;
    }
    if args.checks.fail_on.is_empty() {
        if let Some(pid) = recorded.command_pid {
            explain(&recorded.saved, pid);
        }
        return Ok(recorded.status.map_or(Done::Yes, done_as));
    }
    let done = judge(args, &recorded.saved, recorded.command_pid)?;
    match recorded.status.filter(|status| !status.success()) {
        // A job must not pass because its command failed quickly.
        Some(status) if done == Done::Yes => bail!("the command ended with {status}"),
        _ => Ok(done),
    }
}

/// The recorder ends as its command did, so that it can stand before any command of a script.
fn done_as(status: ExitStatus) -> Done {
    match (status.code(), status.signal()) {
        (Some(0), _) => Done::Yes,
        (Some(code), _) => Done::Failed(u8::try_from(code).unwrap_or(1)),
        (None, signal) => Done::Failed(signal.map_or(1, |signal| 128 | signal as u8)),
    }
}

/// Explains and judges what was recorded, on standard error. Another process does that, see
/// [`explainer`].
fn judge(args: &RecordArgs, saved: &Saved, pid: Option<u32>) -> anyhow::Result<Done> {
    let mut options = args.checks.words();
    if let Some(pid) = pid {
        options.extend(["--process".into(), pid.to_string().into()]);
    }
    let why = explainer(&saved.path, &options)
        .output()
        .context("cannot start the process that explains the trace")?;
    let (text, errors) =
        (String::from_utf8_lossy(&why.stdout), String::from_utf8_lossy(&why.stderr));
    text.trim_end().lines().for_each(note);
    match why.status.code() {
        Some(code) if code == i32::from(Done::Yes.exit_code()) => Ok(Done::Yes),
        Some(code) if code == i32::from(Done::Breach.exit_code()) => Ok(Done::Breach),
        _ => bail!("the recording was not judged: {}", errors.trim_end()),
    }
}

/// Writes the report of the recording.
fn report(saved: &Saved, path: &Path) -> anyhow::Result<()> {
    let mut command = reporter(&saved.path, path);
    let done = command.output().context("cannot start the process that writes the report")?;
    if !done.status.success() {
        bail!("no report: {}", String::from_utf8_lossy(&done.stderr).trim_end());
    }
    note(&format!("report: {}", visible_path(path)));
    Ok(())
}

/// Says what the command's time went to, on standard error: the path is all that scripts read from
/// standard output. Warnings that were printed are not repeated.
fn explain(saved: &Saved, pid: u32) {
    let why = explainer(&saved.path, &["--process".into(), pid.to_string().into()]).output();
    let is_new = |line: &&str| {
        let warning = line.strip_prefix("WARNING").map(str::trim_start);
        warning.is_none_or(|warning| saved.warnings.iter().all(|known| known != warning))
    };
    match why {
        Ok(why) if !why.stdout.is_empty() => {
            let text = String::from_utf8_lossy(&why.stdout);
            text.trim_end().lines().filter(is_new).for_each(note);
        }
        Ok(why) => {
            let error = String::from_utf8_lossy(&why.stderr);
            let error = if error.is_empty() { why.status.to_string() } else { error.into_owned() };
            note(&format!("note: the command's time is not explained: {}", error.trim_end()));
        }
        Err(error) => note(&format!("note: the command's time is not explained: {error}")),
    }
}

/// Shows how far the recording is, on a terminal.
fn show(progress: &Progress, is_terminal: bool) {
    if is_terminal {
        let lost = match progress.lost {
            0 => "none lost".to_owned(),
            lost => format!("about {} lost", units::count(lost)),
        };
        progress_line(&format!(
            "recording: {:.1} s, {} events, {:.1} MiB, {lost}",
            progress.elapsed.as_secs_f64(),
            units::count(progress.events),
            progress.bytes as f64 / f64::from(1 << 20),
        ));
    }
}

/// The recorder's options as given on the command line.
pub fn options(args: &RecorderArgs) -> Options {
    let mut options = Options::default();
    options.ring_bytes_per_cpu = args.buffer;
    options.sample_hz = args.rate;
    options.user_stacks = !args.no_user_stacks;
    options.only_pid = args.only_pid;
    options.engine = args.engine.into();
    options.min_wait_ns = u64::try_from(args.min_wait.as_nanos()).unwrap_or(u64::MAX);
    options.stack_budget_ppm = (args.stack_budget.clamp(0.0, 100.0) * 10_000.0) as u32;
    options.readers = args.group.map_or(Readers::Owner, Readers::Group);
    options
}

/// Where to save: the given file, or a new one in the current folder.
pub fn target(output: Option<&PathBuf>, what: &str) -> SaveTarget {
    match output {
        Some(path) => SaveTarget::File(path.clone()),
        None => SaveTarget::Folder { folder: PathBuf::from("."), what: what.to_owned() },
    }
}

/// Reports on standard error what was saved, and what is wrong with it.
pub fn report_saved(saved: &Saved) {
    for warning in &saved.warnings {
        note(&format!("warning: {warning}"));
    }
    note(&format!(
        "saved {:.1} s, {} events, {:.1} MiB in {:.0} ms",
        saved.window.duration_ns() as f64 / 1e9,
        saved.records.0,
        saved.bytes as f64 / f64::from(1 << 20),
        saved.timings.total_ns() as f64 / 1e6
    ));
}
