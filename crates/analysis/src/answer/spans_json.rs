//! The sentences of an answer as JSON, in their parts.

use super::clauses::{ClauseKind, clauses};
use super::thread_json::{ThreadJson, thread_json};
use crate::Analysis;
use crate::diagnose::Stall;
use crate::wording::{Span, Subject};
use serde::Serialize;
use unhitch_model::ThreadId;

/// A sentence of the answer.
#[derive(Serialize, Debug)]
pub(super) struct SentenceJson {
    /// `headline`, `story`, `cause`, `groups`, `machine`, `input`, `evidence` or `remedy`.
    kind: &'static str,
    /// Their texts, joined, are the sentence.
    spans: Vec<SpanJson>,
}

/// A part of a sentence; at most one of the fields besides its text is there.
#[derive(Serialize, Debug, Default)]
struct SpanJson {
    text: String,
    /// The thread that it names.
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<ThreadJson>,
    /// Of the threads of one name that it names, the one that counts most.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_of_group: Option<ThreadJson>,
    /// The whole stack, root first.
    #[serde(skip_serializing_if = "Option::is_none")]
    stack: Option<Vec<String>>,
    /// The function that it names.
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
}

/// The sentences of an answer; chain and partition have fields of their own.
pub(super) fn sentences(analysis: &Analysis<'_>, stall: &Stall) -> Vec<SentenceJson> {
    let is_sentence = |kind| !matches!(kind, ClauseKind::Chain | ClauseKind::Partition);
    let at = stall.explanation.window.end;
    let who = |thread: ThreadId| Some(thread_json(analysis, thread, at));
    let span_json = |span: Span| {
        let Span { text, subject, .. } = span;
        let mut json = SpanJson::default();
        match subject {
            Subject::Text | Subject::Instructions(_) | Subject::Command => {}
            Subject::Thread(thread) => json.thread = who(thread),
            Subject::ThreadGroup(thread) => json.first_of_group = who(thread),
            Subject::Stack(stack) => json.stack = Some(analysis.trace.stack_names(stack)),
            Subject::Function => json.function = Some(text.clone()),
            Subject::Duration(ns) => json.duration_ns = Some(ns),
            Subject::Count(count) => json.count = Some(count),
        }
        SpanJson { text, ..json }
    };
    let clauses = clauses(analysis, stall).into_iter().filter(|clause| is_sentence(clause.kind));
    clauses
        .map(|clause| SentenceJson {
            kind: clause.kind.name(),
            spans: clause.sentence.spans.into_iter().map(span_json).collect(),
        })
        .collect()
}
