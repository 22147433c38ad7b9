//! The status of the always-on recorder: as JSON for clients, and as metrics for Prometheus.

use super::retention::disk;
use super::service::{FILLED_BY_KEPT, Service};
use crate::control::Class;
use crate::sys;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

impl Service<'_> {
    /// The status as a class may see it.
    pub(super) fn status_json(&mut self, class: Class) -> Value {
        let status = self.recorder.status();
        let rate: f64 = status.rates.iter().map(|(_, rate)| rate).sum();
        let disk = disk(&self.config.folder);
        let mut json = json!({
            "version": 1,
            "pid": std::process::id(),
            "engine": self.recorder.engine(),
            "started_ns": self.started.nanos(),
            "now_ns": sys::monotonic_now().nanos(),
            "held_ns": status.common.duration_ns(),
            "events_per_s": rate.round(),
            "lost": status.lost,
            "marks_input": self.config.input.name(),
            "marks_devices": self.config.devices.name(),
            "group_reads": self.config.group_reads.name(),
            "saving": !self.in_work.is_empty() || !self.wanted.is_empty(),
            "saves": {
                "by_hand": self.counts.by_hand,
                "automatic": self.counts.automatic,
                "suppressed": self.gate.all_suppressed(),
                "failed": self.counts.failed,
            },
            "disk": {
                "traces": disk.traces, "bytes": disk.bytes, "free_bytes": disk.free_bytes,
            },
        });
        if class == Class::Owner {
            self.add_details(&mut json, status.memory_bytes);
        }
        json
    }

    fn add_details(&self, json: &mut Value, memory_bytes: usize) {
        let triggers = self.config.triggers.iter().zip(&self.sources.reasons);
        let triggers = triggers.map(|(trigger, reason)| {
            let counts = self.gate.counts(&trigger.name);
            json!({
                "name": trigger.name, "kind": trigger.what.kind(), "text": trigger.what.words(),
                "armed": reason.is_none(), "reason": reason,
                "fired": counts.fired, "saved": counts.saved, "suppressed": counts.suppressed,
            })
        });
        let saves = self.last_saves.iter().map(|last| {
            json!({
                "path": last.path.to_string_lossy(), "time_ns": last.time.nanos(),
                "by_hand": last.save.by_hand, "trigger": last.save.trigger, "line": last.line,
            })
        });
        json["cpu_ns"] = json!(cpu_ns());
        json["memory_bytes"] = json!(memory_bytes);
        json["triggers"] = triggers.collect();
        json["last_saves"] = saves.collect();
        json["folder"] = json!(self.config.folder.to_string_lossy());
        json["configuration"] = json!(self.file.as_ref().map(|file| file.to_string_lossy()));
        json["configuration_error"] = json!(self.config_error);
        let mut warnings = self.recorder.warnings().to_vec();
        warnings.extend(self.recorder.lacks());
        warnings.extend(self.devices_not_read());
        warnings.extend(self.is_filled_by_kept.then(|| FILLED_BY_KEPT.to_owned()));
        json["warnings"] = json!(warnings);
    }

    /// Writes the metrics, which appear at once or not at all.
    pub(super) fn write_metrics(&mut self, path: &Path) -> std::io::Result<()> {
        let text = metrics(&self.status_json(Class::Owner));
        let folder = path.parent().unwrap_or(Path::new("/"));
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let new = folder.join(format!(".{name}.new"));
        // What is left of one that was killed; or a link of somebody else's, who may write there.
        let _ = std::fs::remove_file(&new);
        let mut file = std::fs::File::create_new(&new)?;
        // Whoever collects them is another user. They name no program.
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
        file.write_all(text.as_bytes())?;
        drop(file);
        std::fs::rename(&new, path)
    }
}

/// CPU time of this process and of its children, whether they have ended or not.
fn cpu_ns() -> u64 {
    let own = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let own = own.tv_sec as u64 * 1_000_000_000 + own.tv_nsec as u64;
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<String> = texts
        .flat_map(|text| text.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    // utime, stime, cutime, cstime are fields 14 to 17.
    let living = children.iter().map(|pid| ticks(pid, 14..16)).sum::<u64>();
    own + (ticks("self", 16..18) + living) * (1_000_000_000 / TICKS_PER_SECOND)
}

/// USER_HZ.
const TICKS_PER_SECOND: u64 = 100;

/// The sum of some fields of `/proc/PID/stat`, which are counted from 1.
fn ticks(pid: &str, fields: std::ops::Range<usize>) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, in brackets, may contain anything; the field after it is the third.
    let after = text.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    let wanted = after.skip(fields.start - 3).take(fields.len());
    wanted.filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// The status in Prometheus' text format.
fn metrics(status: &Value) -> String {
    let mut out = String::new();
    let seconds = |name: &str| status[name].as_f64().unwrap_or(0.0) / 1e9;
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let mut add = |name: &str, kind: &str, help: &str, values: &[(String, f64)]| {
        let _ = writeln!(out, "# HELP unhitch_{name} {help}\n# TYPE unhitch_{name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(out, "unhitch_{name}{labels} {value}");
        }
    };
    let one = |value: f64| vec![(String::new(), value)];
    let up = (seconds("now_ns") - seconds("started_ns")).max(0.0);
    add("uptime_seconds", "gauge", "Time since the recorder was started.", &one(up));
    add(
        "held_seconds",
        "gauge",
        "How far back a save reaches on all CPUs.",
        &one(seconds("held_ns")),
    );
    add(
        "events_per_second",
        "gauge",
        "Events since the last look.",
        &one(number(&status["events_per_s"])),
    );
    add("lost_records_total", "counter", "Records that were lost.", &one(number(&status["lost"])));
    add("cpu_seconds_total", "counter", "CPU time of the recorder.", &one(seconds("cpu_ns")));
    add(
        "memory_bytes",
        "gauge",
        "Memory of the rings and what belongs to them.",
        &one(number(&status["memory_bytes"])),
    );
    let saves = ["by_hand", "automatic", "failed", "suppressed"];
    let saves = saves.map(|how| (format!("{{how=\"{how}\"}}"), number(&status["saves"][how])));
    add("saves_total", "counter", "Saves, and hits of triggers that were not saved.", &saves);
    let disk = &status["disk"];
    add("traces", "gauge", "Traces in the folder.", &one(number(&disk["traces"])));
    add(
        "traces_bytes",
        "gauge",
        "Bytes of the traces in the folder.",
        &one(number(&disk["bytes"])),
    );
    add("disk_free_bytes", "gauge", "Free bytes of its disk.", &one(number(&disk["free_bytes"])));
    let triggers = status["triggers"].as_array().cloned().unwrap_or_default();
    let of = |field: &str| -> Vec<(String, f64)> {
        let label = |trigger: &Value| {
            let name = trigger["name"].as_str().unwrap_or_default();
            format!("{{trigger=\"{}\"}}", escaped(name))
        };
        let value = |trigger: &Value| match &trigger[field] {
            Value::Bool(yes) => f64::from(u8::from(*yes)),
            value => number(value),
        };
        triggers.iter().map(|trigger| (label(trigger), value(trigger))).collect()
    };
    add("trigger_armed", "gauge", "1 if the trigger is armed.", &of("armed"));
    add("trigger_fired_total", "counter", "How often the trigger fired.", &of("fired"));
    let wrong = f64::from(u8::from(!status["configuration_error"].is_null()));
    add(
        "configuration_error",
        "gauge",
        "1 if the newest configuration is not in use.",
        &one(wrong),
    );
    out
}

/// A label's value.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_a_type_and_escaped_labels() {
        let text = metrics(&json!({
            "held_ns": 30_500_000_000_u64, "saves": {"by_hand": 2},
            "triggers": [{"name": "a\"b\\\n", "armed": true, "fired": 7}],
            "configuration_error": null,
        }));
        for line in [
            "# TYPE unhitch_held_seconds gauge",
            "unhitch_held_seconds 30.5",
            "unhitch_saves_total{how=\"by_hand\"} 2",
            "unhitch_trigger_armed{trigger=\"a\\\"b\\\\\\n\"} 1",
            "unhitch_trigger_fired_total{trigger=\"a\\\"b\\\\\\n\"} 7",
            "unhitch_configuration_error 0",
        ] {
            assert!(text.lines().any(|known| known == line), "{line} is not in\n{text}");
        }
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            assert!(line.rsplit(' ').next().unwrap().parse::<f64>().is_ok(), "{line}");
        }
    }

    #[test]
    fn cpu_time_is_that_of_this_process() {
        let begin = std::time::Instant::now();
        let before = cpu_ns();
        while begin.elapsed().as_millis() < 60 || cpu_ns() == before {}
        assert!(cpu_ns() > before);
    }
}
