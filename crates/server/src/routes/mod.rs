//! The routes, one file per subject. `docs/page-protocol.md` specifies their answers.

mod event;
mod flame;
mod folder;
mod hot;
mod lanes;
mod search;
mod slice;
mod stall;
mod table;
mod trace;
mod view;

use crate::gate::{Gate, guard};
use crate::loaded::Loaded;
use crate::opened::{Opened, Stage};
use crate::params::Params;
use crate::trace_folder::{Stamp, TraceFolder};
use crate::{Error, Tools, page};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::header;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use rustc_hash::FxHashMap;
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use unhitch_analysis::Cancel;

/// Maximum open traces; the least recently used is closed.
const MAX_OPEN: usize = 3;
/// Maximum length of a request's JSON body, bytes.
const MAX_JSON_BYTES: usize = 1 << 20;

/// What the list shows of traces that were open, by name and content.
type ClosedEntries = FxHashMap<String, (Stamp, Map<String, Value>)>;

/// What all requests share.
pub(crate) struct App {
    pub gate: Arc<Gate>,
    folder: TraceFolder,
    tools: Arc<Tools>,
    upload_limit_bytes: u64,
    /// The open traces in the order of their last use, the most recent last.
    open: Mutex<Vec<(String, Stamp, Arc<Opened>)>>,
    closed: Mutex<ClosedEntries>,
}

impl App {
    pub fn new(folder: TraceFolder, gate: Gate, tools: Tools, upload_limit_bytes: u64) -> Self {
        Self {
            gate: Arc::new(gate),
            folder,
            tools: Arc::new(tools),
            upload_limit_bytes,
            open: Mutex::default(),
            closed: Mutex::default(),
        }
    }

    /// The trace of a name; opened if it is not open, or if its file has changed since.
    fn opened(self: &Arc<Self>, name: &str) -> Result<Arc<Opened>, Error> {
        let (path, stamp) = self.folder.find(name)?;
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
                    // A trace that could not be read may be tried again.
                    if status.failed.is_none() {
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

    fn open(&self) -> MutexGuard<'_, Vec<(String, Stamp, Arc<Opened>)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn closed(&self) -> MutexGuard<'_, ClosedEntries> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a file's trace is open, and what is known of it since it was first opened.
    fn known(&self, name: &str, stamp: Stamp) -> (bool, Map<String, Value>) {
        let open = self.open();
        if let Some((.., opened)) =
            open.iter().find(|(known, known_stamp, _)| known == name && *known_stamp == stamp)
        {
            return (true, opened.status().0.entry());
        }
        let closed = self.closed();
        let entry = closed.get(name).filter(|(known, _)| *known == stamp);
        (false, entry.map(|(_, entry)| entry.clone()).unwrap_or_default())
    }

    /// Changes a file's name or notes. Its trace stays open if it was, and keeps what is known of it.
    fn change(
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
    fn notes(&self, name: &str, loaded: &Loaded<'_>) -> String {
        self.folder.notes(name).unwrap_or_else(|| loaded.trace.meta.notes.clone())
    }

    /// Asks a trace a question; the answer as JSON, which the answering thread serializes.
    async fn json<R: Serialize>(
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

/// Answers a request about a trace by its query parameters.
type Handler<R> = fn(&Loaded<'_>, &Params, &Cancel) -> Result<R, Error>;

/// A route that is answered in JSON.
fn asks<R: Serialize + 'static>(
    need: Stage,
    handler: Handler<R>,
) -> axum::routing::MethodRouter<Arc<App>> {
    use axum::extract::{Path, State};
    get(move |State(app): State<Arc<App>>, Path(name): Path<String>, params: Params| async move {
        app.json(&name, need, move |loaded, cancel| handler(loaded, &params, cancel)).await
    })
}

/// All routes, behind the gate.
pub(crate) fn router(app: Arc<App>) -> Router {
    let (lanes, tables) = (Stage::Judging, Stage::Judging);
    let trace = Router::new()
        .route("/status", get(trace::status))
        .route("/summary", get(trace::summary))
        .route("/lanes", asks(lanes, lanes::lanes))
        .route("/view", get(view::view))
        .route("/curve", asks(lanes, view::curve))
        .route("/marks", asks(lanes, trace::marks))
        .route("/slice", asks(lanes, slice::slice))
        .route("/event", asks(lanes, event::event))
        .route("/stack", asks(lanes, event::stack))
        .route("/stalls", get(stall::stalls))
        .route("/stall/{id}", get(stall::stall))
        .route("/explain", asks(tables, stall::explain))
        .route("/tables", get(table::tables))
        .route("/table", asks(tables, table::table))
        .route("/flame", asks(tables, flame::flame))
        .route("/butterfly", asks(tables, flame::butterfly))
        .route("/hot", asks(tables, hot::hot))
        .route("/search", asks(lanes, search::search))
        .route("/report", get(trace::report));
    let gate = Arc::clone(&app.gate);
    Router::new()
        .route("/api/server", get(folder::server))
        .route("/api/traces", get(folder::list).post(folder::upload))
        .route("/api/traces/{trace}", axum::routing::patch(folder::change).delete(folder::delete))
        .route("/api/tables", get(table::tables))
        .nest("/api/t/{trace}", trace)
        .route("/api/{*rest}", any(|| async { Error::NotFound("route") }))
        .fallback(get(page::file))
        .layer(DefaultBodyLimit::max(MAX_JSON_BYTES))
        .layer(from_fn_with_state(gate, guard))
        .with_state(app)
}
