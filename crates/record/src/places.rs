//! Where a trace goes when it cannot be written where it should.
//!
//! A hang cannot be repeated: a full disk, a folder without permission or an existing file must not
//! cost us its trace. So a save tries one place after another, and reports where the trace went and
//! why. statvfs(3) tells us in advance which places have no room.

use crate::error::Error;
use crate::sys;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

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
    match sys::free_bytes(folder) {
        Ok(Some(free)) if free < needed => {
            let what = format!(
                "No space left: the trace needs {:.1} MiB, but only {:.1} MiB are free",
                mib(needed),
                mib(free)
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

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
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
}
