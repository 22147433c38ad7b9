//! A thread in JSON.

use crate::Analysis;
use serde::Serialize;
use unhitch_model::{ThreadId, Time};

#[derive(Serialize, Debug)]
pub(super) struct ThreadJson {
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) process: String,
    pub(super) thread: String,
    /// The path of its control group, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) control_group: Option<String>,
}

pub(super) fn thread_json(analysis: &Analysis<'_>, thread: ThreadId, at: Time) -> ThreadJson {
    let trace = analysis.trace;
    ThreadJson {
        pid: trace.threads.process_of(thread).pid,
        tid: trace.threads.get(thread).tid,
        process: trace.process_name(thread, at).to_owned(),
        thread: trace.thread_name(thread, at).to_owned(),
        control_group: trace.machine.group_path(&trace.threads, thread).map(str::to_owned),
    }
}
