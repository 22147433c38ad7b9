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

impl Service<'_> {
    pub(super) fn answer(&mut self, incoming: Incoming) {
        let Incoming { client, peer, request } = incoming;
        let is_owner = peer.class == Class::Owner;
        let is_other = !matches!(request, Request::Save(_) | Request::Marks(..));
        if let Some(wait) = is_other.then(|| self.too_fast(peer, Rate::Others)).flatten() {
            return self.server.answer(client, &slow_down("too many requests", Some(wait)));
        }
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

    /// How long a user must wait; `None` if it may go on. The owner always may.
    fn too_fast(&mut self, peer: Peer, rate: Rate) -> Option<Duration> {
        if peer.class == Class::Owner {
            return None;
        }
        self.rates.take(peer.uid, rate, Instant::now()).err()
    }

    fn wanted_by(
        &mut self,
        client: ClientId,
        peer: Peer,
        save: SaveRequest,
    ) -> Result<Wanted, Value> {
        let now = Instant::now();
        let kind = save.trigger.as_ref().map_or("client", |trigger| trigger.kind.as_str());
        let key = format!("{kind} of uid {}", peer.uid);
        if let Some(wait) = self.too_fast(peer, Rate::Saves) {
            // Whoever asks by hand is told, and need not be told again by the next trace.
            if !save.by_hand {
                self.gate.suppress(&key, reason::USER, 1);
            }
            let mut answer = slow_down("too many saves", Some(wait));
            answer["suppressed"] = json!(true);
            return Err(answer);
        }
        let mut after = Duration::ZERO;
        if !save.by_hand {
            after = self.config.limits.delay;
            let interval = self.config.limits.min_interval;
            let busy = self.is_busy();
            if let Err((why, wait)) = self.gate.pass(&key, interval, busy, now) {
                let mut answer = slow_down(why, Some(wait));
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
        if let Some(wait) = self.too_fast(peer, Rate::Saves) {
            return Err(slow_down("too many notes", Some(wait)));
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
        let limit = match is_owner {
            true => usize::MAX,
            false => self.rates.marks(peer.uid, marks.len(), Instant::now()),
        };
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

    /// What a class may see of a verdict.
    fn may_read(&self, class: Class) -> bool {
        class == Class::Owner || self.config.group_reads != GroupReads::Nothing
    }

    /// A verdict as the client may see it.
    pub(super) fn verdict_for(&self, client: ClientId, verdict: &Value) -> Value {
        match self.server.class_of(client) {
            Some(class) if self.may_read(class) => verdict.clone(),
            _ => json!({ "error": "access.group_reads of this recorder is \"nothing\"" }),
        }
    }

    pub(super) fn publish_saved(&mut self, saved: &Saved, save: &SaveFile) {
        let (path, reads) = (saved.path.to_string_lossy().into_owned(), self.config.group_reads);
        self.server.publish(|class| {
            let open = class == Class::Owner || reads != GroupReads::Nothing;
            json!({ "saved": {
                "path": path, "by_hand": save.by_hand, "trigger": trigger(save, open),
            }})
        });
    }

    pub(super) fn publish_judged(&mut self, path: &Path, save: &SaveFile, verdict: &Value) {
        let (path, reads) = (path.to_string_lossy().into_owned(), self.config.group_reads);
        self.server.publish(|class| {
            let open = class == Class::Owner || reads != GroupReads::Nothing;
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

fn trigger(save: &SaveFile, open: bool) -> Option<&TriggerFacts> {
    save.trigger.as_ref().filter(|_| open)
}

/// The answer to a request that comes too fast.
fn slow_down(why: &str, wait: Option<Duration>) -> Value {
    let ms = wait.map_or(0, |wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
    json!({ "error": why, "retry_after_ms": ms })
}
