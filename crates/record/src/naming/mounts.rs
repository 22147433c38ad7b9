//! Finds the type of the file system that a file is on, without accessing that file system.
//!
//! Format: `/proc/PID/mountinfo` and `/proc/PID/fdinfo` of proc(5). *Why this care*: the server of
//! a file system in user space (FUSE) may never answer, and then not even SIGKILL ends an `open` or
//! `stat` that has started.

use super::beneath::{Through, mount_of, open_beneath, place};
use rustc_hash::FxHashSet;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// File systems whose answers depend only on this machine's kernel and disks.
const LOCAL: [&str; 12] = [
    "ext4", "ext3", "ext2", "xfs", "btrfs", "tmpfs", "erofs", "squashfs", "f2fs", "zfs",
    "bcachefs", "iso9660",
];
/// Only as local as its lower layers. A user who mounts one in a separate namespace chooses the
/// layers.
const LAYERED: &str = "overlay";

/// A mount.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Mount {
    id: u64,
    device: String,
    point: PathBuf,
    kind: String,
}

/// The mounts in our own namespace.
pub(super) struct Mounts(Vec<Mount>);

impl Mounts {
    pub(super) fn read() -> Self {
        Self(parse(&fs::read("/proc/self/mountinfo").unwrap_or_default()))
    }

    /// A handle on the file at `path`, without following links, and without accessing a file system
    /// that may not answer.
    pub(super) fn open(&self, path: &Path) -> Result<OwnedFd, Errno> {
        // If mounts are stacked, the last one is visible, and the last of several equal ones is taken.
        let deepest = self
            .0
            .iter()
            .filter(|mount| path.starts_with(&mount.point))
            .max_by_key(|mount| mount.point.components().count());
        let mount =
            deepest.filter(|mount| is_local(mount) || mount.kind == LAYERED).ok_or(Errno::PERM)?;
        let from_root = mount.point.strip_prefix("/").map_err(|_| Errno::INVAL)?;
        let root = open_beneath(place(Path::new("/"))?, from_root, Through::Mounts)?;
        // Another file system may have been mounted there since.
        if mount_of(&root)? != mount.id {
            return Err(Errno::XDEV);
        }
        let below = path.strip_prefix(&mount.point).map_err(|_| Errno::INVAL)?;
        open_beneath(root, below, Through::Folders)
    }

    /// True if `place`, opened in the mount namespace of process `pid`, is on a file system that
    /// certainly answers.
    pub(super) fn is_answering(&self, place: &OwnedFd, pid: u32) -> Result<bool, Errno> {
        let id = mount_of(place)?;
        if let Some(mount) = self.0.iter().find(|mount| mount.id == id) {
            return Ok(is_local(mount) || mount.kind == LAYERED);
        }
        let theirs = parse(&fs::read(format!("/proc/{pid}/mountinfo")).unwrap_or_default());
        let mount = theirs.into_iter().find(|mount| mount.id == id).ok_or(Errno::PERM)?;
        let is_ours = || self.0.iter().any(|ours| ours.device == mount.device);
        Ok(is_local(&mount) || mount.kind == LAYERED && is_ours())
    }
}

/// The devices of file systems whose answers depend only on this machine: the major number in the upper
/// half.
pub(crate) fn local_devices() -> FxHashSet<u64> {
    let number = |mount: &Mount| {
        let (major, minor) = mount.device.split_once(':')?;
        Some(u64::from(major.parse::<u32>().ok()?) << 32 | u64::from(minor.parse::<u32>().ok()?))
    };
    Mounts::read().0.iter().filter(|mount| is_local(mount)).filter_map(number).collect()
}

fn is_local(mount: &Mount) -> bool {
    LOCAL.contains(&mount.kind.as_str())
}

/// `36 35 98:0 /root /mnt/point rw master:1 - ext4 /dev/root rw`
fn parse(text: &[u8]) -> Vec<Mount> {
    let mount = |line: &[u8]| {
        let mut fields = line.split(|&byte| byte == b' ');
        let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        let device = String::from_utf8(fields.nth(1)?.to_vec()).ok()?;
        let point = PathBuf::from(OsString::from_vec(unescape(fields.nth(1)?)));
        let kind =
            String::from_utf8(fields.skip_while(|field| *field != b"-").nth(1)?.to_vec()).ok()?;
        Some(Mount { id, device, point, kind })
    };
    text.split(|&byte| byte == b'\n').filter_map(mount).collect()
}

/// Decodes octal escapes: a space is written as `\040`.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, tail)) = rest.split_first() {
        let escaped = (byte == b'\\').then(|| tail.get(..3)).flatten();
        let code = escaped
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(code.unwrap_or(byte));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_parsed_and_remote_ones_refused() {
        let text = b"22 1 0:21 / /proc rw,nosuid shared:5 - proc proc rw\n30 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
            41 30 0:60 / /home/a\\040b rw - fuse.sshfs host:/ rw\nnonsense\n";
        let mounts = parse(text);
        let brief: Vec<_> = mounts
            .iter()
            .map(|mount| (mount.id, mount.point.to_str().unwrap(), mount.kind.as_str()))
            .collect();
        assert_eq!(
            brief,
            [(22, "/proc", "proc"), (30, "/", "ext4"), (41, "/home/a b", "fuse.sshfs")]
        );
        let mounts = Mounts(mounts);
        assert_eq!(mounts.open(Path::new("/proc/kmsg")).err(), Some(Errno::PERM));
        assert_eq!(mounts.open(Path::new("/home/a b/x")).err(), Some(Errno::PERM));
    }

    #[test]
    fn regression_of_stacked_mounts_the_visible_one_is_taken() {
        let mut mounts = Mounts::read();
        let root = mounts.0.iter().find(|mount| mount.point == Path::new("/")).cloned().unwrap();
        mounts.0.insert(0, Mount { id: u64::MAX, ..root });
        assert!(mounts.open(&std::env::current_exe().unwrap().canonicalize().unwrap()).is_ok());
    }

    #[test]
    fn a_local_file_is_opened() {
        let mounts = Mounts::read();
        let own = std::env::current_exe().unwrap();
        let file = mounts.open(&own).unwrap();
        assert!(mounts.is_answering(&file, std::process::id()).unwrap());
        let kernels = place(Path::new("/proc/self/status")).unwrap();
        assert!(!mounts.is_answering(&kernels, std::process::id()).unwrap());
    }
}
