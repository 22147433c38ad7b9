//! A trace without context switches: what the CPU samples show, if there are any, and what to
//! record next time.

use super::case::Case;
use super::finding::{Evidence, Finding, Pattern};
use crate::wording::recording;
use crate::wording::sentence::{Sentence, duration, plural, sentence};

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let trace = case.analysis.trace;
    if !trace.switches.is_empty() {
        return None;
    }
    if trace.samples.is_empty() {
        return Some(nothing_recorded(case));
    }
    let (victim, window) = (case.candidate.victim, case.explanation.window);
    let samples = case.analysis.samples.of_thread(trace, victim, window).len() as u64;
    let ran_ns = samples.saturating_mul(trace.meta.sample_period_ns);
    let whole = duration(case.duration_ns());
    let mut sentences = vec![match samples {
        0 => sentence!("No CPU sample of these {} shows it on a CPU.", whole),
        _ => sentence!(
            "{} {} it on a CPU, which is about {} of these {}.",
            plural(samples, "CPU sample"),
            if samples == 1 { "shows" } else { "show" },
            duration(ran_ns),
            whole
        ),
    }];
    let computing = case.computing(victim, &[window]);
    if computing.samples > 0 {
        sentences.push(computing.sentence);
    }
    let computed = case.is_most(ran_ns);
    let (pattern, evidence, cause) = match computed {
        true => (
            Pattern::CpuBound,
            Evidence::Inferred,
            sentence!("its own computation{}.", computing.place),
        ),
        false => (
            Pattern::Unknown,
            Evidence::Lost,
            Sentence::from(
                "not known: most of the time it was not seen on a CPU, and the trace holds no \
                 context switches that would show why.",
            ),
        ),
    };
    let mut finding = Finding {
        evidence,
        evidence_words: Sentence::from(
            "the trace has only CPU samples: they show now and then who ran, but never who waited \
             for whom",
        ),
        sentences,
        ..case.finding(pattern, cause)
    };
    match computed {
        true => (finding.culprit, finding.function) = (Some(victim), computing.function),
        false => finding.advice = recording::switches(trace.meta.system).to_owned(),
    }
    Some(finding)
}

/// What is known of a thread where nothing shows when it ran: nothing, not even that it waited.
fn nothing_recorded(case: &Case<'_>) -> Finding {
    Finding {
        evidence: Evidence::Lost,
        evidence_words: Sentence::from(
            "the trace holds neither context switches nor CPU samples, so nothing shows when a \
             thread ran, waited, or for whom",
        ),
        sentences: vec![sentence!(
            "Nothing was recorded of what {} did.",
            case.name(case.candidate.victim)
        )],
        advice: recording::switches(case.analysis.trace.meta.system).to_owned(),
        ..case.finding(
            Pattern::Unknown,
            Sentence::from("not known: neither context switches nor CPU samples were recorded."),
        )
    }
}
