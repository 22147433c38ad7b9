//! A trace without context switches: says what the CPU samples tell, and what to record next time.

use super::{Case, Evidence, Finding, Pattern};
use crate::answer::{recording, units};

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let trace = case.analysis.trace;
    if !trace.switches.is_empty() {
        return None;
    }
    let (victim, window) = (case.candidate.victim, case.explanation.window);
    let samples = case.analysis.samples.of_thread(trace, victim, window).len() as u64;
    let ran_ns = samples.saturating_mul(trace.meta.sample_period_ns);
    let whole = units::duration(case.duration_ns());
    let mut story = vec![match samples {
        0 => format!("No CPU sample of these {whole} shows it on a CPU."),
        _ => format!(
            "{} show it on a CPU, which is about {} of these {whole}.",
            units::plural(samples, "CPU sample"),
            units::duration(ran_ns)
        ),
    }];
    let computing = case.computing(victim, &[window]);
    if computing.samples > 0 {
        story.push(computing.sentence);
    }
    let computed = case.is_most(ran_ns);
    Some(Finding {
        pattern: if computed { Pattern::CpuBound } else { Pattern::Unknown },
        culprit: computed.then_some(victim),
        crowd: None,
        evidence: if computed { Evidence::Inferred } else { Evidence::Lost },
        evidence_words: "there are CPU samples only: who ran is seen from time to time, who waited for whom never".to_owned(),
        story,
        cause: match computed {
            true => format!("its own computation{}.", computing.place),
            false => "not known: it waited, and the trace holds no context switches that would tell for what.".to_owned(),
        },
        function: if computed { computing.function } else { String::new() },
        advice: if computed { String::new() } else { recording::switches(trace.meta.format).to_owned() },
        operation: None,
    })
}
