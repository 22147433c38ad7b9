//! What the list of traces shows of a trace once it was read: facts, and the worst stall.

use serde_json::{Map, Value, json};
use unhitch_analysis::{Analysis, Stall, answer};

/// The number of CPUs of the machine, as far as known.
pub(crate) fn cpus(analysis: &Analysis<'_>) -> usize {
    analysis.cpus.cpus().max(usize::from(analysis.trace.meta.cpus))
}

/// What a trace says about itself.
pub(crate) fn facts(analysis: &Analysis<'_>) -> Map<String, Value> {
    let meta = &analysis.trace.meta;
    let facts = [
        ("format", json!(meta.format.name())),
        ("host", json!(meta.host)),
        ("kernel", json!(meta.kernel)),
        ("duration_ns", json!(analysis.timeline.window().duration_ns())),
        ("cpus", json!(cpus(analysis))),
    ];
    facts.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// What the list shows of a verdict that is stored beside its trace; none if there is no answer in
/// it, or one of an earlier version.
pub(crate) fn stored(verdict: &Value) -> Option<Map<String, Value>> {
    let (stall, whole) = (&verdict["stall"], verdict["duration_ns"].as_u64()?);
    let first = match verdict["stalls"].as_u64()? {
        0 => nothing(),
        stalls => json!({
            "text": verdict["line"].as_str()?,
            "pattern": stall["pattern"].as_str()?,
            "victim": stall["who"].as_str()?,
            "cause": stall["cause"].as_str()?,
            "duration_ns": stall["duration_ns"].as_u64()?,
            "severity": stall["duration_ns"].as_u64()? as f64 / whole.max(1) as f64,
            "stalls": stalls,
        }),
    };
    Some(Map::from_iter([("first_answer".to_owned(), first)]))
}

/// The answer about a trace without a stall.
fn nothing() -> Value {
    json!({ "text": null, "severity": 0, "stalls": 0 })
}

/// The worst stall in short; `stalls` has the worst first.
pub(crate) fn verdict(analysis: &Analysis<'_>, stalls: &[Stall]) -> Value {
    let Some(worst) = stalls.first() else {
        return nothing();
    };
    let (window, whole) = (worst.explanation.window, analysis.timeline.window());
    json!({
        "text": answer::one_line(analysis, worst).trim(),
        "pattern": worst.finding.pattern.name(),
        "victim": unhitch_analysis::wording::units::thread(analysis.trace, worst.candidate.victim, window.end),
        "cause": worst.finding.cause.to_string(),
        "duration_ns": window.duration_ns(),
        "severity": window.duration_ns() as f64 / whole.duration_ns().max(1) as f64,
        "stalls": stalls.len(),
    })
}
