//! `marks.json`: moments that people and programs marked while the recorder ran.
//!
//! Each mark becomes an event of the trace, of the provider [`MARK_PROVIDER`]. The layout is that of
//! requests on the control socket (docs/control-socket.md).

use serde::{Deserialize, Serialize};
use unhitch_model::{
    EventHead, EventKind, Field, FieldType, InputMarks, KindId, Layout, MARK_PROVIDER, MarkEvent,
    ProcessId, StackId, Time, Trace,
};

/// Maximum number of marks that are read of a trace.
const MAX_MARKS: usize = 1 << 20;

/// The content of `marks.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MarkFile {
    /// Version of this layout: 1.
    pub version: u32,
    /// Which input the recorder took: `off`, `private` or `full`.
    pub input: String,
    /// Which input it got, as far as it took it: the most that agents said they send, and that the
    /// marks are. Empty in files of older recorders.
    pub holds: String,
    /// Marks that were refused because their sender sent too many.
    pub refused: u64,
    /// By time.
    pub marks: Vec<Mark>,
}

/// A mark.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mark {
    /// When, by the sender's clock.
    pub time_ns: u64,
    /// When it arrived.
    pub received_ns: u64,
    /// The sender's user.
    pub uid: u32,
    /// The sender's process.
    pub sender: u32,
    /// `note`, `key`, `button`, `wheel` or `ping`.
    pub kind: String,
    /// Of a note: its words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Of a key or button: pressed or released.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub press: Option<bool>,
    /// Of a key: its class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Of a key or button: its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<u32>,
    /// Of input: `private` or `full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The process of the window that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Of a ping: when the window was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_ns: Option<u64>,
    /// Of a ping: whether the window answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered: Option<bool>,
}

const U32: FieldType = FieldType::Int { bytes: 4, signed: false, hex: false };
const U64: FieldType = FieldType::Int { bytes: 8, signed: false, hex: false };
const BOOL: FieldType = FieldType::Bool { bytes: 1 };

impl Mark {
    /// What it is as an event; `None` for a kind of a later version.
    fn event(&self) -> Option<MarkEvent> {
        Some(match (self.kind.as_str(), self.press) {
            ("note", _) => MarkEvent::Note,
            ("key", Some(false)) => MarkEvent::KeyRelease,
            ("key", _) => MarkEvent::KeyPress,
            ("button", Some(false)) => MarkEvent::ButtonRelease,
            ("button", _) => MarkEvent::ButtonPress,
            ("wheel", _) => MarkEvent::Wheel,
            ("ping", _) => MarkEvent::Ping,
            _ => return None,
        })
    }

    /// Its fields, with their types and bytes.
    fn fields(&self) -> Vec<(&'static str, FieldType, Vec<u8>)> {
        let text = |text: &str| {
            let bytes = text.as_bytes();
            let len = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
            [&len.to_le_bytes()[..], &bytes[..usize::from(len)]].concat()
        };
        let mut fields = Vec::new();
        let mut add = |name, of, value: Option<Vec<u8>>| {
            fields.extend(value.map(|value| (name, of, value)));
        };
        let number = |value: Option<u32>| value.map(|value| value.to_le_bytes().to_vec());
        add("text", FieldType::CountedAnsi, self.text.as_deref().map(text));
        add("class", FieldType::CountedAnsi, self.class.as_deref().map(text));
        add("code", U32, number(self.code));
        add("sent_ns", U64, self.sent_ns.map(|ns| ns.to_le_bytes().to_vec()));
        add("answered", BOOL, self.answered.map(|yes| vec![u8::from(yes)]));
        add("mode", FieldType::CountedAnsi, self.mode.as_deref().map(text));
        add("pid", U32, number(self.pid));
        add("uid", U32, number(Some(self.uid)));
        add("sender", U32, number(Some(self.sender)));
        fields
    }
}

impl MarkFile {
    /// The member's name and content.
    pub fn entry(&self) -> Option<(String, Vec<u8>)> {
        let json = serde_json::to_vec(self).ok()?;
        Some((super::members::MARKS.to_owned(), json))
    }

    /// Which marks of input it holds, whatever it says; `None` if nothing tells.
    fn input_marks(&self) -> Option<InputMarks> {
        let modes = self.marks.iter().filter_map(|mark| mark.mode.as_deref());
        let said = std::iter::once(self.holds.as_str());
        said.chain(modes).filter_map(InputMarks::of_name).max()
    }

    /// Adds the marks to the events of a trace.
    pub(super) fn apply(mut self, trace: &mut Trace) {
        self.marks.truncate(MAX_MARKS);
        self.marks.sort_by_key(|mark| mark.time_ns);
        trace.meta.input_marks = self.input_marks();
        if self.refused > 0 {
            trace.warnings.add(format!(
                "{} marks were refused: their senders sent too many at once",
                self.refused
            ));
        }
        let mut added = Vec::with_capacity(self.marks.len());
        for mark in &self.marks {
            let Some(event) = mark.event() else { continue };
            let fields = mark.fields();
            let time = Time::from_nanos(mark.time_ns);
            let about = mark.pid.unwrap_or(mark.sender);
            let nobody = trace.strings.intern("");
            let unknown = |trace: &mut Trace| trace.threads.unknown_of(ProcessId::UNKNOWN, nobody);
            let known = trace.threads.at(about, time);
            let thread = known.unwrap_or_else(|| unknown(trace));
            let head = EventHead {
                time,
                cpu: u16::MAX,
                thread,
                kind: kind(trace, event, &fields),
                stack: StackId::EMPTY,
            };
            added.push((head, fields.into_iter().flat_map(|(_, _, bytes)| bytes).collect()));
        }
        trace.events.merge(&added);
    }
}

fn kind(
    trace: &mut Trace,
    event: MarkEvent,
    fields: &[(&'static str, FieldType, Vec<u8>)],
) -> KindId {
    let fields = fields.iter();
    let fields = fields.map(|(name, of, _)| Field::new(trace.strings.intern(name), *of)).collect();
    let kind = EventKind {
        provider: trace.strings.intern("unhitch-mark"),
        provider_guid: MARK_PROVIDER,
        name: trace.strings.intern(event.name()),
        id: event as u16,
        layout: Layout { fields, pointer_bytes: 8 },
        ..EventKind::default()
    };
    trace.events.intern_kind(kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use unhitch_model::Value;

    #[test]
    fn a_trace_never_claims_less_than_its_marks_are() {
        let key = |mode: &str| Mark { mode: Some(mode.to_owned()), ..Mark::default() };
        let full = || vec![key("private"), key("full")];
        for (holds, marks, expected) in [
            ("off", vec![], Some(InputMarks::Off)),
            ("private", vec![], Some(InputMarks::Private)),
            ("", vec![], None),
            ("", vec![Mark::default(), key("private")], Some(InputMarks::Private)),
            ("off", full(), Some(InputMarks::Full)),
            ("all", vec![key("later")], None),
        ] {
            let mut trace = Trace::default();
            let holds = holds.to_owned();
            MarkFile { holds, marks, ..MarkFile::default() }.apply(&mut trace);
            assert_eq!(trace.meta.input_marks, expected);
        }
    }

    #[test]
    fn marks_become_events_between_those_that_are_there() {
        let note = |time_ns, text: &str| Mark {
            time_ns,
            uid: 1000,
            sender: 7,
            kind: "note".to_owned(),
            text: Some(text.to_owned()),
            ..Mark::default()
        };
        let key = Mark {
            time_ns: 15,
            kind: "key".to_owned(),
            class: Some("letter".to_owned()),
            press: Some(false),
            mode: Some("private".to_owned()),
            ..Mark::default()
        };
        let later = Mark { kind: "smell".to_owned(), ..note(16, "x") };
        let mut trace = Trace::default();
        let head = |ns: u64| EventHead {
            time: Time::from_nanos(ns),
            cpu: 0,
            thread: unhitch_model::ThreadId::IDLE,
            kind: trace.events.intern_kind(EventKind::default()),
            stack: StackId::EMPTY,
        };
        let heads = [10, 20].map(head);
        heads.into_iter().for_each(|head| trace.events.push(head, b"payload"));
        let marks = vec![note(30, "end"), key, note(5, "begin \u{e4}"), later];
        MarkFile { version: 1, refused: 3, marks, ..MarkFile::default() }.apply(&mut trace);
        let times: Vec<u64> = trace.events.time.iter().map(|time| time.nanos()).collect();
        assert_eq!(times, [5, 10, 15, 20, 30]);
        assert_eq!(trace.events.payload(1), b"payload");
        let shown = |event: usize| {
            let fields = trace.events.fields(event).into_iter();
            let named = fields.map(|(name, value)| format!("{}={value}", trace.name(name)));
            named.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown(0), "text=begin \u{e4} uid=1000 sender=7");
        assert_eq!(shown(2), "class=letter mode=private uid=0 sender=0");
        assert_eq!(trace.events.kind_of(2).unwrap().id, MarkEvent::KeyRelease as u16);
        let name = trace.strings.find("sender").unwrap();
        assert_eq!(trace.events.field(4, name).as_ref().and_then(Value::as_u64), Some(7));
        assert!(trace.warnings.lines().any(|line| line.starts_with("3 marks were refused")));
    }
}
