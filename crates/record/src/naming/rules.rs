//! Who reads the unwind tables of mapped files.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use unhitch_symbols::{Files, LocalFiles, UnwindRules, Wanted};

/// Reads the rules of mapped files.
pub trait RuleReader: Send {
    /// The file at `path`, which the process has mapped for `len` bytes at `start_avma`.
    fn open(&mut self, pid: u32, start_avma: u64, len: u64, path: &Path) -> Option<File>;

    /// Its rules; `None` if it cannot be read or has none, or `stop` is set.
    fn rules(&mut self, file: File, stop: &AtomicBool) -> Option<UnwindRules>;
}

/// Reads them in this process, with its own rights: for recordings of one's own processes.
#[derive(Debug)]
pub struct LocalRules;

impl RuleReader for LocalRules {
    fn open(&mut self, _: u32, _: u64, _: u64, path: &Path) -> Option<File> {
        let files = LocalFiles { kallsyms: PathBuf::new(), perf_map_dir: PathBuf::new() };
        files.open(&Wanted::Mapped(path.to_owned())).ok()
    }

    fn rules(&mut self, file: File, _: &AtomicBool) -> Option<UnwindRules> {
        unhitch_symbols::unwind_rules(file)
    }
}
