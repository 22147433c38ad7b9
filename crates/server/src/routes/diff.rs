//! What differs between two traces of the folder: the answer of `unhitch diff`, both stalls in
//! full, and both flame graphs as one.

use super::flame::kind;
use super::stall::in_full;
use crate::Error;
use crate::app::App;
use crate::loaded::Loaded;
use crate::opened::{Opened, Stage};
use crate::params::Params;
use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use std::sync::Arc;
use unhitch_analysis::diff::{Diff, FlameDiff, Summary, Who, text};
use unhitch_analysis::flame::{Drawing, Flame};
use unhitch_analysis::table::Name;
use unhitch_analysis::{Cancel, Query, Stall};

/// The width of each side's flame graph, pixels: what is narrower than half of one is summed.
const PIXELS: u32 = 2000;

/// Both traces; they are read at the same time.
fn sides(app: &Arc<App>, params: &Params) -> Result<[(String, Arc<Opened>); 2], Error> {
    let side = |which| {
        let name = params.text(which)?;
        Ok::<_, Error>((name.to_owned(), app.opened(name)?))
    };
    Ok([side("before")?, side("after")?])
}

/// `GET diff`
pub(super) async fn diff(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Json<Value>, Error> {
    let [(before_name, before), (after_name, after)] = sides(&app, &params)?;
    let (before, before_stall) = summary(&before, before_name, None).await?;
    // The same thread is looked at on both sides.
    let focus = before.stall.as_ref().map(|stall| stall.victim.clone());
    let (after, after_stall) = summary(&after, after_name, focus).await?;
    let diff = Diff::new(&[before], &[after]);
    let words = text(&diff);
    Ok(Json(json!({
        "diff": diff, "text": words, "before": before_stall, "after": after_stall,
    })))
}

/// A side reduced to what is compared, and its stall in full.
async fn summary(
    opened: &Opened,
    name: String,
    focus: Option<Who>,
) -> Result<(Summary, Value), Error> {
    let question = move |loaded: &Loaded<'_>, _: &Cancel| -> Result<_, Error> {
        let found = (&Query::default(), loaded.stalls().ok_or(Error::NotReady)?);
        let (summary, stall) = Summary::of_found(loaded.analysis, &name, found, focus.as_ref());
        let id =
            |stall: &Stall| found.1.iter().position(|known| known == stall).map_or(0, |at| at + 1);
        let stall = stall.as_ref().map_or(Value::Null, |stall| in_full(loaded, stall, id(stall)));
        Ok((summary, stall))
    };
    opened.ask(Stage::Ready, question).await
}

/// `GET diff/flame`
pub(super) async fn flame(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Json<Value>, Error> {
    let [(_, before), (_, after)] = sides(&app, &params)?;
    let before = tree(&before, params.of_side("before")).await?;
    let after = tree(&after, params.of_side("after")).await?;
    let nodes = FlameDiff::new(&before.0, &after.0).nodes;
    let of = |value: fn(&unhitch_analysis::diff::FlameNode) -> Value| {
        nodes.iter().map(value).collect::<Vec<_>>()
    };
    Ok(Json(json!({
        "before_window_ns": before.1, "after_window_ns": after.1,
        "nodes": {
            "parent": of(|node| json!(node.parent.map_or(-1, |parent| parent as i64))),
            "name": of(|node| json!(node.name)),
            "others": of(|node| json!(u8::from(node.others))),
            "kernel": of(|node| json!(u8::from(node.kernel))),
            "before": of(|node| json!(node.before_ns)),
            "after": of(|node| json!(node.after_ns)),
        },
    })))
}

/// A side's flame graph, and the length of its window.
async fn tree(opened: &Opened, params: Params) -> Result<(Flame, u64), Error> {
    let question = move |loaded: &Loaded<'_>, cancel: &Cancel| -> Result<_, Error> {
        let (kind, selection) = (kind(&params)?, params.selection(loaded)?);
        let name = Name::of_stacks(kind);
        let filter = selection.filter(name)?;
        let drawing = Drawing {
            selection: selection.of_rows(filter.as_ref()),
            pixels: PIXELS,
            root: &[],
            inverted: false,
            modules: false,
        };
        let stored = loaded.table(name, selection.window, cancel)?;
        Ok((Flame::new(&stored, kind, drawing, cancel)?, selection.window.duration_ns()))
    };
    opened.ask(Stage::Judging, question).await
}
