//! Opens a file below a folder, and never one outside of it or on another mount, step by step.
//!
//! *Why not openat2(2), which does the same in one call*: systemd's `RestrictSUIDSGID=` refuses it
//! altogether, as it cannot look into its arguments, and so do some containers. Under our own unit
//! nothing but the kernel's functions had names.

use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Statx, StatxFlags, openat, readlinkat, statx,
};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

/// Flags to get a handle on a file without opening it for reading.
pub(super) const PLACE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
/// Maximum number of links that are followed.
const MAX_LINKS: usize = 8;

/// What a path may lead through.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Through {
    /// Other mounts, and no links.
    Mounts,
    /// No other mount, and no links.
    Folders,
    /// No other mount; relative links, none of which may leave the folder, not even for a moment.
    Links,
}

/// A handle on the file at `path` below `folder`.
pub(super) fn open_beneath(
    folder: OwnedFd,
    path: &Path,
    through: Through,
) -> Result<OwnedFd, Errno> {
    let mount = mount_of(&folder)?;
    let mut steps = VecDeque::new();
    add(&mut steps, path)?;
    let (mut folders, mut links) = (vec![folder], 0);
    while let Some(step) = steps.pop_front() {
        let current = folders.last().ok_or(Errno::XDEV)?;
        if step == ".." {
            folders.pop();
            continue;
        }
        // A handle alone triggers no automount, and asks no other process for anything.
        let place = openat(current, &step, PLACE | OFlags::NOFOLLOW, Mode::empty())?;
        let found = look_at(&place)?;
        if through != Through::Mounts && found.stx_mnt_id != mount {
            return Err(Errno::XDEV);
        }
        if FileType::from_raw_mode(found.stx_mode.into()) != FileType::Symlink {
            folders.push(place);
            continue;
        }
        links += 1;
        if through != Through::Links || links > MAX_LINKS {
            return Err(Errno::LOOP);
        }
        let target = readlinkat(&place, "", Vec::new())?;
        let mut before = VecDeque::new();
        add(&mut before, Path::new(OsStr::from_bytes(target.as_bytes())))?;
        before.append(&mut steps);
        steps = before;
    }
    folders.pop().ok_or(Errno::XDEV)
}

/// Adds the steps of a relative path.
fn add(steps: &mut VecDeque<OsString>, path: &Path) -> Result<(), Errno> {
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => steps.push_back("..".into()),
            Component::Normal(name) => steps.push_back(name.to_owned()),
            Component::RootDir | Component::Prefix(_) => return Err(Errno::XDEV),
        }
    }
    Ok(())
}

/// A handle on what a link of the kernel's in `/proc` leads to, or on the folder `/`.
pub(super) fn place(path: &Path) -> Result<OwnedFd, Errno> {
    openat(CWD, path, PLACE, Mode::empty())
}

/// Opens what a handle is on.
pub(super) fn reopen(place: &impl AsFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    let link = format!("/proc/self/fd/{}", place.as_fd().as_raw_fd());
    openat(CWD, link, flags, Mode::empty())
}

/// The id of the mount that a descriptor is on, as in `/proc/PID/mountinfo`.
pub(super) fn mount_of(file: &impl AsFd) -> Result<u64, Errno> {
    Ok(look_at(file)?.stx_mnt_id)
}

/// The type and the mount of what a handle is on, without asking who serves its file system.
fn look_at(place: &impl AsFd) -> Result<Statx, Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let wanted = StatxFlags::TYPE | StatxFlags::MNT_ID;
    let found = statx(place, "", flags, wanted)?;
    // Since Linux 5.8.
    if found.stx_mask & StatxFlags::MNT_ID.bits() == 0 { Err(Errno::NOSYS) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::fstat;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_path_leads_only_where_it_may() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/file"), "x").unwrap();
        fs::write(root.join("../outside"), "x").unwrap();
        for (link, target) in [
            ("a/up", "../a/b/file"),
            ("a/out", "../../outside"),
            ("a/absolute", "/etc/passwd"),
            ("a/round", "round"),
            ("folder", "a/b"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        let open = |path: &str, through| {
            let found = open_beneath(place(&root).unwrap(), Path::new(path), through);
            found.map(|place| fstat(&place).unwrap().st_ino)
        };
        let file = fstat(place(&root.join("a/b/file")).unwrap()).unwrap().st_ino;
        use Through::{Folders, Links, Mounts};
        for (path, through, expected) in [
            ("a/b/file", Folders, Ok(file)),
            ("a/./b/../b/file", Folders, Ok(file)),
            ("a/up", Folders, Err(Errno::LOOP)),
            ("a/up", Mounts, Err(Errno::LOOP)),
            ("a/up", Links, Ok(file)),
            ("folder/file", Links, Ok(file)),
            ("folder/file", Folders, Err(Errno::LOOP)),
            ("a/out", Links, Err(Errno::XDEV)),
            ("a/absolute", Links, Err(Errno::XDEV)),
            ("a/round", Links, Err(Errno::LOOP)),
            ("../outside", Links, Err(Errno::XDEV)),
            ("..", Folders, Err(Errno::XDEV)),
            ("/etc/passwd", Folders, Err(Errno::XDEV)),
            ("a/b/file/more", Folders, Err(Errno::NOTDIR)),
            ("a/none", Folders, Err(Errno::NOENT)),
        ] {
            assert_eq!(open(path, through), expected, "{path}");
        }
        let of_kernel = |through| {
            open_beneath(place(Path::new("/")).unwrap(), Path::new("proc/version"), through)
        };
        assert_eq!(of_kernel(Folders).err(), Some(Errno::XDEV));
        assert!(of_kernel(Mounts).is_ok());
    }

    #[test]
    fn a_handle_is_opened_for_reading() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "words").unwrap();
        let file = reopen(&place(&path).unwrap(), OFlags::RDONLY | OFlags::CLOEXEC).unwrap();
        assert_eq!(std::io::read_to_string(fs::File::from(file)).unwrap(), "words");
    }
}
