//! Why the recorder saved a trace, and the marks in it, in words and as JSON.

use crate::wording::units;
use serde::Serialize;
use std::collections::BTreeMap;
use unhitch_model::{MARK_PROVIDER, MarkEvent, SaveReason, Trace};

/// Why a trace was saved.
#[derive(Clone, Serialize, Debug)]
pub struct SavedJson {
    by_hand: bool,
    trigger: Option<TriggerJson>,
    suppressed: Vec<SuppressedJson>,
}

#[derive(Clone, Serialize, Debug)]
struct TriggerJson {
    name: String,
    kind: String,
    text: String,
    pid: Option<u32>,
    tid: Option<u32>,
    from_ns: Option<u64>,
    to_ns: Option<u64>,
}

#[derive(Clone, Serialize, Debug)]
struct SuppressedJson {
    name: String,
    times: u64,
    reason: String,
}

impl SavedJson {
    /// Of a trace that says it.
    pub fn new(trace: &Trace, save: &SaveReason) -> Self {
        let shown = |text: &str| trace.shown(text.to_owned());
        Self {
            by_hand: save.by_hand,
            trigger: save.trigger.as_ref().map(|hit| TriggerJson {
                name: shown(&hit.name),
                kind: shown(&hit.kind),
                text: shown(&hit.text),
                pid: hit.pid,
                tid: hit.tid,
                from_ns: hit.window.map(|window| window.start.nanos()),
                to_ns: hit.window.map(|window| window.end.nanos()),
            }),
            suppressed: save
                .suppressed
                .iter()
                .map(|hits| SuppressedJson {
                    name: shown(&hits.name),
                    times: hits.times,
                    reason: shown(&hits.reason),
                })
                .collect(),
        }
    }

    /// In words, one line each.
    pub(super) fn lines(&self) -> Vec<String> {
        let who = if self.by_hand { "by hand" } else { "automatically" };
        let mut lines = vec![match &self.trigger {
            None => who.to_owned(),
            Some(hit) => format!("{who}: {}", hit.words()),
        }];
        lines.extend(self.suppressed.iter().map(SuppressedJson::words));
        lines
    }
}

impl TriggerJson {
    fn words(&self) -> String {
        let name = match (self.name.as_str(), self.kind.as_str()) {
            ("", kind) => kind.to_owned(),
            (name, kind) if name == kind => name.to_owned(),
            (name, kind) => format!("{name} ({kind})"),
        };
        if self.text.is_empty() { name } else { format!("{name}: {}", self.text) }
    }
}

impl SuppressedJson {
    fn words(&self) -> String {
        let times =
            if self.times == 1 { "once".to_owned() } else { format!("{} times", self.times) };
        format!("not saved before: {}, {times} ({})", self.name, self.reason)
    }
}

/// What an answer begins with if a trigger saved the trace: what the trigger saw.
pub fn seen_by_trigger(trace: &Trace) -> Option<String> {
    let save = SavedJson::new(trace, trace.meta.save.as_ref()?);
    let hit = save.trigger.as_ref()?;
    let ago = hit.to_ns.map(|to| trace.common_window().end.nanos().saturating_sub(to));
    let ago = ago.map_or(String::new(), |ago| {
        format!(", {} before the end of the recording", units::duration(ago))
    });
    let mut text = format!("TRIGGER  {}{ago}\n", hit.words());
    for line in save.suppressed.iter().map(SuppressedJson::words) {
        text.push_str(&format!("         {line}\n"));
    }
    Some(text)
}

/// How many marks of each kind Unhitch's own provider has, by name.
pub(super) fn marks(trace: &Trace) -> BTreeMap<&'static str, u64> {
    let events = &trace.events;
    let kinds = events.kinds().map(|(_, kind)| match kind.provider_guid {
        MARK_PROVIDER => MarkEvent::of_id(kind.id),
        _ => None,
    });
    let kinds: Vec<Option<MarkEvent>> = kinds.collect();
    let mut counts = BTreeMap::new();
    if kinds.iter().any(Option::is_some) {
        for kind in &events.kind {
            if let Some(mark) = kinds.get(kind.0 as usize).copied().flatten() {
                *counts.entry(mark.name()).or_default() += 1;
            }
        }
    }
    counts
}
