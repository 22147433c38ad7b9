//! What the triggers of a configuration wait for.

use serde::Deserialize;
use std::time::Duration;

/// A trigger of the configuration.
#[derive(Clone, PartialEq, Debug)]
pub struct TriggerConfig {
    /// Its name.
    pub name: String,
    /// How long to wait after a hit before the save, so that the wait's end is in the trace.
    pub delay: Duration,
    /// Minimum time between two saves by it.
    pub min_interval: Duration,
    /// What it waits for.
    pub what: What,
}

/// What a trigger waits for.
#[derive(Clone, PartialEq, Debug)]
pub enum What {
    /// A thread waited for so long, or still does.
    Wait(Watched),
    /// An event loop stayed away from its wait for events for so long, or still does.
    Stall(Watched),
    /// Tasks were held up for so much of a time, as the kernel accounts it (PSI).
    Pressure(Pressure),
    /// The kernel reports a task that has been blocked for very long.
    HungTask,
    /// A thread that wanted to run came on so late.
    Heartbeat {
        /// How late.
        threshold: Duration,
    },
    /// A command that is run again and again succeeds.
    Command {
        /// For `sh -c`.
        command: String,
        /// How often.
        every: Duration,
    },
}

impl What {
    /// Its name in the configuration.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Wait(_) => "wait",
            Self::Stall(_) => "stall",
            Self::Pressure(_) => "pressure",
            Self::HungTask => "hung_task",
            Self::Heartbeat { .. } => "heartbeat",
            Self::Command { .. } => "command",
        }
    }

    /// What it waits for, in words.
    pub fn words(&self) -> String {
        let ms = |time: &Duration| unhitch_model::units::duration(time.as_nanos() as u64);
        match self {
            Self::Wait(watched) => {
                format!("waits of {} or more of {}", ms(&watched.threshold), watched.target.words())
            }
            Self::Stall(watched) => format!(
                "event loops of {} that stay away for {} or more",
                watched.target.words(),
                ms(&watched.threshold)
            ),
            Self::Pressure(pressure) => pressure.words(),
            Self::HungTask => "tasks that the kernel reports as hung".to_owned(),
            Self::Heartbeat { threshold } => format!("a wake-up that is {} late", ms(threshold)),
            Self::Command { command, every } => format!("{command:?} every {}", ms(every)),
        }
    }

    /// The control group that it is about.
    /// The threads whose waits it watches.
    pub(crate) fn watched(&self) -> Option<&Watched> {
        match self {
            Self::Wait(watched) | Self::Stall(watched) => Some(watched),
            _ => None,
        }
    }

    pub(crate) fn control_group(&self) -> Option<&str> {
        match self {
            Self::Wait(watched) | Self::Stall(watched) => match &watched.target {
                Target::ControlGroup(path) => Some(path),
                _ => None,
            },
            Self::Pressure(pressure) => pressure.control_group.as_deref(),
            Self::HungTask | Self::Heartbeat { .. } | Self::Command { .. } => None,
        }
    }
}

/// Threads whose waits are watched.
#[derive(Clone, PartialEq, Debug)]
pub struct Watched {
    /// The shortest wait that counts.
    pub threshold: Duration,
    /// Whose.
    pub target: Target,
    /// Of a process, control group or user: not only the first thread of each process.
    pub all_threads: bool,
    /// Also waits for events, for work and for a set time, which end when somebody wants something.
    pub idle_waits: bool,
}

/// Whose waits are watched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// Threads of this name.
    Thread(String),
    /// Processes of this name.
    Process(String),
    /// The process with this id.
    Pid(u32),
    /// The processes of this control group and those below it.
    ControlGroup(String),
    /// The processes of this user.
    User(u32),
    /// All processes.
    Anyone,
}

impl Target {
    fn words(&self) -> String {
        match self {
            Self::Thread(name) => format!("threads called {name}"),
            Self::Process(name) => format!("processes called {name}"),
            Self::Pid(pid) => format!("process {pid}"),
            Self::ControlGroup(path) => format!("the control group {path}"),
            Self::User(uid) => format!("user {uid}"),
            Self::Anyone => "all users".to_owned(),
        }
    }
}

/// A threshold of the kernel's pressure stall information.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pressure {
    /// What tasks wait for.
    pub resource: Resource,
    /// Only time in which all tasks were held up.
    pub full: bool,
    /// How much of it.
    pub threshold: Duration,
    /// In how long a time.
    pub window: Duration,
    /// Of this control group, else of the machine.
    pub control_group: Option<String>,
}

/// What pressure is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resource {
    /// CPUs.
    Cpu,
    /// Memory.
    Memory,
    /// Disks.
    Io,
}

impl Resource {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Io => "io",
        }
    }
}
