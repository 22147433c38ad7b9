//! The files that hold wait rules, as TOML. `waits/linux.toml` specifies them.

use super::layer::LayerLists;
use super::wait_class::{InterruptSource, WaitClass};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The embedded files, in the order in which their rules are tried.
pub(super) const EMBEDDED: [&str; 7] = [
    include_str!("../../waits/kernel-threads.toml"),
    include_str!("../../waits/programs.toml"),
    include_str!("../../waits/runtimes.toml"),
    include_str!("../../waits/linux.toml"),
    include_str!("../../waits/windows.toml"),
    include_str!("../../waits/frames.toml"),
    include_str!("../../waits/code.toml"),
];

/// A file of rules.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleFile {
    /// Lists of names that several rules share: `@poll` stands for the list `poll`.
    #[serde(default)]
    sets: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub wait: Vec<Rule<WaitClass>>,
    #[serde(default)]
    pub interrupt: Vec<Rule<InterruptSource>>,
    #[serde(default)]
    pub frames: BTreeMap<FrameRole, Vec<String>>,
    #[serde(default)]
    pub layers: LayerLists,
    /// What helps whoever waits too long, by the words of the wait.
    #[serde(default)]
    pub advice: BTreeMap<String, String>,
}

/// A rule as it is written.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule<C> {
    #[serde(alias = "source")]
    pub class: C,
    #[serde(default)]
    pub any: Vec<String>,
    #[serde(default)]
    pub all: Vec<String>,
    #[serde(default)]
    pub file: Vec<String>,
    #[serde(default)]
    pub leaf: Vec<String>,
    #[serde(default)]
    pub caller: Vec<String>,
    #[serde(default)]
    pub place: Vec<String>,
    #[serde(default)]
    pub generic: Vec<String>,
    /// What those who use the program call it.
    #[serde(default)]
    pub words: String,
    /// Whoever has what is waited for is on a CPU all the time.
    #[serde(default)]
    pub holder_runs: bool,
    /// It is no wait for a lock, even if an unlock ended it.
    #[serde(default)]
    pub message: bool,
    #[serde(default)]
    pub pump: bool,
    /// The pump of a toolkit for windows: its thread is an event loop whatever ends its waits.
    #[serde(default)]
    pub toolkit: bool,
    #[serde(default)]
    pub unwanted: bool,
}

/// What a function on a stack means by itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FrameRole {
    /// It belongs to the tracer.
    Tracer,
    /// It belongs to the scheduler.
    Scheduler,
    /// It runs soft interrupts because the task itself re-enabled bottom halves.
    SoftirqInTask,
    /// It delivers what was sent on this machine.
    LocalDelivery,
    /// An interrupt entered the kernel here: the frames that called it are a bystander's.
    InterruptEntry,
    /// It hands over a lock.
    Unlock,
    /// It ends a process.
    Exit,
    /// A debugger's call that lets the thread that it traces go on.
    Debugger,
    /// It asks the program that serves a file system.
    AsksServer,
    /// It waits for such requests.
    FileServer,
    /// It does the requests of a disk that is a file.
    ServesDisk,
    /// It closes a file or a connection.
    Closes,
    /// It waits until all readers of a lock have let it go.
    WaitsForReaders,
    /// It had such a lock alone.
    WasSoleOwner,
    /// It goes round and round until it has a lock.
    Spin,
    /// It goes round and round until another thread or process has done something.
    BusyWait,
    /// It interrupts a wait for a signal.
    Signal,
    /// It ends the freezing of a control group, or of the whole machine.
    Thaw,
    /// It is the outermost of a kernel thread's own functions.
    KernelThread,
}

impl RuleFile {
    pub fn parse(text: &str) -> Result<Self, RulesError> {
        let mut file: Self = toml::from_str(text).map_err(|error| RulesError::new(text, &error))?;
        for rule in &mut file.wait {
            for names in [&mut rule.place, &mut rule.any] {
                *names = with_sets(names, &file.sets).ok_or_else(|| RulesError::set(text))?;
            }
            rule.file.iter_mut().for_each(|file| *file = format!("[{file}]"));
        }
        Ok(file)
    }
}

/// `names` with the names of sets replaced by what is in them; nothing if there is no such set.
fn with_sets(names: &[String], sets: &BTreeMap<String, Vec<String>>) -> Option<Vec<String>> {
    let mut out = Vec::with_capacity(names.len());
    for name in names {
        match name.strip_prefix('@') {
            Some(set) => out.extend_from_slice(sets.get(set)?),
            None => out.push(name.clone()),
        }
    }
    Some(out)
}

/// A rule file that cannot be used: where, and what is expected there. *Why not what was found:*
/// the user may have named a file by mistake, or to learn what is in it, and the error would show
/// its contents.
#[derive(Debug, thiserror::Error)]
#[error("wait rules: line {line}, column {column}: {what}")]
pub struct RulesError {
    line: usize,
    column: usize,
    what: String,
}

impl RulesError {
    /// A rule names a set that the file does not have.
    fn set(text: &str) -> Self {
        let what = "expected the names after @ to be those of [sets]".to_owned();
        Self { line: text.lines().count().max(1), column: 1, what }
    }

    /// Advice is for words that no rule has.
    pub(super) fn advice(text: &str) -> Self {
        let what = "expected the names in [advice] to be the words of a rule".to_owned();
        Self { line: text.lines().count().max(1), column: 1, what }
    }

    fn new(text: &str, error: &toml::de::Error) -> Self {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let what = match error.message().rsplit_once("expected ") {
            Some((_, expected)) => format!("expected {expected}"),
            // Of the other messages, only this one quotes our field names rather than the file.
            None if error.message().starts_with("missing field") => error.message().to_owned(),
            None => error
                .message()
                .split(['`', '"', '\''])
                .next()
                .unwrap_or_default()
                .trim_end()
                .to_owned(),
        };
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            what,
        }
    }
}
