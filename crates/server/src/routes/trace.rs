//! A trace as a whole: its progress, its contents, its marks.

use crate::app::App;
use crate::loaded::{Loaded, pid};
use crate::opened::Stage;
use crate::params::Params;
use crate::{Error, Unreadable};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::sync::Arc;
use unhitch_analysis::Cancel;
use unhitch_analysis::answer::Info;
use unhitch_analysis::lod::LaneState;
use unhitch_analysis::user_marks::MarkKind;

/// `GET status`
pub(super) async fn status(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<Json<Value>, Error> {
    let (status, progress) = app.opened(&name)?.status();
    let gone = app.folder.find(&name).is_err();
    let ready = status.failed.is_none() && status.stage >= Stage::Newest;
    let failed = status.failed.as_ref();
    Ok(Json(json!({
        "stage": if status.failed.is_some() { "failed" } else { status.stage.word() },
        "progress": progress,
        "ready": { "lanes": ready, "tables": ready, "stalls": ready && status.stage == Stage::Ready },
        "error": failed.map(Unreadable::why),
        "hint": failed.map_or("", Unreadable::hint),
        "gone": gone,
    })))
}

/// `GET summary`
pub(super) async fn summary(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<Response, Error> {
    let (shown, shared) = (name.clone(), Arc::clone(&app));
    app.json(&name, Stage::Newest, move |loaded, _| {
        let mut summary = serde_json::to_value(Info::new(loaded.trace)).map_err(|_| Error::Broken)?;
        let (meta, window) = (&loaded.trace.meta, loaded.window());
        let spans = loaded.trace.spans.iter();
        for (key, value) in [
            ("name", json!(shown)),
            ("notes", json!(shared.notes(&shown, loaded))),
            ("arch", json!(meta.arch)),
            // As text: JavaScript numbers cannot hold a clock.
            ("origin_ns", json!(loaded.trace.origin().nanos().to_string())),
            ("start_ns", json!(window.start.nanos().to_string())),
            ("from", json!(loaded.at(window.start))),
            ("duration_ns", json!(window.duration_ns())),
            ("epoch_ns", json!(meta.epoch_ns.map(|epoch| epoch.saturating_add(i128::from(window.start.nanos())).to_string()))),
            ("cpus", json!(loaded.cpus())),
            ("modules", json!(loaded.trace.modules.len())),
            ("sample_period_ns", json!(meta.sample_period_ns)),
            ("losses", json!(losses(loaded))),
            (
                "spans",
                spans
                    .map(|span| json!({ "cpu": span.cpu, "from": loaded.at(span.window.start), "to": loaded.at(span.window.end) }))
                    .collect(),
            ),
            ("states", states()),
        ] {
            summary[key] = value;
        }
        Ok(summary)
    })
    .await
}

/// The registry of lane states.
fn states() -> Value {
    let state = |state: LaneState| {
        let (name, label) = state.words();
        json!({ "code": state as u8, "name": name, "label": label })
    };
    LaneState::ALL.into_iter().map(state).collect()
}

fn losses(loaded: &Loaded<'_>) -> Vec<Value> {
    let loss = |loss: &unhitch_model::Loss| json!({ "cpu": loss.cpu, "from": loaded.at(loss.window.start), "to": loaded.at(loss.window.end), "events": loss.events });
    loaded.trace.losses.iter().map(loss).collect()
}

/// `GET marks`
pub(super) fn marks(loaded: &Loaded<'_>, params: &Params, _: &Cancel) -> Result<Value, Error> {
    let selection = params.selection(loaded)?;
    let trace = loaded.trace;
    let waits = trace.futex_waits.iter().filter(|wait| selection.has(loaded, wait.waiter));
    let noted = loaded.analysis.marks.iter().filter(|mark| selection.window.contains(mark.time)).map(|mark| {
        let (kind, label) = match mark.kind {
            MarkKind::Key => ("input", "a key"),
            MarkKind::Button => ("input", "a mouse button"),
            MarkKind::Words => ("user", mark.words.as_str()),
        };
        json!({ "time": loaded.at(mark.time), "to": null, "kind": kind, "label": label, "who": loaded.who(mark.thread, mark.time) })
    });
    let saved = waits.map(|wait| {
        let owner = wait.owner.map_or(String::new(), |owner| format!(", held by {}", trace.thread_name(owner, wait.time)));
        json!({
            "time": loaded.at(wait.time), "to": null, "kind": "saved_wait",
            "label": format!("still waiting when the trace was saved, at {:#x}{owner}", wait.word_avma),
            "who": loaded.who(wait.waiter, wait.time),
        })
    });
    let mut marks: Vec<Value> = noted.chain(saved).collect();
    marks.sort_by_key(|mark| mark["time"].as_i64());
    let processes = trace
        .threads
        .processes()
        .skip(1)
        .filter(|(_, process)| selection.has(loaded, process.leader));
    let lives = processes.filter_map(|(id, process)| {
        let (life, leader) = (loaded.analysis.timeline.life(process.leader), trace.threads.get(process.leader));
        (!life.intersect(selection.window).is_empty()).then(|| {
            json!({
                "process": id.0, "pid": pid(process), "name": trace.thread_name(process.leader, life.end),
                "from": loaded.at(life.start), "to": loaded.at(life.end),
                "started": leader.start.is_some(), "ended": leader.end.is_some(),
            })
        })
    });
    Ok(json!({ "marks": marks, "losses": losses(loaded), "lives": lives.collect::<Vec<_>>() }))
}

/// `GET report`
pub(super) async fn report(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<Response, Error> {
    let (shown, shared) = (name.clone(), Arc::clone(&app));
    let html = app
        .opened(&name)?
        .ask(Stage::Ready, move |loaded, _| {
            let stalls = loaded.stalls().ok_or(Error::NotReady)?;
            Ok(crate::report::report(
                loaded.analysis,
                &shown,
                &shared.notes(&shown, loaded),
                stalls,
            ))
        })
        .await?;
    // The name was checked when the trace was found: it has no quotes and no control characters.
    let plain: String =
        name.chars().map(|letter| if letter.is_ascii() { letter } else { '_' }).collect();
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{plain}.html\"")),
    ];
    Ok((headers, html).into_response())
}
