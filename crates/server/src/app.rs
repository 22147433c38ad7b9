//! What all requests share: the folder, and the traces that are open.

use crate::fleet::Fleet;
use crate::gate::Gate;
use crate::loaded::Loaded;
use crate::opened::{Opened, Stage};
use crate::trace_folder::{Stamp, TraceFolder};
use crate::{Error, Tools};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use rustc_hash::FxHashMap;
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use unhitch_analysis::Cancel;

/// Maximum open traces; the least recently used is closed.
const MAX_OPEN: usize = 3;
/// What the list shows of traces that were open, by name and content.
type ClosedEntries = FxHashMap<String, (Stamp, Map<String, Value>)>;

/// What all requests share.
pub(crate) struct App {
    pub gate: Arc<Gate>,
    pub folder: TraceFolder,
    /// The report over a fleet, if the page shows one.
    pub fleet: Option<Fleet>,
    tools: Arc<Tools>,
    pub upload_limit_bytes: u64,
    /// The open traces in the order of their last use, the most recent last.
    open: Mutex<Vec<(String, Stamp, Arc<Opened>)>>,
    closed: Mutex<ClosedEntries>,
    /// The trace that is being judged in the background.
    judging: Mutex<Option<String>>,
}

impl App {
    pub fn new(
        folder: TraceFolder,
        fleet: Option<Fleet>,
        gate: Gate,
        tools: Tools,
        upload_limit_bytes: u64,
    ) -> Self {
        Self {
            gate: Arc::new(gate),
            folder,
            fleet,
            tools: Arc::new(tools),
            upload_limit_bytes,
            open: Mutex::default(),
            closed: Mutex::default(),
            judging: Mutex::default(),
        }
    }

    /// The trace of a name; opened if it is not open, or if its file has changed since. One whose
    /// file has vanished stays open.
    pub fn opened(self: &Arc<Self>, name: &str) -> Result<Arc<Opened>, Error> {
        let (path, stamp) = match self.folder.find(name) {
            Ok(found) => found,
            Err(error) => {
                let mut open = self.open();
                let at = open.iter().position(|(known, ..)| known == name).ok_or(error)?;
                let entry = open.remove(at);
                let opened = Arc::clone(&entry.2);
                open.push(entry);
                return Ok(opened);
            }
        };
        let mut open = self.open();
        let known =
            open.iter().position(|(known, known_stamp, _)| known == name && *known_stamp == stamp);
        let entry = match known {
            Some(at) => open.remove(at),
            None => {
                open.retain(|(known, ..)| known != name);
                while open.len() >= MAX_OPEN {
                    let (name, stamp, oldest) = open.remove(0);
                    let (status, _) = oldest.status();
                    // A trace that could not be read, or judged yet, may be tried again.
                    if status.failed.is_none() && status.stage == Stage::Ready {
                        self.closed().insert(name, (stamp, status.entry()));
                    }
                }
                let app = Arc::downgrade(self);
                let clean = move |why: &str| {
                    app.upgrade().map_or_else(String::new, |app| app.folder.without_path(why))
                };
                (
                    name.to_owned(),
                    stamp,
                    Arc::new(Opened::new(path, stamp.bytes, Arc::clone(&self.tools), clean)?),
                )
            }
        };
        let opened = Arc::clone(&entry.2);
        open.push(entry);
        Ok(opened)
    }

    pub fn open(&self) -> MutexGuard<'_, Vec<(String, Stamp, Arc<Opened>)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn closed(&self) -> MutexGuard<'_, ClosedEntries> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a file's trace is open, and what is known of it since it was first opened, or since the
    /// recorder saved it.
    pub fn known(&self, name: &str, stamp: Stamp) -> (bool, Map<String, Value>) {
        let open = self.open();
        if let Some((.., opened)) =
            open.iter().find(|(known, known_stamp, _)| known == name && *known_stamp == stamp)
        {
            return (true, opened.status().0.entry());
        }
        let mut closed = self.closed();
        if let Some((_, entry)) = closed.get(name).filter(|(known, _)| *known == stamp) {
            return (false, entry.clone());
        }
        let stored = self.tools.stored_verdicts.then(|| self.folder.verdict(name)).flatten();
        if let Some(entry) = &stored {
            closed.insert(name.to_owned(), (stamp, entry.clone()));
        }
        (false, stored.unwrap_or_default())
    }

    /// The trace that is being judged in the background; none if there is nothing to judge.
    pub fn judging(&self) -> MutexGuard<'_, Option<String>> {
        self.judging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What reads traces.
    pub fn tools(&self) -> &Tools {
        &self.tools
    }

    /// Changes a file's name or notes. Its trace stays open if it was, and keeps what is known of
    /// it.
    pub fn change(
        &self,
        name: &str,
        to: &str,
        change: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (_, was) = self.folder.find(name)?;
        change()?;
        let (_, now) = self.folder.find(to)?;
        for (known, stamp, _) in
            self.open().iter_mut().filter(|(known, stamp, _)| known == name && *stamp == was)
        {
            (*known, *stamp) = (to.to_owned(), now);
        }
        let mut closed = self.closed();
        if let Some((_, entry)) = closed.remove(name).filter(|(stamp, _)| *stamp == was) {
            closed.insert(to.to_owned(), (now, entry));
        }
        Ok(())
    }

    /// A trace's notes, as they are in its file now.
    pub fn notes(&self, name: &str, loaded: &Loaded<'_>) -> String {
        self.folder.notes(name).unwrap_or_else(|| loaded.trace.meta.notes.clone())
    }

    /// Asks a trace a question; the answer as JSON, which the answering thread serializes.
    pub async fn json<R: Serialize>(
        self: &Arc<Self>,
        name: &str,
        need: Stage,
        question: impl FnOnce(&Loaded<'_>, &Cancel) -> Result<R, Error> + Send + 'static,
    ) -> Result<Response, Error> {
        let opened = self.opened(name)?;
        let text = opened
            .ask(need, move |loaded, cancel| {
                serde_json::to_vec(&question(loaded, cancel)?).map_err(|_| Error::Broken)
            })
            .await?;
        Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
    }
}
