//! Who reads the unwind tables of mapped files.

use crate::naming::{Namer, NamingProcess, Program, Programs};
use crate::procfs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use unhitch_symbols::{Files, LocalFiles, UnwindRules, Wanted};

/// Reads the rules of mapped files.
pub trait RuleReader: Send {
    /// Prepares, on the thread that will ask for rules.
    fn start(&mut self);

    /// The rules of the file at `path`, which the process has mapped for `len` bytes at
    /// `start_avma`; `None` if it cannot be read or has none.
    fn rules(&mut self, pid: u32, start_avma: u64, len: u64, path: &Path) -> Option<UnwindRules>;
}

/// Reads them in this process, with its own rights: for recordings of one's own processes.
#[derive(Debug)]
pub struct LocalRules;

impl RuleReader for LocalRules {
    fn start(&mut self) {}

    fn rules(&mut self, _: u32, _: u64, _: u64, path: &Path) -> Option<UnwindRules> {
        let files = LocalFiles { kallsyms: PathBuf::new(), perf_map_dir: PathBuf::new() };
        unhitch_symbols::unwind_rules(files.open(&Wanted::Mapped(path.to_owned())).ok()?)
    }
}

impl RuleReader for NamingProcess {
    fn start(&mut self) {
        self.prepare();
    }

    fn rules(&mut self, pid: u32, start_avma: u64, len: u64, path: &Path) -> Option<UnwindRules> {
        let program = Program { pid, user: procfs::user(pid), start_avma, len };
        let programs = Arc::new(Programs::from_iter([(path.to_owned(), program)]));
        self.unwind_rules(&programs, Wanted::Mapped(path.to_owned()))
    }
}
