//! What a wait was about, and who has the other end of it.

use crate::Analysis;
use crate::WaitClass;
use crate::explain::{class_of, kept_wait};
use crate::timeline::Segment;
use crate::wording::sentence::{Sentence, Span, Subject, sentence};
use crate::wording::units;
use unhitch_model::{Descriptor, DescriptorKind, Holder, KeptWait, ThreadId, Time};

/// Maximum processes that are listed.
const MAX_LISTED: usize = 3;

/// What was noted of a sleep, if it was about a descriptor.
fn descriptor<'a>(
    analysis: &Analysis<'a>,
    sleep: &Segment,
) -> Option<(&'a KeptWait, &'a Descriptor)> {
    let wait = kept_wait(analysis, sleep)?;
    Some((wait, wait.descriptor.as_deref()?))
}

/// ` on a pipe that is open in cat 812, too,`; nothing where it is not known. Names are those at the
/// time `at`.
pub(super) fn waited_on(
    analysis: &Analysis<'_>,
    sleeper: ThreadId,
    sleep: &Segment,
    at: Time,
) -> Sentence {
    let Some((wait, on)) = descriptor(analysis, sleep) else { return Sentence::default() };
    let trace = analysis.trace;
    let name = trace.name(on.name);
    let own = trace.threads.get(sleeper).process;
    let others = |mut processes: Vec<ThreadId>| {
        processes.retain(|process| trace.threads.get(*process).process != own);
        processes
    };
    let at_other_end = others(other_end(analysis, wait, on));
    // Who has which end of a pipe is not always known.
    let is_pipe = on.kind == DescriptorKind::Pipe && name.is_empty();
    let (others, has_end) = match is_pipe && at_other_end.is_empty() {
        true => (others(processes(holders(analysis, on.inode))), false),
        false => (at_other_end, true),
    };
    let named =
        |other: &ThreadId| Span::new(units::thread(trace, *other, at), Subject::Thread(*other));
    let listed = Sentence::join(others.iter().take(MAX_LISTED).map(named), ", ");
    let more = match others.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let peer = on.peer_address.map(|(address, port)| format!("{address}:{port}"));
    match (on.kind, peer, others.is_empty()) {
        (DescriptorKind::Pipe, ..) if !name.is_empty() => sentence!(" on the FIFO {}", name),
        (DescriptorKind::Pipe, _, true) => Sentence::from(" on a pipe"),
        (DescriptorKind::Pipe, _, false) if !has_end => {
            sentence!(" on a pipe that is open in {}{}, too,", listed, more)
        }
        (DescriptorKind::Pipe, _, false) => {
            sentence!(" on a pipe whose other end is open in {}{},", listed, more)
        }
        (DescriptorKind::UnixSocket, _, true) => Sentence::from(" on a Unix socket"),
        (DescriptorKind::UnixSocket, _, false) => {
            sentence!(" on a Unix socket whose other end is open in {}{},", listed, more)
        }
        (DescriptorKind::InternetSocket, Some(peer), true) => {
            sentence!(" on a connection to {}", peer)
        }
        (DescriptorKind::InternetSocket, Some(peer), false) => {
            sentence!(" on a connection to {}, which is open in {}{},", peer, listed, more)
        }
        (DescriptorKind::InternetSocket, None, _) => {
            sentence!(" on a socket with port {}", on.local_port.to_string())
        }
        (DescriptorKind::File | DescriptorKind::Folder, ..) if !name.is_empty() => {
            sentence!(" for the file {}", name)
        }
        // Terminals of emulators have numbers for names.
        (DescriptorKind::Device, ..) if is_terminal(analysis, sleep, name) => {
            sentence!(" for the terminal pts/{}", name)
        }
        (DescriptorKind::Device, ..) if !name.is_empty() => sentence!(" for the device {}", name),
        _ => Sentence::default(),
    }
}

/// True if this sleep is for a terminal whose name is a number.
fn is_terminal(analysis: &Analysis<'_>, sleep: &Segment, name: &str) -> bool {
    let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    is_number && matches!(class_of(analysis, sleep), WaitClass::Ipc | WaitClass::Idle)
}

/// The only process that has the other end of what a thread waits on in this sleep; nothing if
/// it is its own, which may be the one to answer, or if others may have that end, too.
pub(super) fn only_peer(
    analysis: &Analysis<'_>,
    sleeper: ThreadId,
    sleep: &Segment,
) -> Option<ThreadId> {
    let threads = &analysis.trace.threads;
    let (wait, on) = descriptor(analysis, sleep).filter(|_| analysis.trace.has_all_holders)?;
    match other_end(analysis, wait, on)[..] {
        [only] if threads.get(only).process != threads.get(sleeper).process => Some(only),
        _ => None,
    }
}

/// The processes that are known to have the other end, by their first threads.
fn other_end(analysis: &Analysis<'_>, wait: &KeptWait, on: &Descriptor) -> Vec<ThreadId> {
    let is_nameless = analysis.trace.name(on.name).is_empty();
    match (on.kind, on.peer_inode) {
        (DescriptorKind::Pipe, _) if is_nameless => {
            let holders = holders(analysis, on.inode);
            processes(holders.filter(|holder| match Direction::of(wait) {
                Some(Direction::Read) => holder.writes,
                Some(Direction::Write) => holder.reads,
                None => false,
            }))
        }
        (DescriptorKind::UnixSocket | DescriptorKind::InternetSocket, Some(inode)) => {
            processes(holders(analysis, inode))
        }
        _ => Vec::new(),
    }
}

/// Where a system call moves data.
enum Direction {
    Read,
    Write,
}

impl Direction {
    /// By the call's number on x86-64, the only architecture on which waits have descriptors.
    fn of(wait: &KeptWait) -> Option<Self> {
        match wait.syscall? {
            // read, readv, preadv2
            0 | 19 | 327 => Some(Self::Read),
            // write, writev, pwritev2
            1 | 20 | 328 => Some(Self::Write),
            _ => None,
        }
    }
}

/// Who had this inode open at the save.
fn holders<'a>(analysis: &Analysis<'a>, inode: u64) -> impl Iterator<Item = &'a Holder> {
    let all = &analysis.trace.holders;
    let first = all.partition_point(|holder| holder.inode < inode);
    all[first..].iter().take_while(move |holder| holder.inode == inode)
}

/// Each process once. Holders of one inode are sorted by process.
fn processes<'a>(holders: impl Iterator<Item = &'a Holder>) -> Vec<ThreadId> {
    let mut processes: Vec<ThreadId> = holders.map(|holder| holder.process).collect();
    processes.dedup();
    processes
}
