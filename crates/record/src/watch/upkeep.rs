//! What the always-on recorder does besides saving: reads its configuration again, and tells its
//! status.

use super::WatchEvent;
use super::config::Config;
use super::service::Service;
use crate::input_devices::InputDevices;
use crate::triggers::{Sources, TriggerConfig};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use unhitch_model::InputMarks;

/// How often the control groups of triggers are looked up: a service that restarts has a new one.
const GROUPS_INTERVAL: Duration = Duration::from_secs(5);
/// When metrics are written again that could not be written, at the earliest.
const METRICS_RETRY: Duration = Duration::from_secs(60);

impl Service<'_> {
    /// Reads the configuration again. If it is wrong, the old one goes on.
    pub(super) fn reload(&mut self) -> Value {
        let Some(file) = &self.file else {
            return json!({ "error": "this recorder has no configuration file" });
        };
        let new = match Config::read(file) {
            Ok(new) => new,
            Err(error) => {
                let text = error.to_string();
                self.config_error = Some(text.clone());
                return json!({ "error": text });
            }
        };
        self.config_error = None;
        let restart = self.config.fixed_parts_that_differ(&new);
        let changed = format!("{:?}", self.config) != format!("{new:?}");
        if new.limits != self.config.limits {
            self.gate.set_limits(new.limits, Instant::now());
        }
        if new.metrics != self.config.metrics {
            self.metrics_due = Instant::now();
        }
        let triggers_changed = new.triggers != self.config.triggers;
        let devices_changed = new.devices != self.config.devices;
        self.is_filled_by_kept &= new.retention == self.config.retention;
        self.config = new.with_fixed_parts_of(&self.config);
        if devices_changed {
            if let Ok(devices) = &self.devices {
                self.marks.add_own(devices.take());
            }
            self.devices = InputDevices::start(self.config.devices);
        }
        self.marks.forget_forbidden(self.config.input, self.config.devices);
        if triggers_changed {
            self.gate.set_own(self.config.trigger_names());
            self.arm();
        } else if devices_changed {
            self.tell_gaps();
        }
        json!({ "reload": { "changed": changed, "restart": restart } })
    }

    /// What the configuration asks for and the machine does not give.
    pub(super) fn gaps(&self) -> Vec<String> {
        let not_armed = (0..self.config.triggers.len()).filter_map(|number| self.not_armed(number));
        not_armed.chain(self.devices_not_read()).collect()
    }

    fn not_armed(&self, trigger: usize) -> Option<String> {
        let reason = self.sources.reasons.get(trigger)?.as_ref()?;
        let name = &self.config.triggers.get(trigger)?.name;
        Some(format!("the trigger {name} is not armed: {reason}"))
    }

    pub(super) fn devices_not_read(&self) -> Option<String> {
        let reason = self.devices.as_ref().err()?;
        Some(format!("there are no marks of input devices: {reason}"))
    }

    /// How much marks of input tell at most: those of agents, and those of the machine's devices.
    pub(super) fn input(&self) -> InputMarks {
        let devices = self.devices.as_ref().map_or(InputMarks::Off, InputDevices::mode);
        self.config.input.max(devices)
    }

    /// Arms the triggers again.
    fn arm(&mut self) {
        // The old ones end first: there is one watcher at a time.
        self.sources = Sources::default();
        while self.hits.try_recv().is_ok() {}
        let watch = |watches: &_| self.recorder.watch(watches);
        self.sources = Sources::start(&self.config.triggers, &self.reporter, &watch);
        self.tell_gaps();
    }

    fn tell_gaps(&mut self) {
        for gap in self.gaps() {
            (self.report)(WatchEvent::Note(&gap));
        }
    }

    /// Tells which triggers have ceased to work. Arms those again whose control group is another one,
    /// if it is due to look.
    pub(super) fn follow_groups(&mut self) {
        for number in self.sources.hear() {
            if let Some(text) = self.not_armed(number) {
                (self.report)(WatchEvent::Note(&text));
            }
        }
        let now = Instant::now();
        if self.groups_due <= now {
            self.groups_due = now + GROUPS_INTERVAL;
            let watch = |watches: &_| self.recorder.watch(watches);
            if self.sources.follow_groups(&self.config.triggers, &self.reporter, &watch) {
                self.tell_gaps();
            }
        }
    }

    /// When to look at the control groups of triggers, if there are any.
    pub(super) fn groups_due(&self) -> Option<Instant> {
        let has_group = |trigger: &TriggerConfig| trigger.what.control_group().is_some();
        self.config.triggers.iter().any(has_group).then_some(self.groups_due)
    }

    /// Reports the status and writes the metrics, if that is due.
    pub(super) fn tell_status(&mut self) {
        let now = Instant::now();
        if let Some(interval) = self.status_interval.filter(|_| self.status_due <= now) {
            self.status_due = now + interval;
            let status = self.recorder.status();
            (self.report)(WatchEvent::Status(&status));
        }
        let Some((path, every)) = self.config.metrics.clone() else { return };
        if self.metrics_due <= now {
            self.metrics_due = now + every;
            if let Err(error) = self.write_metrics(&path) {
                let text = format!("metrics cannot be written to {}: {error}", path.display());
                (self.report)(WatchEvent::Note(&text));
                // It will hardly get better soon.
                self.metrics_due = now + every.max(METRICS_RETRY);
            }
        }
    }
}
