//! The recorder's end. Nothing here blocks: requests are read as they arrive, and answers fit into
//! the socket's buffer.

use super::line::Line;
use super::socket::{
    MAX_LINE_LEN, REQUEST_TIMEOUT, SOCKET, connect, is_trusted, peer, private_folder,
};
use crate::error::Error;
use crate::sys;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde_json::{Value, json};
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Maximum number of clients at a time. Beyond this, the oldest is disconnected.
const MAX_CLIENTS: usize = 128;
/// Maximum number of connections that wait in the kernel during a save.
const BACKLOG: i32 = 256;

/// Accepts requests. The socket file is removed when this is dropped.
pub(crate) struct Server {
    listener: UnixListener,
    path: PathBuf,
    /// Oldest first.
    clients: Vec<Client>,
}

/// A trusted client that has not sent its request yet.
struct Client {
    socket: UnixStream,
    line: Line,
}

/// A request for a save, which must be answered.
pub(crate) struct Request {
    socket: UnixStream,
    pub(crate) notes: Option<String>,
}

impl Server {
    /// Listens in `folder`. A stale socket is replaced; if another recorder answers on it, fails.
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
            // A recorder that is too busy to accept is a recorder, too.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(Error::AlreadyWatching { socket: path });
            }
            Err(error) => return Err(failed("look for a recorder at")(error)),
            Ok(_) => return Err(Error::AlreadyWatching { socket: path }),
        }
        let listener = listen(&path).map_err(failed("listen on"))?;
        Ok(Self { listener, path, clients: Vec::new() })
    }

    /// The path of the socket.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The descriptors to poll: when one is ready, call [`Server::accept`].
    pub(crate) fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let clients = self.clients.iter().map(|client| client.socket.as_fd());
        std::iter::once(self.listener.as_fd()).chain(clients).collect()
    }

    /// The next request of a trusted client, if any. Must also be called now and then when no
    /// descriptor is ready, to disconnect clients that take too long.
    pub(crate) fn accept(&mut self) -> Option<Request> {
        let mut request = None;
        // Read from connected clients first, as accepting a new one may disconnect one of them.
        for client in std::mem::take(&mut self.clients) {
            match request {
                None => request = self.read_from(client),
                Some(_) => self.clients.push(client),
            }
        }
        // This is bounded, so that a client that reconnects forever cannot block the recorder.
        for _ in 0..MAX_CLIENTS {
            if request.is_some() {
                break;
            }
            let Ok((socket, _)) = self.listener.accept() else { break };
            request = admit(socket).and_then(|client| self.read_from(client));
        }
        request
    }

    /// The client's request, if it is complete. If not, the client is kept, unless it has failed.
    fn read_from(&mut self, mut client: Client) -> Option<Request> {
        match client.line.read(&mut client.socket) {
            Ok(Some(line)) => {
                let message = serde_json::from_slice(line).unwrap_or_default();
                return parse_request(client.socket, &message);
            }
            Ok(None) => self.keep(client),
            // It left, took too long or sent too much.
            Err(_) => {}
        }
        None
    }

    /// Keeps a client that is not done. If there are too many, drops the oldest, so that slow
    /// clients cannot lock out a prompt one.
    fn keep(&mut self, client: Client) {
        if self.clients.len() == MAX_CLIENTS {
            self.clients.remove(0);
        }
        self.clients.push(client);
    }
}

/// Accepts a connection if its user is trusted; otherwise, sends an error.
fn admit(socket: UnixStream) -> Option<Client> {
    let uid = peer(&socket).ok()?;
    socket.set_nonblocking(true).ok()?;
    if is_trusted(uid) {
        return Some(Client { socket, line: Line::new(MAX_LINE_LEN, REQUEST_TIMEOUT) });
    }
    let uid = sys::effective_uid();
    let error = format!("this recorder belongs to another user (uid {uid})");
    answer(socket, json!({ "error": error }));
    None
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Creates a socket that is private to its owner from the start: the descriptor gets its mode
/// before the socket gets its name (unix(7)).
fn listen(path: &Path) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::fs::fchmod(&socket, rustix::fs::Mode::from_raw_mode(0o600))?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

fn parse_request(socket: UnixStream, message: &Value) -> Option<Request> {
    match message.get("save") {
        Some(save) => Some(Request { socket, notes: save["notes"].as_str().map(str::to_owned) }),
        None => {
            let error = "request not understood; the only known one: {\"save\":{\"notes\":\"…\"}}";
            answer(socket, json!({ "error": error }));
            None
        }
    }
}

impl Request {
    /// Answers that the save succeeded. If there are too many warnings, the last ones are left out;
    /// the trace has all of them.
    pub(crate) fn saved(self, path: &Path, warnings: &[String]) {
        let mut len = path.as_os_str().len();
        let fitting = warnings.iter().take_while(|warning| {
            // An escaped character takes at most six bytes.
            len += warning.len() * 6;
            len < MAX_LINE_LEN / 2
        });
        answer(self.socket, json!({"path": path, "warnings": fitting.collect::<Vec<_>>()}));
    }

    /// Answers that the save failed.
    pub(crate) fn failed(self, error: &Error) {
        let text: String = error.with_causes().chars().take(MAX_LINE_LEN / 16).collect();
        answer(self.socket, json!({"error": text}));
    }
}

/// Sends an answer. Errors are ignored: the client may have left.
fn answer(mut socket: UnixStream, answer: Value) {
    let _ = socket.write(format!("{answer}\n").as_bytes());
}
