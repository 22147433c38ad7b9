//! What makes the always-on recorder save by itself.
//!
//! Each trigger waits in a thread of its own until something happens: in poll(2) for what the kernel
//! tells, in a sleep for what must be asked. It then reports a [`Hit`], and the recorder decides
//! whether a trace is saved. Threads end when their [`Sources`] are dropped, or when the control
//! group that they are about is another one.

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
use hit::{Stop, Trouble};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use waits::Reported;

/// The triggers that are armed.
pub(crate) struct Sources {
    /// The threads of all triggers but those about waits.
    own: Vec<Option<Waiting>>,
    /// Watches for waits.
    waits: Option<Waiting>,
    /// What that has reported.
    reported: Arc<Mutex<Reported>>,
    /// Of each trigger, why it does not work.
    pub(crate) reasons: Vec<Option<String>>,
    /// What threads tell of that later.
    troubles: (Sender<NewReason>, Receiver<NewReason>),
    /// Of each trigger, the number of its control group, if that exists.
    groups: Vec<Option<u64>>,
}

/// The number of a trigger, and why it does not work: `None` if it does again.
type NewReason = (usize, Option<String>);

/// What the thread of a trigger does.
type Run = Box<dyn FnOnce() + Send>;

/// Begins to watch waits.
type Watch<'a> = &'a dyn Fn(&[WatchWords]) -> Result<Watcher, String>;

/// A thread that waits for something as long as this lives.
struct Waiting {
    stop: Arc<Stop>,
    /// Its end tells a thread that sleeps in poll(2).
    end: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

/// The numbers of the control groups that `triggers` are about.
fn groups_of(triggers: &[TriggerConfig]) -> Vec<Option<u64>> {
    let group = |trigger: &TriggerConfig| group::number(trigger.what.control_group()?).ok();
    triggers.iter().map(group).collect()
}

impl Default for Sources {
    fn default() -> Self {
        let (own, reasons, groups) = (Vec::new(), Vec::new(), Vec::new());
        let (waits, reported, troubles) = (None, Arc::default(), channel());
        Self { own, waits, reported, reasons, troubles, groups }
    }
}

impl Sources {
    /// Arms `triggers`. What cannot be armed has a reason. `watch` begins to watch waits.
    pub(crate) fn start(triggers: &[TriggerConfig], reporter: &Reporter, watch: Watch) -> Self {
        let mut sources = Self {
            own: triggers.iter().map(|_| None).collect(),
            reasons: vec![None; triggers.len()],
            groups: groups_of(triggers),
            ..Self::default()
        };
        for (number, trigger) in triggers.iter().enumerate() {
            sources.arm(number, &trigger.what, reporter);
        }
        sources.arm_waits(triggers, reporter, watch);
        sources
    }

    /// Arms again what sees nothing until then: triggers whose control group came, went, or is another
    /// one of the same name, as after the restart of a service. The others go on. True if there were
    /// any.
    pub(crate) fn follow_groups(
        &mut self,
        triggers: &[TriggerConfig],
        reporter: &Reporter,
        watch: Watch,
    ) -> bool {
        let before = std::mem::replace(&mut self.groups, groups_of(triggers));
        let is_other = |number: &usize| before[*number] != self.groups[*number];
        let others: Vec<usize> = (0..triggers.len()).filter(is_other).collect();
        for number in &others {
            self.arm(*number, &triggers[*number].what, reporter);
        }
        if others.iter().any(|number| triggers[*number].what.watched().is_some()) {
            self.arm_waits(triggers, reporter, watch);
        }
        !others.is_empty()
    }

    /// Hears from the threads which triggers do not work any more, or do again. Returns the former.
    pub(crate) fn hear(&mut self) -> Vec<usize> {
        let told: Vec<NewReason> = self.troubles.1.try_iter().collect();
        let mut broken = Vec::new();
        for (number, reason) in told {
            broken.extend(reason.as_ref().map(|_| number));
            self.reasons[number] = reason;
        }
        broken
    }

    fn trouble(&self, triggers: Vec<usize>, reporter: &Reporter) -> Trouble {
        Trouble::new(triggers, self.troubles.0.clone(), reporter.clone())
    }

    fn arm(&mut self, trigger: usize, what: &What, reporter: &Reporter) {
        let trouble = self.trouble(vec![trigger], reporter);
        let reporter = reporter.clone();
        let report = move |hit: Hit| reporter.report(Hit { trigger, ..hit });
        self.own[trigger] = None;
        let armed = match what {
            // All of them together: see `arm_waits`.
            What::Wait(_) | What::Stall(_) => return,
            What::Pressure(pressure) => {
                Waiting::start(|_, ended| pressure::source(pressure, ended, report, trouble))
            }
            What::HungTask => Waiting::start(|stop, _| hung_tasks::source(stop, report, trouble)),
            What::Heartbeat { threshold } => {
                Waiting::start(|stop, _| Ok(heartbeat::source(*threshold, stop, report)))
            }
            What::Command { command, every } => Waiting::start(|stop, _| {
                Ok(command::source(command.clone(), *every, stop, report, trouble))
            }),
        };
        self.reasons[trigger] = armed.map(|armed| self.own[trigger] = Some(armed)).err();
    }

    fn arm_waits(&mut self, triggers: &[TriggerConfig], reporter: &Reporter, watch: Watch) {
        // The old ones end first: there is one watcher at a time.
        self.waits = None;
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
        if watched.is_empty() {
            return;
        }
        let numbers: Vec<usize> = watched.iter().map(|(number, ..)| *number).collect();
        let trouble = self.trouble(numbers, reporter);
        let reported = Arc::clone(&self.reported);
        let armed = Waiting::start(|_, ended| {
            waits::source(&watched, ended, reporter.clone(), trouble, reported, watch)
        });
        match armed {
            Ok(armed) => self.waits = Some(armed),
            Err(reason) => {
                watched.iter().for_each(|(number, ..)| self.reasons[*number] = Some(reason.clone()))
            }
        }
    }
}

impl Waiting {
    /// Starts the thread of a source, which ends when it is told so in one of the two ways.
    fn start(
        source: impl FnOnce(Arc<Stop>, UnixStream) -> Result<Run, String>,
    ) -> Result<Self, String> {
        let (end, ended) = UnixStream::pair().map_err(|error| error.to_string())?;
        let stop = Arc::default();
        let run = source(Arc::clone(&stop), ended)?;
        let thread = std::thread::Builder::new().name("unhitch-trigger".to_owned()).spawn(run);
        let thread = thread.map_err(|error| error.to_string())?;
        Ok(Self { stop, end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.stop.set();
        self.end.take();
        let _ = self.thread.take().map(JoinHandle::join);
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
        let triggers = [wait(Target::ControlGroup(path)), wait(Target::Pid(1))];
        let (reporter, watch) = (reporter(), |_: &[WatchWords]| Err("no BPF".to_owned()));
        let mut sources = Sources::start(&triggers, &reporter, &watch);
        assert!(sources.groups[0].is_some() && sources.groups[1].is_none());
        let mut follow = || sources.follow_groups(&triggers, &reporter, &watch);
        assert!(!follow());
        std::fs::remove_dir(&folder).unwrap();
        assert!(follow(), "it is gone");
        std::fs::create_dir(&folder).unwrap();
        let is_another = follow();
        std::fs::remove_dir(&folder).unwrap();
        assert!(is_another, "it is another one");
    }

    /// All triggers began anew when one control group came or went.
    #[test]
    fn regression_the_other_triggers_go_on_when_a_control_group_is_another_one() {
        let command = What::Command { command: "false".to_owned(), every: Duration::from_secs(99) };
        let triggers = [
            wait(Target::ControlGroup("no/such".to_owned())),
            TriggerConfig { what: command, ..wait(Target::Anyone) },
        ];
        let (reporter, watch) = (reporter(), |_: &[WatchWords]| Err("no BPF".to_owned()));
        let mut sources = Sources::start(&triggers, &reporter, &watch);
        let thread = |sources: &Sources| {
            sources.own[1].as_ref().unwrap().thread.as_ref().unwrap().thread().id()
        };
        let before = thread(&sources);
        // As if it had been there.
        sources.groups[0] = Some(1);
        assert!(sources.follow_groups(&triggers, &reporter, &watch));
        assert!(!sources.follow_groups(&triggers, &reporter, &watch));
        assert_eq!(thread(&sources), before);
        assert!(sources.reasons[0].is_some() && sources.reasons[1].is_none());
    }

    #[test]
    fn a_trigger_that_cannot_work_says_why_once_until_it_works() {
        let mut sources = Sources { reasons: vec![None; 2], ..Sources::default() };
        let mut trouble = sources.trouble(vec![1], &reporter());
        trouble.tell(None);
        trouble.tell(Some("it was killed".to_owned()));
        trouble.tell(Some("it was killed".to_owned()));
        assert_eq!(sources.hear(), [1]);
        assert_eq!(sources.reasons, [None, Some("it was killed".to_owned())]);
        trouble.tell(None);
        assert_eq!((sources.hear(), &sources.reasons), (Vec::new(), &vec![None; 2]));
    }

    fn reporter() -> Reporter {
        Reporter::new(channel().0, UnixStream::pair().unwrap().0).unwrap()
    }

    fn wait(target: Target) -> TriggerConfig {
        let watched = Watched {
            threshold: Duration::from_millis(200),
            target,
            all_threads: false,
            idle_waits: false,
        };
        TriggerConfig {
            name: "waits".to_owned(),
            what: What::Wait(watched),
            delay: Duration::ZERO,
            min_interval: Duration::ZERO,
        }
    }
}
