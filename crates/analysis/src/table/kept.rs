//! Cells of what the recorder kept of a wait: the lock, who held it, and the file, pipe or socket.

use super::cells::{thread_name, tid_of};
use super::rows::Row;
use super::source::Source;
use super::{Cell, NONE};
use crate::explain::kept_wait;
use crate::locks::lock_of;
use unhitch_model::{Descriptor, DescriptorKind, KeptWait, ThreadId, Trace};

fn kept<'a>(source: &Source<'a>, row: &Row) -> Option<&'a KeptWait> {
    kept_wait(source.analysis, &row.sleep(source.analysis))
}

/// The lock's address.
pub(super) fn lock(source: &Source<'_>, row: &Row) -> Cell {
    let avma = lock_of(source.analysis, row.thread, &row.sleep(source.analysis));
    avma.map_or(NONE, |avma| source.text(&format!("{avma:#x}")))
}

/// The address of the futex that a wake-up is about.
pub(super) fn woken_futex(source: &Source<'_>, row: &Row) -> Cell {
    let futex = source.waking(row).and_then(|(wake, _)| source.analysis.woken_futex(wake));
    futex.map_or(NONE, |avma| source.text(&format!("{avma:#x}")))
}

fn owner(source: &Source<'_>, row: &Row) -> Option<ThreadId> {
    kept(source, row)?.owner
}

pub(super) fn lock_owner(source: &Source<'_>, row: &Row) -> Cell {
    owner(source, row).map_or(NONE, |owner| thread_name(source, owner, row.start))
}

pub(super) fn lock_owner_tid(source: &Source<'_>, row: &Row) -> Cell {
    owner(source, row).map_or(NONE, |owner| tid_of(source, owner))
}

/// The file, pipe or socket.
pub(super) fn waited_on(source: &Source<'_>, row: &Row) -> Cell {
    let descriptor = kept(source, row).and_then(|wait| wait.descriptor.as_deref());
    descriptor.map_or(NONE, |on| source.text(&words(source.analysis.trace, on)))
}

fn words(trace: &Trace, on: &Descriptor) -> String {
    let (name, inode) = (trace.name(on.name), on.inode);
    match (on.kind, on.peer_address) {
        (_, Some((address, port))) => format!("connection to {address}:{port}"),
        (DescriptorKind::InternetSocket, None) => format!("socket with port {}", on.local_port),
        (DescriptorKind::UnixSocket, _) => format!("Unix socket {inode}"),
        (DescriptorKind::Pipe, _) if name.is_empty() => format!("pipe {inode}"),
        (DescriptorKind::Pipe, _) => format!("FIFO {name}"),
        (DescriptorKind::OtherSocket, _) => format!("socket {inode}"),
        (DescriptorKind::Folder, _) => format!("folder {name}"),
        (DescriptorKind::Device, _) => format!("device {name}"),
        (DescriptorKind::File, _) => format!("file {name}"),
        (DescriptorKind::Other, _) => name.to_owned(),
    }
}
