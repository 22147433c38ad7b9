//! Which live processes have which files mapped. This tells us how to open the files, and for which
//! users.

use crate::procfs::{self, LiveProcess};
use rustc_hash::FxHashMap;
use rustix::fs::Stat;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use unhitch_formats::perf_data::record::FileId;
use unhitch_model::Time;
use unhitch_symbols::Wanted;

/// Maximum number of mappings kept per file. More than one, because a process may exit meanwhile.
const MAX_PER_FILE: usize = 4;

/// A file that a process has mapped.
#[derive(Clone, Debug)]
pub(crate) struct MappedFile {
    pub(crate) pid: u32,
    pub(crate) start_avma: u64,
    pub(crate) len: u64,
    pub(crate) path: PathBuf,
    /// When it was mapped.
    pub(crate) time: Time,
    pub(crate) file: FileId,
    /// False if the process has exited.
    pub(crate) is_live: bool,
}

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
    /// By path: the file that was mapped last, of those that are told apart. Functions are named from
    /// this one.
    newest: FxHashMap<PathBuf, FileId>,
    users: FxHashMap<u32, u32>,
}

impl Programs {
    /// Collects the known `mappings` of `processes`.
    pub(crate) fn new(
        processes: &[LiveProcess],
        mappings: impl Iterator<Item = MappedFile>,
    ) -> Self {
        let users: FxHashMap<u32, u32> = processes
            .iter()
            .filter_map(|process| Some((process.pid, procfs::user(process.pid)?)))
            .collect();
        let mut mappings: Vec<MappedFile> = mappings.collect();
        mappings.sort_by_key(|map| map.time);
        let known = mappings.iter().filter(|map| map.file.inode != 0);
        let newest: FxHashMap<PathBuf, FileId> =
            known.map(|map| (without_deleted(&map.path).to_owned(), map.file)).collect();
        let is_newest = |map: &MappedFile| {
            let newest = newest.get(without_deleted(&map.path));
            map.file.inode == 0 || newest.is_none_or(|newest| *newest == map.file)
        };
        let usable = mappings.iter().filter(|map| map.is_live && is_newest(map));
        let programs = usable.map(|map| {
            let &MappedFile { pid, start_avma, len, .. } = map;
            let user = users.get(&pid).copied();
            (without_deleted(&map.path).to_owned(), Program { pid, user, start_avma, len })
        });
        let by_path = Self::from_iter(programs).by_path;
        Self { by_path, newest, users }
    }

    /// False if the file that was mapped last at `path` is known to be another one.
    pub(super) fn may_be(&self, path: &Path, file: &Stat) -> bool {
        let (major, minor) = (rustix::fs::major(file.st_dev), rustix::fs::minor(file.st_dev));
        let found = FileId { major, minor, inode: file.st_ino };
        let newest = self.newest.get(path).filter(|newest| newest.is_on_disk());
        !found.is_on_disk() || newest.is_none_or(|newest| *newest == found)
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
fn without_deleted(path: &Path) -> &Path {
    let known = path.as_os_str().as_bytes().strip_suffix(b" (deleted)");
    known.map_or(path, |path| Path::new(OsStr::from_bytes(path)))
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
        Self { by_path, ..Self::default() }
    }
}
