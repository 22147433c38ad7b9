//! The client end.

use super::line::Lines;
use super::peer::is_owner;
use super::socket::{MAX_LINE_LEN, REQUEST_TIMEOUT, SOCKET, check_owner, connect, foreign_user};
use crate::error::Error;
use crate::sys;
use rustix::io::Errno;
use serde_json::{Value, json};
use std::fs;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time limit for the answer. Saving large rings to a slow disk takes a while.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum number of attempts at a recorder that disconnects us because it has too many clients.
const MAX_TRIES: usize = 3;

/// A recorder's answer: the trace that it saved.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Answer {
    /// Where the trace is.
    pub path: PathBuf,
    /// Warnings for the user, such as why the trace is not where it should be.
    pub warnings: Vec<String>,
}

/// A connection to a recorder of this user or of root.
pub struct Client {
    socket: UnixStream,
    lines: Lines,
    path: PathBuf,
}

impl Client {
    /// Connects to the recorder whose socket is `path`. Talks only to recorders of this user and of
    /// root.
    ///
    /// # Errors
    /// When no recorder is running or it belongs to another user.
    pub fn connect(path: &Path) -> Result<Self, Error> {
        let failed = |action| move |source: io::Error| file_error(action, path, source);
        let socket = match trusted_folder(path).and_then(|()| connect(path)) {
            Err(error) if is_missing(&error) => {
                return Err(Error::NotWatching { socket: path.to_owned() });
            }
            result => result.map_err(failed("reach the recorder at"))?,
        };
        check_owner(&socket).map_err(failed("trust"))?;
        socket.set_nonblocking(true).map_err(failed("talk to"))?;
        let lines = Lines::new(MAX_LINE_LEN, ANSWER_TIMEOUT);
        Ok(Self { socket, lines, path: path.to_owned() })
    }

    /// Sends a request and returns the answer.
    ///
    /// # Errors
    /// When the request is too long, or there is no answer in time.
    pub fn ask(&mut self, request: &Value) -> Result<Value, Error> {
        let line = line_of(request)?;
        self.exchange(&line).map_err(|error| self.without_answer(error))
    }

    fn exchange(&mut self, line: &str) -> io::Result<Value> {
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            match self.socket.write(rest) {
                Ok(len) => rest = rest.get(len..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let fd =
                        rustix::event::PollFd::new(&self.socket, rustix::event::PollFlags::OUT);
                    let limit = rustix::event::Timespec {
                        tv_sec: REQUEST_TIMEOUT.as_secs() as i64,
                        tv_nsec: 0,
                    };
                    if rustix::event::poll(&mut [fd], Some(&limit))? == 0 {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        self.lines.expect(ANSWER_TIMEOUT);
        read_answer(&mut self.socket, &mut self.lines)
    }

    fn without_answer(&self, error: io::Error) -> Error {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return Error::Unanswered;
        }
        file_error("get an answer from the recorder at", &self.path, error)
    }
}

/// Asks the recorder at the socket `path` to save, with the members of a `save` request.
///
/// # Errors
/// When no recorder is running or it belongs to another user, when the save failed, or when the
/// recorder does not answer in time.
pub fn request_save(path: &Path, save: &Value) -> Result<Answer, Error> {
    let line = line_of(&json!({ "save": save }))?;
    let mut tries = 1..MAX_TRIES;
    loop {
        let mut client = Client::connect(path)?;
        return match client.exchange(&line) {
            Ok(answer) => parse_answer(&answer),
            Err(error) if is_dropped(&error) && tries.next().is_some() => continue,
            Err(error) => Err(client.without_answer(error)),
        };
    }
}

/// Sockets at which a recorder may listen to this user: that user's own, then the machine's.
pub fn sockets() -> Vec<PathBuf> {
    let own = super::default_folder().join(SOCKET);
    let machine = Path::new(super::MACHINE_FOLDER).join(SOCKET);
    if own == machine { vec![own] } else { vec![own, machine] }
}

/// The first of `sockets` where a recorder answers.
///
/// # Errors
/// When there is none, as the first one says; when only members of a group may ask it.
pub fn find(sockets: &[PathBuf]) -> Result<PathBuf, Error> {
    let mut first = None;
    for path in sockets {
        match Client::connect(path) {
            Ok(_) => return Ok(path.clone()),
            Err(error @ Error::NotWatching { .. }) => _ = first.get_or_insert(error),
            Err(error) if is_for_members(&error, path) => {
                return Err(Error::NotMember { socket: path.clone() });
            }
            // The machine's recorder is not for this user, who has none.
            Err(error) if first.is_some() && is_denied(&error) => {}
            Err(error) => return Err(error),
        }
    }
    let none = || Error::NotWatching { socket: super::default_folder().join(SOCKET) };
    Err(first.unwrap_or_else(none))
}

fn line_of(request: &Value) -> Result<String, Error> {
    let line = request.to_string();
    if line.len() > MAX_LINE_LEN {
        return Err(Error::NoteTooLong { max_kib: MAX_LINE_LEN >> 10 });
    }
    Ok(line + "\n")
}

fn file_error(action: &'static str, path: &Path, source: io::Error) -> Error {
    Error::File { action, path: path.to_owned(), source }
}

fn is_denied(error: &Error) -> bool {
    matches!(error, Error::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
}

/// True if a recorder may be there for the members of a group, to which this user does not belong.
fn is_for_members(error: &Error, socket: &Path) -> bool {
    let is_locked = matches!(error, Error::File { source, .. }
        if source.raw_os_error() == Some(Errno::ACCESS.raw_os_error()));
    let folder = socket.parent().map(fs::metadata);
    is_locked && folder.is_some_and(|folder| folder.is_ok_and(|about| about.mode() & 0o050 != 0))
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// True if the recorder closed the connection before it read the request, as it does when it has
/// too many clients.
fn is_dropped(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Fails if somebody else could have put files into the folder of the socket.
fn trusted_folder(socket: &Path) -> io::Result<()> {
    let folder = socket.parent().filter(|folder| !folder.as_os_str().is_empty());
    let about = fs::symlink_metadata(folder.unwrap_or(Path::new(".")))?;
    if !is_owner(about.uid()) {
        return Err(foreign_user(about.uid()));
    }
    if about.is_dir() {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::NotADirectory, "its parent is not a folder"))
    }
}

pub(super) fn read_answer(socket: &mut UnixStream, lines: &mut Lines) -> io::Result<Value> {
    socket.set_nonblocking(true)?;
    loop {
        if let Some(answer) = lines.read(socket)? {
            let invalid = |_| io::Error::new(io::ErrorKind::InvalidData, "not valid JSON");
            return serde_json::from_slice(&answer).map_err(invalid);
        }
        sys::poll(&[socket.as_fd()], i32::try_from(lines.left().as_millis()).unwrap_or(i32::MAX))?;
    }
}

fn parse_answer(answer: &Value) -> Result<Answer, Error> {
    match (answer["path"].as_str(), answer["error"].as_str()) {
        (Some(path), _) => {
            let warnings = answer["warnings"].as_array().into_iter().flatten();
            Ok(Answer {
                path: PathBuf::from(path),
                warnings: warnings.filter_map(|line| Some(line.as_str()?.to_owned())).collect(),
            })
        }
        (None, Some(error)) => Err(Error::Refused(error.to_owned())),
        (None, None) => Err(Error::Refused(answer.to_string())),
    }
}
