//! The socket file, its folder, and who may use them.

use super::peer::is_owner;
use crate::error::Error;
use crate::sys;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

pub(super) const SOCKET: &str = "control.sock";
/// Maximum length of a line in bytes.
pub(super) const MAX_LINE_LEN: usize = 64 << 10;
/// Time limit for a client to send its request, which is short.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Connects; fails if the listener takes too long to accept. The kernel has no timeout for this, so
/// a thread waits; it ends with the process.
pub(super) fn connect(path: &Path) -> io::Result<UnixStream> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let path = path.to_owned();
    std::thread::spawn(move || sender.send(UnixStream::connect(path)));
    receiver.recv_timeout(REQUEST_TIMEOUT).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Fails if the other end of the socket is neither ours nor root's.
pub(super) fn check_owner(socket: &UnixStream) -> io::Result<()> {
    let uid = sys::peer(socket.as_fd())?.uid;
    if is_owner(uid) { Ok(()) } else { Err(foreign_user(uid)) }
}

/// True if the process that began to listen at the other end has ended. Unknown is false.
pub(super) fn has_ended(socket: &UnixStream) -> bool {
    let Ok(listener) = sys::peer(socket.as_fd()) else { return false };
    // 0: a process of another PID namespace.
    let Some(pid) = Pid::from_raw(listener.pid as i32) else { return false };
    match pidfd_open(pid, PidfdFlags::empty()) {
        // It can be read once the process is a zombie.
        Ok(process) => sys::poll(&[process.as_fd()], 0).is_ok_and(|ready| ready[0].readable),
        Err(error) => error == Errno::SRCH,
    }
}

/// The error for a socket or folder of another user.
pub(super) fn foreign_user(uid: u32) -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("it belongs to another user (uid {uid})"),
    )
}

/// Creates the folder, or checks that the existing one is ours and nobody else can write to it: in
/// /tmp, it could have been created by somebody else. Only `group` may enter it.
pub(super) fn own_folder(folder: &Path, group: Option<u32>) -> Result<(), Error> {
    let failed =
        |action: &'static str, source| Error::File { action, path: folder.to_owned(), source };
    match DirBuilder::new().mode(0o700).recursive(true).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(failed("create the folder", error));
        }
        _ => {}
    }
    let metadata = fs::symlink_metadata(folder).map_err(|error| failed("inspect", error))?;
    if !metadata.is_dir() || metadata.uid() != sys::effective_uid() {
        let source = io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it is not a folder of this user; remove it",
        );
        return Err(failed("use", source));
    }
    let protect = |mode| {
        fs::set_permissions(folder, Permissions::from_mode(mode))
            .map_err(|error| failed("protect", error))
    };
    match group {
        // Before it is opened for the group, it must be the group's.
        Some(group) => {
            if metadata.gid() != group {
                protect(0o700)?;
                chown(folder, None, Some(group))
                    .map_err(|error| failed("give to the group", error))?;
            }
            protect(0o750)
        }
        None if metadata.mode() & 0o077 != 0 => protect(0o700),
        None => Ok(()),
    }
}
