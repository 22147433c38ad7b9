//! The mapped files, and what was read of each.

use super::pool::Extent;
use crate::procfs::ExecutableMap;
use rustc_hash::FxHashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use unhitch_formats::perf_data::record::FileId as Inode;
use unhitch_symbols::UnwindRules;

/// Maximum number of mappings of a process: what the kernel's part can search.
pub(super) const MAX_MAPPINGS_PER_PROCESS: usize = 511;

/// A file, as one process has it mapped. While one has, no other file has the same.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct FileId {
    pub(super) path: Vec<u8>,
    pub(super) device: u64,
    pub(super) inode: u64,
}

/// The rules of a file.
pub(super) struct FileRules {
    pub(super) rules: UnwindRules,
    /// Where its rows are.
    pub(super) rows: Extent,
    /// Processes that have it mapped.
    pub(super) users: usize,
    /// Its length, and when it was written and changed. A new file may have the inode of one that
    /// is gone, but not these.
    pub(super) state: FileState,
}

pub(super) type FileState = [i64; 5];

pub(super) fn state_of(file: &File) -> Option<FileState> {
    let about = file.metadata().ok()?;
    let length = about.len().cast_signed();
    Some([length, about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec()])
}

/// False if this is certainly another file than the mapped one: one of another mount namespace, or one
/// that has replaced it.
pub(super) fn may_be(file: &File, map: &ExecutableMap) -> bool {
    let Ok(about) = file.metadata() else { return false };
    let found = Inode {
        major: libc::major(about.dev()),
        minor: libc::minor(about.dev()),
        inode: about.ino(),
    };
    !found.is_on_disk() || !map.file().is_on_disk() || found == map.file()
}

impl FileRules {
    pub(super) fn is_unused(&self) -> bool {
        self.users == 0
    }
}

/// Where the file's lowest address is in the process, by the segment that `map` is a part of.
pub(super) fn base_avma(map: &ExecutableMap, rules: &UnwindRules) -> Option<u64> {
    const PAGE: u64 = 4096;
    let mapped = map.file_offset..map.file_offset.checked_add(map.len)?;
    let segment = rules.segments.iter().find(|segment| {
        let start = segment.file_offset / PAGE * PAGE;
        start < mapped.end && mapped.start < segment.file_offset.saturating_add(segment.len)
    })?;
    let relative = segment.relative_svma.wrapping_sub(segment.file_offset);
    Some(map.start_avma.wrapping_sub(map.file_offset.wrapping_add(relative)))
}

/// Keeps as many mappings as the kernel's part can search: the program and its libraries are mapped
/// once or twice each, so what is mapped most often goes.
pub(super) fn keep_rarest(maps: &mut Vec<ExecutableMap>) {
    let file = |map: &ExecutableMap| (map.path.clone(), map.device, map.inode);
    let mut times = FxHashMap::default();
    for map in maps.iter() {
        *times.entry(file(map)).or_insert(0) += 1;
    }
    maps.sort_by_cached_key(|map| times.get(&file(map)).copied());
    maps.truncate(MAX_MAPPINGS_PER_PROCESS);
}
