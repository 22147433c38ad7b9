//! Who is at the other end of a socket, and what they may ask for.

use crate::sys;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

/// What a client may ask for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Class {
    /// Marks, saves, and the status in brief.
    Group,
    /// Everything.
    Owner,
}

/// The process at the other end of a socket when it connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Peer {
    pub(crate) pid: u32,
    pub(crate) uid: u32,
    pub(crate) class: Class,
}

impl Peer {
    /// The user, if that is another than the owner.
    pub(crate) fn member(self) -> Option<u32> {
        (self.class == Class::Group).then_some(self.uid)
    }
}

/// True if this user may do everything: we ourselves, or root, who may do anything anyway.
pub(super) fn is_owner(uid: u32) -> bool {
    uid == 0 || uid == sys::effective_uid()
}

/// The client of a recorder that `group` may use; `None` for a stranger.
pub(super) fn peer(socket: &UnixStream, group: Option<u32>) -> io::Result<Option<Peer>> {
    let found = sys::peer(socket.as_fd())?;
    let peer = |class| Some(Peer { pid: found.pid, uid: found.uid, class });
    if is_owner(found.uid) {
        return Ok(peer(Class::Owner));
    }
    let Some(group) = group else { return Ok(None) };
    let is_member = found.gid == group || sys::peer_groups(socket.as_fd())?.contains(&group);
    Ok(if is_member { peer(Class::Group) } else { None })
}
