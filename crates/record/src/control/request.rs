//! What clients ask for: docs/control-socket.md.

use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::time::Duration;
use unhitch_formats::container::{Mark, TriggerFacts};
use unhitch_model::InputMarks;

/// Maximum length of a trigger's or a mark's text, bytes.
const MAX_TEXT_BYTES: usize = 256;
/// Maximum length of a trigger's kind.
const MAX_KIND_BYTES: usize = 32;
/// Maximum length of a note, bytes.
const MAX_NOTE_BYTES: usize = 4096;
/// Maximum number of marks in a request.
const MAX_MARKS: usize = 256;
/// Maximum delay of a save.
const MAX_DELAY_MS: u64 = 10_000;

/// A request.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Request {
    Save(SaveRequest),
    /// The marks that are valid, how many are not, and what is wrong with the first of those.
    Marks(Vec<Mark>, usize, Option<String>),
    /// What to add to the notes of a trace.
    Note(NoteRequest),
    Status,
    /// Which marks of input the subscriber sends, if it says so.
    Subscribe(Option<InputMarks>),
    Configuration,
    Reload,
}

/// A request for a save.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct SaveRequest {
    pub(crate) notes: Option<String>,
    pub(crate) by_hand: bool,
    pub(crate) trigger: Option<TriggerFacts>,
    pub(crate) after: Option<Duration>,
    pub(crate) verdict: bool,
}

/// A request to add to the notes of a trace.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub(crate) struct NoteRequest {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct SaveJson {
    notes: Option<String>,
    by_hand: Option<bool>,
    trigger: Option<TriggerFacts>,
    after_ms: Option<u64>,
    verdict: bool,
}

const UNKNOWN: &str = "request not understood; a request is a line of JSON with one member: save, \
                       marks, note, status, subscribe, configuration or reload";

/// Reads a line.
pub(super) fn parse(line: &[u8]) -> Result<Request, String> {
    let message: Map<String, Value> = serde_json::from_slice(line).map_err(|_| UNKNOWN)?;
    let mut members = message.into_iter();
    let (Some((name, value)), None) = (members.next(), members.next()) else {
        return Err(UNKNOWN.to_owned());
    };
    match name.as_str() {
        "save" => save(value).map(Request::Save),
        "marks" => marks(value),
        "note" => note(value).map(Request::Note),
        "status" => Ok(Request::Status),
        "subscribe" => subscribe(&value).map(Request::Subscribe),
        "configuration" => Ok(Request::Configuration),
        "reload" => Ok(Request::Reload),
        _ => Err(UNKNOWN.to_owned()),
    }
}

fn save(value: Value) -> Result<SaveRequest, String> {
    let json: SaveJson = serde_json::from_value(value).map_err(|error| format!("save: {error}"))?;
    let after_ms = json.after_ms.filter(|ms| *ms > MAX_DELAY_MS);
    if after_ms.is_some() {
        return Err(format!("save: after_ms is at most {MAX_DELAY_MS}"));
    }
    Ok(SaveRequest {
        notes: json.notes,
        by_hand: json.by_hand.unwrap_or(true),
        trigger: json.trigger.map(trigger).transpose()?,
        after: json.after_ms.map(Duration::from_millis),
        verdict: json.verdict,
    })
}

fn note(value: Value) -> Result<NoteRequest, String> {
    let note: NoteRequest =
        serde_json::from_value(value).map_err(|error| format!("note: {error}"))?;
    if note.text.trim().is_empty() || note.text.len() > MAX_NOTE_BYTES {
        return Err(format!("note: a text of at most {MAX_NOTE_BYTES} bytes is expected"));
    }
    Ok(note)
}

fn subscribe(value: &Value) -> Result<Option<InputMarks>, String> {
    let Some(input) = value.get("input") else { return Ok(None) };
    let known = input.as_str().and_then(InputMarks::of_name);
    known.map(Some).ok_or_else(|| "subscribe: input is off, private or full".to_owned())
}

/// A client's trigger. Names are those of the configuration's, so it has none.
fn trigger(trigger: TriggerFacts) -> Result<TriggerFacts, String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let kind = &trigger.kind;
    if kind.is_empty() || kind.len() > MAX_KIND_BYTES || !kind.chars().all(is_word) {
        return Err(format!(
            "save: a trigger's kind is a word of at most {MAX_KIND_BYTES} letters and digits"
        ));
    }
    if trigger.text.len() > MAX_TEXT_BYTES {
        return Err(format!("save: a trigger's text has at most {MAX_TEXT_BYTES} bytes"));
    }
    Ok(TriggerFacts { name: String::new(), ..trigger })
}

fn marks(value: Value) -> Result<Request, String> {
    let Value::Array(values) = value else {
        return Err("marks: a list is expected".to_owned());
    };
    if values.len() > MAX_MARKS {
        return Err(format!("marks: at most {MAX_MARKS} in a request"));
    }
    let (mut valid, mut refused, mut reason) = (Vec::new(), 0, None);
    for value in values {
        match mark(value) {
            Ok(mark) => valid.push(mark),
            Err(why) => {
                refused += 1;
                reason.get_or_insert(why);
            }
        }
    }
    Ok(Request::Marks(valid, refused, reason))
}

/// The classes of keys.
pub(crate) const KEY_CLASSES: [&str; 9] =
    ["letter", "digit", "space", "enter", "delete", "navigation", "function", "modifier", "other"];

/// A mark with the members that its kind has; others are left out.
fn mark(value: Value) -> Result<Mark, String> {
    let mark: Mark = serde_json::from_value(value).map_err(|error| format!("a mark: {error}"))?;
    let time_ns = mark.time_ns;
    let kind = mark.kind;
    if kind == "note" {
        let text = mark.text.filter(|text| !text.is_empty()).ok_or("a note has no text")?;
        if text.len() > MAX_TEXT_BYTES {
            return Err(format!("a note has at most {MAX_TEXT_BYTES} bytes"));
        }
        return Ok(Mark { time_ns, kind, text: Some(text), ..Mark::default() });
    }
    if kind == "ping" {
        let sent_ns = mark.sent_ns.ok_or("a ping has no sent_ns")?;
        let answered = mark.answered.ok_or("a ping does not say whether it was answered")?;
        let (sent_ns, answered) = (Some(sent_ns), Some(answered));
        return Ok(Mark { time_ns, kind, pid: mark.pid, sent_ns, answered, ..Mark::default() });
    }
    let mode = mark.mode.as_deref();
    if !matches!(mode, Some("private" | "full")) {
        return Err("input without a mode: private or full".to_owned());
    }
    let input = Mark { time_ns, mode: mark.mode, pid: mark.pid, ..Mark::default() };
    match kind.as_str() {
        "key" => {
            let class = mark.class.ok_or("a key has no class")?;
            if !KEY_CLASSES.contains(&class.as_str()) {
                return Err(format!("no class of keys: one of {}", KEY_CLASSES.join(", ")));
            }
            if mark.code.is_some() && input.mode.as_deref() != Some("full") {
                return Err("a private key has no code".to_owned());
            }
            let press = Some(mark.press.unwrap_or(true));
            Ok(Mark { kind, class: Some(class), press, code: mark.code, ..input })
        }
        "button" => {
            let press = Some(mark.press.unwrap_or(true));
            Ok(Mark { kind, press, code: mark.code, ..input })
        }
        "wheel" => Ok(Mark { kind, ..input }),
        _ => Err("no kind of marks: one of note, key, button, wheel, ping".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: Value) -> Result<Request, String> {
        parse(value.to_string().as_bytes())
    }

    #[test]
    fn only_what_is_documented_is_understood() {
        for wrong in [&b""[..], b"GET / HTTP/1.1", b"{}", b"[]", b"{\"a\":1}", b"\xff\xfe", b"null"]
        {
            assert!(parse(wrong).unwrap_err().contains("not understood"));
        }
        assert!(read(json!({"save": {}, "status": {}})).is_err());
        assert_eq!(read(json!({"status": {"later": 1}})), Ok(Request::Status));
        for wrong in [
            json!({"save": {"notes": 7}}),
            json!({"save": {"after_ms": 10_001}}),
            json!({"save": {"after_ms": -1}}),
            json!({"save": {"trigger": {"kind": "a b"}}}),
            json!({"save": {"trigger": {"kind": "x".repeat(33)}}}),
            json!({"save": {"trigger": {"kind": "x", "text": "y".repeat(257)}}}),
            json!({"note": {"path": "/a.hitch"}}),
            json!({"note": {"path": "/a.hitch", "text": " "}}),
            json!({"note": {"path": "/a.hitch", "text": "x".repeat(4097)}}),
            json!({"subscribe": {"input": "all"}}),
            json!({"marks": {}}),
            json!({"marks": vec![json!({}); 257]}),
        ] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_subscriber_may_say_which_input_it_sends() {
        let full = Request::Subscribe(Some(InputMarks::Full));
        assert_eq!(read(json!({"subscribe": {"input": "full"}})), Ok(full));
        assert_eq!(read(json!({"subscribe": {}})), Ok(Request::Subscribe(None)));
    }

    #[test]
    fn a_save_has_the_defaults_of_a_person() {
        let save = |value| match read(json!({ "save": value })) {
            Ok(Request::Save(save)) => save,
            other => panic!("{other:?}"),
        };
        assert_eq!(save(json!({})), SaveRequest { by_hand: true, ..SaveRequest::default() });
        let trigger = json!({"name": "fake", "kind": "hot_key", "text": "typing", "pid": 7});
        let full = save(json!({"notes": null, "by_hand": false, "trigger": trigger,
            "after_ms": 500, "verdict": true, "later": 1}));
        assert_eq!(full.trigger.as_ref().map(|trigger| trigger.name.as_str()), Some(""));
        assert_eq!(
            (full.by_hand, full.verdict, full.after),
            (false, true, Some(Duration::from_millis(500)))
        );
    }

    #[test]
    fn marks_are_checked_one_by_one() {
        let marks = json!([
            {"kind": "note", "text": "a", "uid": 0, "code": 3},
            {"kind": "note"},
            {"kind": "note", "text": "x".repeat(257)},
            {"kind": "key", "class": "letter", "mode": "private", "press": false, "pid": 9},
            {"kind": "key", "class": "letter", "mode": "private", "code": 38},
            {"kind": "key", "class": "letter", "code": 38},
            {"kind": "key", "class": "a", "mode": "private"},
            {"kind": "key", "class": "letter", "mode": "full", "code": 38, "text": "a"},
            {"kind": "button", "mode": "private", "code": 1},
            {"kind": "wheel", "mode": "private", "code": 1},
            {"kind": "ping", "sent_ns": 5, "answered": true, "pid": 9},
            {"kind": "ping"},
            {"kind": "smell", "mode": "full"},
            7
        ]);
        let Ok(Request::Marks(valid, refused, reason)) = read(json!({ "marks": marks })) else {
            panic!("not understood")
        };
        assert_eq!((valid.len(), refused, reason.as_deref()), (6, 8, Some("a note has no text")));
        // What the kind does not have is left out: who sent it is for the recorder to say.
        assert_eq!(
            valid[0],
            Mark { kind: "note".into(), text: Some("a".into()), ..Mark::default() }
        );
        assert_eq!((valid[1].press, valid[1].code), (Some(false), None));
        assert_eq!((valid[2].code, valid[2].text.as_ref()), (Some(38), None));
    }
}
