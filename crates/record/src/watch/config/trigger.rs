//! The triggers of the file.

use super::super::values::Time;
use super::checks::{Wrong, at_least, delay, user_id};
use crate::triggers::{Pressure, Resource, Target, TriggerConfig, Watched, What};
use serde::Deserialize;
use std::time::Duration;
use toml::Spanned;

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum KindToml {
    Wait,
    Stall,
    Pressure,
    HungTask,
    Heartbeat,
    Command,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TriggerToml {
    kind: KindToml,
    name: Option<Spanned<String>>,
    #[serde(default = "yes")]
    enabled: bool,
    delay: Option<Spanned<Time>>,
    min_interval: Option<Time>,
    threshold: Option<Spanned<Time>>,
    thread: Option<String>,
    process: Option<String>,
    pid: Option<u32>,
    control_group: Option<String>,
    user: Option<Spanned<String>>,
    #[serde(default)]
    all_threads: bool,
    #[serde(default)]
    idle_waits: bool,
    resource: Option<Resource>,
    #[serde(default)]
    full: bool,
    window: Option<Spanned<Time>>,
    command: Option<String>,
    every: Option<Spanned<Time>>,
}

fn yes() -> bool {
    true
}

/// What a trigger has unless it says otherwise.
pub(super) struct Defaults {
    pub(super) delay: Duration,
    pub(super) min_interval: Duration,
}

impl TriggerToml {
    /// The trigger; `None` if it is switched off. `span` is where it begins.
    pub(super) fn check(
        self,
        span: &std::ops::Range<usize>,
        defaults: &Defaults,
        number: usize,
    ) -> Result<Option<TriggerConfig>, Wrong> {
        let what = self.what(span)?;
        self.has_only_options_of(what.kind(), span)?;
        let name = match &self.name {
            Some(name) if name.as_ref().is_empty() || name.as_ref().len() > 64 => {
                return Err((name.span(), "a name has 1 to 64 bytes".to_owned()));
            }
            Some(name) => name.as_ref().clone(),
            None => format!("{}-{}", what.kind(), number + 1),
        };
        let trigger = TriggerConfig {
            name,
            delay: self.delay.as_ref().map(delay).transpose()?.unwrap_or(defaults.delay),
            min_interval: self.min_interval.map_or(defaults.min_interval, |time| time.0),
            what,
        };
        Ok(self.enabled.then_some(trigger))
    }

    fn what(&self, span: &std::ops::Range<usize>) -> Result<What, Wrong> {
        let missing = |what: &str| (span.clone(), format!("this trigger needs {what}"));
        let threshold = |least: u64| {
            let given = self.threshold.as_ref().ok_or_else(|| missing("threshold"))?;
            at_least(given, Duration::from_millis(least))
        };
        Ok(match self.kind {
            KindToml::Wait => What::Wait(Watched {
                threshold: threshold(1)?,
                target: self.target(span)?,
                all_threads: self.all_threads,
                idle_waits: self.idle_waits,
            }),
            KindToml::Stall => What::Stall(Watched {
                threshold: threshold(1)?,
                target: self.target(span)?,
                all_threads: self.all_threads,
                idle_waits: false,
            }),
            KindToml::Pressure => {
                let window = self.window.as_ref();
                let window = window.map(|window| at_least(window, Duration::from_millis(500)));
                let window = window.transpose()?.unwrap_or(Duration::from_secs(2));
                let threshold = threshold(1)?;
                if window > Duration::from_secs(10) || threshold > window {
                    let at = self.window.as_ref().or(self.threshold.as_ref()).map(Spanned::span);
                    let wrong = "the window has at most 10s, and the threshold is below it";
                    return Err((at.unwrap_or_else(|| span.clone()), wrong.to_owned()));
                }
                What::Pressure(Pressure {
                    resource: self.resource.ok_or_else(|| missing("resource"))?,
                    full: self.full,
                    threshold,
                    window,
                    control_group: self.control_group.clone(),
                })
            }
            KindToml::HungTask => What::HungTask,
            KindToml::Heartbeat => What::Heartbeat { threshold: threshold(10)? },
            KindToml::Command => What::Command {
                command: self.command.clone().ok_or_else(|| missing("command"))?,
                every: match &self.every {
                    Some(every) => at_least(every, Duration::from_millis(100))?,
                    None => Duration::from_secs(5),
                },
            },
        })
    }

    /// What an option of another kind was meant to do would silently not be done.
    fn has_only_options_of(&self, kind: &str, span: &std::ops::Range<usize>) -> Result<(), Wrong> {
        let watches: &[&str] = &["wait", "stall"];
        let options: [(&str, bool, &[&str]); 13] = [
            ("threshold", self.threshold.is_some(), &["wait", "stall", "pressure", "heartbeat"]),
            ("thread", self.thread.is_some(), watches),
            ("process", self.process.is_some(), watches),
            ("pid", self.pid.is_some(), watches),
            ("user", self.user.is_some(), watches),
            ("control_group", self.control_group.is_some(), &["wait", "stall", "pressure"]),
            ("all_threads", self.all_threads, watches),
            ("idle_waits", self.idle_waits, &["wait"]),
            ("resource", self.resource.is_some(), &["pressure"]),
            ("full", self.full, &["pressure"]),
            ("window", self.window.is_some(), &["pressure"]),
            ("command", self.command.is_some(), &["command"]),
            ("every", self.every.is_some(), &["command"]),
        ];
        let foreign = options.iter().find(|(_, given, kinds)| *given && !kinds.contains(&kind));
        foreign.map_or(Ok(()), |(option, ..)| {
            Err((span.clone(), format!("{option} is no option of a trigger of kind {kind}")))
        })
    }

    fn target(&self, span: &std::ops::Range<usize>) -> Result<Target, Wrong> {
        let user = self.user.as_ref().map(|user| {
            user_id(user.as_ref())
                .ok_or_else(|| (user.span(), format!("there is no user {:?}", user.as_ref())))
        });
        let targets = [
            self.thread.clone().map(Target::Thread),
            self.process.clone().map(Target::Process),
            self.pid.map(Target::Pid),
            self.control_group.clone().map(Target::ControlGroup),
            user.transpose()?.map(Target::User),
        ];
        let mut given = targets.into_iter().flatten();
        match (given.next(), given.next()) {
            (Some(target), None) => Ok(target),
            _ => Err((
                span.clone(),
                "this trigger needs one of thread, process, pid, control_group, user".to_owned(),
            )),
        }
    }
}
