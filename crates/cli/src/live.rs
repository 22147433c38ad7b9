//! `unhitch why --live` and `unhitch save --why`: from what a recorder has in memory to the answer.

use crate::args::{SaveArgs, WhyArgs};
use crate::client::{on_lines, sockets};
use crate::done::Done;
use crate::names::namer;
use crate::record::{report_saved, target};
use crate::signals;
use crate::terminal::{complain, note, print};
use crate::why::explain;
use serde_json::json;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use unhitch_model::visible_path;
use unhitch_record::{Error, Extras, Options, Until, control, record};

/// How long to record where nothing has been recording: enough CPU samples to name a function that
/// computes. What sleeps all the time is listed at the end.
const LOOK: Duration = Duration::from_secs(1);

/// Explains what hangs right now.
pub fn why(args: &WhyArgs) -> anyhow::Result<Done> {
    let sockets = control::sockets();
    let path = match request_save(&sockets, Some("unhitch why --live")) {
        Err(Error::NotWatching { .. }) => look("no `unhitch watch` is running")?,
        Err(error @ Error::NotMember { .. }) => look(&error.to_string())?,
        saved => saved?,
    };
    note(&visible_path(&path));
    let mut options = vec![OsString::from("--in-progress")];
    let mut add = |name: &str, value: OsString| options.extend([name.into(), value]);
    if let Some(victim) = &args.victim {
        add("--victim", victim.into());
    }
    if let Some(top) = args.top {
        add("--top", top.to_string().into());
    }
    if let Some(file) = &args.svg {
        add("--svg", file.into());
    }
    if let Some(file) = &args.rules.file {
        add("--rules", file.into());
    }
    if args.json {
        options.push("--json".into());
    }
    explain(&path, &options)
}

/// Asks the running recorder to save, and prints the file name.
pub fn save(args: &SaveArgs) -> anyhow::Result<Done> {
    let sockets = sockets(&args.recorder);
    if let Some(pattern) = &args.on_line {
        return on_lines(&sockets, pattern);
    }
    let path = request_save(&sockets, args.note.as_deref())?;
    print(&format!("{}\n", visible_path(&path)))?;
    if args.why { explain(&path, &[]) } else { Ok(Done::Yes) }
}

/// The trace that the running recorder saves.
fn request_save(sockets: &[PathBuf], note: Option<&str>) -> Result<PathBuf, Error> {
    let socket = control::find(sockets)?;
    let answer = control::request_save(&socket, &json!({ "notes": note }))?;
    answer.warnings.iter().for_each(|warning| complain(&format!("warning: {warning}")));
    Ok(answer.path)
}

/// A trace of the next moment, recorded by this process as no recorder answers.
fn look(why: &str) -> anyhow::Result<PathBuf> {
    note(&format!("{why}: recording {} s from now on", LOOK.as_secs_f64()));
    let stop = signals::stop()?;
    let recorded = record(
        &Options::default(),
        &Until::For(LOOK),
        &target(None, "live"),
        &mut namer(),
        &Extras::default(),
        &mut |_| {},
        &stop,
    )?;
    report_saved(&recorded.saved);
    Ok(recorded.saved.path)
}
