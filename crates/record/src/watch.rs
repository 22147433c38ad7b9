//! The always-on recorder: waits, reports its status, and saves on request.

use crate::control::{Request, Server};
use crate::error::Error;
use crate::naming::Namer;
use crate::options::Options;
use crate::places::{SaveTarget, fallback_folders};
use crate::recorder::{Recorder, Status};
use crate::save::{Extras, Prepared, Saved};
use crate::sys;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long to sleep when nothing happens, in milliseconds. A signal ends the sleep.
const SLEEP_MS: i32 = 500;
/// Interval between two status events.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which to retry writing a trace.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// Maximum number of traces kept in memory until they can be written. Each is about the size of all
/// rings together.
const MAX_UNSAVED: usize = 3;

/// What a watching recorder reports.
#[derive(Debug)]
#[non_exhaustive]
pub enum WatchEvent<'a> {
    /// Recording has started, and requests are accepted.
    Started {
        /// The socket for requests.
        socket: &'a Path,
        /// Optional features that are missing.
        warnings: &'a [String],
    },
    /// The status, every second.
    Status(&'a Status),
    /// A trace was saved.
    Saved(&'a Saved),
    /// A save failed; recording continues.
    SaveFailed {
        /// Why.
        error: &'a Error,
        /// True when the trace is kept in memory and the save will be retried.
        kept: bool,
    },
}

/// Records until `stop` is set. Saves into `folder` when `save` is set, which is then cleared, or
/// on a request through `control`, the folder of [`crate::control`]. If `folder` cannot be written,
/// the trace goes to the first of [`fallback_folders`] that can. If none can, the trace stays in
/// memory, and the save is retried at an interval, with the next save, and at the end.
///
/// # Errors
/// When another recorder is running, recording is not possible, or a trace still cannot be written
/// at the end.
pub fn watch(
    options: &Options,
    folder: &Path,
    control: &Path,
    namer: &mut dyn Namer,
    mut report: impl FnMut(WatchEvent),
    save: &AtomicBool,
    stop: &AtomicBool,
) -> Result<(), Error> {
    // This comes first so that a second recorder is refused before it costs anything.
    let mut server = Server::bind(control)?;
    let mut recorder = Recorder::start_with(options, namer.rule_reader())?;
    report(WatchEvent::Started { socket: server.path(), warnings: recorder.warnings() });
    // The first save must not have to wait for the namer to start.
    namer.prepare();
    let mut last_status = Instant::now();
    let mut unsaved = Unsaved::new(folder);
    while !stop.load(Ordering::Relaxed) {
        sys::poll(&server.fds(), SLEEP_MS)
            .map_err(|source| Error::System { action: "wait for requests", source })?;
        let request = server.accept();
        let wanted = request.is_some() || save.swap(false, Ordering::Relaxed);
        if wanted || unsaved.is_due() {
            unsaved.retry(|saved| {
                saved.name(namer, stop);
                report(WatchEvent::Saved(saved));
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
            report(match &result {
                Ok(saved) => WatchEvent::Saved(saved),
                Err(error) => WatchEvent::SaveFailed { error, kept },
            });
        }
        if last_status.elapsed() >= STATUS_INTERVAL {
            last_status = Instant::now();
            report(WatchEvent::Status(&recorder.status()));
        }
    }
    drop(recorder);
    // We were asked to stop: there is no time for names.
    match unsaved.retry(|saved| report(WatchEvent::Saved(saved))) {
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

/// Traces that could not be written anywhere yet. A recorded hang must not be lost for lack of a
/// writable folder.
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
        !self.traces.is_empty() && self.tried.elapsed() >= RETRY_INTERVAL
    }

    /// Saves a trace, or keeps it if that fails; true when it is kept.
    ///
    /// *Why the earlier traces stay when there are too many:* a user who saves again because the
    /// first save failed still wants the first hang, which the rings may no longer hold.
    fn save(&mut self, prepared: Prepared) -> (Result<Saved, Error>, bool) {
        let result = prepared.save_anywhere(&self.target, &self.fallbacks);
        let keep = result.is_err() && self.traces.len() < MAX_UNSAVED;
        if keep {
            self.traces.push(prepared);
        }
        (result, keep)
    }

    /// Retries all kept traces; returns the last error if some still cannot be written.
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
    fn a_trace_that_cannot_be_written_is_kept_until_it_can() {
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
