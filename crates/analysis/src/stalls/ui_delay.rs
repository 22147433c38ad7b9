//! Delays that Windows itself reports: a thread with windows that did not look at its messages, or
//! handled input late.
//!
//! Source: the manifest of `Microsoft-Windows-Win32k`, keyword `UIUnresponsiveness`. The event
//! comes when the delay is over, and tells its length in milliseconds: the delay is the time before
//! the event.

use super::{Candidate, StallKind};
use crate::Analysis;
use crate::answer::units;
use unhitch_model::{EventKind, ThreadId, Time, Trace, Value, Window};

/// Shorter ones nobody has noticed.
const THRESHOLD_NS: u64 = 100_000_000;
/// The provider since Windows 8 {8c416c79-d49b-4f01-a467-e56d3aa8234c}, and that of Windows 7
/// {e7ef96be-969f-414f-97d7-3ddb7b558ccc}.
pub(crate) const WIN32K: [[u8; 16]; 2] = [
    [
        0x79, 0x6c, 0x41, 0x8c, 0x9b, 0xd4, 0x01, 0x4f, 0xa4, 0x67, 0xe5, 0x6d, 0x3a, 0xa8, 0x23,
        0x4c,
    ],
    [
        0xbe, 0x96, 0xef, 0xe7, 0x9f, 0x96, 0x4f, 0x41, 0x97, 0xd7, 0x3d, 0xdb, 0x7b, 0x55, 0x8c,
        0xcc,
    ],
];

/// One report.
struct Delay {
    window: Window,
    /// The thread was asked for its messages, as against for its input.
    of_messages: bool,
    /// Class of the window, empty before Windows 10.
    class: String,
}

/// All delays of the trace.
pub(super) fn find(analysis: &Analysis<'_>) -> Vec<Candidate> {
    let trace = analysis.trace;
    let delays = (0..trace.events.len()).filter_map(|event| Some((event, delay(trace, event)?)));
    let candidate = |(event, delay): (usize, Delay)| Candidate {
        kind: StallKind::UiDelay,
        victim: trace.events.thread[event],
        window: delay.window.intersect(analysis.timeline.window()),
        operation: None,
        event_loop: true,
        machine: None,
    };
    let is_thread = |id: ThreadId| !id.is_idle() && !id.is_unknown();
    delays
        .map(candidate)
        .filter(|delay| is_thread(delay.victim) && delay.window.duration_ns() >= THRESHOLD_NS)
        .collect()
}

/// Who reported the delay, as a sentence, and the report's index in the trace's events.
pub(crate) fn story(analysis: &Analysis<'_>, candidate: &Candidate) -> Option<(String, usize)> {
    let trace = analysis.trace;
    // The report may be later than what the recording covers.
    let reports = trace.events.range(Window::new(candidate.window.end, Time::MAX));
    let of_victim = reports.filter(|&event| trace.events.thread[event] == candidate.victim);
    let mut delays = of_victim.filter_map(|event| Some((event, delay(trace, event)?)));
    let (event, delay) = delays.find(|(_, delay)| {
        delay.window.intersect(analysis.timeline.window()) == candidate.window
    })?;
    let what = if delay.of_messages {
        "did not look at its messages"
    } else {
        "left its oldest input waiting"
    };
    let class = if delay.class.is_empty() {
        String::new()
    } else {
        format!(" (window class {})", delay.class)
    };
    Some((
        format!(
            "Windows reported that it {what} for {}{class}.",
            units::duration(delay.window.duration_ns())
        ),
        event,
    ))
}

fn delay(trace: &Trace, event: usize) -> Option<Delay> {
    let kind: &EventKind =
        trace.events.kind_of(event).filter(|kind| WIN32K.contains(&kind.provider_guid))?;
    let (of_messages, length) = match kind.id {
        38 | 173 => (true, "DelayTimeMs"),
        37 | 172 => (false, "TimeSinceOldestInputMs"),
        _ => return None,
    };
    let fields = trace.events.fields(event);
    let field = |name: &str| {
        fields.iter().find(|(known, _)| trace.name(*known) == name).map(|(_, value)| value)
    };
    let ms = field(length).and_then(Value::as_u64)?;
    let end: Time = *trace.events.time.get(event)?;
    let class = field("ClassName").map(|class| trace.shown(class.to_string())).unwrap_or_default();
    Some(Delay {
        window: Window::new(end.minus(ms.saturating_mul(1_000_000)), end),
        of_messages,
        class,
    })
}
