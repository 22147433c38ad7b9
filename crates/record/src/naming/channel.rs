//! The protocol between the recorder and the naming process, on a socket that preserves message
//! boundaries.
//!
//! A message is a letter, some bytes, and sometimes a file descriptor. Each side assumes that the
//! other may be hostile: messages are short, and an invalid one ends the conversation.

use rustix::cmsg_space;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use unhitch_symbols::Wanted;

/// Maximum length of a message in bytes: enough for two paths.
pub(super) const MAX_MESSAGE_LEN: usize = 64 << 10;

/// A message.
#[derive(Debug)]
pub(super) enum Message {
    /// To the child: load what is needed for every trace.
    Prepare,
    /// To the child: name the frames of this trace.
    Trace(File),
    /// To the child: read the unwind rules of this file.
    Rules(File),
    /// To the child: the requested file.
    File(File),
    /// To the child: the requested file is refused, with this `errno`.
    Refused(i32),
    /// From the child: a request for this file.
    Open(Wanted),
    /// From the child: a part of the answer, a `symbols.json` or rules.
    Part(Vec<u8>),
    /// From the child: the answer is complete; true if the child can give another.
    Done(bool),
}

/// One end of the connection.
#[derive(Debug)]
pub(super) struct Channel {
    socket: OwnedFd,
    flags: SendFlags,
}

impl Channel {
    /// Creates the recorder's end, which never blocks on sending, and the child's end. Both are
    /// close-on-exec.
    pub(super) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self { socket: ours, flags: SendFlags::NOSIGNAL | SendFlags::DONTWAIT }, theirs))
    }

    /// The child's end.
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self { socket, flags: SendFlags::NOSIGNAL }
    }

    /// Sends a message.
    pub(super) fn send(&self, message: &Message) -> io::Result<()> {
        let (letter, bytes, file) = match message {
            Message::Trace(file) => (b'T', Vec::new(), Some(file)),
            Message::Rules(file) => (b'U', Vec::new(), Some(file)),
            Message::File(file) => (b'F', Vec::new(), Some(file)),
            Message::Refused(errno) => (b'R', errno.to_le_bytes().to_vec(), None),
            Message::Prepare => (b'P', Vec::new(), None),
            Message::Open(wanted) => (b'O', encode(wanted), None),
            Message::Part(part) => (b'N', part.clone(), None),
            Message::Done(again) => (b'D', vec![u8::from(*again)], None),
        };
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors: Vec<BorrowedFd<'_>> = file.iter().map(|file| file.as_fd()).collect();
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        loop {
            match sendmsg(
                &self.socket,
                &[IoSlice::new(&[letter]), IoSlice::new(&bytes)],
                &mut control,
                self.flags,
            ) {
                Err(Errno::INTR) => {}
                result => return Ok(result.map(drop)?),
            }
        }
    }

    /// Waits for the next message; `None` when the other end has closed the connection.
    pub(super) fn receive(&self) -> io::Result<Option<Message>> {
        let mut bytes = vec![0; MAX_MESSAGE_LEN];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            match recvmsg(
                &self.socket,
                &mut [IoSliceMut::new(&mut bytes)],
                &mut control,
                RecvFlags::CMSG_CLOEXEC,
            ) {
                Err(Errno::INTR) => {}
                result => break result?,
            }
        };
        let rights = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        let Some((&letter, bytes)) = bytes[..received.bytes].split_first() else { return Ok(None) };
        let message = match (letter, rights) {
            (b'T', Some(file)) => Some(Message::Trace(file.into())),
            (b'U', Some(file)) => Some(Message::Rules(file.into())),
            (b'F', Some(file)) => Some(Message::File(file.into())),
            (b'R', None) => {
                bytes.try_into().ok().map(|errno| Message::Refused(i32::from_le_bytes(errno)))
            }
            (b'P', None) => Some(Message::Prepare),
            (b'O', None) => decode(bytes).map(Message::Open),
            (b'N', None) => Some(Message::Part(bytes.to_vec())),
            (b'D', None) => Some(Message::Done(bytes == [1])),
            _ => None,
        };
        message.map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Encodes a request as a letter and its arguments; two paths are separated by the length of the
/// first.
fn encode(wanted: &Wanted) -> Vec<u8> {
    let path = |path: &PathBuf| path.as_os_str().as_bytes().to_vec();
    match wanted {
        Wanted::Mapped(mapped) => [vec![b'm'], path(mapped)].concat(),
        Wanted::Debug { path: debug, of } => {
            let debug = path(debug);
            [vec![b'd'], (debug.len() as u32).to_le_bytes().to_vec(), debug, path(of)].concat()
        }
        Wanted::PerfMap(pid) => [vec![b'p'], pid.to_le_bytes().to_vec()].concat(),
        Wanted::KernelSymbols => vec![b'k'],
        Wanted::KernelModules => vec![b'l'],
    }
}

fn decode(bytes: &[u8]) -> Option<Wanted> {
    let path = |bytes: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(bytes));
    let (letter, rest) = bytes.split_first()?;
    Some(match letter {
        b'm' => Wanted::Mapped(path(rest)),
        b'd' => {
            let (len, rest) = rest.split_first_chunk::<4>()?;
            let (debug, of) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
            Wanted::Debug { path: path(debug), of: path(of) }
        }
        b'p' => Wanted::PerfMap(u32::from_le_bytes(rest.try_into().ok()?)),
        b'k' => Wanted::KernelSymbols,
        b'l' => Wanted::KernelModules,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};

    #[test]
    fn messages_survive_a_round_trip() {
        let (ours, theirs) = Channel::pair().unwrap();
        let theirs = Channel::new(theirs);
        for wanted in [
            Wanted::Mapped("/usr/lib/a b\n.so".into()),
            Wanted::Debug { path: "/usr/lib/debug/x".into(), of: "/usr/bin/x".into() },
            Wanted::PerfMap(7),
            Wanted::KernelSymbols,
            Wanted::KernelModules,
        ] {
            theirs.send(&Message::Open(wanted.clone())).unwrap();
            let received = ours.receive().unwrap();
            assert!(
                matches!(&received, Some(Message::Open(open)) if *open == wanted),
                "{received:?}"
            );
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"content").unwrap();
        file.rewind().unwrap();
        ours.send(&Message::File(file)).unwrap();
        let Ok(Some(Message::File(mut file))) = theirs.receive() else { panic!("no file") };
        let mut content = String::new();
        file.read_to_string(&mut content).unwrap();
        assert_eq!(content, "content");
        drop(ours);
        assert!(theirs.receive().unwrap().is_none());
        assert!(theirs.send(&Message::Prepare).is_err());
    }

    #[test]
    fn an_invalid_message_is_an_error() {
        let (ours, theirs) = Channel::pair().unwrap();
        for bytes in [&b"X"[..], b"F", b"R12", b"O", b"Oz", b"Od\xff\xff\xff\xffab", b"Op12"] {
            rustix::net::send(&theirs, bytes, SendFlags::NOSIGNAL).unwrap();
            assert!(ours.receive().is_err(), "{bytes:?}");
        }
    }
}
