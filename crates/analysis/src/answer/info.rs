//! What a trace holds, as text and as JSON (a contract: fields may be added, never changed or
//! removed).

use super::machine::MachineJson;
use super::saved::{SavedJson, marks};
use crate::wording::units;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use unhitch_model::{InputMarks, Origin, ProcessId, Trace, Value};

/// What `unhitch info` prints.
#[derive(Serialize, Debug)]
pub struct Info {
    version: u32,
    format: &'static str,
    /// What the times in text, on the page and of `--from` and `--to` count from, as nanoseconds of
    /// the trace's clock.
    origin_ns: u64,
    /// The same in words.
    origin: &'static str,
    /// Its wall-clock time, nanoseconds since the Unix epoch; null where the trace does not tell.
    origin_epoch_ns: Option<i64>,
    duration_ns: u64,
    /// The span that all CPUs cover, on the trace's clock: `duration_ns` is its length.
    covered_start_ns: u64,
    covered_end_ns: u64,
    /// Switches, wake-ups, samples and events of providers outside it.
    outside_events: u64,
    cpus: usize,
    events: u64,
    buffers: u64,
    switches: usize,
    wakings: usize,
    samples: usize,
    idle_samples: usize,
    stacks: usize,
    processes: usize,
    threads: usize,
    images: usize,
    lost: u64,
    /// Number of places where events are missing that nobody counted.
    lost_uncounted: usize,
    by_kind: BTreeMap<String, u64>,
    stack_counts: BTreeMap<String, u64>,
    /// What the source of the trace cannot tell.
    lacks: Vec<&'static str>,
    warnings: Vec<String>,
    host: String,
    kernel: String,
    producer: String,
    recorder: String,
    notes: String,
    /// Why it was saved, if the trace says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    saved: Option<SavedJson>,
    /// Marks of people and programs, by kind.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    marks: BTreeMap<&'static str, u64>,
    /// Which marks of input it holds, if it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    input_marks: Option<&'static str>,
    spans: Vec<SpanJson>,
    /// What the machine reported of itself; null where nothing was recorded.
    machine: Option<MachineJson>,
}

#[derive(Serialize, Debug)]
struct SpanJson {
    cpu: u16,
    start_ns: u64,
    end_ns: u64,
}

impl Info {
    /// Counts what `trace` holds.
    pub fn new(trace: &Trace) -> Self {
        let cpus: BTreeSet<u16> = trace.spans.iter().map(|span| span.cpu).collect();
        let (origin, covered) = (trace.origin(), trace.common_window());
        let epoch_ns =
            trace.meta.epoch_ns.map(|zero| zero.saturating_add(i128::from(origin.nanos())));
        Self {
            version: 1,
            format: trace.meta.format.name(),
            origin_ns: origin.nanos(),
            origin: match trace.meta.origin {
                Origin::SessionStart => {
                    "the start of the trace's first session, as in PerfView and WPA"
                }
                _ => "the first event of the trace",
            },
            origin_epoch_ns: epoch_ns.and_then(|ns| i64::try_from(ns).ok()),
            duration_ns: covered.duration_ns(),
            covered_start_ns: covered.start.nanos(),
            covered_end_ns: covered.end.nanos(),
            outside_events: trace.uncovered_events(),
            cpus: cpus.len().max(usize::from(trace.meta.cpus)),
            events: trace.by_kind.values().fold(0, |sum, count| sum.saturating_add(*count)),
            buffers: trace.meta.buffers,
            switches: trace.switches.len(),
            wakings: trace.wakings.len(),
            samples: trace.samples.len(),
            idle_samples: (0..trace.samples.len())
                .filter(|&sample| !trace.samples.is_work(sample))
                .count(),
            stacks: trace.stacks.len() - 1,
            processes: trace.threads.processes().filter(|(id, _)| *id != ProcessId(0)).count(),
            threads: trace.threads.len() - 1,
            images: trace.modules.len(),
            lost: trace.lost_events(),
            lost_uncounted: trace.losses.iter().filter(|loss| loss.events == 0).count(),
            by_kind: trace.by_kind.clone(),
            stack_counts: trace.stack_counts.clone(),
            lacks: trace.meta.lacks.iter().map(|lack| lack.name()).collect(),
            warnings: trace.warnings.lines().collect(),
            host: trace.meta.host.clone(),
            kernel: trace.meta.kernel.clone(),
            producer: trace.meta.producer.clone(),
            recorder: trace.meta.recorder.clone(),
            notes: trace.meta.notes.clone(),
            saved: trace.meta.save.as_ref().map(|save| SavedJson::new(trace, save)),
            marks: marks(trace),
            input_marks: trace.meta.input_marks.map(InputMarks::name),
            spans: trace
                .spans
                .iter()
                .map(|s| SpanJson {
                    cpu: s.cpu,
                    start_ns: s.window.start.nanos(),
                    end_ns: s.window.end.nanos(),
                })
                .collect(),
            machine: MachineJson::new(trace),
        }
    }

    /// When the origin was, on the wall clock and on the machine's own: ` (2020-07-29
    /// 00:07:00.5691234 UTC)`.
    fn origin_clocks(&self) -> String {
        /// 1970 in 100 ns since 1601.
        const UNIX: u64 = 116_444_736_000_000_000;
        let ticks =
            self.origin_epoch_ns.and_then(|ns| u64::try_from(ns / 100).ok()?.checked_add(UNIX));
        let wall = ticks.map(|ticks| format!("{} UTC", Value::FileTime(ticks)));
        let own = (self.origin_ns > 0)
            .then(|| format!("{:.9} s on the machine's clock", self.origin_ns as f64 / 1e9));
        let clocks: Vec<String> = wall.into_iter().chain(own).collect();
        if clocks.is_empty() { String::new() } else { format!(" ({})", clocks.join(", ")) }
    }

    fn lost_text(&self) -> String {
        match (self.lost, self.lost_uncounted) {
            (0, 1..) => "an unknown number".to_owned(),
            (lost, 1..) => format!("at least {}", units::count(lost)),
            (lost, 0) => units::count(lost),
        }
    }

    /// The same in words.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let mut line = |name: &str, value: &str| {
            if !value.is_empty() {
                let _ = writeln!(out, "{name:<11} {value}");
            }
        };
        line("format", self.format);
        line("host", &self.host);
        line("kernel", &self.kernel);
        line("producer", &self.producer);
        line("recorder", &self.recorder);
        line("notes", &self.notes);
        if let Some(saved) = &self.saved {
            saved.lines().iter().enumerate().for_each(|(at, text)| {
                line(if at == 0 { "saved" } else { "" }, text);
            });
        }
        let counts: Vec<String> = self
            .marks
            .iter()
            .map(|(name, count)| format!("{} {name}", units::count(*count)))
            .collect();
        line("marks", &counts.join(", "));
        line("input marks", self.input_marks.unwrap_or_default());
        line("times", &format!("count from {}{}", self.origin, self.origin_clocks()));
        let since_origin = |ns: u64| units::seconds(ns.saturating_sub(self.origin_ns));
        let length = units::duration(self.duration_ns);
        // CPUs that wrote no event are none of those that are listed.
        let (listed, all) = (self.spans.len(), units::plural(self.cpus as u64, "CPU"));
        let cpus = match listed {
            0 => format!("none of {all}"),
            listed if listed < self.cpus => format!("the {listed} of {all} that wrote events"),
            1 => all,
            _ => format!("all {all}"),
        };
        let (start, end) = (since_origin(self.covered_start_ns), since_origin(self.covered_end_ns));
        line("covered", &format!("{length} by {cpus}, from {start} to {end}"));
        if self.outside_events > 0 {
            line("", &format!("{} outside it", units::plural(self.outside_events, "event")));
        }
        for span in &self.spans {
            line(
                "",
                &format!(
                    "CPU {} was recorded for {}",
                    span.cpu,
                    units::duration(span.end_ns.saturating_sub(span.start_ns))
                ),
            );
        }
        line("events", &units::count(self.events));
        line("switches", &units::count(self.switches as u64));
        line("wake-ups", &units::count(self.wakings as u64));
        let idle = match self.idle_samples {
            0 => String::new(),
            idle => format!(" ({} of them on idle CPUs)", units::count(idle as u64)),
        };
        line("samples", &format!("{}{idle}", units::count(self.samples as u64)));
        line("stacks", &units::count(self.stacks as u64));
        line("processes", &units::count(self.processes as u64));
        line("threads", &units::count(self.threads as u64));
        line("modules", &units::count(self.images as u64));
        line("lost", &self.lost_text());
        if let Some(machine) = &self.machine {
            machine.lines(&mut line);
        }
        for (name, counts) in [("by kind", &self.by_kind), ("of stacks", &self.stack_counts)] {
            if !counts.is_empty() {
                let _ = writeln!(out, "{name}");
            }
            for (kind, count) in counts {
                let _ = writeln!(out, "  {:>13}  {kind}", units::count(*count));
            }
        }
        for warning in &self.warnings {
            let _ = writeln!(out, "WARNING  {warning}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unhitch_model::{Loss, Window};

    #[test]
    fn a_trace_says_which_input_marks_it_holds() {
        let info = |input_marks| {
            let mut trace = Trace::default();
            trace.meta.input_marks = input_marks;
            let info = Info::new(&trace);
            (info.text(), serde_json::to_value(&info).unwrap()["input_marks"].clone())
        };
        for marks in [InputMarks::Off, InputMarks::Private, InputMarks::Full] {
            let (text, json) = info(Some(marks));
            assert!(text.contains(&format!("\ninput marks {}\n", marks.name())), "{text}");
            assert_eq!(json, marks.name());
        }
        let (text, json) = info(None);
        assert!(!text.contains("input marks") && json.is_null(), "{text}");
    }

    #[test]
    fn what_nobody_counted_is_not_none() {
        for (lost, text) in [
            (&[][..], "0"),
            (&[0], "an unknown number"),
            (&[5, 0], "at least 5"),
            (&[u64::MAX, 7], "18,446,744,073,709,551,615"),
        ] {
            let loss = |&events: &u64| Loss { cpu: 0, window: Window::default(), events };
            let trace = Trace { losses: lost.iter().map(loss).collect(), ..Trace::default() };
            let shown = Info::new(&trace).text();
            assert!(shown.contains(&format!("lost        {text}\n")), "{shown}");
        }
    }
}
