//! Which saved traces are deleted so that others have room.
//!
//! The oldest automatic trace goes first, with its verdict. One that was saved by hand or has a note
//! is never deleted: somebody may still want it. Nothing is deleted for a disk that others have
//! filled so far that all of it would not help: whoever can fill it could destroy the evidence.

use super::config::Retention;
use crate::sys;
use rustc_hash::FxHashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use unhitch_formats::container::{read_save, verdict_path};

/// Maximum number of files of a folder that are looked at.
const MAX_FILES: usize = 100_000;

/// The traces of a folder.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Disk {
    pub(super) traces: usize,
    pub(super) bytes: u64,
    pub(super) free_bytes: u64,
}

/// Keeps a folder within its limits.
#[derive(Default)]
pub(super) struct Keeper {
    /// Whether a trace must be kept, as it was at that time with that length.
    known: FxHashMap<PathBuf, (SystemTime, u64, bool)>,
}

struct Trace {
    path: PathBuf,
    bytes: u64,
    modified: SystemTime,
}

impl Keeper {
    /// Deletes automatic traces until there is room for `more` bytes and `count` further traces.
    /// Returns what was deleted, and whether there is room now.
    pub(super) fn make_room(
        &mut self,
        folder: &Path,
        limits: &Retention,
        count: usize,
        more: u64,
    ) -> (Vec<PathBuf>, bool) {
        let mut traces = traces(folder);
        traces.sort_by(|a, b| (a.modified, &a.path).cmp(&(b.modified, &b.path)));
        let mut bytes: u64 = traces.iter().map(|trace| trace.bytes).sum();
        let mut number = traces.len();
        let has_room = |number: usize, bytes: u64| {
            let in_number = limits.max_traces == 0 || number + count <= limits.max_traces;
            let in_bytes = limits.max_bytes == 0 || bytes.saturating_add(more) <= limits.max_bytes;
            in_number && in_bytes && has_free(folder, limits, more)
        };
        let lacking = lacking(folder, limits, more);
        let automatic = traces.iter().filter(|trace| lacking > 0 && !self.must_keep(trace));
        if automatic.map(|trace| trace.bytes).sum::<u64>() < lacking {
            return (Vec::new(), false);
        }
        let mut deleted = Vec::new();
        for trace in traces {
            if has_room(number, bytes) {
                return (deleted, true);
            }
            if self.must_keep(&trace) {
                continue;
            }
            if fs::remove_file(&trace.path).is_ok() {
                let _ = fs::remove_file(verdict_path(&trace.path));
                self.known.remove(&trace.path);
                (number, bytes) = (number - 1, bytes - trace.bytes);
                deleted.push(trace.path);
            }
        }
        let room = has_room(number, bytes);
        (deleted, room)
    }

    /// Whether somebody may still want a trace. One that cannot be read may be one of those.
    fn must_keep(&mut self, trace: &Trace) -> bool {
        match self.known.get(&trace.path) {
            Some((modified, bytes, keep))
                if (*modified, *bytes) == (trace.modified, trace.bytes) =>
            {
                return *keep;
            }
            _ => {}
        }
        let keep = match read_save(&trace.path) {
            Ok(Some((save, has_notes))) => save.is_none_or(|save| save.by_hand) || has_notes,
            Ok(None) | Err(_) => true,
        };
        if self.known.len() >= MAX_FILES {
            self.known.clear();
        }
        self.known.insert(trace.path.clone(), (trace.modified, trace.bytes, keep));
        keep
    }
}

/// Whether so much of the disk stays free when `more` bytes are written.
pub(super) fn has_free(folder: &Path, limits: &Retention, more: u64) -> bool {
    lacking(folder, limits, more) == 0
}

/// How many bytes must become free for that.
fn lacking(folder: &Path, limits: &Retention, more: u64) -> u64 {
    // Of a file system that does not say how much it has, nothing is known.
    let Ok(Some(space)) = sys::disk_space(folder) else { return 0 };
    let wanted = limits.min_free.of(space.total).max(1).saturating_add(more);
    wanted.saturating_sub(space.free_for_all)
}

/// The length of the newest trace of a folder.
pub(super) fn newest_bytes(folder: &Path) -> Option<u64> {
    traces(folder).into_iter().max_by_key(|trace| trace.modified).map(|trace| trace.bytes)
}

/// What a folder holds.
pub(super) fn disk(folder: &Path) -> Disk {
    let traces = traces(folder);
    Disk {
        traces: traces.len(),
        bytes: traces.iter().map(|trace| trace.bytes).sum(),
        free_bytes: sys::disk_space(folder).ok().flatten().map_or(0, |space| space.free_for_all),
    }
}

/// The traces of a folder: plain files that are called so.
fn traces(folder: &Path) -> Vec<Trace> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_FILES);
    let trace = |entry: fs::DirEntry| {
        let path = entry.path();
        let name = path.file_name()?.to_str()?;
        let about = (name.ends_with(".hitch") && !name.starts_with('.'))
            .then(|| fs::symlink_metadata(&path).ok())?
            .filter(fs::Metadata::is_file)?;
        let modified = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        Some(Trace { bytes: about.len(), modified, path })
    };
    entries.filter_map(trace).collect()
}

#[cfg(test)]
mod tests {
    use super::super::values::Share;
    use super::*;
    use std::time::Duration;
    use unhitch_formats::container::{
        ContainerMeta, ContainerParts, SaveFile, set_notes, write_container,
    };

    /// A trace that is `age` minutes old.
    fn trace(folder: &Path, name: &str, by_hand: Option<bool>, age: u64) -> PathBuf {
        let path = folder.join(name);
        let save = by_hand.map(|by_hand| SaveFile { by_hand, ..SaveFile::default() });
        let parts = ContainerParts {
            meta: &ContainerMeta::default(),
            perf_data: &mut |out| out.write_all(&[7; 1000]),
            rings: None,
            symbols: None,
            notes: None,
            extra: save.into_iter().filter_map(|save| save.entry()).collect(),
        };
        write_container(&path, parts).unwrap();
        make_older(&path, age);
        path
    }

    fn make_older(path: &Path, minutes: u64) {
        let time = SystemTime::now() - Duration::from_secs(60 * minutes);
        fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }

    fn limits(max_traces: usize, max_bytes: u64) -> Retention {
        Retention { max_traces, max_bytes, min_free: Share::Bytes(0) }
    }

    fn names(paths: &[PathBuf]) -> Vec<&str> {
        paths.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect()
    }

    #[test]
    fn the_oldest_automatic_trace_goes_first_and_none_that_somebody_wants() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        trace(folder, "hand.hitch", Some(true), 90);
        trace(folder, "recorded.hitch", None, 80);
        let noted = trace(folder, "noted.hitch", Some(false), 70);
        set_notes(&noted, "the one").unwrap();
        make_older(&noted, 70);
        fs::write(folder.join("damaged.hitch"), b"PK no zip").unwrap();
        let b = trace(folder, "b.hitch", Some(false), 50);
        trace(folder, "c.hitch", Some(false), 40);
        fs::write(verdict_path(&b), b"{}").unwrap();
        fs::write(folder.join("notes.txt"), b"no trace").unwrap();
        let mut keeper = Keeper::default();
        assert_eq!(disk(folder).traces, 6);
        assert_eq!(keeper.make_room(folder, &limits(7, 0), 1, 0), (Vec::new(), true));
        let (deleted, room) = keeper.make_room(folder, &limits(6, 0), 1, 0);
        assert_eq!((names(&deleted), room), (vec!["b.hitch"], true));
        assert!(!verdict_path(&b).exists(), "its verdict goes with it");
        // A note that was added later counts.
        set_notes(&folder.join("c.hitch"), "this, too").unwrap();
        let (deleted, room) = keeper.make_room(folder, &limits(3, 0), 1, 0);
        assert_eq!((deleted.len(), room, disk(folder).traces), (0, false, 5));
    }

    #[test]
    fn bytes_count() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        (1..=5).for_each(|n| drop(trace(folder, &format!("{n}.hitch"), Some(false), 99 - n)));
        let each = disk(folder).bytes / 5;
        let mut keeper = Keeper::default();
        let (deleted, room) = keeper.make_room(folder, &limits(0, each * 4), 1, each);
        assert_eq!((names(&deleted), room), (vec!["1.hitch", "2.hitch"], true));
    }

    /// All automatic traces were deleted, one by one.
    #[test]
    fn regression_nothing_is_deleted_for_a_disk_that_others_have_filled() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let newest = trace(folder, "2.hitch", Some(false), 2);
        trace(folder, "1.hitch", Some(false), 9);
        assert_eq!(newest_bytes(folder), Some(newest.metadata().unwrap().len()));
        // No disk has so much.
        let all = Retention { min_free: Share::Bytes(u64::MAX), ..limits(1, 1) };
        assert_eq!(Keeper::default().make_room(folder, &all, 1, 0), (Vec::new(), false));
        assert_eq!(disk(folder).traces, 2);
    }

    #[test]
    fn what_is_reserved_for_root_is_not_free() {
        let folder = tempfile::tempdir().unwrap();
        let stat = rustix::fs::statvfs(folder.path()).unwrap();
        let total = stat.f_blocks - (stat.f_bfree - stat.f_bavail);
        let space = sys::disk_space(folder.path()).unwrap().unwrap();
        assert_eq!(space.total, total * stat.f_frsize);
        assert!(space.free_for_all <= space.total);
    }
}
