//! The sections of the file, except triggers: what they may say, and whether it makes sense.

use super::super::values::{Share, Size, Time};
use super::checks::{Wrong, absolute, at_least, delay, group_id};
use super::settings::{Config, GroupReads, Limits, Retention};
use super::trigger::{Defaults, TriggerToml};
use crate::bpf::MAX_WATCHES;
use crate::options::{EngineChoice, Options};
use crate::triggers::TriggerConfig;
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;
use unhitch_formats::container::Readers;
use unhitch_model::InputMarks;

/// Share of one CPU that goes into stacks, per cent: less than half of what a recording has. Under a
/// desktop in use hardly a stack is left out for it, as most waits are at places of which one is known.
const STACK_BUDGET: f64 = 0.3;
/// CPU samples per second on each CPU: half of what a recording has. What a thread that hangs computes
/// for 0.2 s is still seen twenty times.
const SAMPLE_HZ: u32 = 99;
/// Maximum number of triggers.
const MAX_TRIGGERS: usize = 64;

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub(super) struct FileToml {
    recorder: RecorderToml,
    access: AccessToml,
    traces: TracesToml,
    retention: RetentionToml,
    limits: LimitsToml,
    marks: MarksToml,
    verdict: VerdictToml,
    metrics: MetricsToml,
    trigger: Vec<Spanned<TriggerToml>>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct RecorderToml {
    engine: Option<EngineToml>,
    buffer: Option<Spanned<Size>>,
    memory: Option<Spanned<Size>>,
    rate: Option<Spanned<u32>>,
    user_stacks: Option<bool>,
    min_wait: Option<Time>,
    stack_budget: Option<Spanned<f64>>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum EngineToml {
    Auto,
    Bpf,
    Perf,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct AccessToml {
    socket_folder: Option<Spanned<PathBuf>>,
    group: Option<Spanned<String>>,
    group_reads: GroupReads,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct TracesToml {
    folder: Option<Spanned<PathBuf>>,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RetentionToml {
    max_traces: usize,
    max_bytes: Size,
    min_free: Share,
}

impl Default for RetentionToml {
    fn default() -> Self {
        Self { max_traces: 50, max_bytes: Size(2 << 30), min_free: Share::Percent(5.0) }
    }
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LimitsToml {
    per_hour: Spanned<u32>,
    burst: Option<Spanned<u32>>,
    min_interval: Time,
    delay: Spanned<Time>,
}

impl Default for LimitsToml {
    fn default() -> Self {
        Self {
            per_hour: Spanned::new(0..0, 10),
            burst: None,
            min_interval: Time(Duration::from_secs(60)),
            delay: Spanned::new(0..0, Time(Duration::from_millis(500))),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct MarksToml {
    input: Option<InputToml>,
    devices: Option<Spanned<InputToml>>,
    yes_keep_every_key: bool,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum InputToml {
    Off,
    Private,
    Full,
}

impl InputToml {
    const fn marks(self) -> InputMarks {
        match self {
            Self::Off => InputMarks::Off,
            Self::Private => InputMarks::Private,
            Self::Full => InputMarks::Full,
        }
    }
}

impl MarksToml {
    /// Which marks are made of the machine's devices.
    fn devices(&self) -> Result<InputMarks, Wrong> {
        let Some(devices) = &self.devices else { return Ok(InputMarks::Off) };
        match devices.as_ref().marks() {
            InputMarks::Full if !self.yes_keep_every_key => {
                let wrong = "\"full\" keeps every key that anybody presses here, passwords too: it \
                             takes yes_keep_every_key = true";
                Err((devices.span(), wrong.to_owned()))
            }
            marks => Ok(marks),
        }
    }
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct VerdictToml {
    enabled: bool,
}

impl Default for VerdictToml {
    fn default() -> Self {
        Self { enabled: true }
    }
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct MetricsToml {
    file: Option<Spanned<PathBuf>>,
    every: Option<Spanned<Time>>,
}

impl FileToml {
    /// The configuration that the file means.
    pub(super) fn check(self) -> Result<Config, Wrong> {
        let group = self.access.group.filter(|group| !group.as_ref().is_empty());
        let group = group.map(|group| {
            group_id(group.as_ref())
                .ok_or_else(|| (group.span(), format!("there is no group {:?}", group.as_ref())))
        });
        let group = group.transpose()?;
        let mut recorder = self.recorder.options()?;
        if let Some(group) = group.filter(|_| self.access.group_reads == GroupReads::Traces) {
            recorder.readers = Readers::Group(group);
        }
        let per_hour = *self.limits.per_hour.as_ref();
        let burst = match self.limits.burst {
            Some(burst) if *burst.as_ref() == 0 => {
                return Err((burst.span(), "burst is at least 1".to_owned()));
            }
            Some(burst) => *burst.as_ref(),
            None => per_hour.clamp(1, 3),
        };
        let metrics = self.metrics.file.map(absolute).transpose()?;
        let every = self.metrics.every.map(|every| at_least(&every, Duration::from_secs(1)));
        let every = every.transpose()?.unwrap_or(Duration::from_secs(15));
        let defaults = Defaults {
            delay: delay(&self.limits.delay)?,
            min_interval: self.limits.min_interval.0,
        };
        if let Some(extra) = self.trigger.get(MAX_TRIGGERS) {
            return Err((extra.span(), format!("there are more than {MAX_TRIGGERS} triggers")));
        }
        let mut triggers: Vec<TriggerConfig> = Vec::new();
        for trigger in self.trigger {
            let span = trigger.span();
            if let Some(checked) = trigger.into_inner().check(&span, &defaults, triggers.len())? {
                if triggers.iter().any(|other| other.name == checked.name) {
                    let name = &checked.name;
                    return Err((span, format!("another trigger is called {name:?}, too")));
                }
                triggers.push(checked);
                if triggers.iter().filter(|other| other.what.watched().is_some()).count()
                    > MAX_WATCHES
                {
                    let text =
                        format!("more than {MAX_WATCHES} triggers are \"wait\" or \"stall\"");
                    return Err((span, text));
                }
            }
        }
        let folder = self.access.socket_folder.map(absolute).transpose()?;
        let devices = self.marks.devices()?;
        Ok(Config {
            recorder,
            socket_folder: folder.unwrap_or_else(crate::control::default_folder),
            group,
            group_reads: self.access.group_reads,
            folder: self
                .traces
                .folder
                .map(absolute)
                .transpose()?
                .unwrap_or_else(|| "/var/lib/unhitch".into()),
            retention: Retention {
                max_traces: self.retention.max_traces,
                max_bytes: self.retention.max_bytes.0,
                min_free: self.retention.min_free,
            },
            limits: Limits {
                per_hour,
                burst,
                min_interval: defaults.min_interval,
                delay: defaults.delay,
            },
            input: self.marks.input.map_or(InputMarks::Private, InputToml::marks),
            devices,
            verdict: self.verdict.enabled,
            metrics: metrics.map(|file| (file, every)),
            triggers,
        })
    }
}

impl RecorderToml {
    fn options(self) -> Result<Options, Wrong> {
        let engine = match self.engine {
            None | Some(EngineToml::Auto) => EngineChoice::Auto,
            Some(EngineToml::Bpf) => EngineChoice::Bpf,
            Some(EngineToml::Perf) => EngineChoice::Perf,
        };
        let mut options = Options { engine, sample_hz: SAMPLE_HZ, ..Options::default() };
        let cpus = crate::procfs::online_cpus().len().max(1);
        options.ring_bytes_per_cpu = match (self.buffer, self.memory) {
            (Some(_), Some(memory)) => {
                return Err((memory.span(), "either buffer or memory can be given".to_owned()));
            }
            (Some(buffer), None) => Some(ring_size(&buffer, 1)?),
            (None, Some(memory)) => Some(ring_size(&memory, cpus)?),
            (None, None) => None,
        };
        if let Some(rate) = self.rate {
            options.sample_hz = *rate.as_ref();
            if options.sample_hz > 10_000 {
                return Err((rate.span(), "rate is at most 10000".to_owned()));
            }
        }
        options.user_stacks = self.user_stacks.unwrap_or(true);
        if let Some(Time(wait)) = self.min_wait {
            options.min_wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        }
        let percent = self.stack_budget.as_ref().map_or(STACK_BUDGET, |budget| *budget.as_ref());
        if let Some(budget) = self.stack_budget.filter(|_| !(0.0..=100.0).contains(&percent)) {
            return Err((budget.span(), "stack_budget is in per cent of one CPU".to_owned()));
        }
        options.stack_budget_ppm = (percent * 10_000.0) as u32;
        Ok(options)
    }
}

/// The size of one of `parts` rings.
fn ring_size(size: &Spanned<Size>, parts: usize) -> Result<usize, Wrong> {
    let each = usize::try_from(size.as_ref().0).unwrap_or(usize::MAX) / parts;
    // The recorder rounds up to a power of two: the sum may not exceed what was asked for.
    let each =
        if parts > 1 && !each.is_power_of_two() { each.next_power_of_two() / 2 } else { each };
    if (256 << 10..=1 << 30).contains(&each) {
        return Ok(each);
    }
    let total = match parts {
        1 => String::new(),
        // In full MiB, rounded up.
        _ => format!("with {parts} CPUs, memory is {}M to {parts}G: ", parts.div_ceil(4)),
    };
    Err((size.span(), format!("{total}a CPU's ring buffer has 256K to 1G")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_too_little_memory_for_the_cpus_is_said_with_what_they_need() {
        let each = |size: u64, parts| ring_size(&Spanned::new(0..1, Size(size)), parts);
        assert_eq!(each(16 << 20, 64), Ok(256 << 10));
        let (_, words) = each(16 << 20, 128).unwrap_err();
        assert!(words.contains("with 128 CPUs, memory is 32M to 128G"), "{words}");
        assert_eq!(each(32 << 20, 128), Ok(256 << 10));
    }
}
