//! What a program promises ([`Answer`]) and what it then measured ([`Outcome`]): the content of
//! `lab.json`.
//!
//! Pattern and kind names are those of `why --json`. *Why an `Outcome` can say no:* a hang is a
//! race against the scheduler; a test on a machine too busy for it must be able to tell "not found"
//! from "not there".

use crate::stage::Stage;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What an analysis of the recording should say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Name of the process that hangs.
    pub victim_process: String,
    /// Name of its thread that hangs.
    pub victim_thread: String,
    /// Name of the process that is the cause.
    pub culprit_process: String,
    /// Name of its thread that is the cause.
    pub culprit_thread: String,
    /// Threads that a complete answer names as well, such as those that kept the culprit from its
    /// CPU.
    pub also_named: Vec<String>,
    /// `cause.pattern`.
    pub pattern: String,
    /// The values of `kind` that are right; the first fits best.
    pub kinds: Vec<String>,
    /// The shortest stall that counts as this hang, milliseconds.
    pub min_duration_ms: u64,
    /// The function in which the victim hangs: on its wait stack, or on its samples where it
    /// computes.
    pub victim_function: String,
    /// The function of the culprit that ends the hang: on its wake stack. Empty where no wake-up
    /// ends it.
    pub release_function: String,
    /// The function in which the culprit spends the hang: on its samples, or on the stack at which
    /// it is preempted.
    pub culprit_function: String,
}

/// A stretch of time, nanoseconds of CLOCK_MONOTONIC: the clock of our recordings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// When it began.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
}

impl Span {
    /// Its length, nanoseconds.
    pub const fn duration_ns(self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Its length, seconds.
    pub fn seconds(self) -> f64 {
        self.duration_ns() as f64 / 1e9
    }
}

/// What the program measured with its own clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// The whole run.
    pub run: Span,
    /// The longest time that the victim did not get on.
    pub hang: Span,
    /// Counts and times of the program's own, the unit in the name (`lateness_ms`).
    pub figures: BTreeMap<String, u64>,
}

/// How a run went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// [`Program::name`](crate::Program::name).
    pub program: String,
    /// The process in which it ran.
    pub pid: u32,
    /// What an analysis of the recording should say, if the hang happened.
    pub answer: Answer,
    /// What the program itself measured.
    pub measured: Measured,
    /// True when the hang was as long as the answer promises.
    pub happened: bool,
    /// Why the hang did not happen, or what else was unusual about the run.
    pub reason: Option<String>,
}

impl Outcome {
    /// Judges by the longest `hang` whether what `answer` promises came about.
    pub(crate) fn new(stage: &Stage, answer: Answer, hang: Span, figures: &[(&str, u64)]) -> Self {
        let happened = hang.duration_ns() >= answer.min_duration_ms * 1_000_000;
        let too_short = (!happened).then(|| {
            let (got_ms, min_ms) = (hang.duration_ns() as f64 / 1e6, answer.min_duration_ms);
            format!("the longest wait was {got_ms:.1} ms where at least {min_ms} ms were expected")
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

    /// The same, but if there is a `doubt` the hang is not the one that was promised.
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

    /// The outcome of a program that this machine cannot run.
    pub(crate) fn impossible(stage: &Stage, answer: Answer, reason: String) -> Self {
        Self { reason: Some(reason), ..Self::new(stage, answer, Span::default(), &[]) }
    }
}

/// The doubt about a hang that should have come from `who` computing: most of its `span` it had no
/// CPU.
pub(crate) fn no_cpu_doubt(who: &str, span: Span, cpu_ns: u64) -> Option<String> {
    let (cpu_ms, span_ms) = (cpu_ns / 1_000_000, span.duration_ns() / 1_000_000);
    (cpu_ms * 2 < span_ms).then(|| {
        format!("the machine is too busy: {who} had {cpu_ms} ms of CPU time in {span_ms} ms")
    })
}
