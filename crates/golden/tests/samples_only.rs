//! What is left of a Windows trace without context switches: its samples, the delays that Windows
//! reported, and what to record next time.

use crate::seen::Seen;
use unhitch_analysis::answer;
use unhitch_analysis::patterns::{Evidence, Pattern};
use unhitch_analysis::{Analysis, Rules};
use unhitch_analysis::{Query, StallKind};
use unhitch_model::{Switches, Trace, Wakings};

/// The same trace, had only samples been recorded.
fn samples_of(seen: &Seen) -> Trace {
    Trace { switches: Switches::default(), wakings: Wakings::default(), ..seen.trace.clone() }
}

#[test]
fn a_reported_delay_is_told_with_what_is_missing() {
    let golden = unhitch_golden::move_my_mouse();
    let (trace, rules) = (samples_of(&Seen::on_windows(&golden)), Rules::default());
    let analysis = Analysis::new(&trace, &rules);
    let stalls = unhitch_analysis::diagnose(&analysis, &Query::default());
    let [stall] = &stalls[..] else { panic!("{} stalls", stalls.len()) };
    assert_eq!(
        (stall.candidate.kind, stall.finding.pattern, stall.finding.evidence),
        (StallKind::UiDelay, Pattern::Unknown, Evidence::Lost)
    );
    assert_eq!(stall.explanation.window.duration_ns(), golden.figures.hang_ns);
    let text = answer::text(&analysis, &stalls, 1);
    for words in [
        "did not look at its messages for 1.125 s",
        "tick \"Context switch call stacks\"",
        "xperf -on",
        "-stackwalk",
        "wpr -start CPU",
    ] {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
}

#[test]
fn without_a_report_the_samples_are_pointed_to() {
    let golden = unhitch_golden::sixty_three_cores();
    let (trace, rules) = (samples_of(&Seen::on_windows(&golden)), Rules::default());
    let analysis = Analysis::new(&trace, &rules);
    assert!(unhitch_analysis::diagnose(&analysis, &Query::default()).is_empty());
    let text = answer::text(&analysis, &[], 1);
    assert!(
        text.contains("holds no context switches")
            && text.contains("unhitch hot TRACE")
            && text.contains("xperf -on"),
        "{text}"
    );
    // Where the CPUs' time went is all there.
    let hot = unhitch_analysis::self_samples(&trace, 0..trace.samples.len());
    assert!(
        hot.iter()
            .any(|place| place.label(&trace) == "RtlFindNextForwardRunClear"
                && place.samples == 7_547)
    );
}
