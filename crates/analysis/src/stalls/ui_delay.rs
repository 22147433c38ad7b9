//! Delays that the window system reports: a thread with windows that did not look at its messages,
//! or handled input late.
//!
//! On Linux, the agent asks the window with the focus whether it answers (`_NET_WM_PING`), and marks
//! each answer. The victim is the first thread of the window's process: that is where programs read
//! from the X server, nearly always.
//!
//! Source on Windows: the manifest of `Microsoft-Windows-Win32k`, keyword `UIUnresponsiveness`. The event
//! comes when the delay is over, and tells its length in milliseconds: the delay is the time before
//! the event.

use crate::Analysis;
use crate::candidate::{Candidate, StallKind};
use crate::user_marks::WIN32K;
use crate::wording::{Event, Reference, Sentence, Span, Subject, units};
use unhitch_model::{EventKind, MARK_PROVIDER, MarkEvent, ThreadId, Time, Trace, Value, Window};

/// Minimum delay, nanoseconds: shorter ones go unnoticed.
const THRESHOLD_NS: u64 = 100_000_000;

/// What was late.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Late {
    /// Windows: the thread was asked for its messages.
    Messages,
    /// Windows: its oldest input.
    Input,
    /// The answer of its window.
    Answer,
    /// The same, and it had not come when the agent marked it.
    NoAnswer,
}

/// One report.
struct Delay {
    window: Window,
    late: Late,
    /// Class of the window, empty before Windows 10.
    class: String,
}

/// All delays of the trace.
pub(crate) fn find(analysis: &Analysis<'_>) -> Vec<Candidate> {
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

/// Who reported the delay, linked to the report.
pub(crate) fn sentence_of(analysis: &Analysis<'_>, candidate: &Candidate) -> Option<Sentence> {
    let trace = analysis.trace;
    // The report may be later than what the recording covers.
    let reports = trace.events.range(Window::new(candidate.window.end, Time::MAX));
    let of_victim = reports.filter(|&event| trace.events.thread[event] == candidate.victim);
    let mut delays = of_victim.filter_map(|event| Some((event, delay(trace, event)?)));
    let (event, delay) = delays.find(|(_, delay)| {
        delay.window.intersect(analysis.timeline.window()) == candidate.window
    })?;
    let what = match delay.late {
        Late::Messages => "Windows reported that this thread did not look at its messages",
        Late::Input => "Windows reported that this thread did not handle its oldest input",
        Late::Answer => "The window of this process had the focus and did not answer",
        Late::NoAnswer => "The window of this process had the focus and had not answered",
    };
    let class = match delay.class.as_str() {
        "" => String::new(),
        class => format!(" (window class {class})"),
    };
    let length = units::duration(delay.window.duration_ns());
    let text = format!("{what} for {length}{class}.");
    let reference = Reference {
        thread: Some(candidate.victim),
        window: candidate.window,
        event: Some(Event::Provider(event)),
    };
    Some(Span::new(text, Subject::Text).seen_at(reference).into())
}

fn delay(trace: &Trace, event: usize) -> Option<Delay> {
    ping(trace, event).or_else(|| windows_delay(trace, event))
}

/// What the agent marked.
fn ping(trace: &Trace, event: usize) -> Option<Delay> {
    trace
        .events
        .kind_of(event)
        .filter(|kind| kind.provider_guid == MARK_PROVIDER && kind.id == MarkEvent::Ping as u16)?;
    let fields = trace.events.fields(event);
    let field = |name: &str| {
        fields.iter().find(|(known, _)| trace.name(*known) == name).map(|(_, value)| value)
    };
    let sent = Time::from_nanos(field("sent_ns").and_then(Value::as_u64)?);
    let answered = matches!(field("answered"), Some(Value::Bool(true)));
    let end: Time = *trace.events.time.get(event)?;
    // What is not about a process has an unknown thread, and one that lies may claim any time.
    (sent <= end).then(|| Delay {
        window: Window::new(sent, end),
        late: if answered { Late::Answer } else { Late::NoAnswer },
        class: String::new(),
    })
}

fn windows_delay(trace: &Trace, event: usize) -> Option<Delay> {
    let kind: &EventKind =
        trace.events.kind_of(event).filter(|kind| WIN32K.contains(&kind.provider_guid))?;
    let (late, length) = match kind.id {
        38 | 173 => (Late::Messages, "DelayTimeMs"),
        37 | 172 => (Late::Input, "TimeSinceOldestInputMs"),
        _ => return None,
    };
    let fields = trace.events.fields(event);
    let field = |name: &str| {
        fields.iter().find(|(known, _)| trace.name(*known) == name).map(|(_, value)| value)
    };
    let ms = field(length).and_then(Value::as_u64)?;
    let end: Time = *trace.events.time.get(event)?;
    let class = field("ClassName").map(|class| trace.shown(class.to_string())).unwrap_or_default();
    Some(Delay { window: Window::new(end.minus(ms.saturating_mul(1_000_000)), end), late, class })
}
