//! What a wait was about, and who has the other end of it, in words.

use crate::Analysis;
use crate::WaitClass;
use crate::explain::class_of;
use crate::explain::other_end::{descriptor, holders, other_end, processes};
use crate::timeline::Segment;
use crate::wording::sentence::{Sentence, Span, Subject, sentence};
use crate::wording::units;
use unhitch_model::{DescriptorKind, ThreadId, Time};

/// Maximum processes that are listed.
const MAX_LISTED: usize = 3;

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
