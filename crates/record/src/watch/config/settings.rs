//! What a configuration says.

use super::super::values::Share;
use crate::control::MACHINE_FOLDER;
use crate::options::Options;
use crate::triggers::TriggerConfig;
use rustc_hash::FxHashSet;
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;
use unhitch_formats::container::Readers;
use unhitch_model::InputMarks;

/// How the always-on recorder works.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// What is recorded.
    pub recorder: Options,
    /// The folder of the socket.
    pub socket_folder: PathBuf,
    /// The group that may mark and save.
    pub group: Option<u32>,
    /// What the group may see.
    pub group_reads: GroupReads,
    /// Where traces go.
    pub folder: PathBuf,
    /// Which traces are kept.
    pub retention: Retention,
    /// Limits of all triggers together.
    pub limits: Limits,
    /// Which marks of input are taken.
    pub input: InputMarks,
    /// Which marks are made of what the machine's input devices report.
    pub devices: InputMarks,
    /// Whether a trace is judged after it was saved.
    pub verdict: bool,
    /// The file for metrics, and how often it is written.
    pub metrics: Option<(PathBuf, Duration)>,
    /// What triggers a save.
    pub triggers: Vec<TriggerConfig>,
}

/// What the members of the group may see.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupReads {
    /// The names of traces.
    Nothing,
    /// The verdicts.
    #[default]
    Verdicts,
    /// The traces.
    Traces,
}

impl GroupReads {
    /// Its name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Verdicts => "verdicts",
            Self::Traces => "traces",
        }
    }
}

/// Which traces are kept. The oldest automatic one goes first, and never one that was saved by hand
/// or has a note.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Retention {
    /// Maximum number of traces; 0 for any.
    pub max_traces: usize,
    /// Maximum bytes of all; 0 for any.
    pub max_bytes: u64,
    /// How much of the disk stays free.
    pub min_free: Share,
}

/// Limits of all triggers together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Automatic saves in an hour.
    pub per_hour: u32,
    /// How many of them may come at once.
    pub burst: u32,
    /// Minimum time between two saves that clients ask for automatically.
    pub min_interval: Duration,
    /// How long to wait after such a request.
    pub delay: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let (min_interval, delay) = (Duration::from_secs(60), Duration::from_millis(500));
        Self { per_hour: 10, burst: 3, min_interval, delay }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            recorder: Options::default(),
            socket_folder: MACHINE_FOLDER.into(),
            group: None,
            group_reads: GroupReads::default(),
            folder: ".".into(),
            retention: Retention { max_traces: 0, max_bytes: 0, min_free: Share::Bytes(0) },
            limits: Limits::default(),
            input: InputMarks::Private,
            devices: InputMarks::Off,
            verdict: false,
            metrics: None,
            triggers: Vec::new(),
        }
    }
}

impl Config {
    /// The names of the triggers.
    pub(in crate::watch) fn trigger_names(&self) -> FxHashSet<String> {
        self.triggers.iter().map(|trigger| trigger.name.clone()).collect()
    }

    /// Who may read the verdicts beside the traces.
    pub(in crate::watch) fn verdict_readers(&self) -> Readers {
        match self.group.filter(|_| self.group_reads != GroupReads::Nothing) {
            Some(group) => Readers::Group(group),
            None => Readers::Owner,
        }
    }

    /// The options that take effect only at the next start, and are different in `new`.
    pub(in crate::watch) fn fixed_parts_that_differ(&self, new: &Self) -> Vec<&'static str> {
        let recorder = |config: &Self| {
            format!("{:?}", Options { readers: Readers::Owner, ..config.recorder.clone() })
        };
        let differ = [
            ("recorder", recorder(self) != recorder(new)),
            ("access.socket_folder", self.socket_folder != new.socket_folder),
            ("access.group", self.group != new.group),
            ("traces.folder", self.folder != new.folder),
        ];
        differ.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }

    /// This configuration, with those parts as they are in the one that is in use.
    pub(in crate::watch) fn with_fixed_parts_of(self, used: &Self) -> Self {
        // The group stays; whether it may read traces does not.
        let readers = match (self.recorder.readers, used.group) {
            (Readers::Group(_), Some(group)) => Readers::Group(group),
            _ => Readers::Owner,
        };
        Self {
            recorder: Options { readers, ..used.recorder.clone() },
            socket_folder: used.socket_folder.clone(),
            group: used.group,
            folder: used.folder.clone(),
            ..self
        }
    }
}
