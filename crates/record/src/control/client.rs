//! The client end.

use super::line::Line;
use super::socket::{
    MAX_LINE_LEN, REQUEST_TIMEOUT, SOCKET, connect, foreign_user, is_trusted, peer,
};
use crate::error::Error;
use crate::sys;
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

/// Asks the recorder whose socket is in `folder` to save. Talks only to recorders of this user and
/// of root.
///
/// # Errors
/// When no recorder is running or it belongs to another user, when the save failed, or when the
/// recorder does not answer in time.
pub fn request_save(folder: &Path, notes: Option<&str>) -> Result<Answer, Error> {
    let path = folder.join(SOCKET);
    let failed = |action| {
        let path = path.clone();
        move |source: io::Error| Error::File { action, path, source }
    };
    let request = json!({"save": {"notes": notes}}).to_string();
    if request.len() > MAX_LINE_LEN {
        return Err(Error::NoteTooLong { max_kib: MAX_LINE_LEN >> 10 });
    }
    let mut tries = 1..MAX_TRIES;
    loop {
        let mut socket = match trusted_folder(folder).and_then(|()| connect(&path)) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
                ) =>
            {
                return Err(Error::NotWatching { socket: path });
            }
            result => result.map_err(failed("reach the recorder at"))?,
        };
        match peer(&socket).map_err(failed("identify the owner of"))? {
            uid if is_trusted(uid) => {}
            uid => return Err(failed("trust")(foreign_user(uid))),
        }
        return match exchange(&mut socket, &request) {
            Ok(answer) => parse_answer(&answer),
            Err(error) if is_dropped(&error) && tries.next().is_some() => continue,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(Error::Unanswered),
            Err(error) => Err(failed("get an answer from the recorder at")(error)),
        };
    }
}

fn exchange(socket: &mut UnixStream, request: &str) -> io::Result<Value> {
    socket.set_write_timeout(Some(REQUEST_TIMEOUT))?;
    socket.write_all(format!("{request}\n").as_bytes())?;
    read_answer(socket, ANSWER_TIMEOUT)
}

/// True if the recorder closed the connection before it read the request, as it does when it has
/// too many clients.
fn is_dropped(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Fails if somebody else could have put files into the folder.
fn trusted_folder(folder: &Path) -> io::Result<()> {
    let about = fs::symlink_metadata(folder)?;
    if !is_trusted(about.uid()) {
        return Err(foreign_user(about.uid()));
    }
    if about.is_dir() {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::NotADirectory, "its parent is not a folder"))
    }
}

pub(super) fn read_answer(socket: &mut UnixStream, time: Duration) -> io::Result<Value> {
    let mut line = Line::new(MAX_LINE_LEN, time);
    socket.set_nonblocking(true)?;
    loop {
        sys::poll(&[socket.as_fd()], i32::try_from(line.left().as_millis()).unwrap_or(i32::MAX))?;
        if let Some(answer) = line.read(socket)? {
            let invalid = |_| io::Error::new(io::ErrorKind::InvalidData, "not valid JSON");
            return serde_json::from_slice(answer).map_err(invalid);
        }
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
