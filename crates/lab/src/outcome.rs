//! What the analysis should find ([`Answer`]) and what the program measured ([`Outcome`]): the
//! content of `lab.json`.
//!
//! The names of patterns and kinds are those of `why --json`. *Why an `Outcome` can be negative:* a
//! hang is a race against the scheduler, and a test on a busy machine must be able to distinguish
//! "not found" from "did not happen".

use crate::span::Span;
use crate::stage::Stage;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the analysis of the recording should find.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Name of the process that hangs.
    pub victim_process: String,
    /// Name of the thread that hangs.
    pub victim_thread: String,
    /// Name of the process that causes the hang.
    pub culprit_process: String,
    /// Name of the thread that causes the hang.
    pub culprit_thread: String,
    /// Other threads that a complete answer mentions, such as those that kept the culprit off its
    /// CPU.
    pub also_named: Vec<String>,
    /// `cause.pattern`.
    pub pattern: String,
    /// The acceptable values of `kind`, best first.
    pub kinds: Vec<String>,
    /// Minimum duration of a stall that counts as this hang, in milliseconds.
    pub min_duration_ms: u64,
    /// The function in which the victim hangs: on its wait stack, or on its samples if it computes.
    pub victim_function: String,
    /// The function of the culprit that ends the hang: on its wake stack. Empty if no wake-up ends
    /// the hang.
    pub release_function: String,
    /// The function in which the culprit spends the hang: on its samples, or on its stack when it
    /// is preempted.
    pub culprit_function: String,
}

/// What the program measured with its own clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// The whole run.
    pub run: Span,
    /// The longest time in which the victim made no progress.
    pub hang: Span,
    /// Counts and times specific to the program, with the unit in the name (`lateness_ms`).
    pub figures: BTreeMap<String, u64>,
}

/// How a run went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// [`Program::name`](crate::Program::name).
    pub program: String,
    /// The pid of its process.
    pub pid: u32,
    /// What the analysis of the recording should find, if the hang happened.
    pub answer: Answer,
    /// What the program itself measured.
    pub measured: Measured,
    /// True if the hang was long enough for the answer.
    pub happened: bool,
    /// Why the hang did not happen, or what else was unusual about the run.
    pub reason: Option<String>,
}

impl Outcome {
    /// Decides by the longest `hang` whether the hang that `answer` describes has happened.
    pub(crate) fn new(stage: &Stage, answer: Answer, hang: Span, figures: &[(&str, u64)]) -> Self {
        let happened = hang.duration_ns() >= answer.min_duration_ms * 1_000_000;
        let too_short = (!happened).then(|| {
            let (got_ms, min_ms) = (hang.duration_ns() as f64 / 1e6, answer.min_duration_ms);
            format!("the longest wait was {got_ms:.1} ms, but at least {min_ms} ms were expected")
        });
        let reasons: Vec<String> = too_short.into_iter().chain(stage.interruption()).collect();
        Self {
            program: stage.program().to_owned(),
            pid: std::process::id(),
            answer,
            measured: Measured {
                run: stage.run_so_far(),
                hang,
                figures: figures.iter().map(|&(name, value)| (name.to_owned(), value)).collect(),
            },
            happened,
            reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
        }
    }

    /// Marks the hang as not the expected one if there is a `doubt`.
    pub(crate) fn unless(mut self, doubt: Option<String>) -> Self {
        if doubt.is_some() {
            self.happened = false;
            self.reason = self
                .reason
                .into_iter()
                .chain(doubt)
                .reduce(|reasons, doubt| format!("{reasons}; {doubt}"));
        }
        self
    }

    /// The outcome if this machine cannot run the program.
    pub(crate) fn impossible(stage: &Stage, answer: Answer, reason: String) -> Self {
        Self { reason: Some(reason), ..Self::new(stage, answer, Span::default(), &[]) }
    }
}

/// A doubt about a hang that should be caused by `who` computing, if it had no CPU for most of its
/// `span`.
pub(crate) fn no_cpu_doubt(who: &str, span: Span, cpu_ns: u64) -> Option<String> {
    let (cpu_ms, span_ms) = (cpu_ns / 1_000_000, span.duration_ns() / 1_000_000);
    (cpu_ms * 2 < span_ms).then(|| {
        format!("the machine is too busy: {who} had {cpu_ms} ms of CPU time in {span_ms} ms")
    })
}
