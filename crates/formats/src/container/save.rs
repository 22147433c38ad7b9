//! `save.json`: why the recorder saved the trace, and what it did not save before.

use serde::{Deserialize, Serialize};
use unhitch_model::{SaveReason, Suppressed, Time, Trace, TriggerHit, Window};

/// Maximum number of triggers whose suppressed hits are read.
const MAX_SUPPRESSED: usize = 256;

/// The content of `save.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SaveFile {
    /// Version of this layout: 1.
    pub version: u32,
    /// A person asked for it. Retention never deletes such a trace.
    pub by_hand: bool,
    /// What triggered it; null if nothing did.
    pub trigger: Option<TriggerFacts>,
    /// What triggered since the trace before and was not saved.
    pub suppressed: Vec<SuppressedHits>,
}

/// What a trigger saw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TriggerFacts {
    /// Its name in the configuration; empty for a client's.
    pub name: String,
    /// What it looks at.
    pub kind: String,
    /// What it saw, in words.
    pub text: String,
    /// The process that suffered.
    pub pid: Option<u32>,
    /// The thread that suffered.
    pub tid: Option<u32>,
    /// When that began.
    pub from_ns: Option<u64>,
    /// When it ended, or when it was seen.
    pub to_ns: Option<u64>,
}

/// How often a trigger fired without a save.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SuppressedHits {
    /// The trigger.
    pub name: String,
    /// How often.
    pub times: u64,
    /// Why it was not saved.
    pub reason: String,
}

impl SaveFile {
    /// The member's name and content.
    pub fn entry(&self) -> Option<(String, Vec<u8>)> {
        let json = serde_json::to_vec(self).ok()?;
        Some((super::members::SAVE.to_owned(), json))
    }

    /// Tells the trace why it was saved.
    pub(super) fn apply(self, trace: &mut Trace) {
        let trigger = self.trigger.map(|trigger| TriggerHit {
            name: trigger.name,
            kind: trigger.kind,
            text: trigger.text,
            pid: trigger.pid,
            tid: trigger.tid,
            window: trigger.from_ns.zip(trigger.to_ns).map(|(from, to)| {
                Window::new(Time::from_nanos(from), Time::from_nanos(to.max(from)))
            }),
        });
        let suppressed = self.suppressed.into_iter().take(MAX_SUPPRESSED).map(|hits| Suppressed {
            name: hits.name,
            times: hits.times,
            reason: hits.reason,
        });
        trace.meta.save =
            Some(SaveReason { by_hand: self.by_hand, trigger, suppressed: suppressed.collect() });
    }
}
