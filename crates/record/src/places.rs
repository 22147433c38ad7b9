//! Where a trace goes when it cannot be written where it should.
//!
//! A hang cannot be repeated: a full disk, a folder without permission or an existing file must not
//! cost us its trace. So a save tries one place after another, and reports where the trace went and
//! why. statvfs(3) tells us in advance which places have no room.

use crate::error::Error;
use crate::sys::{self, DiskSpace};
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use unhitch_formats::container::{Readers, trace_file_name};
use unhitch_model::units;

/// Where a trace goes. An existing file is never overwritten.
#[derive(Clone, Debug)]
pub enum SaveTarget {
    /// This file.
    File(PathBuf),
    /// A new file in this folder, named after the local time and `what`.
    Folder {
        /// The folder; it must exist.
        folder: PathBuf,
        /// One or two words, e.g. `save`.
        what: String,
    },
}

impl SaveTarget {
    /// The folder that the trace goes to.
    pub(crate) fn folder(&self) -> PathBuf {
        match self {
            Self::File(path) => path
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty())
                .unwrap_or(Path::new("."))
                .to_owned(),
            Self::Folder { folder, .. } => folder.clone(),
        }
    }
}

/// Writes to the target. If that fails, writes under a new name to the target's folder or to the
/// first of `fallbacks` that works; then only the owner can read it. Also returns why the places
/// before did not work.
pub(crate) fn first_that_works<T>(
    target: &SaveTarget,
    fallbacks: &[PathBuf],
    readers: Readers,
    mut write: impl FnMut(&SaveTarget, Readers) -> Result<T, Error>,
) -> Result<(T, Vec<String>), Error> {
    let mut reasons = match write(target, readers) {
        Ok(written) => return Ok((written, Vec::new())),
        Err(error) => vec![error.with_causes()],
    };
    let (what, same_folder) = match target {
        SaveTarget::File(path) => {
            let what = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            (what, Some(target.folder()))
        }
        SaveTarget::Folder { what, .. } => (what.clone(), None),
    };
    let places = same_folder
        .into_iter()
        .map(|folder| (folder, false))
        .chain(fallbacks.iter().map(|folder| (folder.clone(), true)));
    for (folder, is_made) in places {
        let made = if is_made { make(&folder) } else { Ok(()) };
        let target = SaveTarget::Folder { folder, what: what.clone() };
        match made.and_then(|()| write(&target, Readers::Owner)) {
            Ok(written) => return Ok((written, reasons)),
            Err(error) => reasons.push(error.with_causes()),
        }
    }
    reasons.dedup();
    Err(Error::Nowhere { reasons })
}

/// The warning that a trace is not where it should be; `None` if it is.
pub(crate) fn elsewhere(path: &Path, reasons: &[String]) -> Option<String> {
    (!reasons.is_empty()).then(|| {
        format!(
            "the trace is in {}, because it could not be written to the requested place: {}",
            path.display(),
            reasons.join("; ")
        )
    })
}

/// Writes to the target file, or to the first free name in the target folder.
pub(crate) fn publish<T>(
    target: &SaveTarget,
    wall_ns: i64,
    write: impl Fn(&Path) -> Result<T, unhitch_formats::Error>,
) -> Result<(PathBuf, T), Error> {
    let (folder, what) = match target {
        SaveTarget::File(path) => {
            return write(path).map(|file| (path.clone(), file)).map_err(Error::from);
        }
        SaveTarget::Folder { folder, what } => (folder, what),
    };
    let [year, month, day, hour, minute, second] =
        sys::local_time(wall_ns.div_euclid(1_000_000_000));
    let stamp = format!("{year:04}-{month:02}-{day:02}_{hour:02}-{minute:02}-{second:02}");
    let mut number = 1;
    loop {
        let what = if number == 1 { what.clone() } else { format!("{what}-{number}") };
        let path = folder.join(trace_file_name(&stamp, &what));
        match write(&path) {
            Ok(file) => return Ok((path, file)),
            Err(unhitch_formats::Error::Exists(_)) if number < 1000 => number += 1,
            Err(error) => return Err(error.into()),
        }
    }
}

/// The folders to try after the requested one: the state folder (`/var/lib/unhitch` for
/// root, else `$XDG_STATE_HOME/unhitch` or `~/.local/state/unhitch`), `/var/tmp`, and the home
/// folder.
pub fn fallback_folders() -> Vec<PathBuf> {
    folders(sys::effective_uid(), |name| std::env::var_os(name))
}

fn folders(uid: u32, variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    // A relative path would mean a different folder in every working directory.
    let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = absolute("HOME");
    let state = match uid {
        0 => Some(PathBuf::from("/var/lib")),
        _ => absolute("XDG_STATE_HOME")
            .or_else(|| home.as_ref().map(|home| home.join(".local/state"))),
    };
    let mut folders: Vec<PathBuf> = state.map(|state| state.join("unhitch")).into_iter().collect();
    folders.push("/var/tmp".into());
    folders.extend(home);
    folders
}

/// Makes the folder if it does not exist; a new one is only accessible to its owner.
pub(crate) fn make(folder: &Path) -> Result<(), Error> {
    let made = DirBuilder::new().mode(0o700).recursive(true).create(folder);
    made.map_err(|source| Error::File {
        action: "create the folder",
        path: folder.to_owned(),
        source,
    })
}

/// Fails if `folder` certainly has no room for `needed` bytes.
pub(crate) fn check_space(folder: &Path, needed: u64) -> Result<(), Error> {
    match sys::disk_space(folder) {
        Ok(Some(DiskSpace { free, .. })) if free < needed => {
            let what = format!(
                "No space left: the trace needs {}, but only {} are free",
                units::bytes(needed),
                units::bytes(free)
            );
            Err(Error::File {
                action: "write to",
                path: folder.to_owned(),
                source: io::Error::new(io::ErrorKind::StorageFull, what),
            })
        }
        // Any other problem with the folder is reported better by the write itself.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folders_of_root_and_of_others() {
        let of = |uid, variables: &[(&str, &str)]| {
            let found = folders(uid, |name| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into())
            });
            found.iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            of(0, &[("HOME", "/root"), ("XDG_STATE_HOME", "/x")]),
            ["/var/lib/unhitch", "/var/tmp", "/root"]
        );
        assert_eq!(
            of(7, &[("HOME", "/home/a"), ("XDG_STATE_HOME", "/x")]),
            ["/x/unhitch", "/var/tmp", "/home/a"]
        );
        assert_eq!(
            of(7, &[("HOME", "/home/a"), ("XDG_STATE_HOME", "x")]),
            ["/home/a/.local/state/unhitch", "/var/tmp", "/home/a"]
        );
        assert_eq!(of(7, &[("HOME", "")]), ["/var/tmp"]);
    }

    #[test]
    fn too_little_space_is_found_before_writing() {
        let folder = tempfile::tempdir().unwrap();
        assert!(check_space(folder.path(), 1).is_ok());
        let error = check_space(folder.path(), u64::MAX).unwrap_err().with_causes();
        assert!(error.contains("No space left: the trace needs"), "{error}");
        assert!(check_space(Path::new("/no/such/folder"), 1).is_ok());
    }

    #[test]
    fn regression_the_service_may_write_where_its_saves_go() {
        let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/unhitch.service");
        let unit = std::fs::read_to_string(unit).unwrap();
        let of = |key: &str| {
            let line = unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            line.unwrap_or_default().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        let mut writable: Vec<PathBuf> =
            of("StateDirectory").iter().map(|name| Path::new("/var/lib").join(name)).collect();
        writable
            .extend(of("ReadWritePaths").iter().map(|path| path.trim_start_matches('-').into()));
        assert_eq!(writable, folders(0, |_| None));
    }
}
