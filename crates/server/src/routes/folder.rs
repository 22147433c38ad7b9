//! The folder: listing, uploading, changing and deleting its traces.

use crate::app::App;
use crate::background;
use crate::params::Params;
use crate::{Error, page};
use axum::Json;
use axum::body::{Body, HttpBody};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};
use std::future::poll_fn;
use std::io::Write;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use unhitch_model::units;

/// Maximum time between two pieces of an upload; then it counts as aborted.
const MAX_SILENCE: Duration = Duration::from_secs(30);
/// Maximum pieces of an upload that wait to be written.
const MAX_PENDING_PIECES: usize = 16;

/// `GET /api/server`
pub(super) async fn server(State(app): State<Arc<App>>) -> Json<Value> {
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "folder": app.folder.folder_name(),
        "single": app.folder.single(),
        "editable": app.folder.single().is_none(),
        "upload_limit_bytes": app.upload_limit_bytes,
        "page": page::is_built(),
        "fleet": app.fleet.is_some(),
    }))
}

/// `GET /api/traces`
pub(super) async fn list(State(app): State<Arc<App>>) -> Result<Json<Value>, Error> {
    blocking(move || {
        let mut entries: Vec<Value> =
            app.folder.names()?.iter().filter_map(|name| entry(&app, name).ok()).collect();
        background::start(&app);
        let judging = app.judging().clone();
        for entry in &mut entries {
            entry["judging"] =
                json!(judging.is_some() && entry["name"].as_str() == judging.as_deref());
        }
        entries.sort_by_key(|entry| {
            let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
            (std::cmp::Reverse(text("modified")), text("name"))
        });
        Ok(Json(json!({ "traces": entries })))
    })
    .await
}

/// A trace in the list, with what is known since it was opened.
fn entry(app: &Arc<App>, name: &str) -> Result<Value, Error> {
    let mut entry = app.folder.entry(name)?;
    let (_, stamp) = app.folder.find(name)?;
    let (loaded, known) = app.known(name, stamp);
    entry["loaded"] = json!(loaded);
    entry["too_large"] = json!(known.is_empty() && stamp.bytes > background::MAX_BYTES);
    for (key, value) in known {
        entry[key] = value;
    }
    Ok(entry)
}

/// `POST /api/traces?name=NAME`
pub(super) async fn upload(
    State(app): State<Arc<App>>,
    params: Params,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<Value>), Error> {
    let (name, limit) = (params.text("name")?.to_owned(), app.upload_limit_bytes);
    let too_large = || Error::TooLarge { limit: format!("{} bytes", units::count(limit)) };
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let mut file = app.folder.incoming(&name)?;
    // Refuse it before reading any of it.
    if announced.is_some_and(|length| length > limit) {
        return Err(too_large());
    }
    let (pieces, mut waiting) = mpsc::channel::<axum::body::Bytes>(MAX_PENDING_PIECES);
    let writer = spawn_blocking(move || {
        while let Some(piece) = waiting.blocking_recv() {
            file.write_all(&piece)?;
        }
        Ok(file)
    });
    let (mut body, mut received) = (pin!(body), 0u64);
    let aborted = || Error::Query("the upload was aborted".to_owned());
    while let Some(frame) =
        timeout(MAX_SILENCE, poll_fn(|context| body.as_mut().poll_frame(context)))
            .await
            .map_err(|_| aborted())?
    {
        let Ok(piece) = frame.map_err(|_| aborted())?.into_data() else { continue };
        received += piece.len() as u64;
        if received > limit {
            return Err(too_large());
        }
        if pieces.send(piece).await.is_err() {
            break;
        }
    }
    drop(pieces);
    let file = writer.await.map_err(|_| Error::Broken)?.map_err(Error::io("the upload"))?;
    let stored = name.clone();
    blocking(move || app.folder.receive(file, &stored)).await?;
    Ok((StatusCode::CREATED, Json(json!({ "name": name }))))
}

/// The properties that a request may change.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    name: Option<String>,
    notes: Option<String>,
}

/// `PATCH /api/traces/{trace}`
pub(super) async fn change(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    change: Result<Json<Change>, axum::extract::rejection::JsonRejection>,
) -> Result<Json<Value>, Error> {
    let Json(change) = change.map_err(|error| Error::Query(error.body_text()))?;
    blocking(move || {
        if let Some(notes) = &change.notes {
            app.change(&name, &name, || app.folder.annotate(&name, notes))?;
        }
        let to = change.name.unwrap_or_else(|| name.clone());
        app.change(&name, &to, || app.folder.rename(&name, &to))?;
        entry(&app, &to).map(Json)
    })
    .await
}

/// `DELETE /api/traces/{trace}`
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<StatusCode, Error> {
    blocking(move || {
        app.folder.remove(&name)?;
        app.open().retain(|(known, ..)| *known != name);
        app.closed().remove(&name);
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}

/// Runs work that waits for a disk off the network's thread.
pub(super) async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> Result<R, Error> + Send + 'static,
) -> Result<R, Error> {
    spawn_blocking(work).await.unwrap_or(Err(Error::Broken))
}
