//! Traces that could not be written yet.

use crate::error::Error;
use crate::places::{SaveTarget, fallback_folders};
use crate::save::{Prepared, Saved};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Maximum number of traces kept in memory until they can be written. Each is about the size of all
/// rings together.
const MAX_UNSAVED: usize = 3;

/// Interval at which to retry writing a trace.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// Traces that could not be written anywhere yet. A recorded hang must not be lost for lack of a
/// writable folder.
///
/// `T` is what else is known of a trace.
pub(super) struct Unsaved<T> {
    folder: PathBuf,
    fallbacks: Vec<PathBuf>,
    traces: Vec<(Prepared, String, T)>,
    tried: Instant,
}

impl<T: Clone> Unsaved<T> {
    pub(super) fn new(folder: &Path) -> Self {
        let folder = std::path::absolute(folder).unwrap_or(folder.to_owned());
        Self { folder, fallbacks: fallback_folders(), traces: Vec::new(), tried: Instant::now() }
    }

    /// True if there are traces that wait for a retry, due or not.
    pub(super) fn is_empty(&self) -> bool {
        self.traces.is_empty()
    }

    pub(super) fn is_due(&self) -> bool {
        !self.traces.is_empty() && self.tried.elapsed() >= RETRY_INTERVAL
    }

    /// Saves a trace, or keeps it if that fails; true when it is kept. `what`: one or two words for
    /// its name.
    ///
    /// *Why the earlier traces stay when there are too many:* a user who saves again because the
    /// first save failed still wants the first hang, which the rings may no longer hold.
    pub(super) fn save(
        &mut self,
        prepared: Prepared,
        what: &str,
        about: &T,
    ) -> (Result<Saved, Error>, bool) {
        let target = self.target(what);
        let result = prepared.save_anywhere(&target, &self.fallbacks);
        let keep = result.is_err() && self.traces.len() < MAX_UNSAVED;
        if keep {
            self.traces.push((prepared, what.to_owned(), about.clone()));
        }
        (result, keep)
    }

    fn target(&self, what: &str) -> SaveTarget {
        SaveTarget::Folder { folder: self.folder.clone(), what: what.to_owned() }
    }

    /// Retries all kept traces; returns the last error if some still cannot be written.
    pub(super) fn retry(&mut self, mut saved: impl FnMut(Saved, T)) -> Option<Error> {
        let mut failed = None;
        for (prepared, what, about) in std::mem::take(&mut self.traces) {
            match prepared.save_anywhere(&self.target(&what), &self.fallbacks) {
                Ok(result) => saved(result, about),
                Err(error) => {
                    failed = Some(error);
                    self.traces.push((prepared, what, about));
                }
            }
        }
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
            let (result, kept) = unsaved.save(prepared(100 + number), "save", &number);
            assert!(matches!(result, Err(Error::Nowhere { .. })));
            assert_eq!(kept, number < MAX_UNSAVED);
        }
        assert!(
            unsaved
                .retry(|_, _| panic!("nothing can be saved"))
                .is_some_and(|error| error.to_string().contains("file/state"))
        );
        fs::remove_file(&blocked).unwrap();
        let mut paths = Vec::new();
        assert!(unsaved.retry(|saved, _| paths.push(saved.path)).is_none());
        assert_eq!((paths.len(), unsaved.traces.len()), (MAX_UNSAVED, 0));
        assert!(
            paths.iter().all(|path| path.starts_with(blocked.join("state")) && path.exists()),
            "{paths:?}"
        );
        assert!(unsaved.retry(|_, _| panic!("saved already")).is_none());
    }
}
