//! The routes, one file per subject. `docs/page-protocol.md` specifies their answers.

mod diff;
mod event;
mod flame;
mod fleet;
mod folder;
mod hot;
mod lanes;
mod members;
mod presets;
mod search;
mod series;
mod slice;
mod stall;
mod table;
mod trace;
mod view;

use crate::app::App;
use crate::gate::guard;
use crate::loaded::Loaded;
use crate::opened::Stage;
use crate::params::Params;
use crate::{Error, page};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{any, get};
use serde::Serialize;
use std::sync::Arc;
use unhitch_analysis::Cancel;

/// Maximum length of a request's JSON body, bytes.
const MAX_JSON_BYTES: usize = 1 << 20;

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
    let (lanes, tables) = (Stage::Newest, Stage::Newest);
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
        .route("/explain", asks(Stage::Judging, stall::explain))
        .route("/tables", get(table::tables))
        .route("/table", asks(tables, table::table))
        .route("/members", asks(tables, members::members))
        .route("/series", asks(tables, series::series))
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
        .route("/api/diff", get(diff::diff))
        .route("/api/diff/flame", get(diff::flame))
        .route("/api/fleet", get(fleet::fleet))
        .route("/api/tables", get(table::tables))
        .nest("/api/t/{trace}", trace)
        .route("/api/{*rest}", any(|| async { Error::NotFound("route") }))
        .fallback(get(page::file))
        .layer(DefaultBodyLimit::max(MAX_JSON_BYTES))
        .layer(from_fn_with_state(gate, guard))
        .with_state(app)
}
