//! What a recorder that was killed has left undone: files that it had begun to write, and traces
//! that it had not judged.

use crate::sys;
use std::collections::VecDeque;
use std::fs::{self, File, Metadata};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use unhitch_formats::container::{Readers, SaveFile, read_save, verdict_path};
use unhitch_formats::unfinished;

/// Maximum number of files of a folder that are looked at.
const MAX_FILES: usize = 100_000;
/// Maximum number of traces that are judged late, newest first.
const MAX_LATE: usize = 50;

/// What to look after.
#[derive(Clone, Debug)]
pub(super) struct Recovery {
    pub(super) folder: PathBuf,
    /// Who may read verdicts.
    pub(super) readers: Readers,
    /// Whether traces are judged.
    pub(super) judge: bool,
}

/// A trace without a verdict.
pub(super) struct Late {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) save: SaveFile,
}

impl Recovery {
    /// Removes the files that nobody goes on writing. Returns their number.
    pub(super) fn remove_unfinished(&self) -> usize {
        let removed = own_files(&self.folder).filter(|(path, about)| {
            let writer = path.file_name().and_then(|name| name.to_str()).and_then(unfinished);
            let is_dead = writer.is_some_and(|(name, pid)| {
                let is_ours = name.ends_with(".hitch") || name.ends_with(".verdict.json");
                is_ours && !has_open(pid, about)
            });
            is_dead && fs::remove_file(path).is_ok()
        });
        removed.count()
    }

    /// The traces of a recorder that still have no verdict, newest first.
    pub(super) fn not_judged(&self) -> VecDeque<PathBuf> {
        if !self.judge {
            return VecDeque::new();
        }
        let is_trace = |path: &Path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.ends_with(".hitch") && !name.starts_with('.'))
        };
        let mut traces: Vec<_> = own_files(&self.folder)
            .filter(|(path, _)| is_trace(path) && fs::symlink_metadata(verdict_path(path)).is_err())
            .map(|(path, about)| (about.mtime(), about.mtime_nsec(), path))
            .collect();
        traces.sort_by(|a, b| b.cmp(a));
        traces.truncate(MAX_LATE);
        traces.into_iter().map(|(.., path)| path).collect()
    }
}

impl Late {
    /// Opens a trace; `None` if no recorder has saved it, or it is gone.
    pub(super) fn open(path: PathBuf) -> Option<Self> {
        let (Some(save), _) = read_save(&path).ok()?? else { return None };
        let no_link = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let mut options = File::options();
        let file = options.read(true).custom_flags(no_link.bits() as i32).open(&path).ok()?;
        file.metadata().ok().filter(is_own).map(|_| Self { path, file, save })
    }
}

/// The plain files of a folder that are this user's.
fn own_files(folder: &Path) -> impl Iterator<Item = (PathBuf, Metadata)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_FILES);
    entries
        .filter_map(|entry| {
            let path = entry.path();
            fs::symlink_metadata(&path).ok().map(|about| (path, about))
        })
        .filter(|(_, about)| is_own(about))
}

fn is_own(about: &Metadata) -> bool {
    about.is_file() && about.uid() == sys::effective_uid()
}

/// True if the process has the file open, or may have: its number alone proves nothing, as numbers
/// are used again.
fn has_open(pid: u32, file: &Metadata) -> bool {
    let id = |about: &Metadata| (about.dev(), about.ino());
    match fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(open) => open
            .flatten()
            .filter_map(|entry| fs::metadata(entry.path()).ok())
            .any(|about| id(&about) == id(file)),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_files_that_nobody_writes_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let (dead, alive) = (child.id(), std::process::id());
        let write = |name: String| File::create(at(&name)).unwrap();
        let open = write(format!(".open.hitch.{alive}.partial"));
        write(format!(".closed.hitch.{alive}.partial"));
        write(format!(".a.hitch.{dead}.partial"));
        write(format!(".a.verdict.json.{dead}.partial"));
        // Of others, or a name that is not ours.
        for name in [format!(".notes.{dead}.partial"), format!("a.hitch.{dead}.partial")] {
            write(name);
        }
        write(".a.hitch.x.partial".to_owned());
        std::os::unix::fs::symlink("/nowhere", at(&format!(".l.hitch.{dead}.partial"))).unwrap();
        let recovery =
            Recovery { folder: folder.path().into(), readers: Readers::Owner, judge: true };
        assert_eq!(recovery.remove_unfinished(), 3);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 5);
        drop(open);
        assert_eq!(recovery.remove_unfinished(), 1);
    }

    #[test]
    fn traces_without_a_verdict_are_found_newest_first() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, age) in [("a.hitch", 9), ("b.hitch", 5), ("c.hitch", 7), ("d.txt", 1)] {
            let file = File::create(at(name)).unwrap();
            let age = std::time::Duration::from_secs(age);
            file.set_modified(std::time::SystemTime::now() - age).unwrap();
        }
        fs::write(at("c.verdict.json"), "{}").unwrap();
        let recovery =
            Recovery { folder: folder.path().into(), readers: Readers::Owner, judge: true };
        assert_eq!(recovery.not_judged(), [at("b.hitch"), at("a.hitch")]);
        assert!(Late::open(at("a.hitch")).is_none(), "no recorder has saved it");
        assert!(Recovery { judge: false, ..recovery }.not_judged().is_empty());
    }
}
