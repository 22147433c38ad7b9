//! What a trace holds, as text and as JSON (a contract: fields may be added, never changed or removed).

use super::machine::MachineJson;
use super::units;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use unhitch_model::{ProcessId, Trace};

/// What `unhitch info` prints.
#[derive(Serialize, Debug)]
pub struct Info {
    version: u32,
    format: &'static str,
    duration_ns: u64,
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
    by_kind: BTreeMap<String, u64>,
    warnings: Vec<String>,
    host: String,
    kernel: String,
    producer: String,
    notes: String,
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
        Self {
            version: 1,
            format: trace.meta.format.name(),
            duration_ns: trace.common_window().duration_ns(),
            cpus: cpus.len().max(usize::from(trace.meta.cpus)),
            events: trace.by_kind.values().sum(),
            buffers: trace.meta.buffers,
            switches: trace.switches.len(),
            wakings: trace.wakings.len(),
            samples: trace.samples.len(),
            idle_samples: (0..trace.samples.len()).filter(|&sample| !trace.samples.is_work(sample)).count(),
            stacks: trace.stacks.len() - 1,
            processes: trace.threads.processes().filter(|(id, _)| *id != ProcessId(0)).count(),
            threads: trace.threads.len() - 1,
            images: trace.modules.len(),
            lost: trace.losses.iter().map(|loss| loss.events).sum(),
            by_kind: trace.by_kind.clone(),
            warnings: trace.warnings.lines().collect(),
            host: trace.meta.host.clone(),
            kernel: trace.meta.kernel.clone(),
            producer: trace.meta.producer.clone(),
            notes: trace.meta.notes.clone(),
            spans: trace
                .spans
                .iter()
                .map(|s| SpanJson { cpu: s.cpu, start_ns: s.window.start.nanos(), end_ns: s.window.end.nanos() })
                .collect(),
            machine: MachineJson::new(trace),
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
        line("notes", &self.notes);
        // CPUs that wrote no event are none of those that are listed.
        let (listed, all) = (self.spans.len(), units::plural(self.cpus as u64, "CPU"));
        let cpus = match listed {
            0 => format!("none of {all}"),
            listed if listed < self.cpus => format!("the {listed} of {all} that wrote events"),
            _ => format!("all of {all}"),
        };
        line("covered", &format!("{} by {cpus}", units::duration(self.duration_ns)));
        for span in &self.spans {
            line("", &format!("CPU {} holds {}", span.cpu, units::duration(span.end_ns.saturating_sub(span.start_ns))));
        }
        line("events", &units::count(self.events));
        line("switches", &units::count(self.switches as u64));
        line("wake-ups", &units::count(self.wakings as u64));
        let idle = match self.idle_samples {
            0 => String::new(),
            idle => format!(", {} of them of idle CPUs", units::count(idle as u64)),
        };
        line("samples", &format!("{}{idle}", units::count(self.samples as u64)));
        line("stacks", &units::count(self.stacks as u64));
        line("processes", &units::count(self.processes as u64));
        line("threads", &units::count(self.threads as u64));
        line("modules", &units::count(self.images as u64));
        line("lost", &units::count(self.lost));
        if let Some(machine) = &self.machine {
            machine.lines(&mut line);
        }
        line("by kind", "");
        for (kind, count) in &self.by_kind {
            let _ = writeln!(out, "  {:>13}  {kind}", units::count(*count));
        }
        for warning in &self.warnings {
            let _ = writeln!(out, "WARNING  {warning}");
        }
        out
    }
}
