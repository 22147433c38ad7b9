//! The timeline's pixels: several lanes through one window in one binary answer, and the busy-CPU
//! curve.
//!
//! Every array of the answer is aligned to its elements, so that the browser reads it in place.
//! Times are `f64` nanoseconds since the start of the trace, exact up to 2^53. The layout is
//! specified in `docs/page-protocol.md`, *view*.

use crate::Error;
use crate::app::App;
use crate::loaded::Loaded;
use crate::opened::Stage;
use crate::params::{Params, wrong};
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::sync::Arc;
use unhitch_analysis::Cancel;
use unhitch_analysis::lod::{Lane, Screen, View};
use unhitch_model::{ThreadId, Window};

/// The first bytes of the answer.
const MAGIC: &[u8; 4] = b"UHV1";
/// Maximum lanes of one answer.
const MAX_LANES: usize = 512;
/// Maximum columns of one answer.
pub(super) const MAX_PIXELS: usize = 8192;
/// No thread, no event.
const NONE: u32 = u32::MAX;

/// The lane that a word of the page means: `c3`, `t12`, `sc3`, `st12`.
pub(super) fn lane_of(word: &str) -> Option<Lane> {
    let number = |prefix: &str| word.strip_prefix(prefix)?.parse::<u32>().ok();
    let cpu = |number: u32| u16::try_from(number).ok();
    if let Some(id) = number("t") {
        return Some(Lane::Thread(ThreadId(id)));
    }
    if let Some(id) = number("st") {
        return Some(Lane::ThreadSamples(ThreadId(id)));
    }
    number("c")
        .and_then(cpu)
        .map(Lane::Cpu)
        .or_else(|| number("sc").and_then(cpu).map(Lane::CpuSamples))
}

/// The word for a thread's lane.
pub(super) fn thread_lane(thread: ThreadId) -> String {
    format!("t{}", thread.0)
}

fn screen(loaded: &Loaded<'_>, params: &Params) -> Result<Screen, Error> {
    let window = params.window(loaded)?;
    if window.is_empty() {
        return Err(wrong("to", params.get("to").unwrap_or_default(), "a time after `from`"));
    }
    let pixels = params.number("px", 1000, 1..=MAX_PIXELS)?;
    Ok(Screen::new(window, pixels as u32))
}

/// `GET view`
pub(super) async fn view(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    params: Params,
) -> Result<Response, Error> {
    let bytes = app
        .opened(&name)?
        .ask(Stage::Newest, move |loaded, cancel| {
            let screen = screen(loaded, &params)?;
            let words: Vec<&str> = params
                .get("lanes")
                .unwrap_or_default()
                .split(',')
                .filter(|word| !word.is_empty())
                .collect();
            if words.len() > MAX_LANES {
                return Err(wrong(
                    "lanes",
                    &format!("{} lanes", words.len()),
                    &format!("at most {MAX_LANES}"),
                ));
            }
            let lane = |word: &&str| {
                lane_of(word).ok_or_else(|| {
                    wrong("lanes", word, "c, t, sc or st with a number, separated by commas")
                })
            };
            let lanes: Vec<Lane> = words.iter().map(lane).collect::<Result<_, _>>()?;
            let views =
                loaded.at_once(|| loaded.lanes.views(loaded.analysis, &lanes, &screen, cancel))?;
            Ok(encode(loaded, &screen, &lanes, &views))
        })
        .await?;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response())
}

/// Encodes lanes on a screen.
fn encode(loaded: &Loaded<'_>, screen: &Screen, lanes: &[Lane], views: &[View]) -> Vec<u8> {
    let (slices, cells) =
        (views.iter().flat_map(|view| &view.slices), views.iter().flat_map(|view| &view.cells));
    let (slice_count, cell_count) = (slices.clone().count(), cells.clone().count());
    let mut out = Vec::with_capacity(48 + lanes.len() * 24 + slice_count * 29 + cell_count * 8);
    let word = |out: &mut Vec<u8>, word: u32| out.extend_from_slice(&word.to_le_bytes());
    let small = |number: usize| u32::try_from(number).unwrap_or(NONE);
    let time =
        |out: &mut Vec<u8>, time| out.extend_from_slice(&(loaded.at(time) as f64).to_le_bytes());
    out.extend_from_slice(MAGIC);
    word(&mut out, small(lanes.len()));
    time(&mut out, screen.window.start);
    time(&mut out, screen.window.end);
    [screen.columns(), small(slice_count), small(cell_count), 0]
        .into_iter()
        .for_each(|number| word(&mut out, number));
    let (mut first_slice, mut first_cell) = (0, 0);
    for (lane, view) in lanes.iter().zip(views) {
        let (kind, number) = match *lane {
            Lane::Cpu(cpu) => (0, u32::from(cpu)),
            Lane::Thread(thread) => (1, thread.0),
            Lane::CpuSamples(cpu) => (2, u32::from(cpu)),
            Lane::ThreadSamples(thread) => (3, thread.0),
        };
        let directory = [
            kind,
            number,
            small(first_slice),
            small(view.slices.len()),
            small(first_cell),
            small(view.cells.len()),
        ];
        directory.into_iter().for_each(|number| word(&mut out, number));
        (first_slice, first_cell) =
            (first_slice + view.slices.len(), first_cell + view.cells.len());
    }
    out.resize(out.len().next_multiple_of(8), 0);
    slices.clone().for_each(|slice| time(&mut out, slice.window.start));
    slices.clone().for_each(|slice| time(&mut out, slice.window.end));
    slices.clone().for_each(|slice| word(&mut out, slice.thread.map_or(NONE, |thread| thread.0)));
    // A slice that ran has the switch that put the thread on its CPU; any other, the switch that
    // took it off.
    let event = |slice: &unhitch_analysis::lod::Slice| {
        slice.sample.or(if slice.out.is_some() && !ran(slice) { slice.out } else { slice.back })
    };
    slices.clone().for_each(|slice| word(&mut out, event(slice).map_or(NONE, small)));
    slices.clone().for_each(|slice| word(&mut out, slice.wake.map_or(NONE, small)));
    cells.clone().for_each(|cell| word(&mut out, cell.thread.map_or(NONE, |thread| thread.0)));
    cells.clone().for_each(|cell| {
        out.extend_from_slice(&u16::try_from(cell.column).unwrap_or(u16::MAX).to_le_bytes())
    });
    slices.for_each(|slice| out.push(slice.state as u8));
    cells.clone().for_each(|cell| out.push(cell.state as u8));
    cells.for_each(|cell| {
        let of_samples = u8::try_from(cell.samples).unwrap_or(u8::MAX);
        out.push(if cell.samples > 0 { of_samples } else { cell.cover(screen) });
    });
    out
}

fn ran(slice: &unhitch_analysis::lod::Slice) -> bool {
    slice.state == unhitch_analysis::lod::LaneState::Ran
}

/// `GET curve`
pub(super) fn curve(loaded: &Loaded<'_>, params: &Params, cancel: &Cancel) -> Result<Value, Error> {
    let screen = screen(loaded, params)?;
    let busy_ns = loaded.at_once(|| loaded.lanes.busy_ns(loaded.analysis, &screen, cancel))?;
    let column = |(column, busy_ns): (usize, &u64)| {
        let column = column as u32;
        let width = Window::new(screen.edge(column), screen.edge(column + 1)).duration_ns().max(1);
        (*busy_ns as f64 / width as f64 * 1000.0).round() / 1000.0
    };
    let busy: Vec<f64> = busy_ns.iter().enumerate().map(column).collect();
    Ok(json!({
        "from": loaded.at(screen.window.start), "to": loaded.at(screen.window.end),
        "px": screen.columns(), "cpus": loaded.cpus(), "busy": busy,
    }))
}
