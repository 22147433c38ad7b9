//! A thread in the JSON of an answer.

use crate::Analysis;
use serde::Serialize;
use unhitch_model::{ThreadId, Time};

#[derive(Serialize, Debug)]
pub(super) struct ThreadJson {
    pub pid: u32,
    pub tid: u32,
    pub process: String,
    pub thread: String,
}

pub(super) fn thread_json(analysis: &Analysis<'_>, thread: ThreadId, at: Time) -> ThreadJson {
    let trace = analysis.trace;
    ThreadJson {
        pid: trace.threads.process_of(thread).pid,
        tid: trace.threads.get(thread).tid,
        process: trace.process_name(thread, at).to_owned(),
        thread: trace.thread_name(thread, at).to_owned(),
    }
}
