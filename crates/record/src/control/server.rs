//! The recorder's end. Nothing here waits: requests are read as they come, and answers fit into the
//! socket's buffer.

use super::line::Line;
use super::{LONGEST_LINE, REQUEST_TIMEOUT, SOCKET, connect, is_trusted, peer, private_folder};
use crate::error::Error;
use crate::sys;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde_json::{Value, json};
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// So many requests may be on their way at one time. For one more the oldest makes room.
const MOST_CLIENTS: usize = 128;
/// So many wait in the kernel while a save is made.
const BACKLOG: i32 = 256;

/// Where requests arrive. The socket is removed when this is dropped.
pub(crate) struct Server {
    listener: UnixListener,
    path: PathBuf,
    /// The oldest first.
    clients: Vec<Client>,
}

/// Somebody entitled who has not said yet what he wants.
struct Client {
    socket: UnixStream,
    line: Line,
}

/// A request for a save, to be answered.
pub(crate) struct Request {
    socket: UnixStream,
    pub(crate) notes: Option<String>,
}

impl Server {
    /// Listens in `folder`. A socket that nobody answers on is replaced; where somebody does, a
    /// second recorder is refused.
    pub(crate) fn bind(folder: &Path) -> Result<Self, Error> {
        private_folder(folder)?;
        let path = folder.join(SOCKET);
        let failed = |action| {
            let path = path.clone();
            move |source| Error::File { action, path, source }
        };
        match connect(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(&path).map_err(failed("remove the stale socket"))?;
            }
            // One that is too busy to accept is one.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(Error::AlreadyWatching { socket: path });
            }
            Err(error) => return Err(failed("look for a recorder at")(error)),
            Ok(_) => return Err(Error::AlreadyWatching { socket: path }),
        }
        let listener = listen(&path).map_err(failed("listen on"))?;
        Ok(Self { listener, path, clients: Vec::new() })
    }

    /// Where it listens.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// To be polled: when one is ready, [`Server::accept`] has something to do.
    pub(crate) fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let clients = self.clients.iter().map(|client| client.socket.as_fd());
        std::iter::once(self.listener.as_fd()).chain(clients).collect()
    }

    /// The next request that somebody entitled has made, if any. To be called now and then without
    /// a reason, too: who takes too long is sent away then.
    pub(crate) fn accept(&mut self) -> Option<Request> {
        let mut request = None;
        // Who is here is heard before anybody comes for whom he might have to go.
        for client in std::mem::take(&mut self.clients) {
            match request {
                None => request = self.hear(client),
                Some(_) => self.clients.push(client),
            }
        }
        // Bounded, so that whoever comes again and again keeps nobody from recording.
        for _ in 0..MOST_CLIENTS {
            if request.is_some() {
                break;
            }
            let Ok((socket, _)) = self.listener.accept() else { break };
            request = welcome(socket).and_then(|client| self.hear(client));
        }
        request
    }

    /// What a client asks for, when that is whole. When more must come he is kept; when it will
    /// not, he is not.
    fn hear(&mut self, mut client: Client) -> Option<Request> {
        match client.line.take(&mut client.socket) {
            Ok(Some(line)) => {
                let asked = serde_json::from_slice(line).unwrap_or_default();
                return understood(client.socket, &asked);
            }
            Ok(None) => self.keep(client),
            // He left, or took too long, or said too much.
            Err(_) => {}
        }
        None
    }

    /// Who asks without delay is heard, however many are slow: the one who has taken longest goes.
    fn keep(&mut self, client: Client) {
        if self.clients.len() == MOST_CLIENTS {
            self.clients.remove(0);
        }
        self.clients.push(client);
    }
}

/// Lets in who is entitled to ask.
fn welcome(socket: UnixStream) -> Option<Client> {
    let uid = peer(&socket).ok()?;
    socket.set_nonblocking(true).ok()?;
    if is_trusted(uid) {
        return Some(Client { socket, line: Line::new(LONGEST_LINE, REQUEST_TIMEOUT) });
    }
    answer(
        socket,
        json!({"error": format!("this recorder is not yours (it belongs to uid {})", sys::effective_uid())}),
    );
    None
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// A socket that is its owner's alone from the start: it gets the mode that the descriptor has
/// before it gets its name (unix(7)).
fn listen(path: &Path) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::fs::fchmod(&socket, rustix::fs::Mode::from_raw_mode(0o600))?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

fn understood(socket: UnixStream, asked: &Value) -> Option<Request> {
    match asked.get("save") {
        Some(save) => Some(Request { socket, notes: save["notes"].as_str().map(str::to_owned) }),
        None => {
            answer(socket, json!({"error": "not understood; known: {\"save\":{\"notes\":\"…\"}}"}));
            None
        }
    }
}

impl Request {
    /// The save succeeded. Of very many warnings the last are left out: the trace has all.
    pub(crate) fn saved(self, path: &Path, warnings: &[String]) {
        let mut len = path.as_os_str().len();
        let fitting = warnings.iter().take_while(|warning| {
            // A character takes six bytes at most when it is escaped.
            len += warning.len() * 6;
            len < LONGEST_LINE / 2
        });
        answer(self.socket, json!({"path": path, "warnings": fitting.collect::<Vec<_>>()}));
    }

    /// The save failed.
    pub(crate) fn failed(self, error: &Error) {
        let text: String = error.with_causes().chars().take(LONGEST_LINE / 16).collect();
        answer(self.socket, json!({"error": text}));
    }
}

/// Whoever asked may have left, or read nothing: that is his affair.
fn answer(mut socket: UnixStream, answer: Value) {
    let _ = socket.write(format!("{answer}\n").as_bytes());
}
