//! [`Summary`]: what a comparison needs of a recording.

use super::facts::Facts;
use super::path::Path;
use super::waits::{WaitKey, WaitSum, waits};
use super::who::{Who, plain_function};
use crate::candidate::StallKind;
use crate::diagnose::{Query, Stall, diagnose};
use crate::explain::partition;
use crate::{Analysis, What};
use serde::Serialize;
use std::collections::BTreeMap;
use unhitch_model::ThreadId;

/// A recording, without anything that means something only in it.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Where and how it was recorded.
    pub facts: Facts,
    /// The stall that is compared: the worst, or that of the thread that was asked for.
    pub stall: Option<StallSummary>,
    /// All stalls by victim and pattern: how many, and how long in all.
    pub stalls: BTreeMap<(Who, &'static str), (u64, u64)>,
    /// Waits by what they mean.
    pub waits: BTreeMap<WaitKey, WaitSum>,
}

/// A stall, without ids.
#[derive(Clone, Serialize, Debug)]
pub struct StallSummary {
    /// Who suffered.
    pub victim: Who,
    /// False for the longest wait of a thread, where that is no stall.
    pub is_stall: bool,
    /// The cause by name.
    pub pattern: &'static str,
    /// Who is responsible.
    pub culprit: Option<Who>,
    /// The culprit's function; empty if it is not known.
    pub function: String,
    /// How the cause is known.
    pub evidence: &'static str,
    /// The cause in words.
    pub cause: String,
    /// When it began, nanoseconds since the recording's origin.
    pub start_ns: u64,
    /// How long it took, nanoseconds.
    pub duration_ns: u64,
    /// Where the time went: what, by whom, nanoseconds. Sums to the duration.
    #[serde(skip)]
    pub partition: BTreeMap<(What, Option<Who>), u64>,
    /// The main path of its chain.
    pub path: Path,
}

impl Summary {
    /// Reduces a recording. Its stall is that of `focus`, if given, whether or not it is one; else
    /// the worst that `query` asks for.
    pub fn new(analysis: &Analysis<'_>, file: &str, query: &Query, focus: Option<&Who>) -> Self {
        Self::of_found(analysis, file, (query, &diagnose(analysis, query)), focus).0
    }

    /// The same of what `query` has found already, with the stall that is compared.
    pub fn of_found(
        analysis: &Analysis<'_>,
        file: &str,
        (query, found): (&Query, &[Stall]),
        focus: Option<&Who>,
    ) -> (Self, Option<Stall>) {
        let mut stalls: BTreeMap<(Who, &'static str), (u64, u64)> = BTreeMap::new();
        for stall in found.iter().filter(|stall| is_stall(stall)) {
            let window = stall.explanation.window;
            let victim = Who::of(analysis, stall.candidate.victim, window.end);
            let sum = stalls.entry((victim, stall.finding.pattern.name())).or_default();
            *sum = (sum.0 + 1, sum.1 + window.duration_ns());
        }
        let of_focus = focus.map(|focus| {
            let victims = threads_of(analysis, focus);
            let ask = Query { victims, ..query.clone() };
            if ask.victims.is_empty() { Vec::new() } else { diagnose(analysis, &ask) }
        });
        let compared = of_focus.as_deref().unwrap_or(found).first().cloned();
        let summary = Self {
            facts: Facts::of(analysis, file),
            stall: compared.as_ref().map(|stall| StallSummary::of(analysis, stall)),
            stalls,
            waits: waits(analysis),
        };
        (summary, compared)
    }
}

/// The threads of a name.
fn threads_of(analysis: &Analysis<'_>, who: &Who) -> Vec<ThreadId> {
    let end = analysis.timeline.window().end;
    let threads = analysis.trace.threads.iter().map(|(id, _)| id);
    threads.filter(|id| !id.is_idle() && Who::of(analysis, *id, end) == *who).collect()
}

const fn is_stall(stall: &Stall) -> bool {
    !matches!(stall.candidate.kind, StallKind::Longest | StallKind::Idle)
}

impl StallSummary {
    fn of(analysis: &Analysis<'_>, stall: &Stall) -> Self {
        let window = stall.explanation.window;
        let who = |thread| Who::of(analysis, thread, window.end);
        let mut sums: BTreeMap<(What, Option<Who>), u64> = BTreeMap::new();
        for share in partition(analysis, &stall.explanation) {
            let responsible = share.who.map(who).map(|who| match share.what {
                // Which of a busy program's threads had the CPU is chance.
                What::WaitedForCpu => Who { thread: String::new(), ..who },
                _ => who,
            });
            *sums.entry((share.what, responsible)).or_default() += share.ns;
        }
        Self {
            victim: who(stall.candidate.victim),
            is_stall: is_stall(stall),
            pattern: stall.finding.pattern.name(),
            culprit: stall.finding.culprit.map(who),
            function: plain_function(&stall.finding.function).to_owned(),
            evidence: stall.finding.evidence.name(),
            cause: stall.finding.cause.to_string(),
            start_ns: window.start.since(analysis.trace.origin()),
            duration_ns: window.duration_ns(),
            partition: sums,
            path: Path::of(analysis, &stall.explanation),
        }
    }
}
