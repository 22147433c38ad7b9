//! What event loops wait for at a save: the connections that their processes have made, as clients
//! (`on_each_event_loop` of `event_loops.h`).

use super::parts::list_threads;
use super::refused::failed;
use crate::error::Error;
use aya::Ebpf;
use rustc_hash::FxHashSet;
use std::fs::File;
use std::io::{self, Read};
use unhitch_formats::ring::SocketPorts;

/// Length of `struct asking` of `event_loops.h`.
const ENTRY_BYTES: usize = 24;
/// Maximum connections that are looked at, of all processes.
const MAX: usize = 1 << 16;

/// A connection that an event loop waits for, and on which its process may have asked for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asking {
    pub(crate) tid: u32,
    /// The socket. Of a Unix socket, its ports are 0.
    pub(crate) socket: SocketPorts,
    /// The other end of a Unix socket, or who listens if it is not accepted; else 0.
    pub(crate) peer_inode: u64,
}

/// The connections of event loops.
#[derive(Clone, Debug, Default)]
pub(crate) struct Askings {
    /// Of a loop with more descriptors than are looked at, none.
    pub(crate) all: Vec<Asking>,
    /// True if there were more than are kept.
    pub(crate) is_cut: bool,
}

/// The connections of all event loops.
pub(super) fn connections(programs: &mut Ebpf) -> Result<Askings, Error> {
    let list = list_threads(programs, "on_each_event_loop")?;
    read(list).map_err(failed("list the connections of event loops"))
}

fn read(list: File) -> io::Result<Askings> {
    let mut bytes = Vec::new();
    list.take((MAX * ENTRY_BYTES) as u64).read_to_end(&mut bytes)?;
    let all = whole(bytes.chunks_exact(ENTRY_BYTES).filter_map(parse).collect());
    Ok(Askings { all, is_cut: bytes.len() == MAX * ENTRY_BYTES })
}

fn parse(entry: &[u8]) -> Option<Asking> {
    let half = |at: usize| Some(u16::from_ne_bytes(entry.get(at..at + 2)?.try_into().ok()?));
    let word = |at: usize| Some(u64::from_ne_bytes(entry.get(at..at + 8)?.try_into().ok()?));
    let socket = SocketPorts { inode: word(8)?, local_port: half(4)?, peer_port: half(6)? };
    let tid = u32::from_ne_bytes(entry.get(..4)?.try_into().ok()?);
    Some(Asking { tid, socket, peer_inode: word(16)? })
}

/// The same without the loops that were looked at in part: of these, an entry has no inode.
fn whole(mut all: Vec<Asking>) -> Vec<Asking> {
    let is_end = |asking: &Asking| asking.socket.inode == 0;
    let cut: FxHashSet<u32> =
        all.iter().filter(|asking| is_end(asking)).map(|asking| asking.tid).collect();
    all.retain(|asking| !cut.contains(&asking.tid));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_was_looked_at_in_part_is_left_out() {
        let entry = |tid: u32, inode: u64| {
            let mut bytes = tid.to_ne_bytes().to_vec();
            bytes.extend([50_000_u16, 5_432].iter().flat_map(|port| port.to_ne_bytes()));
            bytes.extend([inode, 0].iter().flat_map(|word| word.to_ne_bytes()));
            parse(&bytes).unwrap()
        };
        let socket = SocketPorts { inode: 9, local_port: 50_000, peer_port: 5_432 };
        let known = Asking { tid: 2, socket, peer_inode: 0 };
        assert_eq!(whole(vec![entry(1, 7), entry(2, 9), entry(1, 8), entry(1, 0)]), [known]);
    }
}
