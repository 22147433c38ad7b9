//! Opens a trace and names its frames.

use crate::args::{ReadingArgs, RulesArgs, TraceArgs};
use crate::rights;
use crate::settings::{rules_file, symbol_path};
use crate::terminal::note;
use anyhow::Context;
use std::path::{Path, PathBuf};
use unhitch_analysis::Rules;
use unhitch_formats::Error;
use unhitch_model::{Format, Trace, visible_path};
use unhitch_symbols::{Fetching, Options, SymbolPath, Symbolizer};

/// Whether the output is for people or programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum For {
    /// For people, on a terminal: control characters in names are made visible.
    Text,
    /// For programs: names are left as they are.
    Programs,
}

impl For {
    /// Programs if the options ask for JSON or CSV, else people.
    pub fn of(for_programs: bool) -> Self {
        if for_programs { Self::Programs } else { Self::Text }
    }
}

/// Reads the trace named on the command line.
pub fn trace(args: &TraceArgs, whom: For) -> anyhow::Result<Trace> {
    Reader::new(&args.reading).read_for(&args.path, whom)
}

/// Reads traces. It remembers what symbol servers have answered.
pub struct Reader {
    with: Vec<PathBuf>,
    pdbs: SymbolPath,
}

impl Reader {
    /// Uses the options, or else the environment.
    pub fn new(args: &ReadingArgs) -> Self {
        Self { with: args.with.clone(), pdbs: symbol_path(args) }
    }

    /// Reads a trace. Frames that have no names in the file are named from this machine's files, if
    /// those are the ones that were recorded.
    pub fn read(&self, path: &Path) -> anyhow::Result<Trace> {
        let mut trace = match unhitch_formats::open_with(path, &self.with) {
            // These errors already name the file.
            Err(error @ (Error::Io { .. } | Error::Together { .. })) => return Err(error.into()),
            result => result.with_context(|| visible_path(path))?,
        };
        self.name(&mut trace);
        Ok(trace)
    }

    /// Reads a trace for people or for programs.
    pub fn read_for(&self, path: &Path, whom: For) -> anyhow::Result<Trace> {
        let trace = self.read(path)?;
        Ok(if whom == For::Text { trace.for_text() } else { trace })
    }

    fn name(&self, trace: &mut Trace) {
        unhitch_analysis::repair(trace);
        match trace.meta.format {
            // An ETL file identifies the PDBs that name its functions, on whatever machine it is
            // read.
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
                "no function names: the trace was recorded on {} with kernel {}, and a perf.data \
                 file gets names only on the machine and kernel that recorded it",
                trace.meta.host, trace.meta.kernel
            )),
            // Our own files carry the names found on the recording machine; kernel addresses of
            // another machine mean nothing here.
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

/// The wait rules: those of the rules file, if any, then the built-in ones.
pub fn rules(args: &RulesArgs) -> anyhow::Result<Rules> {
    match rules_file(args) {
        Some(path) => {
            let text = std::fs::read_to_string(&path).with_context(|| visible_path(&path))?;
            Rules::with_user_rules(&text).with_context(|| visible_path(&path))
        }
        None => Ok(Rules::default()),
    }
}
