//! The recorder's end. Nothing here blocks: requests are read as they arrive, and answers fit into
//! the socket's buffer.

use super::line::Lines;
use super::peer::{Class, Peer, peer};
use super::rates::{Rate, Rates};
use super::request::{self, Request};
use super::socket::{MAX_LINE_LEN, REQUEST_TIMEOUT, SOCKET, connect, has_ended, own_folder};
use crate::error::Error;
use crate::sys;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde_json::{Value, json};
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Instant;
use unhitch_model::InputMarks;

/// Maximum number of clients at a time. Beyond this, the oldest of the user with the most is
/// disconnected.
const MAX_CLIENTS: usize = 128;
/// Maximum number of clients of one user other than the owner.
const MAX_CLIENTS_OF_USER: usize = 32;
/// Maximum number of connections that wait in the kernel during a save.
const BACKLOG: i32 = 256;

/// A connection. Numbers are never used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ClientId(u64);

/// A request, which must be answered.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) client: ClientId,
    pub(crate) peer: Peer,
    pub(crate) request: Request,
}

/// Accepts requests. The socket file is removed when this is dropped.
pub(crate) struct Server {
    listener: UnixListener,
    path: PathBuf,
    group: Option<u32>,
    /// How often users may ask. Requests are counted here, what they ask for is for the recorder.
    pub(crate) rates: Rates,
    /// Oldest first.
    clients: Vec<Client>,
    next: u64,
}

struct Client {
    id: ClientId,
    peer: Peer,
    socket: UnixStream,
    lines: Lines,
    state: State,
    /// Its user asked too often: nothing is read before.
    rests_until: Option<Instant>,
    /// Which marks of input it sends, as it says.
    input: Option<InputMarks>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The next line is read as it arrives.
    Reading,
    /// Its request has no answer yet. Nothing is read meanwhile, so answers keep their order.
    Busy,
    /// It is told of every save.
    Subscribed,
}

impl Server {
    /// Listens in `folder`, also to members of `group`. A stale socket is replaced; if another
    /// recorder answers on it, fails.
    pub(crate) fn bind(folder: &Path, group: Option<u32>) -> Result<Self, Error> {
        own_folder(folder, group)?;
        let path = folder.join(SOCKET);
        let failed = |action| {
            let path = path.clone();
            move |source| Error::File { action, path, source }
        };
        let remove = || fs::remove_file(&path).map_err(failed("remove the stale socket"));
        match connect(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => remove()?,
            // One that is killed while it starts a process leaves its socket to that one until the
            // program begins.
            Ok(socket) if has_ended(&socket) => remove()?,
            // A recorder that is too busy to accept is a recorder, too.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(Error::AlreadyWatching { socket: path });
            }
            Err(error) => return Err(failed("look for a recorder at")(error)),
            Ok(_) => return Err(Error::AlreadyWatching { socket: path }),
        }
        let listener = listen(&path, group).map_err(failed("listen on"))?;
        let rates = Rates::new(Instant::now());
        Ok(Self { listener, path, group, rates, clients: Vec::new(), next: 0 })
    }

    /// The path of the socket.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The descriptors to poll: when one is ready, call [`Server::accept`].
    pub(crate) fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let is_read =
            |client: &&Client| client.state != State::Busy && client.rests_until.is_none();
        let clients = self.clients.iter().filter(is_read);
        let clients = clients.map(|client| client.socket.as_fd());
        std::iter::once(self.listener.as_fd()).chain(clients).collect()
    }

    /// When to call [`Server::accept`] even if no descriptor is ready.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.clients.iter().filter_map(|client| client.rests_until).min()
    }

    /// The requests that are complete, at most one of each client. Must also be called now and then
    /// when no descriptor is ready, to disconnect clients that take too long.
    pub(crate) fn accept(&mut self) -> Vec<Incoming> {
        let mut requests = Vec::new();
        // Read from connected clients first, as accepting a new one may disconnect one of them.
        for client in std::mem::take(&mut self.clients) {
            requests.extend(self.read_from(client));
        }
        // This is bounded, so that a client that reconnects forever cannot block the recorder.
        for _ in 0..MAX_CLIENTS {
            let Ok((socket, _)) = self.listener.accept() else { break };
            if let Some(client) = self.admit(socket) {
                requests.extend(self.read_from(client));
            }
        }
        requests
    }

    /// Sends the answer to a client's request. The client may have left.
    pub(crate) fn answer(&mut self, client: ClientId, answer: &Value) {
        self.send(client, answer, State::Reading);
    }

    /// Sends the first of two answers.
    pub(crate) fn answer_first(&mut self, client: ClientId, answer: &Value) {
        self.send(client, answer, State::Busy);
    }

    /// What a client may ask for; `None` if it has left.
    pub(crate) fn class_of(&self, client: ClientId) -> Option<Class> {
        self.clients.iter().find(|known| known.id == client).map(|known| known.peer.class)
    }

    /// Answers a subscription of one that sends these marks of input.
    pub(crate) fn subscribe(&mut self, client: ClientId, input: Option<InputMarks>) {
        if let Some(known) = self.clients.iter_mut().find(|known| known.id == client) {
            known.input = input;
        }
        self.send(client, &json!({ "subscribed": true }), State::Subscribed);
    }

    /// Which marks of input the agents that are connected send, as they say.
    pub(crate) fn input_of_agents(&self) -> impl Iterator<Item = InputMarks> + '_ {
        self.clients.iter().filter_map(|client| client.input)
    }

    /// Sends a line to all subscribers, as `line` has it for their class.
    pub(crate) fn publish(&mut self, line: impl Fn(Class) -> Value) {
        let subscribed = self.clients.iter().filter(|client| client.state == State::Subscribed);
        let subscribed: Vec<(ClientId, Class)> =
            subscribed.map(|client| (client.id, client.peer.class)).collect();
        for (client, class) in subscribed {
            self.send(client, &line(class), State::Subscribed);
        }
    }

    fn send(&mut self, client: ClientId, line: &Value, then: State) {
        let Some(at) = self.clients.iter().position(|known| known.id == client) else { return };
        if send(&mut self.clients[at].socket, line) {
            self.clients[at].state = then;
        } else {
            self.clients.remove(at);
        }
    }

    /// Accepts a connection if its user is trusted; otherwise, sends an error.
    fn admit(&mut self, mut socket: UnixStream) -> Option<Client> {
        let peer = peer(&socket, self.group).ok()?;
        socket.set_nonblocking(true).ok()?;
        let Some(peer) = peer else {
            let uid = sys::effective_uid();
            let error = match self.group {
                None => format!("this recorder belongs to another user (uid {uid})"),
                Some(group) => format!(
                    "this recorder belongs to another user (uid {uid}) and to the group {group}, \
                     of which you are no member"
                ),
            };
            send(&mut socket, &json!({ "error": error }));
            return None;
        };
        let id = ClientId(self.next);
        self.next += 1;
        let lines = Lines::new(MAX_LINE_LEN, REQUEST_TIMEOUT);
        let (state, rests_until) = (State::Reading, None);
        Some(Client { id, peer, socket, lines, state, rests_until, input: None })
    }

    /// The client's request, if it is complete. The client is kept unless it has failed.
    fn read_from(&mut self, mut client: Client) -> Option<Incoming> {
        if client.state == State::Subscribed {
            // It has nothing to say: one that spoke would wake us as often as it likes.
            if is_silent(&mut client.socket) {
                self.keep(client);
            }
            return None;
        }
        let now = Instant::now();
        if client.state == State::Reading {
            let wait = self.rates.wait(client.peer, Rate::Requests, now);
            client.rests_until = wait.map(|wait| now + wait);
        }
        if client.state == State::Busy || client.rests_until.is_some() {
            self.keep(client);
            return None;
        }
        // An error: it left, took too long or sent too much.
        let Some(line) = client.lines.read(&mut client.socket).ok()? else {
            self.keep(client);
            return None;
        };
        // There is a token, as it did not have to wait.
        let _ = self.rates.take(client.peer, Rate::Requests, now);
        match request::parse(&line) {
            Ok(request) => {
                let incoming = Incoming { client: client.id, peer: client.peer, request };
                client.state = State::Busy;
                self.keep(client);
                Some(incoming)
            }
            Err(error) => {
                send(&mut client.socket, &json!({ "error": error }));
                None
            }
        }
    }

    /// Keeps a client that is not done. If there are too many, drops the oldest, so that slow
    /// clients cannot lock out a prompt one, nor one user another.
    fn keep(&mut self, client: Client) {
        let uid = client.peer.uid;
        let of = |uid: u32| self.clients.iter().filter(|other| other.peer.uid == uid).count();
        if client.peer.class == Class::Group && of(uid) >= MAX_CLIENTS_OF_USER {
            self.drop_oldest_of(uid);
        }
        if self.clients.len() >= MAX_CLIENTS {
            let of = |uid: u32| self.clients.iter().filter(|other| other.peer.uid == uid).count();
            let users = self.clients.iter().map(|other| other.peer.uid);
            if let Some(busiest) = users.max_by_key(|uid| of(*uid)) {
                self.drop_oldest_of(busiest);
            }
        }
        self.clients.push(client);
    }

    fn drop_oldest_of(&mut self, uid: u32) {
        let own = |client: &Client| client.peer.uid == uid;
        let reading = |client: &Client| own(client) && client.state == State::Reading;
        let oldest = self.clients.iter().position(reading);
        if let Some(oldest) = oldest.or_else(|| self.clients.iter().position(own)) {
            self.clients.remove(oldest);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Creates a socket that only its owner and `group` may use from the start: the descriptor gets its
/// mode before the socket gets its name (unix(7)).
fn listen(path: &Path, group: Option<u32>) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::fs::fchmod(&socket, rustix::fs::Mode::from_raw_mode(0o600))?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    if let Some(group) = group {
        // Nobody else can replace it meanwhile: the folder is ours.
        std::os::unix::fs::lchown(path, None, Some(group))?;
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o660))?;
    }
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// True if a client is connected and sends nothing.
fn is_silent(socket: &mut UnixStream) -> bool {
    socket.read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// Sends a line. False if it did not fit into the socket's buffer, or the client has left.
fn send(socket: &mut UnixStream, line: &Value) -> bool {
    let line = format!("{line}\n");
    socket.write(line.as_bytes()).is_ok_and(|len| len == line.len())
}

/// The answer that a save succeeded. If there are too many warnings, the last ones are left out; the
/// trace has all of them.
pub(crate) fn saved(path: &Path, warnings: &[String]) -> Value {
    let mut len = path.as_os_str().len();
    let fitting = warnings.iter().take_while(|warning| {
        // An escaped character takes at most six bytes.
        len += warning.len() * 6;
        len < MAX_LINE_LEN / 2
    });
    json!({"path": path.to_string_lossy(), "warnings": fitting.collect::<Vec<_>>()})
}

/// The answer that a request failed.
pub(crate) fn failed(error: &str) -> Value {
    json!({ "error": error.chars().take(MAX_LINE_LEN / 16).collect::<String>() })
}
