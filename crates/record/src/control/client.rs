//! The end that asks.

use super::line::Line;
use super::{LONGEST_LINE, REQUEST_TIMEOUT, SOCKET, connect, is_trusted, peer, stranger};
use crate::error::Error;
use serde_json::{Value, json};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A save of large rings on a slow disk takes a while.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// A recorder's answer: the trace that it saved.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Answer {
    /// Where the trace is.
    pub path: PathBuf,
    /// What the user should know, such as why it is not where it should be.
    pub warnings: Vec<String>,
}

/// Asks the recorder that answers in `folder` for a save; gives the trace's path. Only this user's recorder and root's are told anything.
pub fn request_save(folder: &Path, notes: Option<&str>) -> Result<Answer, Error> {
    let path = folder.join(SOCKET);
    let failed = |action| {
        let path = path.clone();
        move |source: io::Error| Error::File { action, path, source }
    };
    let request = json!({"save": {"notes": notes}}).to_string();
    if request.len() > LONGEST_LINE {
        return Err(Error::Refused(format!("nothing: the note is too long (at most {} KiB)", LONGEST_LINE >> 10)));
    }
    let mut socket = match trusted_folder(folder).and_then(|()| connect(&path)) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            return Err(Error::NotWatching { socket: path });
        }
        result => result.map_err(failed("reach the recorder at"))?,
    };
    match peer(&socket).map_err(failed("see who answers on"))? {
        uid if is_trusted(uid) => {}
        uid => return Err(failed("trust")(stranger(uid))),
    }
    socket.set_write_timeout(Some(REQUEST_TIMEOUT)).map_err(failed("set a timeout on"))?;
    writeln!(socket, "{request}").map_err(failed("write to the recorder at"))?;
    let answer = read_answer(&mut socket, ANSWER_TIMEOUT).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Error::Refused("nothing: it ended while it saved".to_owned()),
        _ => failed("get an answer from the recorder at")(error),
    })?;
    understood(&answer)
}

/// Fails where somebody else could have put what is in the folder.
fn trusted_folder(folder: &Path) -> io::Result<()> {
    let about = fs::symlink_metadata(folder)?;
    if !is_trusted(about.uid()) {
        return Err(stranger(about.uid()));
    }
    if about.is_dir() { Ok(()) } else { Err(io::Error::new(io::ErrorKind::NotADirectory, "its place is not a folder")) }
}

pub(super) fn read_answer(socket: &mut UnixStream, time: Duration) -> io::Result<Value> {
    let mut line = Line::new(LONGEST_LINE, time);
    loop {
        // Zero would mean: for ever.
        socket.set_read_timeout(Some(line.left().max(Duration::from_millis(1))))?;
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
            Ok(Answer { path: PathBuf::from(path), warnings: warnings.filter_map(|line| Some(line.as_str()?.to_owned())).collect() })
        }
        (None, Some(error)) => Err(Error::Refused(error.to_owned())),
        (None, None) => Err(Error::Refused(answer.to_string())),
    }
}
