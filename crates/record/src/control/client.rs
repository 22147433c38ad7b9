//! The end that asks.

use super::line::Line;
use super::{LONGEST_LINE, REQUEST_TIMEOUT, SOCKET, connect, is_trusted, peer, stranger};
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

/// A save of large rings on a slow disk takes a while.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// So often a recorder is asked that does not hear us for others.
const TRIES: usize = 3;

/// A recorder's answer: the trace that it saved.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Answer {
    /// Where the trace is.
    pub path: PathBuf,
    /// What the user should know, such as why it is not where it should be.
    pub warnings: Vec<String>,
}

/// Asks the recorder that answers in `folder` for a save; gives the trace's path. Only this user's
/// recorder and root's are told anything.
pub fn request_save(folder: &Path, notes: Option<&str>) -> Result<Answer, Error> {
    let path = folder.join(SOCKET);
    let failed = |action| {
        let path = path.clone();
        move |source: io::Error| Error::File { action, path, source }
    };
    let request = json!({"save": {"notes": notes}}).to_string();
    if request.len() > LONGEST_LINE {
        return Err(Error::Refused(format!(
            "nothing: the note is too long (at most {} KiB)",
            LONGEST_LINE >> 10
        )));
    }
    let mut tries = 1..TRIES;
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
        match peer(&socket).map_err(failed("see who answers on"))? {
            uid if is_trusted(uid) => {}
            uid => return Err(failed("trust")(stranger(uid))),
        }
        return match exchange(&mut socket, &request) {
            Ok(answer) => understood(&answer),
            Err(error) if is_unheard(&error) && tries.next().is_some() => continue,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(Error::Refused("nothing: it ended while it saved".to_owned()))
            }
            Err(error) => Err(failed("get an answer from the recorder at")(error)),
        };
    }
}

fn exchange(socket: &mut UnixStream, request: &str) -> io::Result<Value> {
    socket.set_write_timeout(Some(REQUEST_TIMEOUT))?;
    socket.write_all(format!("{request}\n").as_bytes())?;
    read_answer(socket, ANSWER_TIMEOUT)
}

/// Whether the recorder closed the connection before it read the request: so it does where very
/// many come at one time.
fn is_unheard(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Fails where somebody else could have put what is in the folder.
fn trusted_folder(folder: &Path) -> io::Result<()> {
    let about = fs::symlink_metadata(folder)?;
    if !is_trusted(about.uid()) {
        return Err(stranger(about.uid()));
    }
    if about.is_dir() {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::NotADirectory, "its place is not a folder"))
    }
}

pub(super) fn read_answer(socket: &mut UnixStream, time: Duration) -> io::Result<Value> {
    let mut line = Line::new(LONGEST_LINE, time);
    socket.set_nonblocking(true)?;
    loop {
        sys::poll(&[socket.as_fd()], i32::try_from(line.left().as_millis()).unwrap_or(i32::MAX))?;
        if let Some(answer) = line.take(socket)? {
            let nonsense = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not understood");
            return serde_json::from_slice(answer).map_err(nonsense);
        }
    }
}

fn understood(answer: &Value) -> Result<Answer, Error> {
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
