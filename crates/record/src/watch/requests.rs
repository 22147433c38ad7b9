//! Answers clients: docs/control-socket.md.

use super::config::GroupReads;
use super::gate::reason;
use super::service::{Service, Wanted};
use super::worker::Task;
use crate::control::{Class, ClientId, Incoming, NoteRequest, Peer, Rate, Request, SaveRequest};
use crate::marks::Sender;
use crate::save::Saved;
use crate::sys;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use unhitch_formats::container::{Mark, SaveFile, TriggerFacts};

/// What agents and programs call the triggers of their saves. Each has an interval of its own; all
/// that clients invent share one.
const KNOWN_KINDS: [&str; 4] = ["hot_key", "not_answering", "log_line", "program"];

impl Service<'_> {
    pub(super) fn answer(&mut self, incoming: Incoming) {
        let Incoming { client, peer, request } = incoming;
        let is_owner = peer.class == Class::Owner;
        let answer = match request {
            Request::Save(save) => match self.wanted_by(client, peer, save) {
                Ok(wanted) => return self.wanted.push(wanted),
                Err(answer) => answer,
            },
            Request::Marks(marks, refused, reason) => self.take_marks(peer, marks, refused, reason),
            Request::Note(note) => match self.note(client, peer, note) {
                Ok(()) => return,
                Err(answer) => answer,
            },
            Request::Status => json!({ "status": self.status_json(peer.class) }),
            Request::Subscribe(input) => return self.server.subscribe(client, input),
            Request::Configuration | Request::Reload if !is_owner => {
                json!({ "error": "only the recorder's owner and root may ask for this" })
            }
            Request::Configuration => self.configuration(),
            Request::Reload => self.reload(),
        };
        self.server.answer(client, &answer);
    }

    fn wanted_by(
        &mut self,
        client: ClientId,
        peer: Peer,
        save: SaveRequest,
    ) -> Result<Wanted, Value> {
        let now = Instant::now();
        let key = interval_key(peer, &save);
        if let Err(wait) = self.server.rates.take(peer, Rate::Saves, now) {
            // Whoever asks by hand is told, and need not be told again by the next trace.
            if !save.by_hand {
                self.gate.suppress(&key, reason::USER, 1);
            }
            let mut answer = slow_down("too many saves", wait);
            answer["suppressed"] = json!(true);
            return Err(answer);
        }
        let mut after = Duration::ZERO;
        if !save.by_hand {
            after = self.config.limits.delay;
            let interval = self.config.limits.min_interval;
            let busy = self.is_busy_for(peer.member());
            if let Err((why, wait)) = self.gate.pass(&key, peer.class, interval, busy, now) {
                let mut answer = slow_down(why, wait);
                answer["suppressed"] = json!(true);
                return Err(answer);
            }
        }
        Ok(Wanted {
            due: now + save.after.unwrap_or(after),
            by_hand: save.by_hand,
            notes: save.notes,
            trigger: save.trigger,
            key,
            client: Some(client),
            uid: Some(peer.uid),
            member: peer.member(),
            wants_verdict: save.verdict,
        })
    }

    /// Has a note added to a trace that its sender had saved. The owner may add to any of those.
    ///
    /// It counts as a save: the trace is written again.
    fn note(&mut self, client: ClientId, peer: Peer, note: NoteRequest) -> Result<(), Value> {
        let may = |uid: u32| peer.class == Class::Owner || uid == peer.uid;
        if !self.asked.iter().any(|(path, uid)| *path == note.path && may(*uid)) {
            return Err(json!({ "error": "this recorder made no such trace for you" }));
        }
        if let Err(wait) = self.server.rates.take(peer, Rate::Saves, Instant::now()) {
            return Err(slow_down("too many notes", wait));
        }
        match self.give(Task::Note(client, note)) {
            true => Ok(()),
            false => Err(json!({ "error": "the recorder is about to end" })),
        }
    }

    fn take_marks(
        &mut self,
        peer: Peer,
        marks: Vec<Mark>,
        invalid: usize,
        reason: Option<String>,
    ) -> Value {
        let is_owner = peer.class == Class::Owner;
        let limit = self.server.rates.marks(peer, marks.len(), Instant::now());
        let now = sys::monotonic_now();
        let sender = Sender { uid: peer.uid, pid: peer.pid, is_owner, now };
        let result = self.marks.add(sender, marks, self.config.input, limit);
        let mut answer =
            json!({ "marks": { "taken": result.taken, "refused": result.refused + invalid } });
        if let Some(reason) = reason.or(result.reason) {
            answer["marks"]["reason"] = json!(reason);
        }
        answer
    }

    fn configuration(&self) -> Value {
        let Some(file) = &self.file else {
            return json!({ "error": "this recorder has no configuration file" });
        };
        match std::fs::read_to_string(file) {
            Ok(text) => {
                json!({ "configuration": { "file": file.to_string_lossy(), "text": text } })
            }
            Err(error) => json!({ "error": format!("{}: {error}", file.display()) }),
        }
    }

    /// Whether the client may see what names programs: verdicts and warnings.
    pub(super) fn may_read(&self, client: ClientId) -> bool {
        let class = self.server.class_of(client);
        class.is_some_and(|class| may_read(class, self.config.group_reads))
    }

    /// A verdict as the client may see it.
    pub(super) fn verdict_for(&self, client: ClientId, verdict: &Value) -> Value {
        match self.may_read(client) {
            true => verdict.clone(),
            false => json!({ "error": "access.group_reads of this recorder is \"nothing\"" }),
        }
    }

    pub(super) fn publish_saved(&mut self, saved: &Saved, save: &SaveFile) {
        let (path, reads) = (saved.path.to_string_lossy().into_owned(), self.config.group_reads);
        self.server.publish(|class| {
            let open = may_read(class, reads);
            json!({ "saved": {
                "path": path, "by_hand": save.by_hand, "trigger": trigger(save, open),
            }})
        });
    }

    pub(super) fn publish_judged(&mut self, path: &Path, save: &SaveFile, verdict: &Value) {
        let (path, reads) = (path.to_string_lossy().into_owned(), self.config.group_reads);
        self.server.publish(|class| {
            let open = may_read(class, reads);
            let mut judged = json!({
                "path": path, "by_hand": save.by_hand, "trigger": trigger(save, open),
            });
            if open {
                judged["verdict"] = verdict.clone();
            }
            json!({ "judged": judged })
        });
    }
}

fn may_read(class: Class, reads: GroupReads) -> bool {
    class == Class::Owner || reads != GroupReads::Nothing
}

/// What the minimum interval of a client's automatic saves is counted by.
fn interval_key(peer: Peer, save: &SaveRequest) -> String {
    let kind = save.trigger.as_ref().map(|trigger| trigger.kind.as_str());
    let may_name = |kind: &&str| peer.class == Class::Owner || KNOWN_KINDS.contains(kind);
    format!("{} of uid {}", kind.filter(may_name).unwrap_or("client"), peer.uid)
}

fn trigger(save: &SaveFile, open: bool) -> Option<&TriggerFacts> {
    save.trigger.as_ref().filter(|_| open)
}

/// The answer to a request that comes too fast.
fn slow_down(why: &str, wait: Duration) -> Value {
    let ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    json!({ "error": why, "retry_after_ms": ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_a_member_of_the_group_invents_no_intervals() {
        let key = |class, kind: &str| {
            let trigger = TriggerFacts { kind: kind.to_owned(), ..TriggerFacts::default() };
            let save = SaveRequest { trigger: Some(trigger), ..SaveRequest::default() };
            interval_key(Peer { pid: 1, uid: 7, class }, &save)
        };
        assert_eq!(key(Class::Group, "not_answering"), "not_answering of uid 7");
        assert_eq!(key(Class::Group, "word-1"), key(Class::Group, "word-2"));
        assert_eq!(key(Class::Owner, "backup"), "backup of uid 7");
    }
}
