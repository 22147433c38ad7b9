//! The always-on recorder: waits, tells how it is doing, and saves when asked to.

use crate::control::{Request, Server};
use crate::error::Error;
use crate::recorder::{Options, Recorder, Status};
use crate::save::{Extras, SaveTarget, Saved};
use crate::sys;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use unhitch_symbols::Symbolizer;

/// How long it sleeps when nothing happens. A signal ends the sleep.
const GLANCE_MS: i32 = 500;
const STATUS_EVERY: Duration = Duration::from_secs(1);

/// What a watching recorder has to tell.
#[derive(Debug)]
#[non_exhaustive]
pub enum WatchEvent<'a> {
    /// It records, and answers on `socket`.
    Started {
        /// Where requests go.
        socket: &'a Path,
        /// What could not be had.
        warnings: &'a [String],
    },
    /// How it is doing, every second.
    Status(&'a Status),
    /// A trace was saved.
    Saved(&'a Saved),
    /// A save failed; the recorder goes on.
    SaveFailed(&'a Error),
}

/// Records until `stop` is set. Saves into `folder` when `save` is set, which it takes back, or when asked through `control`, the
/// folder of [`crate::control`]. Where `folder` cannot be written, the trace goes to the system's folder for temporary files.
pub fn watch(
    options: &Options,
    folder: &Path,
    control: &Path,
    symbolizer: &mut Symbolizer,
    mut tell: impl FnMut(WatchEvent),
    save: &AtomicBool,
    stop: &AtomicBool,
) -> Result<(), Error> {
    // First, so that a second recorder is refused before it costs anything.
    let server = Server::bind(control)?;
    let mut recorder = Recorder::start(options)?;
    tell(WatchEvent::Started { socket: server.path(), warnings: recorder.warnings() });
    // The first save is as urgent as any.
    symbolizer.prepare();
    let mut told = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        sys::poll(&[server.fd()], GLANCE_MS).map_err(|source| Error::System { action: "wait for requests", source })?;
        let request = server.accept();
        if request.is_some() || save.swap(false, Ordering::Relaxed) {
            let notes = request.as_ref().and_then(|request| request.notes.clone());
            let result = save_somewhere(&mut recorder, folder, symbolizer, notes);
            answer(request, &result);
            tell(result.as_ref().map_or_else(WatchEvent::SaveFailed, WatchEvent::Saved));
        }
        if told.elapsed() >= STATUS_EVERY {
            told = Instant::now();
            tell(WatchEvent::Status(&recorder.status()));
        }
    }
    Ok(())
}

fn answer(request: Option<Request>, result: &Result<Saved, Error>) {
    match (request, result) {
        (Some(request), Ok(saved)) => request.saved(&saved.path),
        (Some(request), Err(error)) => request.failed(error),
        (None, _) => {}
    }
}

/// A hang that was caught must not be lost for want of a writable folder.
fn save_somewhere(recorder: &mut Recorder, folder: &Path, symbolizer: &mut Symbolizer, notes: Option<String>) -> Result<Saved, Error> {
    let snapshot = recorder.snapshot();
    let extras = Extras { notes, entries: Vec::new() };
    let to =
        |folder: &Path| SaveTarget::Folder { folder: std::path::absolute(folder).unwrap_or(folder.to_owned()), what: "save".to_owned() };
    snapshot.save(&to(folder), symbolizer, &extras).or_else(|first| {
        let why = first.with_causes();
        let mut saved = snapshot.save(&to(&std::env::temp_dir()), symbolizer, &extras).map_err(|_| first)?;
        saved.warnings.push(format!("the trace is in {}, because it could not go where it should: {why}", saved.path.display()));
        Ok(saved)
    })
}
