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
use unhitch_analysis::table::Name;

/// Maximum length of a request's JSON body, bytes.
const MAX_JSON_BYTES: usize = 1 << 20;

/// Answers a request about a trace by its query parameters.
type Handler<R> = fn(&Loaded<'_>, &Params, &Cancel) -> Result<R, Error>;

/// A route that is answered in JSON, once what it needs of the trace is read.
fn asks<R: Serialize + 'static>(
    need: impl Fn(&Params) -> Stage + Clone + Send + Sync + 'static,
    handler: Handler<R>,
) -> axum::routing::MethodRouter<Arc<App>> {
    use axum::extract::{Path, State};
    get(move |State(app): State<Arc<App>>, Path(name): Path<String>, params: Params| async move {
        app.json(&name, need(&params), move |loaded, cancel| handler(loaded, &params, cancel)).await
    })
}

/// What a question about a table needs. The search for stalls takes long: a question that waited for
/// it would keep one of the few threads that answer.
fn need_of_table(table: Option<&str>) -> Stage {
    if table == Some(Name::Stalls.info().word) { Stage::Ready } else { Stage::Newest }
}

/// All routes, behind the gate.
pub(crate) fn router(app: Arc<App>) -> Router {
    let newest = |_: &Params| Stage::Newest;
    let of_table = |params: &Params| need_of_table(params.get("table"));
    let trace = Router::new()
        .route("/status", get(trace::status))
        .route("/summary", get(trace::summary))
        .route("/lanes", asks(newest, lanes::lanes))
        .route("/view", get(view::view))
        .route("/curve", asks(newest, view::curve))
        .route("/marks", asks(newest, trace::marks))
        .route("/slice", asks(newest, slice::slice))
        .route("/event", asks(newest, event::event))
        .route("/stack", asks(newest, event::stack))
        .route("/stalls", get(stall::stalls))
        .route("/stall/{id}", get(stall::stall))
        .route("/explain", asks(|_: &Params| Stage::Judging, stall::explain))
        .route("/tables", get(table::tables))
        .route("/table", asks(of_table, table::table))
        .route("/members", asks(of_table, members::members))
        .route("/series", asks(of_table, series::series))
        .route("/flame", asks(newest, flame::flame))
        .route("/butterfly", asks(newest, flame::butterfly))
        .route("/hot", asks(newest, hot::hot))
        .route("/search", asks(newest, search::search))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_table_of_stalls_waits_for_the_search_and_keeps_no_thread_meanwhile() {
        let needs = [Some("stalls"), Some("waits"), None].map(need_of_table);
        assert_eq!(needs, [Stage::Ready, Stage::Newest, Stage::Newest]);
    }
}
