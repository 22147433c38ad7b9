//! The routes, a file per subject; what each answers is specified in `docs/page-protocol.md`.

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
use crate::shelf::{Shelf, Stamp};
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

/// So many traces stay open; who is asked least recently is closed.
const MOST_OPEN: usize = 3;
/// A body of JSON is never longer.
const LONGEST_JSON: usize = 1 << 20;

/// What traces told of themselves, by name and content.
type Told = FxHashMap<String, (Stamp, Map<String, Value>)>;

/// What all requests share.
pub(crate) struct App {
    pub gate: Arc<Gate>,
    shelf: Shelf,
    tools: Arc<Tools>,
    upload_limit_bytes: u64,
    /// The open traces, most recently asked last.
    open: Mutex<Vec<(String, Stamp, Arc<Opened>)>>,
    /// What closed traces told.
    told: Mutex<Told>,
}

impl App {
    pub fn new(shelf: Shelf, gate: Gate, tools: Tools, upload_limit_bytes: u64) -> Self {
        Self {
            gate: Arc::new(gate),
            shelf,
            tools: Arc::new(tools),
            upload_limit_bytes,
            open: Mutex::default(),
            told: Mutex::default(),
        }
    }

    /// The trace of a name, opened if it was not, or changed since.
    fn opened(self: &Arc<Self>, name: &str) -> Result<Arc<Opened>, Error> {
        let (path, stamp) = self.shelf.find(name)?;
        let mut open = self.open();
        let known =
            open.iter().position(|(known, known_stamp, _)| known == name && *known_stamp == stamp);
        let entry = match known {
            Some(at) => open.remove(at),
            None => {
                open.retain(|(known, ..)| known != name);
                while open.len() >= MOST_OPEN {
                    let (name, stamp, closed) = open.remove(0);
                    let (status, _) = closed.status();
                    // What could not be read may be tried again.
                    if status.failed.is_none() {
                        self.told().insert(name, (stamp, status.told()));
                    }
                }
                let app = Arc::downgrade(self);
                let clean = move |why: &str| {
                    app.upgrade().map_or_else(String::new, |app| app.shelf.without_path(why))
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

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a file's trace is open, and what is known of it since it was opened.
    fn known(&self, name: &str, stamp: Stamp) -> (bool, Map<String, Value>) {
        let open = self.open();
        if let Some((.., opened)) =
            open.iter().find(|(known, known_stamp, _)| known == name && *known_stamp == stamp)
        {
            return (true, opened.status().0.told());
        }
        let told = self.told();
        (
            false,
            told.get(name)
                .filter(|(known, _)| *known == stamp)
                .map(|(_, told)| told.clone())
                .unwrap_or_default(),
        )
    }

    /// Changes a file's name or notes: its trace stays what it is, open if it was, and with what is
    /// known of it.
    fn change(
        &self,
        name: &str,
        to: &str,
        change: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (_, was) = self.shelf.find(name)?;
        change()?;
        let (_, now) = self.shelf.find(to)?;
        for (known, stamp, _) in
            self.open().iter_mut().filter(|(known, stamp, _)| known == name && *stamp == was)
        {
            (*known, *stamp) = (to.to_owned(), now);
        }
        let mut told = self.told();
        if let Some((_, what)) = told.remove(name).filter(|(stamp, _)| *stamp == was) {
            told.insert(to.to_owned(), (now, what));
        }
        Ok(())
    }

    /// A trace's notes as its file has them now.
    fn notes(&self, name: &str, loaded: &Loaded<'_>) -> String {
        self.shelf.notes(name).unwrap_or_else(|| loaded.trace.meta.notes.clone())
    }

    /// Asks a trace a question; the answer as JSON, written where it was worked out.
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

/// A question about a trace by its query parameters.
type Question<R> = fn(&Loaded<'_>, &Params, &Cancel) -> Result<R, Error>;

/// The route of a question that is answered in JSON.
fn asks<R: Serialize + 'static>(
    need: Stage,
    question: Question<R>,
) -> axum::routing::MethodRouter<Arc<App>> {
    use axum::extract::{Path, State};
    get(move |State(app): State<Arc<App>>, Path(name): Path<String>, params: Params| async move {
        app.json(&name, need, move |loaded, cancel| question(loaded, &params, cancel)).await
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
        .layer(DefaultBodyLimit::max(LONGEST_JSON))
        .layer(from_fn_with_state(gate, guard))
        .with_state(app)
}
