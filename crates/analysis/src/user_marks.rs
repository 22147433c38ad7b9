//! User marks: moments at which a person or a program did something that helps to find a hang.
//!
//! They come from providers that Unhitch knows: its own (the control socket), UIforETW's key and
//! mouse logger and its marks, and those of `xperf -m`. *Why never which key:* to find a hang, it is enough to know that a key was
//! pressed, whatever the file holds. Anything that shows more is [private](is_private), in tables
//! as well.

use unhitch_model::{EventKind, MARK_PROVIDER, MarkEvent, ThreadId, Time, Trace, Value};

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MarkKind {
    /// A key went down.
    Key,
    /// A mouse button went down.
    Button,
    /// A program or its user wrote a text.
    Words,
}

/// A user mark.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserMark {
    /// Its index in the trace's events.
    pub event: usize,
    /// When.
    pub time: Time,
    /// The thread that wrote the event: for keys, the tracer's.
    pub thread: ThreadId,
    /// What happened.
    pub kind: MarkKind,
    /// The text; empty for input.
    pub words: String,
}

/// Microsoft-Windows-Win32k: the provider since Windows 8 {8c416c79-d49b-4f01-a467-e56d3aa8234c},
/// and that of Windows 7 {e7ef96be-969f-414f-97d7-3ddb7b558ccc}.
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

/// UIforETW's Multi-Input {70e2503b-c6f3-4780-b323-bd8ed0c61bf8}.
const INPUT: [u8; 16] = [
    0x3b, 0x50, 0xe2, 0x70, 0xf3, 0xc6, 0x80, 0x47, 0xb3, 0x23, 0xbd, 0x8e, 0xd0, 0xc6, 0x1b, 0xf8,
];
/// Its mouse events; all others are key events.
const MOUSE: std::ops::RangeInclusive<u16> = 400..=403;
/// UIforETW's Multi-Main {231cf54b-22a0-49e4-a59a-47052a30ffed}.
const MAIN: [u8; 16] = [
    0x4b, 0xf5, 0x1c, 0x23, 0xa0, 0x22, 0xe4, 0x49, 0xa5, 0x9a, 0x47, 0x05, 0x2a, 0x30, 0xff, 0xed,
];
/// UIforETW's Multi-Worker {e9c3da11-e2a5-48fd-9cd3-17e7c764d303}.
const WORKER: [u8; 16] = [
    0x11, 0xda, 0xc3, 0xe9, 0xa5, 0xe2, 0xfd, 0x48, 0x9c, 0xd3, 0x17, 0xe7, 0xc7, 0x64, 0xd3, 0x03,
];
/// The window system's events that hold the unhandled message: for a key press, which key.
const WITH_MESSAGE: [u16; 4] = [37, 38, 172, 173];
/// The kernel event that `xperf -m` writes.
const XPERF_MARK: ([u8; 16], u16) = ([0; 16], 0x0f22);

/// True for the events that the table of marks holds.
pub(crate) fn is_mark(kind: &EventKind) -> bool {
    kind.provider_guid == MARK_PROVIDER || kind_of(kind).is_some()
}

/// The marks of a trace, by time.
pub fn user_marks(trace: &Trace) -> Vec<UserMark> {
    let events = &trace.events;
    let kinds: Vec<Option<MarkKind>> = events.kinds().map(|(_, kind)| kind_of(kind)).collect();
    let mark = |event: usize| {
        let kind = (*kinds.get(events.kind[event].0 as usize)?)?;
        let words = match kind {
            MarkKind::Words => trace.shown(words(trace, event)),
            MarkKind::Key | MarkKind::Button => String::new(),
        };
        Some(UserMark {
            event,
            time: events.time[event],
            thread: events.thread[event],
            kind,
            words,
        })
    };
    // Most traces have no marks.
    if kinds.iter().all(Option::is_none) {
        Vec::new()
    } else {
        (0..events.len()).filter_map(mark).collect()
    }
}

/// An event's fields as names and values in text; values that have names are shown by name. Without
/// a known layout, the payload is one field without a name. What a known layout does not cover,
/// because the event has another version, is the field [`UNDECODED`]. Never shows which key was
/// pressed.
pub fn fields(trace: &Trace, event: usize) -> Vec<(String, String)> {
    let Some(kind) = trace.events.kind_of(event) else { return Vec::new() };
    if is_private(kind) {
        return vec![(String::new(), PRIVATE.to_owned())];
    }
    let (payload, mut fields, mut read) = (trace.events.payload(event), Vec::new(), 0);
    let rest = kind.layout.read(payload, |field, value| {
        read += 1;
        let named = field
            .map
            .and_then(|map| trace.events.value_name(map, &value, |id| trace.name(id).to_owned()));
        let name = trace.name(field.name);
        let value = if is_private_field(name) {
            PRIVATE.to_owned()
        } else {
            named.unwrap_or_else(|| value.to_string())
        };
        fields.push((name.to_owned(), trace.shown(value)));
    });
    if rest > 0 {
        let name = if kind.layout.fields.is_empty() { "" } else { UNDECODED };
        // It may include private fields that were not reached.
        let mut unread = kind.layout.fields.iter().skip(read).map(|field| trace.name(field.name));
        let private = has_message(kind) || unread.any(is_private_field);
        let bytes = payload.get(payload.len().saturating_sub(rest)..).unwrap_or_default();
        fields.push((
            name.to_owned(),
            if private { PRIVATE.to_owned() } else { Value::Bytes(bytes).to_string() },
        ));
    }
    fields
}

/// The name of the field for what an event's layout does not cover.
pub const UNDECODED: &str = "undecoded";

/// Replaces values that would show which key was pressed.
const PRIVATE: &str = "(private)";

fn kind_of(kind: &EventKind) -> Option<MarkKind> {
    match (kind.provider_guid, kind.id) {
        (MARK_PROVIDER, id) => match MarkEvent::of_id(id)? {
            MarkEvent::Note => Some(MarkKind::Words),
            MarkEvent::KeyPress => Some(MarkKind::Key),
            MarkEvent::ButtonPress => Some(MarkKind::Button),
            _ => None,
        },
        (INPUT, 404) => Some(MarkKind::Key),
        (INPUT, 400) => Some(MarkKind::Button),
        // Begin and end, text, and text with numbers. The events in between are periodic
        // measurements, not marks.
        (MAIN, 100..=102 | 104..=107 | 114 | 116..=119) | (WORKER, 100..=102) | XPERF_MARK => {
            Some(MarkKind::Words)
        }
        _ => None,
    }
}

/// A mark's text: its words, whether something begins or ends with it, its numbers.
fn words(trace: &Trace, event: usize) -> String {
    let fields = trace.events.fields(event);
    let of = trace.events.kind_of(event);
    if of.is_some_and(|kind| kind.provider_guid == MARK_PROVIDER) {
        // The fields after its words say who sent it.
        return fields.first().map_or(String::new(), |(_, words)| words.to_string());
    }
    let (said, rest) = fields
        .split_first()
        .map_or((String::new(), &[][..]), |((_, words), rest)| (words.to_string(), rest));
    match of.map_or(0, |kind| kind.id) {
        100 => format!("{said}: begins"),
        101 => {
            let ms = rest
                .iter()
                .find(|(name, _)| trace.name(*name) == "DurationMs")
                .and_then(|(_, value)| value.as_f64());
            ms.map_or(format!("{said}: ends"), |ms| format!("{said}: ends after {ms:.1} ms"))
        }
        _ if rest.is_empty() => said,
        _ => format!(
            "{said}: {}",
            rest.iter().map(|(_, value)| value.to_string()).collect::<Vec<_>>().join(", ")
        ),
    }
}

/// True for events that would show which key was pressed, whatever the names of their fields: all
/// of their fields are hidden.
fn is_private(kind: &EventKind) -> bool {
    // Bytes without names may be anything that the event is known to hold.
    kind.provider_guid == INPUT && !MOUSE.contains(&kind.id)
        || has_message(kind) && kind.layout.fields.is_empty()
}

/// True for events that hold a message of the window system.
fn has_message(kind: &EventKind) -> bool {
    WIN32K.contains(&kind.provider_guid) && WITH_MESSAGE.contains(&kind.id)
}

/// True for fields that would tell it: the codes of keys, and what a window's message carries,
/// which of a key's message is its code.
fn is_private_field(name: &str) -> bool {
    const NAMES: [&str; 10] = [
        "virtualkey",
        "virtualkeycode",
        "vkey",
        "vkcode",
        "keycode",
        "scancode",
        "makecode",
        "charcode",
        "wparam",
        "lparam",
    ];
    let letters: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    NAMES.contains(&letters.as_str())
}
