//! Which live processes have which files mapped. This tells us how to open the files, and for which
//! users.

use crate::procfs::{self, LiveProcess};
use rustc_hash::FxHashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use unhitch_symbols::Wanted;

/// Maximum number of mappings kept per file. More than one, because a process may exit meanwhile.
const MAX_PER_FILE: usize = 4;

/// A process that has a file mapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    pub(crate) pid: u32,
    /// Its user; `None` if it has exited.
    pub(crate) user: Option<u32>,
    pub(crate) start_avma: u64,
    pub(crate) len: u64,
}

/// The mapped files of all live processes.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    by_path: FxHashMap<PathBuf, Vec<Program>>,
    users: FxHashMap<u32, u32>,
}

impl Programs {
    /// Collects the known `mappings` (pid, address, length, path) of `processes`.
    pub(crate) fn new(
        processes: &[LiveProcess],
        mappings: impl Iterator<Item = (u32, u64, u64, PathBuf)>,
    ) -> Self {
        let users: FxHashMap<u32, u32> = processes
            .iter()
            .filter_map(|process| Some((process.pid, procfs::user(process.pid)?)))
            .collect();
        let mappings = mappings.map(|(pid, start_avma, len, path)| {
            let user = users.get(&pid).copied();
            let path = without_deleted(path);
            (path, Program { pid, user, start_avma, len })
        });
        Self { by_path: Self::from_iter(mappings).by_path, users }
    }

    /// The processes that have the file at `path` mapped.
    pub(super) fn mappings_of(&self, path: &Path) -> &[Program] {
        self.by_path.get(path).map_or(&[], Vec::as_slice)
    }

    /// The user whose file this is, if known.
    pub(super) fn user_of(&self, wanted: &Wanted) -> Option<u32> {
        match wanted {
            Wanted::Mapped(path) | Wanted::Debug { of: path, .. } => {
                self.mappings_of(path).iter().find_map(|program| program.user)
            }
            Wanted::PerfMap(pid) => self.users.get(pid).copied(),
            Wanted::KernelSymbols | Wanted::KernelModules => None,
        }
    }
}

/// Strips the mark of a deleted file: it can still be opened through its mapping.
fn without_deleted(path: PathBuf) -> PathBuf {
    let known = path
        .as_os_str()
        .as_bytes()
        .strip_suffix(b" (deleted)")
        .map(|path| PathBuf::from(OsStr::from_bytes(path)));
    known.unwrap_or(path)
}

impl FromIterator<(PathBuf, Program)> for Programs {
    fn from_iter<I: IntoIterator<Item = (PathBuf, Program)>>(mappings: I) -> Self {
        let mut by_path: FxHashMap<PathBuf, Vec<Program>> = FxHashMap::default();
        for (path, program) in mappings {
            let programs = by_path.entry(path).or_default();
            if programs.len() < MAX_PER_FILE {
                programs.push(program);
            }
        }
        Self { by_path, users: FxHashMap::default() }
    }
}
