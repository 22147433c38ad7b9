//! Which live processes have which files mapped. This tells us how to open the files, and for which
//! users.

use crate::procfs::{self, LiveProcess};
use rustc_hash::FxHashMap;
use rustix::fs::Stat;
use std::path::{Path, PathBuf};
use unhitch_formats::perf_data::record::FileId;
use unhitch_model::{Module, Time};
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
    /// By the paths of the trace's modules.
    by_path: FxHashMap<PathBuf, Vec<Program>>,
    /// By these paths: the file, if it can be told from others.
    files: FxHashMap<PathBuf, FileId>,
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
        let files = files_of(&mappings);
        let mut programs = Self { users, files, ..Self::default() };
        for map in mappings.iter().filter(|map| map.is_live) {
            let &MappedFile { pid, start_avma, len, .. } = map;
            let program = Program { pid, user: programs.users.get(&pid).copied(), start_avma, len };
            if let Some(path) = programs.path_of(map) {
                programs.add(path, program);
            }
        }
        programs
    }

    /// The path of the module that a mapping belongs to; `None` if more than one file is called so.
    fn path_of(&self, map: &MappedFile) -> Option<PathBuf> {
        let file = map.file.comparable(map.time);
        let is = |path: &Path| file.is_none() || self.files.get(path).copied() == file;
        let other = |file| Some(other(&map.path, file)).filter(|path| is(path));
        if is(&map.path) { Some(map.path.clone()) } else { other(file?) }
    }

    fn add(&mut self, path: PathBuf, program: Program) {
        let programs = self.by_path.entry(path).or_default();
        if programs.len() < MAX_PER_FILE {
            programs.push(program);
        }
    }

    /// False if the file of the module at `path` is known to be another one.
    pub(super) fn may_be(&self, path: &Path, file: &Stat) -> bool {
        let (major, minor) = (rustix::fs::major(file.st_dev), rustix::fs::minor(file.st_dev));
        let found = FileId { major, minor, inode: file.st_ino };
        let known = self.files.get(path).filter(|known| known.is_on_disk());
        !found.is_on_disk() || known.is_none_or(|known| *known == found)
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

/// By the path of a module, its file: by the plain path, the one that was mapped last.
fn files_of(mappings: &[MappedFile]) -> FxHashMap<PathBuf, FileId> {
    let known = |map: &MappedFile| Some((map.path.clone(), map.file.comparable(map.time)?));
    let mut files: FxHashMap<PathBuf, FileId> = mappings.iter().filter_map(known).collect();
    let mut others: FxHashMap<PathBuf, FileId> = FxHashMap::default();
    for (path, file) in mappings.iter().filter_map(known) {
        if files[&path] != file {
            let of_name = others.entry(other(&path, file)).or_insert(file);
            // Two of the same number, on two devices, have one name, and no file.
            *of_name = if *of_name == file { file } else { FileId::default() };
        }
    }
    files.extend(others);
    files
}

/// The path of a module whose file was at `path` before another.
fn other(path: &Path, file: FileId) -> PathBuf {
    Module::path_of_other(&path.to_string_lossy(), file.inode).into()
}

impl FromIterator<(PathBuf, Program)> for Programs {
    fn from_iter<I: IntoIterator<Item = (PathBuf, Program)>>(mappings: I) -> Self {
        let mut programs = Self::default();
        mappings.into_iter().for_each(|(path, program)| programs.add(path, program));
        programs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_at_a_path_is_reached_through_its_own_mappings() {
        let map = |ms: u64, pid: u32, major: u32, inode: u64| MappedFile {
            pid,
            start_avma: 0x1000,
            len: 0x1000,
            path: "/app".into(),
            time: Time::from_nanos(ms * 1_000_000),
            file: FileId { major, minor: 0, inode },
            is_live: pid != 4,
        };
        let pids = |mappings: &[MappedFile], path: &str| -> Vec<u32> {
            let programs = Programs::new(&[], mappings.iter().cloned());
            programs.mappings_of(Path::new(path)).iter().map(|program| program.pid).collect()
        };
        let three = [map(0, 1, 8, 11), map(5, 2, 8, 12), map(6, 3, 8, 13), map(7, 4, 8, 13)];
        assert_eq!(pids(&three, "/app"), [3], "the last, of the process that is alive");
        assert_eq!(pids(&three, "/app (inode 11)"), [1]);
        assert_eq!(pids(&three, "/app (inode 12)"), [2]);
        assert!(pids(&three, "/app (inode 13)").is_empty());
        let devices = [map(1, 1, 8, 11), map(2, 2, 9, 11), map(3, 3, 8, 12)];
        assert!(pids(&devices, "/app (inode 11)").is_empty(), "which of the two is not known");
        assert_eq!(pids(&[map(0, 1, 0, 11), map(5, 2, 8, 12)], "/app"), [1, 2], "an overlay");
    }
}
