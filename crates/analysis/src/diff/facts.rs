//! What must be alike for two recordings to be comparable.

use crate::Analysis;
use crate::wording::recording::Lack;
use serde::Serialize;
use std::collections::BTreeMap;
use unhitch_model::units::{count, duration, hex};
use unhitch_model::{ModuleKind, Recorded};

/// Facts about a recording.
#[derive(Clone, Serialize, Debug)]
pub struct Facts {
    /// The file.
    pub file: String,
    /// The machine.
    pub host: String,
    /// Its kernel.
    pub kernel: String,
    /// Its number of CPUs.
    pub cpus: usize,
    /// The time that all CPUs' events cover, nanoseconds.
    pub covered_ns: u64,
    /// Events that are known to be lost.
    pub lost_events: u64,
    /// Context switches.
    pub switches: u64,
    /// What was recorded.
    pub recorded: Vec<&'static str>,
    /// What was not, with what cannot be known without it, and how to record it.
    pub not_recorded: Vec<Lack>,
    /// The time between two CPU samples of one CPU, nanoseconds.
    pub sample_period_ns: u64,
    /// The only process that was recorded, if it was one.
    pub only_pid: bool,
    /// The program that recorded.
    pub recorder: String,
    /// Build ids of programs, by path.
    #[serde(skip)]
    pub(super) builds: BTreeMap<String, String>,
}

impl Facts {
    /// Those of a recording.
    pub fn of(analysis: &Analysis<'_>, file: &str) -> Self {
        let trace = analysis.trace;
        let kinds = [Recorded::Switches, Recorded::Wakings, Recorded::Samples];
        let builds = trace
            .modules
            .iter()
            .filter(|(_, module)| module.kind == ModuleKind::File)
            .map(|(id, module)| (trace.name(module.path), trace.modules.build_id(id)))
            .filter(|(_, build_id)| !build_id.is_empty())
            .map(|(path, build_id)| (path.to_owned(), hex(build_id)));
        Self {
            file: file.to_owned(),
            host: trace.meta.host.clone(),
            kernel: trace.meta.kernel.clone(),
            cpus: analysis.cpus.cpus().max(usize::from(trace.meta.cpus)),
            covered_ns: analysis.timeline.window().duration_ns(),
            lost_events: trace.lost_events(),
            switches: trace.switches.len() as u64,
            recorded: kinds
                .iter()
                .filter(|kind| trace.has(**kind))
                .map(|kind| kind.name())
                .collect(),
            not_recorded: kinds.iter().filter_map(|kind| Lack::of(trace, *kind)).collect(),
            sample_period_ns: trace.meta.sample_period_ns,
            only_pid: trace.meta.only_pid.is_some(),
            recorder: trace.meta.recorder.clone(),
            builds: builds.collect(),
        }
    }

    /// Why nothing is known about waits, if it is not.
    pub(super) fn lacks_switches(&self) -> Option<&Lack> {
        self.not_recorded.iter().find(|lack| lack.what == Recorded::Switches.name())
    }

    /// What makes this and another recording hard to compare, in sentences, and true if times may
    /// still be put into proportion.
    pub(super) fn differences(&self, after: &Self) -> (Vec<String>, bool) {
        let mut lines = Vec::new();
        let mut differ = |what: &str, before: &str, after: &str| {
            if before != after && !before.is_empty() && !after.is_empty() {
                lines.push(format!("the {what} differs: {before} before, {after} after"));
            }
        };
        differ("machine", &self.host, &after.host);
        differ("kernel", &self.kernel, &after.kernel);
        differ("number of CPUs", &self.cpus.to_string(), &after.cpus.to_string());
        let period = |facts: &Self| duration(facts.sample_period_ns);
        differ("sampling interval", &period(self), &period(after));
        let mut proportionate = true;
        if self.recorded != after.recorded {
            proportionate = false;
            lines.push(format!(
                "not the same was recorded: {} before, {} after",
                self.recorded.join(", "),
                after.recorded.join(", ")
            ));
        }
        if self.only_pid != after.only_pid {
            proportionate = false;
            lines.push("one recording is of a single process, the other of all".to_owned());
        }
        for (facts, side) in [(self, "before"), (after, "after")] {
            if facts.lost_events > 0 {
                // What is lost may be what differs.
                proportionate &= facts.lost_events.saturating_mul(100) <= facts.switches;
                lines.push(format!("{} events are lost {side}", count(facts.lost_events)));
            }
        }
        let rebuilt = self
            .builds
            .iter()
            .filter(|(path, build)| after.builds.get(*path).is_some_and(|other| other != *build));
        let rebuilt: Vec<&str> = rebuilt.map(|(path, _)| path.as_str()).collect();
        if let Some(first) = rebuilt.first() {
            let more = match rebuilt.len() {
                1 => String::new(),
                several => format!(" and {} more", several - 1),
            };
            lines.push(format!(
                "of {first}{more} there are two builds; functions are compared by name"
            ));
        }
        (lines, proportionate)
    }
}
