//! What makes the always-on recorder save by itself.
//!
//! Each trigger waits in a thread of its own until something happens: in poll(2) for what the kernel
//! tells, in a sleep for what must be asked. It then reports a [`Hit`], and the recorder decides
//! whether a trace is saved. Threads end when their [`Sources`] are dropped.

mod command;
mod group;
mod heartbeat;
mod hit;
mod hung_tasks;
mod pressure;
mod waits;
mod what;

pub(crate) use hit::{Hit, Reporter};
pub use what::{Pressure, Resource, Target, TriggerConfig, Watched, What};

use crate::bpf::{WatchWords, Watcher};
use hit::Stop;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The triggers that are armed.
#[derive(Default)]
pub(crate) struct Sources {
    stop: Arc<Stop>,
    /// Its end tells those that sleep in poll(2).
    end: Option<UnixStream>,
    threads: Vec<JoinHandle<()>>,
    /// Of each trigger, why it could not be armed.
    pub(crate) reasons: Vec<Option<String>>,
    /// Of each trigger, the number of its control group, if that exists.
    groups: Vec<Option<u64>>,
}

/// The numbers of the control groups that `triggers` are about.
fn groups_of(triggers: &[TriggerConfig]) -> Vec<Option<u64>> {
    let group = |trigger: &TriggerConfig| group::number(trigger.what.control_group()?).ok();
    triggers.iter().map(group).collect()
}

impl Sources {
    /// Arms `triggers`. What cannot be armed has a reason. `watch` begins to watch waits.
    pub(crate) fn start(
        triggers: &[TriggerConfig],
        reporter: &Reporter,
        watch: &dyn Fn(&[WatchWords]) -> Result<Watcher, String>,
    ) -> Self {
        let mut sources = Self::default();
        let Ok((end, ended)) = UnixStream::pair() else {
            sources.reasons = vec![Some("no socket".to_owned()); triggers.len()];
            return sources;
        };
        sources.end = Some(end);
        sources.groups = groups_of(triggers);
        for (number, trigger) in triggers.iter().enumerate() {
            let armed = sources.arm(number, &trigger.what, reporter, &ended);
            sources.reasons.push(armed.err());
        }
        sources.arm_waits(triggers, reporter, &ended, watch);
        sources
    }

    /// True if a control group came, went, or is another one of the same name, as after the restart of
    /// a service: then its triggers see nothing until all are armed again.
    pub(crate) fn are_stale(&self, triggers: &[TriggerConfig]) -> bool {
        groups_of(triggers) != self.groups
    }

    fn arm(
        &mut self,
        trigger: usize,
        what: &What,
        reporter: &Reporter,
        ended: &UnixStream,
    ) -> Result<(), String> {
        let (stop, reporter) = (Arc::clone(&self.stop), reporter.clone());
        let ended = ended.try_clone().map_err(|error| error.to_string())?;
        let report = move |hit: Hit| reporter.report(Hit { trigger, ..hit });
        let run: Box<dyn FnOnce() + Send> = match what {
            // All of them together: see `arm_waits`.
            What::Wait(_) | What::Stall(_) => return Ok(()),
            What::Pressure(pressure) => pressure::source(pressure, ended, report)?,
            What::HungTask => hung_tasks::source(stop, report)?,
            What::Heartbeat { threshold } => heartbeat::source(*threshold, stop, report),
            What::Command { command, every } => {
                command::source(command.clone(), *every, stop, report)
            }
        };
        self.spawn(run)
    }

    fn arm_waits(
        &mut self,
        triggers: &[TriggerConfig],
        reporter: &Reporter,
        ended: &UnixStream,
        watch: &dyn Fn(&[WatchWords]) -> Result<Watcher, String>,
    ) {
        let watched: Vec<(usize, bool, &Watched)> = triggers
            .iter()
            .enumerate()
            .filter_map(|(number, trigger)| match &trigger.what {
                What::Wait(watched) => Some((number, false, watched)),
                What::Stall(watched) => Some((number, true, watched)),
                _ => None,
            })
            .filter(|(number, _, watched)| {
                let missing = match &watched.target {
                    Target::ControlGroup(path) => group::number(path).err(),
                    _ => None,
                };
                let is_there = missing.is_none();
                self.reasons[*number] = missing;
                is_there
            })
            .collect();
        let ended = ended.try_clone().map_err(|error| error.to_string());
        let armed = ended.and_then(|ended| {
            let run = waits::source(&watched, ended, reporter.clone(), watch)?;
            run.map_or(Ok(()), |run| self.spawn(run))
        });
        if let Err(reason) = armed {
            watched.iter().for_each(|(number, ..)| self.reasons[*number] = Some(reason.clone()));
        }
    }

    fn spawn(&mut self, run: Box<dyn FnOnce() + Send>) -> Result<(), String> {
        let thread = std::thread::Builder::new().name("unhitch-trigger".to_owned()).spawn(run);
        self.threads.push(thread.map_err(|error| error.to_string())?);
        Ok(())
    }
}

impl Drop for Sources {
    fn drop(&mut self) {
        self.stop.set();
        self.end.take();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::time::Duration;

    /// It was armed, and never fired: tasks were compared by their groups of version 2.
    #[test]
    fn regression_a_control_group_of_version_1_is_refused() {
        let folder = std::path::Path::new("/sys/fs/cgroup/cpu");
        if !folder.join("tasks").exists() {
            let _ = writeln!(std::io::stderr(), "SKIPPED control groups of version 1: none here");
            return;
        }
        let reason = group::number("/cpu").unwrap_err();
        assert!(reason.ends_with("it is no control group of version 2"), "{reason}");
    }

    #[test]
    fn a_control_group_of_the_same_name_is_another_one() {
        let path = format!("/unhitch-triggers-{}", std::process::id());
        let folder = group::folder("/").join(&path[1..]);
        if std::fs::create_dir(&folder).is_err() || group::number(&path).is_err() {
            let _ = writeln!(std::io::stderr(), "SKIPPED a_control_group_of_the_same_name");
            return;
        }
        let watched = |target| Watched {
            threshold: Duration::from_millis(200),
            target,
            all_threads: false,
            idle_waits: false,
        };
        let trigger = |target| TriggerConfig {
            name: "waits".to_owned(),
            what: What::Wait(watched(target)),
            delay: Duration::ZERO,
            min_interval: Duration::ZERO,
        };
        let triggers = [trigger(Target::ControlGroup(path)), trigger(Target::Pid(1))];
        let mut sources = Sources::default();
        sources.groups = groups_of(&triggers);
        assert!(sources.groups[0].is_some() && sources.groups[1].is_none());
        assert!(!sources.are_stale(&triggers));
        std::fs::remove_dir(&folder).unwrap();
        assert!(sources.are_stale(&triggers), "it is gone");
        std::fs::create_dir(&folder).unwrap();
        let is_stale = sources.are_stale(&triggers);
        std::fs::remove_dir(&folder).unwrap();
        assert!(is_stale, "it is another one");
    }
}
