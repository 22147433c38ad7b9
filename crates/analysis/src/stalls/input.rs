//! Keys and buttons that nobody looked at: the window with the focus was a process's, and the thread
//! that reads its events was away from its event loop.
//!
//! The agent marks each input with the process that had the focus. The victim is the first thread
//! of that process: that is where programs read from the X server, nearly always. An input waits
//! from the moment at which it came until that thread is back at its pump, where it takes what
//! has queued up.

use super::event_loop::is_unknown;
use super::thread_view::ThreadView;
use crate::Analysis;
use crate::candidate::{Candidate, StallKind};
use crate::user_marks::{MarkKind, UserMark};
use crate::wording::{Event, Reference, Sentence, Span, Subject, units};
use unhitch_model::units::plural;
use unhitch_model::{MARK_PROVIDER, ThreadId, Time, Window};

/// Minimum wait of an input, nanoseconds: shorter ones go unnoticed.
const THRESHOLD_NS: u64 = 100_000_000;
/// Maximum time from an input to the wake-up of the thread that it is for, nanoseconds.
const ON_ITS_WAY_NS: u64 = 50_000_000;

/// The inputs for a thread, by time.
fn inputs<'a>(analysis: &'a Analysis<'_>, thread: ThreadId) -> impl Iterator<Item = &'a UserMark> {
    // Other tracers' marks of input are of their own threads.
    let is_ours = move |mark: &&UserMark| {
        let kind = analysis.trace.events.kind_of(mark.event);
        kind.is_some_and(|kind| kind.provider_guid == MARK_PROVIDER)
    };
    let of_thread = analysis.marks.iter().filter(move |mark| mark.thread == thread);
    of_thread.filter(|mark| mark.kind != MarkKind::Words).filter(is_ours)
}

pub(super) fn find(analysis: &Analysis<'_>, view: &ThreadView<'_>, found: &mut Vec<Candidate>) {
    let inputs: Vec<Time> = inputs(analysis, view.thread).map(|mark| mark.time).collect();
    if inputs.is_empty() {
        return;
    }
    let end = analysis.timeline.life(view.thread).end;
    let pumps: Vec<Window> =
        view.operations.iter().filter(|operation| operation.pump).map(|pump| pump.window).collect();
    for (at, pump) in pumps.iter().enumerate() {
        let back = pumps.get(at + 1).map_or(end, |next| next.start);
        // What calls the thread comes a little before it is awake.
        let from = pump.end.minus(ON_ITS_WAY_NS).max(pump.start);
        let first = inputs.iter().find(|time| **time >= from && **time < back);
        let Some(&first) = first else { continue };
        let wait = Window::new(first, back);
        if wait.duration_ns() >= THRESHOLD_NS && !is_unknown(view, wait) {
            found.push(Candidate {
                kind: StallKind::Input,
                victim: view.thread,
                window: wait,
                operation: None,
                event_loop: true,
                machine: None,
            });
        }
    }
}

/// How many inputs waited, linked to the first.
pub(crate) fn sentence_of(analysis: &Analysis<'_>, candidate: &Candidate) -> Option<Sentence> {
    let window = candidate.window;
    let mut waited = inputs(analysis, candidate.victim)
        .filter(|mark| mark.time >= window.start && mark.time < window.end)
        .peekable();
    let first = *waited.peek()?;
    let (keys, buttons): (Vec<_>, Vec<_>) = waited.partition(|mark| mark.kind == MarkKind::Key);
    let counted = [(keys.len(), "key"), (buttons.len(), "click")];
    let counted = counted.into_iter().filter(|(count, _)| *count > 0);
    let what: Vec<String> = counted.map(|(count, what)| plural(count as u64, what)).collect();
    let longest = Window::new(first.time, window.end).duration_ns();
    let text = format!("{} waited up to {}.", what.join(" and "), units::duration(longest));
    let reference = Reference {
        thread: Some(candidate.victim),
        window,
        event: Some(Event::Provider(first.event)),
    };
    Some(Span::new(text, Subject::Text).seen_at(reference).into())
}
