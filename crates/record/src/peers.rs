//! Who has the other end of the pipes and sockets that threads wait for, at the time of a save.
//!
//! The links in `/proc/PID/fd` name the inode (`pipe:[4711]`, `socket:[4712]`); their permissions say
//! whether the descriptor is open for reading, writing or both (proc_pid_fd(5)). The two ends of a
//! TCP connection within this machine, or the listener that has not accepted it, are found in
//! `/proc/net/tcp`, and whom a client of UDP asks in `/proc/net/udp`. *Why by inode first:* these
//! files list one network namespace, that of the first process. A socket that is not in them is of
//! another one, and then equal ports mean nothing.
//!
//! Reading these never waits for a process; a machine with very many descriptors is read for a
//! limited time.

use crate::bpf::Asking;
use rustc_hash::{FxHashMap, FxHashSet};
use std::fs::{self, DirEntry, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};
use unhitch_formats::container::{Holder, LoopPeer};
use unhitch_formats::ring::SocketPorts;

/// How long a save looks for holders.
pub(crate) const TIME_LIMIT: Duration = Duration::from_millis(150);
/// Descriptors that are looked at in one process.
const MAX_DESCRIPTORS: usize = 16_384;
/// How much of `/proc/net/tcp` is read, bytes: some 50,000 connections.
const MAX_TABLE_BYTES: usize = 8 << 20;
/// How much of it is read at once.
const STEP_BYTES: u64 = 64 << 10;

/// What was found.
#[derive(Default)]
pub(crate) struct Peers {
    pub(crate) holders: Vec<Holder>,
    /// Sockets of this machine with the sockets that they are connected to, by inode.
    pub(crate) connections: Vec<(u64, u64)>,
    /// The other ends of the connections that event loops wait for, and that their processes made.
    pub(crate) of_loops: Vec<LoopPeer>,
    /// True if there was no time to look at everything.
    pub(crate) is_cut: bool,
    /// True if some process could not be looked at: even root may lack the permission.
    pub(crate) has_unread: bool,
}

/// Looks for the processes that have `inodes` open, and for the other ends of `sockets` and of the
/// connections of event loops, in `pids`, until `end`.
pub(crate) fn find(
    pids: impl Iterator<Item = u32>,
    mut inodes: FxHashSet<u64>,
    sockets: &[SocketPorts],
    askings: &[Asking],
    end: Instant,
) -> Peers {
    let mut peers = Peers::default();
    let of_loops = askings.iter().map(|asking| asking.socket);
    let sockets: Vec<SocketPorts> = sockets.iter().copied().chain(of_loops).collect();
    let mut served = FxHashSet::default();
    if sockets.iter().any(|socket| socket.peer_port != 0) {
        for names in [["tcp", "tcp6"], ["udp", "udp6"]] {
            let tables = names.map(|name| peers.table(name, end)).concat();
            peers.connections.extend(connections(&tables, &sockets));
            if names[0] == "tcp" {
                served = served_ports(&tables);
            }
        }
    }
    peers.connections.sort_unstable();
    peers.connections.dedup();
    peers.of_loops = of_clients(askings, &peers.connections, &served);
    inodes.extend(peers.connections.iter().map(|(_, peer)| peer));
    inodes.extend(peers.of_loops.iter().map(|peer| peer.inode));
    for pid in pids.take_while(|_| !inodes.is_empty()) {
        if Instant::now() > end {
            peers.is_cut = true;
            break;
        }
        let added = peers.add_process(pid, &inodes);
        // The first process may have more rights than we have; it is at nobody's other end.
        peers.has_unread |= pid != 1 && added.is_err_and(|error| !has_exited(&error));
    }
    peers
}

fn has_exited(error: &io::Error) -> bool {
    const ESRCH: i32 = 3;
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH)
}

impl Peers {
    /// True if every process was asked what it had open.
    pub(crate) fn is_complete(&self) -> bool {
        !self.is_cut && !self.has_unread
    }

    /// Adds the descriptors of a process that have one of `inodes`.
    fn add_process(&mut self, pid: u32, inodes: &FxHashSet<u64>) -> io::Result<()> {
        for (index, descriptor) in fs::read_dir(format!("/proc/{pid}/fd"))?.enumerate() {
            if index == MAX_DESCRIPTORS {
                self.is_cut = true;
                break;
            }
            match holder(pid, &descriptor?, inodes) {
                // It was closed meanwhile.
                Err(error) if has_exited(&error) => {}
                found => self.holders.extend(found?),
            }
        }
        Ok(())
    }

    /// The lines of a table of the kernel; empty where it has none.
    fn table(&mut self, name: &str, end: Instant) -> String {
        // The first process is in the machine's network, and the service in one of its own.
        let paths = [format!("/proc/1/net/{name}"), format!("/proc/net/{name}")];
        let file = paths.iter().find_map(|path| File::open(path).ok());
        file.map_or(String::new(), |file| self.lines_of(file, end))
    }

    fn lines_of(&mut self, mut file: File, end: Instant) -> String {
        let mut text = String::new();
        while let Ok(1..) = file.by_ref().take(STEP_BYTES).read_to_string(&mut text) {
            if text.len() >= MAX_TABLE_BYTES || Instant::now() > end {
                self.is_cut = true;
                break;
            }
        }
        // The last line may be cut.
        text.truncate(text.rfind('\n').map_or(0, |last| last + 1));
        text
    }
}

/// The descriptor, if it has one of `inodes`.
fn holder(pid: u32, descriptor: &DirEntry, inodes: &FxHashSet<u64>) -> io::Result<Option<Holder>> {
    let link = fs::read_link(descriptor.path())?;
    let inode = link.to_str().and_then(inode_of).filter(|inode| inodes.contains(inode));
    let fd = descriptor.file_name().to_str().and_then(|fd| fd.parse().ok());
    let Some((inode, fd)) = inode.zip(fd) else { return Ok(None) };
    // Of the link itself.
    let mode = descriptor.metadata()?.mode();
    Ok(Some(Holder { inode, pid, fd, reads: mode & 0o400 != 0, writes: mode & 0o200 != 0 }))
}

/// `pipe:[4711]`, `socket:[4712]`.
fn inode_of(link: &str) -> Option<u64> {
    let (kind, inode) = link.split_once(":[")?;
    let is_shared = kind == "pipe" || kind == "socket";
    inode.strip_suffix(']').filter(|_| is_shared)?.parse().ok()
}

/// One end of a connection: its address as the kernel writes it, and its port.
type End<'a> = (&'a str, u16);

/// Both ends of a socket, its own first.
type Ends<'a> = [End<'a>; 2];

/// No other end, as IPv4 and IPv6 have it.
const NOBODY: [&str; 2] = ["00000000", "00000000000000000000000000000000"];
/// What addresses of IPv4 that never leave the machine end with: 127, in the kernel's order.
const LOOPBACK: &str = "7F";

/// The ends that a socket may have which serves one with these, the likeliest first: it is connected to
/// it, or serves everybody, by UDP or until it has accepted a connection, maybe at any address of the
/// machine.
fn ends_of_peer([own, other]: Ends<'_>) -> Vec<Ends<'_>> {
    let is_here = other.0 == own.0 || (other.0.len() == 8 && other.0.ends_with(LOOPBACK));
    let anybody = NOBODY.map(|nobody| [other, (nobody, 0)]);
    let anywhere = NOBODY.map(|nobody| [(nobody, other.1), (nobody, 0)]);
    let served = anybody.into_iter().chain(anywhere.into_iter().filter(|_| is_here));
    [[other, own]].into_iter().chain(served).collect()
}

/// The sockets in `tables` that `sockets` are connected to.
fn connections(tables: &str, sockets: &[SocketPorts]) -> Vec<(u64, u64)> {
    let rows = || tables.lines().filter_map(connection);
    let by_inode: FxHashMap<u64, Ends<'_>> = rows().map(|(ends, inode)| (inode, ends)).collect();
    let by_ends: FxHashMap<Ends<'_>, u64> = rows().collect();
    let peer = |socket: &SocketPorts| {
        let [own, other] = *by_inode.get(&socket.inode)?;
        let is_same = (own.1, other.1) == (socket.local_port, socket.peer_port);
        let mut peers = ends_of_peer([own, other]).into_iter().filter(|_| is_same && other.1 != 0);
        Some((socket.inode, peers.find_map(|ends| by_ends.get(&ends).copied())?))
    };
    sockets.iter().filter_map(peer).collect()
}

/// The ports of TCP on which somebody listens.
fn served_ports(tables: &str) -> FxHashSet<u16> {
    let ends = tables.lines().filter_map(connection).map(|(ends, _)| ends);
    ends.filter(|[_, other]| other.1 == 0).map(|[own, _]| own.1).collect()
}

/// The other ends of those connections that were made, not accepted.
fn of_clients(
    askings: &[Asking],
    connections: &[(u64, u64)],
    served: &FxHashSet<u16>,
) -> Vec<LoopPeer> {
    let by_inode: FxHashMap<u64, u64> = connections.iter().copied().collect();
    let made = askings.iter().filter(|asking| !served.contains(&asking.socket.local_port));
    let peers = made.filter_map(|&Asking { tid, socket, peer_inode }| {
        let of_unix = (peer_inode != 0).then_some(peer_inode);
        let inode = of_unix.or_else(|| by_inode.get(&socket.inode).copied())?;
        Some(LoopPeer { tid, inode })
    });
    peers.collect()
}

/// `0: 0100007F:1F90 0100007F:C350 01 …`: both ends, its own first, and the inode.
fn connection(line: &str) -> Option<(Ends<'_>, u64)> {
    /// What an IPv4 address has in front in `/proc/net/tcp6`.
    const MAPPED: &str = "0000000000000000FFFF0000";
    let mut fields = line.split_ascii_whitespace().skip(1);
    let mut end = || {
        let (address, port) = fields.next()?.rsplit_once(':')?;
        let address = address.strip_prefix(MAPPED).unwrap_or(address);
        Some((address, u16::from_str_radix(port, 16).ok()?))
    };
    let ends = [end()?, end()?];
    Some((ends, fields.nth(6)?.parse().ok().filter(|inode| *inode != 0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(own: &str, other: &str, inode: u64) -> String {
        format!(
            "   1: {own} {other} 01 00000000:00000000 00:00000000 00000000  \
             1000        0 {inode} 1 0000000000000000 20 4 30 10 -1\n"
        )
    }

    fn socket(inode: u64, local_port: u16, peer_port: u16) -> SocketPorts {
        SocketPorts { inode, local_port, peer_port }
    }

    #[test]
    fn lines_of_the_kernel() {
        let line = row("0100007F:1F90", "0000000000000000FFFF00000100007F:C350", 48213);
        let ends = [("0100007F", 8080), ("0100007F", 50000)];
        assert_eq!(connection(&line), Some((ends, 48213)));
        assert_eq!(connection("  sl  local_address rem_address"), None);
        assert_eq!([inode_of("pipe:[7]"), inode_of("anon_inode:[eventfd]")], [Some(7), None]);
    }

    #[test]
    fn regression_equal_ports_are_no_connection() {
        let local =
            row("0100007F:C350", "0100007F:1F90", 1) + &row("0100007F:1F90", "0100007F:C350", 2);
        let sockets = [socket(1, 50000, 8080)];
        assert_eq!(connections(&local, &sockets), [(1, 2)]);
        // IPv4 at one end, IPv6 at the other.
        let mapped = "0000000000000000FFFF00000100007F";
        let mixed = row("0100007F:C350", "0100007F:1F90", 1)
            + &row(&format!("{mapped}:1F90"), &format!("{mapped}:C350"), 2);
        assert_eq!(connections(&mixed, &sockets), [(1, 2)]);
        // To another machine, from the ports of a connection within this one.
        let remote = local.clone() + &row("0200000A:C350", "0300000A:1F90", 3);
        assert_eq!(connections(&remote, &[socket(3, 50000, 8080)]), []);
        // Of another network namespace, or of UDP: not in the table.
        assert_eq!(connections(&local, &[socket(4, 50000, 8080)]), []);
        // It listens, and did not when the thread began to wait.
        let listens = row("0100007F:1F90", "00000000:0000", 5);
        assert_eq!(connections(&listens, &[socket(5, 8080, 50000)]), []);
    }

    #[test]
    fn a_connection_that_was_not_accepted_is_its_listeners() {
        // The kernel's own end of it belongs to nobody yet.
        let pending =
            row("0100007F:C350", "0100007F:1F90", 1) + &row("0100007F:1F90", "0100007F:C350", 0);
        let sockets = [socket(1, 50000, 8080)];
        let found = |listener: &str| connections(&(pending.clone() + listener), &sockets);
        assert_eq!(found(&row("00000000:1F90", "00000000:0000", 2)), [(1, 2)]);
        assert_eq!(found(&row("0100007F:1F90", "00000000:0000", 2)), [(1, 2)]);
        assert_eq!(found(&row("00000000:1F91", "00000000:0000", 2)), [], "another port");
    }

    #[test]
    fn datagrams_go_to_who_serves_their_port() {
        let client = row("0100007F:C350", "0100007F:0035", 1);
        let sockets = [socket(1, 50000, 53)];
        let found = |service: &str| connections(&(client.clone() + service), &sockets);
        assert_eq!(found(&row("0100007F:0035", "00000000:0000", 2)), [(1, 2)]);
        assert_eq!(found(&row("00000000:0035", "00000000:0000", 2)), [(1, 2)], "at any address");
        let v6 = NOBODY[1];
        let dual = row(&format!("{v6}:0035"), &format!("{v6}:0000"), 2);
        assert_eq!(found(&dual), [(1, 2)], "of IPv4 and IPv6");
        let connected = row("0100007F:0035", "0100007F:C350", 3);
        let both = connected + &row("0100007F:0035", "00000000:0000", 2);
        assert_eq!(found(&both), [(1, 3)]);
        assert_eq!(found(&row("0100007F:0036", "00000000:0000", 2)), []);
        // Another machine's service, on a port that is served here, too.
        let remote = row("0200000A:C350", "0300000A:0035", 1);
        let tables = remote + &row("00000000:0035", "00000000:0000", 2);
        assert_eq!(connections(&tables, &sockets), []);
    }

    #[test]
    fn a_loop_asks_by_connections_that_it_made() {
        let (client, server) = (("0100007F:C350", 50_000), ("0100007F:1F90", 8_080));
        let tables = row("00000000:1F90", "00000000:0000", 1)
            + &row(client.0, server.0, 2)
            + &row(server.0, client.0, 3);
        let asking = |tid, inode, [local_port, peer_port]: [u16; 2], peer_inode| Asking {
            tid,
            socket: SocketPorts { inode, local_port, peer_port },
            peer_inode,
        };
        let askings = [
            asking(10, 2, [client.1, server.1], 0),
            asking(11, 3, [server.1, client.1], 0),
            asking(12, 7, [0, 0], 8),
            asking(13, 9, [client.1, 443], 0),
        ];
        let sockets: Vec<SocketPorts> = askings.iter().map(|asking| asking.socket).collect();
        let found = of_clients(&askings, &connections(&tables, &sockets), &served_ports(&tables));
        let found: Vec<(u32, u64)> = found.iter().map(|peer| (peer.tid, peer.inode)).collect();
        assert_eq!(
            found,
            [(10, 3), (12, 8)],
            "the server's, and one of another machine, are left out"
        );
    }

    /// Descriptors that are open here, and what is found of them.
    fn found(inodes: &[u64], sockets: &[SocketPorts]) -> Peers {
        let own = std::process::id();
        let end = Instant::now() + 1000 * TIME_LIMIT;
        find([own].into_iter(), inodes.iter().copied().collect(), sockets, &[], end)
    }

    fn inode(file: &dyn std::os::fd::AsRawFd) -> u64 {
        let link = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
        inode_of(link.to_str().unwrap()).unwrap()
    }

    #[test]
    fn both_ends_of_a_connection_and_of_a_pipe() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let ports = [client.local_addr(), client.peer_addr()].map(|end| end.unwrap().port());
        let (reader, writer) = io::pipe().unwrap();
        let pipe = inode(&reader);
        let found = found(&[pipe], &[socket(inode(&client), ports[0], ports[1])]);
        assert_eq!(found.connections, [(inode(&client), inode(&server))]);
        let held = |inode| {
            let holders = found.holders.iter().filter(move |holder| holder.inode == inode);
            holders.map(|holder| (holder.reads, holder.writes)).collect::<Vec<_>>()
        };
        assert_eq!(held(inode(&server)), [(true, true)]);
        let mut ends = held(pipe);
        ends.sort_unstable();
        assert_eq!(ends, [(false, true), (true, false)], "the writer's and the reader's");
        assert!(!found.is_cut);
        drop(writer);
    }

    #[test]
    fn regression_what_was_not_looked_at_is_said_to_be_missing() {
        let late = Instant::now() - TIME_LIMIT;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tcp");
        let line = row("0100007F:1F90", "0100007F:C350", 2);
        fs::write(&path, line.repeat(2) + line.trim_end_matches("-1\n")).unwrap();
        let read = |end: Instant| {
            let mut peers = Peers::default();
            (peers.lines_of(File::open(&path).unwrap(), end), peers.is_cut)
        };
        assert_eq!(read(late + 1000 * TIME_LIMIT), (line.repeat(2), false), "without half a line");
        assert_eq!(read(late), (line.repeat(2), true));
        fs::write(&path, line.repeat(MAX_TABLE_BYTES / line.len() + 1)).unwrap();
        let (text, is_cut) = read(late + 1000 * TIME_LIMIT);
        assert!(is_cut && text.len() % line.len() == 0 && !text.is_empty());
    }
}
