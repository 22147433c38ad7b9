//! Opens a trace and names its frames.

use crate::args::{ReadingArgs, RulesArgs, TraceArgs};
use crate::rights;
use crate::settings::{
    DEBUG_SERVERS, PDB_PATH, debuginfod, fetching, refuses, rules_file, symbol_path,
};
use anyhow::Context;
use std::path::{Path, PathBuf};
use unhitch_analysis::Rules;
use unhitch_formats::Error;
use unhitch_model::{Format, FrameId, ModuleKind, Trace, visible_path};
use unhitch_symbols::{Debuginfod, Fetching, Options, SymbolPath, Symbolizer};

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

/// Reads traces. It remembers what servers have answered.
pub struct Reader {
    with: Vec<PathBuf>,
    pdbs: SymbolPath,
    fetching: Fetching,
    debuginfod: Debuginfod,
}

impl Reader {
    /// Uses the options, or else the environment.
    pub fn new(args: &ReadingArgs) -> Self {
        Self {
            with: args.with.clone(),
            pdbs: symbol_path(args),
            fetching: fetching(),
            debuginfod: debuginfod().unwrap_or_default(),
        }
    }

    /// Reads a trace. Frames that have no names in the file are named from this machine's files, if
    /// those are the ones that were recorded.
    pub fn read(&self, path: &Path) -> anyhow::Result<Trace> {
        let mut trace = self.read_without_names(path)?;
        self.name(&mut trace);
        Ok(trace)
    }

    /// Reads a trace. Its frames have only the names that are in the file.
    pub fn read_without_names(&self, path: &Path) -> anyhow::Result<Trace> {
        let mut trace = match unhitch_formats::open_with(path, &self.with) {
            // These errors already name the file.
            Err(error @ (Error::Io { .. } | Error::Together { .. })) => return Err(error.into()),
            result => result.with_context(|| visible_path(path))?,
        };
        unhitch_analysis::repair(&mut trace);
        Ok(trace)
    }

    /// Reads the newest part of a long recording: [`unhitch_formats::open_newest`]. `None` if that
    /// fails: reading all of it then says why.
    pub fn read_newest(&self, path: &Path) -> Option<Trace> {
        let mut trace = unhitch_formats::open_newest(path).ok()??;
        unhitch_analysis::repair(&mut trace);
        self.name(&mut trace);
        Some(trace)
    }

    /// Reads a trace for people or for programs.
    pub fn read_for(&self, path: &Path, whom: For) -> anyhow::Result<Trace> {
        let trace = self.read(path)?;
        Ok(if whom == For::Text { trace.for_text() } else { trace })
    }

    fn name(&self, trace: &mut Trace) {
        match trace.meta.format {
            // An ETL file identifies the PDBs that name its functions, on whatever machine it is
            // read.
            Format::Etl => {
                let (pdbs, fetching) = (self.pdbs.clone(), self.fetching.clone());
                let options = rights::symbol_options();
                Symbolizer::new(Options { pdbs, fetching, ..options }).resolve(trace);
            }
            // Our own files carry the names found on the recording machine, unless the recording was
            // interrupted; kernel addresses of another machine mean nothing here.
            Format::Hitch if !trace.meta.is_interrupted && self.debuginfod.is_empty() => {}
            Format::Hitch if !trace.meta.is_interrupted => {
                self.local_symbolizer().resolve_by_build_id(trace);
            }
            Format::PerfData | Format::Hitch if is_this_machine(trace) => {
                self.local_symbolizer().resolve(trace);
                rights::warn_of_programs(trace);
            }
            Format::PerfData | Format::Hitch => {
                self.local_symbolizer().resolve_by_build_id(trace);
                trace.warnings.add(format!(
                    "function names are missing: the trace was recorded on {} with kernel {}; \
                     elsewhere, a perf.data file, or a recording that was interrupted, gets only \
                     the names in programs of the same build",
                    trace.meta.host, trace.meta.kernel
                ));
            }
            _ if trace.meta.is_named && self.debuginfod.is_empty() => {}
            _ if trace.meta.is_named => self.local_symbolizer().resolve_by_build_id(trace),
            // Where the source says which machine and kernel it was, and they are these.
            _ if !trace.meta.kernel.is_empty() && is_this_machine(trace) => {
                self.local_symbolizer().resolve(trace);
                rights::warn_of_programs(trace);
            }
            _ => self.local_symbolizer().resolve_by_build_id(trace),
        }
        let is_image = |kind| matches!(kind, ModuleKind::Image { .. });
        if refuses(PDB_PATH) && self.pdbs.is_empty() && has_nameless(trace, is_image) {
            trace.warnings.add(
                "_NT_SYMBOL_PATH is not used, because unhitch runs as root; --symbols PATH is used",
            );
        }
        if refuses(DEBUG_SERVERS) && has_nameless(trace, |kind| kind == ModuleKind::File) {
            trace.warnings.add(
                "some functions have no names, and DEBUGINFOD_URLS is not used, because unhitch \
                 runs as root; an ordinary user who may read the trace can use it",
            );
        }
    }

    /// Names code by this machine's files, and by those on servers that the user names.
    fn local_symbolizer(&self) -> Symbolizer {
        let debuginfod = self.debuginfod.clone();
        Symbolizer::new(Options { debuginfod, ..rights::symbol_options() })
    }
}

/// True if there are modules of this kind that a server could have names for.
fn has_nameless(trace: &Trace, is_kind: fn(ModuleKind) -> bool) -> bool {
    trace.stacks.frames().iter().zip(0..).any(|(frame, index)| {
        let module = trace.modules.get(frame.module);
        module.is_some_and(|module| is_kind(module.kind))
            && !trace.modules.build_id(frame.module).is_empty()
            && trace.symbols.get(FrameId(index)).is_empty()
    })
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
