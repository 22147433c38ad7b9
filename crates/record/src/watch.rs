//! The always-on recorder: waits, tells how it is doing, and saves when asked to.

use crate::control::{Request, Server};
use crate::error::Error;
use crate::naming::Namer;
use crate::places::fallback_folders;
use crate::recorder::{Options, Recorder, Status};
use crate::save::{Extras, Prepared, SaveTarget, Saved};
use crate::sys;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long it sleeps when nothing happens. A signal ends the sleep.
const GLANCE_MS: i32 = 500;
const STATUS_EVERY: Duration = Duration::from_secs(1);
/// How often a trace that could not be written is tried again.
const RETRY_EVERY: Duration = Duration::from_secs(30);
/// Traces that are kept in memory until they can be written, at most: each is about as long as all
/// rings together.
const MAX_UNSAVED: usize = 3;

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
    SaveFailed {
        /// Why.
        error: &'a Error,
        /// True when the trace is kept in memory, to be tried again.
        kept: bool,
    },
}

/// Records until `stop` is set. Saves into `folder` when `save` is set, which it takes back, or
/// when asked through `control`, the folder of [`crate::control`]. Where `folder` cannot be
/// written, the trace goes to the first of [`fallback_folders`] that takes it. Where none does it
/// stays in memory, and is tried again now and then, with the next save, and at the end.
pub fn watch(
    options: &Options,
    folder: &Path,
    control: &Path,
    namer: &mut dyn Namer,
    mut tell: impl FnMut(WatchEvent),
    save: &AtomicBool,
    stop: &AtomicBool,
) -> Result<(), Error> {
    // First, so that a second recorder is refused before it costs anything.
    let mut server = Server::bind(control)?;
    let mut recorder = Recorder::start(options)?;
    tell(WatchEvent::Started { socket: server.path(), warnings: recorder.warnings() });
    // The first save is as urgent as any.
    namer.prepare();
    let mut told = Instant::now();
    let mut unsaved = Unsaved::new(folder);
    while !stop.load(Ordering::Relaxed) {
        sys::poll(&server.fds(), GLANCE_MS)
            .map_err(|source| Error::System { action: "wait for requests", source })?;
        let request = server.accept();
        let wanted = request.is_some() || save.swap(false, Ordering::Relaxed);
        if wanted || unsaved.is_due() {
            unsaved.retry(|saved| {
                saved.name(namer, stop);
                tell(WatchEvent::Saved(saved));
            });
        }
        if wanted {
            let notes = request.as_ref().and_then(|request| request.notes.clone());
            let (mut result, kept) =
                match recorder.snapshot_until(stop).prepare(&Extras { notes, entries: Vec::new() })
                {
                    Ok(prepared) => unsaved.save(prepared),
                    Err(error) => (Err(error), false),
                };
            if let Ok(saved) = &mut result {
                saved.name(namer, stop);
            }
            answer(request, &result);
            tell(match &result {
                Ok(saved) => WatchEvent::Saved(saved),
                Err(error) => WatchEvent::SaveFailed { error, kept },
            });
        }
        if told.elapsed() >= STATUS_EVERY {
            told = Instant::now();
            tell(WatchEvent::Status(&recorder.status()));
        }
    }
    drop(recorder);
    // It was told to end: no time for names.
    match unsaved.retry(|saved| tell(WatchEvent::Saved(saved))) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

fn answer(request: Option<Request>, result: &Result<Saved, Error>) {
    match (request, result) {
        (Some(request), Ok(saved)) => request.saved(&saved.path, &saved.warnings),
        (Some(request), Err(error)) => request.failed(error),
        (None, _) => {}
    }
}

/// Traces that could not be written anywhere yet. A hang that was caught must not be lost for want
/// of a writable folder.
struct Unsaved {
    target: SaveTarget,
    fallbacks: Vec<PathBuf>,
    traces: Vec<Prepared>,
    tried: Instant,
}

impl Unsaved {
    fn new(folder: &Path) -> Self {
        let folder = std::path::absolute(folder).unwrap_or(folder.to_owned());
        let target = SaveTarget::Folder { folder, what: "save".to_owned() };
        Self { target, fallbacks: fallback_folders(), traces: Vec::new(), tried: Instant::now() }
    }

    fn is_due(&self) -> bool {
        !self.traces.is_empty() && self.tried.elapsed() >= RETRY_EVERY
    }

    /// Saves a trace, or keeps it; true when it is kept. *Why the earlier ones stay when there are
    /// too many:* who presses the key again because the save failed has still the first hang in
    /// mind, and the rings may no longer hold it.
    fn save(&mut self, prepared: Prepared) -> (Result<Saved, Error>, bool) {
        let result = prepared.save_anywhere(&self.target, &self.fallbacks);
        let keep = result.is_err() && self.traces.len() < MAX_UNSAVED;
        if keep {
            self.traces.push(prepared);
        }
        (result, keep)
    }

    /// Tries all again; the reason why one is still not written, if any is not.
    fn retry(&mut self, mut saved: impl FnMut(&mut Saved)) -> Option<Error> {
        let mut failed = None;
        let (target, fallbacks) = (&self.target, &self.fallbacks);
        self.traces.retain(|prepared| match prepared.save_anywhere(target, fallbacks) {
            Ok(mut result) => {
                saved(&mut result);
                false
            }
            Err(error) => {
                failed = Some(error);
                true
            }
        });
        self.tried = Instant::now();
        failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::save::tests::prepared;
    use std::fs;

    #[test]
    fn what_cannot_be_written_is_kept_until_it_can() {
        let folder = tempfile::tempdir().unwrap();
        let blocked = folder.path().join("file");
        fs::write(&blocked, b"").unwrap();
        let mut unsaved = Unsaved::new(&blocked.join("traces"));
        unsaved.fallbacks = vec![blocked.join("state")];
        for number in 0..MAX_UNSAVED + 1 {
            let (result, kept) = unsaved.save(prepared(100 + number));
            assert!(matches!(result, Err(Error::Nowhere { .. })));
            assert_eq!(kept, number < MAX_UNSAVED);
        }
        assert!(
            unsaved
                .retry(|_| panic!("nothing can be saved"))
                .is_some_and(|error| error.to_string().contains("file/state"))
        );
        fs::remove_file(&blocked).unwrap();
        let mut paths = Vec::new();
        assert!(unsaved.retry(|saved| paths.push(saved.path.clone())).is_none());
        assert_eq!((paths.len(), unsaved.traces.len()), (MAX_UNSAVED, 0));
        assert!(
            paths.iter().all(|path| path.starts_with(blocked.join("state")) && path.exists()),
            "{paths:?}"
        );
        assert!(unsaved.retry(|_| panic!("saved already")).is_none());
    }
}
