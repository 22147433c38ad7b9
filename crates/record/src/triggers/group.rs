//! The control group that a trigger is about.
//!
//! *Why only groups of version 2*: of those, a task is in one, which the program in the kernel compares
//! by its number, and only they have an account of pressure. A group of version 1 could have the
//! number of another one.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where version 2 is mounted: alone, or beside version 1.
const ROOTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// Every group of version 2 has this file, and none of version 1.
fn is_version_2(folder: &Path) -> bool {
    folder.join("cgroup.controllers").exists()
}

/// The folder of a group, by its path as in `/proc/PID/cgroup`, whether it exists or not.
pub(super) fn folder(path: &str) -> PathBuf {
    let [alone, beside] = ROOTS.map(|root| Path::new(root).join(path.trim_matches('/')));
    if !is_version_2(&alone) && is_version_2(&beside) { beside } else { alone }
}

/// The kernel's number of a group, which is that of its folder.
pub(super) fn number(path: &str) -> Result<u64, String> {
    let folder = folder(path);
    let about = fs::metadata(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    if is_version_2(&folder) {
        return Ok(about.ino());
    }
    Err(format!("{}: it is no control group of version 2", folder.display()))
}
