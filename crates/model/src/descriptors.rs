//! What waits are about: files, pipes and sockets, and who has them open.

use crate::{NameId, ThreadId};
use std::net::IpAddr;

/// What a file descriptor stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum DescriptorKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A block or character device, a terminal among them.
    Device,
    /// A pipe, or a FIFO, which has a name.
    Pipe,
    /// A Unix socket.
    UnixSocket,
    /// A TCP or UDP socket.
    InternetSocket,
    /// A socket of another family.
    OtherSocket,
    /// Anything else: eventfd, timerfd, epoll, inotify.
    #[default]
    Other,
}

/// What a poll(2) or select(2) waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Polled {
    /// Until it can be read.
    pub to_read: bool,
    /// Until it can be written.
    pub to_write: bool,
}

/// The file, pipe or socket that a thread waited for, as the recorder saw it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Descriptor {
    /// Its number in the thread's process.
    pub fd: u32,
    /// What it stands for.
    pub kind: DescriptorKind,
    /// Its inode; sockets and pipes have one, too.
    pub inode: u64,
    /// The file's name without its folder; empty for sockets, and for pipes without a name.
    pub name: NameId,
    /// The inode of the other end of a connected Unix socket; until it is accepted, of who listens.
    pub peer_inode: Option<u64>,
    /// The other end of a connected TCP or UDP socket.
    pub peer_address: Option<(IpAddr, u16)>,
    /// Its own port.
    pub local_port: u16,
    /// If the system call polls it; else the call itself says whether it reads or writes.
    pub polled: Option<Polled>,
}

/// A process that had a pipe or a socket open when the trace was saved.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Holder {
    /// The pipe's or socket's inode.
    pub inode: u64,
    /// The process, by its first thread.
    pub process: ThreadId,
    /// The number of its descriptor there.
    pub fd: u32,
    /// True if it is open for reading. Where neither this nor `writes` is true, that is not known.
    pub reads: bool,
    /// True if it is open for writing.
    pub writes: bool,
}
