//! `unhitch judge-trace`: the process without rights that judges a trace which was just saved.

use crate::done::Done;
use crate::terminal::print_json;
use anyhow::Context;
use rustix::io::fcntl_dupfd_cloexec;
use serde_json::{Value, json};
use unhitch_analysis::answer::{self, SavedJson};
use unhitch_analysis::wording::units;
use unhitch_analysis::{Analysis, Query, Rules};
use unhitch_confine::{Limits, compute_only};
use unhitch_record::JudgeProcess;

/// Limits of the process. It maps the trace.
const LIMITS: Limits =
    Limits { address_space_bytes: 16 << 30, cpu_seconds: Some(60), open_files: 64 };
/// The recorder and whatever hangs come first.
const NICENESS: i32 = 10;
/// Maximum length of a text in the verdict, bytes.
const MAX_TEXT: usize = 24 << 10;
/// Maximum length of the line, bytes.
const MAX_LINE: usize = 400;

/// This program, to be run as a process without rights.
pub fn judge() -> JudgeProcess {
    // This link of the kernel's always leads to the running program, whatever is at its path by
    // now.
    JudgeProcess::new("/proc/self/exe".into(), "judge-trace")
}

/// Gives up all rights, then judges the trace on standard input.
pub fn judge_trace() -> anyhow::Result<Done> {
    // Neither matters if it fails.
    let _ = rustix::thread::set_name(c"unhitch-judge");
    let _ = rustix::process::setpriority_process(None, NICENESS);
    let missing = compute_only(&LIMITS);
    let file = fcntl_dupfd_cloexec(std::io::stdin(), 3).context("no trace")?;
    let trace = unhitch_formats::open_file(file.into())?.for_text();
    let rules = Rules::default();
    let analysis = Analysis::new(&trace, &rules);
    let stalls = unhitch_analysis::diagnose(&analysis, &Query::default());
    let line = match stalls.first() {
        Some(stall) => answer::one_line(&analysis, stall),
        None => "no stall was found".to_owned(),
    };
    let stall = stalls.first().map(|stall| {
        let window = stall.explanation.window;
        json!({
            "kind": stall.candidate.kind.name(),
            "pattern": stall.finding.pattern.name(),
            "start_ns": window.start.nanos(),
            "end_ns": window.end.nanos(),
            "duration_ns": window.duration_ns(),
            "victim": named(&analysis, stall.candidate.victim, window.end),
            "culprit": stall.finding.culprit.map(|who| named(&analysis, who, window.end)),
            "evidence": stall.finding.evidence.name(),
            "who": units::thread(&trace, stall.candidate.victim, window.end),
            "cause": stall.finding.cause.to_string(),
        })
    });
    let window = trace.common_window();
    let saved = trace.meta.save.as_ref().map(|save| SavedJson::new(&trace, save));
    print_json(&json!({
        "version": 1,
        "found": !stalls.is_empty(),
        "stalls": stalls.len(),
        "line": cut(&line, MAX_LINE),
        "stall": stall,
        "text": cut(&answer::text(&analysis, &stalls, 1), MAX_TEXT),
        "host": trace.meta.host,
        "start_ns": window.start.nanos(),
        "duration_ns": window.duration_ns(),
        "saved": saved,
        "confined": missing.is_empty(),
    }))?;
    Ok(Done::Yes)
}

fn named(
    analysis: &Analysis<'_>,
    thread: unhitch_model::ThreadId,
    at: unhitch_model::Time,
) -> Value {
    let trace = analysis.trace;
    let process = trace.threads.process_of(thread);
    json!({
        "pid": process.pid,
        "tid": trace.threads.get(thread).tid,
        "thread": trace.thread_name(thread, at),
        "process": trace.process_name(thread, at),
    })
}

/// At most so many bytes of a text, on one line if it was on one.
fn cut(text: &str, max: usize) -> String {
    let text = text.trim();
    if text.len() <= max {
        return text.to_owned();
    }
    let end = (0..=max).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut(" a b ", 9), "a b");
        assert_eq!(cut("äöü", 3), "ä…");
        assert_eq!(cut("", 0), "");
    }
}
