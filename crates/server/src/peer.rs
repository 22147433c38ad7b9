//! Finds the user at the other end of a connection.
//!
//! Unlike a Unix socket, TCP does not say. The kernel does, for every socket of this machine: one
//! netlink message each way (sock_diag(7), `include/uapi/linux/inet_diag.h`). *Why not
//! `/proc/net/tcp`:* each read lists all connections of the machine, and root's server is confined
//! and may not open it.

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, sendto,
    socket_with,
};
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use tokio::net::TcpStream;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const AF_INET: u8 = 2;
const IPPROTO_TCP: u8 = 6;
const TCP_ESTABLISHED: u8 = 1;
/// `nlmsghdr` and `inet_diag_req_v2`
const QUESTION_LEN: usize = 16 + 56;
/// `nlmsghdr` and `inet_diag_msg`
const ANSWER_LEN: usize = 16 + 72;

/// Whether a user other than ours and root is at the other end, or may be.
pub(crate) fn is_stranger(socket: &TcpStream) -> bool {
    let owner = socket.peer_addr().and_then(|theirs| owner(theirs, socket.local_addr()?));
    !owner.is_ok_and(|uid| uid == Some(0) || uid == Some(rustix::process::geteuid().as_raw()))
}

/// The user of the socket at `theirs` that is connected to `ours`, if it is on this machine.
fn owner(theirs: SocketAddr, ours: SocketAddr) -> io::Result<Option<u32>> {
    let (SocketAddr::V4(theirs), SocketAddr::V4(ours)) = (theirs, ours) else { return Ok(None) };
    let kernel = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    sendto(
        &kernel,
        &question(theirs, ours),
        SendFlags::empty(),
        &netlink::SocketAddrNetlink::new(0, 0),
    )?;
    let mut answer = [0; 512];
    // The kernel answers before `sendto` returns.
    let (len, _) = recv(&kernel, &mut answer, RecvFlags::DONTWAIT)?;
    Ok(uid_in(&answer[..len]))
}

/// The request for the socket bound to `source` and connected to `destination`.
fn question(source: SocketAddrV4, destination: SocketAddrV4) -> Vec<u8> {
    let address = |address: SocketAddrV4| [&address.ip().octets()[..], &[0; 12]].concat();
    let question = [
        &(QUESTION_LEN as u32).to_ne_bytes()[..],
        &SOCK_DIAG_BY_FAMILY.to_ne_bytes(),
        &NLM_F_REQUEST.to_ne_bytes(),
        // Sequence number and sender.
        &[0; 8],
        // No extensions, then padding; the states matter only for lists.
        &[AF_INET, IPPROTO_TCP, 0, 0],
        &[0xff; 4],
        &source.port().to_be_bytes(),
        &destination.port().to_be_bytes(),
        &address(source),
        &address(destination),
        // Any interface, no cookie.
        &[0; 4],
        &[0xff; 8],
    ];
    question.concat()
}

/// The user in an answer; none if the socket is no longer connected. The kernel reports user 0 for
/// such sockets, because nobody owns them any more.
fn uid_in(answer: &[u8]) -> Option<u32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let is_connected =
        answer.len() >= ANSWER_LEN && kind == SOCK_DIAG_BY_FAMILY && answer[17] == TCP_ESTABLISHED;
    is_connected.then(|| u32::from_ne_bytes(answer[80..84].try_into().expect("four bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    /// The two ends of a connection made by a thread of the user `uid`, or of ours.
    fn connected(uid: Option<u32>) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // Credentials belong to a thread: this one becomes another user for good.
        let connect = move || {
            if let Some(uid) = uid.map(rustix::process::Uid::from_raw) {
                rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            }
            TcpStream::connect(address).unwrap()
        };
        let theirs = std::thread::spawn(connect).join().unwrap();
        (theirs, listener.accept().unwrap().0)
    }

    fn owner_of(theirs: &TcpStream) -> Option<u32> {
        owner(theirs.local_addr().unwrap(), theirs.peer_addr().unwrap()).unwrap()
    }

    #[test]
    fn the_kernel_knows_whose_a_connection_is() {
        let me = rustix::process::geteuid();
        let (theirs, _ours) = connected(None);
        assert_eq!(owner_of(&theirs), Some(me.as_raw()));
        // Once shut down, it could be anyone's.
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(owner_of(&theirs), None);
        if !me.is_root() {
            return eprintln!("SKIPPED another user's connection: only root can make one");
        }
        let (theirs, _ours) = connected(Some(4711));
        assert_eq!(owner_of(&theirs), Some(4711));
    }

    #[test]
    fn half_an_answer_names_nobody() {
        let (theirs, _ours) = connected(None);
        let mut answer = vec![0; ANSWER_LEN];
        answer[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        answer[17] = TCP_ESTABLISHED;
        assert_eq!(uid_in(&answer), Some(0));
        for len in 0..ANSWER_LEN {
            assert_eq!(uid_in(&answer[..len]), None);
        }
        drop(theirs);
    }
}
