//! Opens a trace and names its frames.

use crate::args::{ReadingArgs, RulesArgs, TraceArgs};
use crate::rights;
use crate::terminal::note;
use anyhow::Context;
use std::path::{Path, PathBuf};
use unhitch_analysis::Rules;
use unhitch_formats::Error;
use unhitch_model::{Format, Trace, visible_path};
use unhitch_symbols::{Fetching, Options, SymbolPath, Symbolizer};

/// For whom a trace is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum For {
    /// People, on a terminal: its names are made visible.
    Text,
    /// Programs: its names are what they are.
    Programs,
}

impl For {
    /// As the options say: JSON and CSV are for programs.
    pub fn of(for_programs: bool) -> Self {
        if for_programs { Self::Programs } else { Self::Text }
    }
}

/// Reads the trace that a command is about.
pub fn trace(args: &TraceArgs, whom: For) -> anyhow::Result<Trace> {
    Reader::new(&args.reading).read_for(&args.path, whom)
}

/// How traces are read. It remembers what symbol servers have answered.
pub struct Reader {
    with: Vec<PathBuf>,
    pdbs: SymbolPath,
}

impl Reader {
    /// As the options say, or else the environment.
    pub fn new(args: &ReadingArgs) -> Self {
        Self { with: args.with.clone(), pdbs: symbol_path(args) }
    }

    /// Reads a trace; frames that the file does not name are named from this machine's files, where
    /// those are the ones recorded.
    pub fn read(&self, path: &Path) -> anyhow::Result<Trace> {
        let mut trace = match unhitch_formats::open_with(path, &self.with) {
            // They name the file themselves.
            Err(error @ (Error::Io { .. } | Error::Together { .. })) => return Err(error.into()),
            result => result.with_context(|| visible_path(path))?,
        };
        self.name(&mut trace);
        Ok(trace)
    }

    /// The same, for people or for programs.
    pub fn read_for(&self, path: &Path, whom: For) -> anyhow::Result<Trace> {
        let trace = self.read(path)?;
        Ok(if whom == For::Text { trace.for_text() } else { trace })
    }

    fn name(&self, trace: &mut Trace) {
        unhitch_analysis::mend(trace);
        match trace.meta.format {
            // It tells which build's PDBs name its functions, wherever it is read.
            Format::Etl => {
                let fetching = Fetching {
                    announce: |url| note(&format!("unhitch: fetching {url}")),
                    ..Fetching::default()
                };
                Symbolizer::new(Options {
                    pdbs: self.pdbs.clone(),
                    fetching,
                    ..rights::symbol_options()
                })
                .resolve(trace);
            }
            Format::PerfData if is_this_machine(trace) => {
                Symbolizer::new(rights::symbol_options()).resolve(trace);
                rights::warn_of_programs(trace);
            }
            Format::PerfData => trace.warnings.add(format!(
                "no function names: recorded on {} with kernel {}, which is not this machine",
                trace.meta.host, trace.meta.kernel
            )),
            // Our own files carry the names found on the recording machine; another machine's
            // kernel addresses mean nothing here.
            _ => {}
        }
    }
}

fn is_this_machine(trace: &Trace) -> bool {
    let read = |name: &str| {
        std::fs::read_to_string(Path::new("/proc/sys/kernel").join(name)).unwrap_or_default()
    };
    let same = |recorded: &str, here: String| recorded.is_empty() || recorded == here.trim();
    same(&trace.meta.kernel, read("osrelease")) && same(&trace.meta.host, read("hostname"))
}

/// Where PDBs are: as the options say, or else the environment.
pub fn symbol_path(args: &ReadingArgs) -> SymbolPath {
    let path =
        args.symbols.clone().or_else(|| std::env::var("_NT_SYMBOL_PATH").ok()).unwrap_or_default();
    let cache =
        user_folder(if cfg!(windows) { "LOCALAPPDATA" } else { "XDG_CACHE_HOME" }, ".cache");
    SymbolPath::parse(&path, cache.map(|cache| cache.join("unhitch/symbols")).as_deref())
}

/// The file of wait rules: the given one, else the user's, if there is one.
pub fn rules_file(args: &RulesArgs) -> Option<PathBuf> {
    let configured = || {
        user_folder("XDG_CONFIG_HOME", ".config")
            .map(|folder| folder.join("unhitch/waits.toml"))
            .filter(|path| path.exists())
    };
    args.file.clone().or_else(configured)
}

/// The wait rules: the given file's, else the user's, before the built-in ones.
pub fn rules(args: &RulesArgs) -> anyhow::Result<Rules> {
    match rules_file(args) {
        Some(path) => {
            let text = std::fs::read_to_string(&path).with_context(|| visible_path(&path))?;
            Rules::with_user_rules(&text).with_context(|| visible_path(&path))
        }
        None => Ok(Rules::default()),
    }
}

/// A folder of the user's: the one that `variable` names, or `name` in the home folder.
fn user_folder(variable: &str, name: &str) -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(name));
    std::env::var_os(variable).filter(|folder| !folder.is_empty()).map(Into::into).or_else(home)
}
