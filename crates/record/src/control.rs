//! How one process asks another's recorder for a save: one line of JSON each way on a Unix socket.
//!
//! `{"save":{"notes":"…"}}` is answered by `{"path":"…","warnings":[…]}` or `{"error":"…"}`. A trace holds what all programs of a machine did, so only
//! the recorder's own user and root may ask: the folder is 0700, the socket 0600, and the peer's uid is checked with SO_PEERCRED.

use crate::error::Error;
use crate::sys;
use serde_json::{Value, json};
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

const SOCKET: &str = "control.sock";
/// A request is short; a client that does not finish one is not waited for.
const REQUEST_MAX: u64 = 64 << 10;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// A save of large rings on a slow disk takes a while.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// The folder of this user's recorder: `/run/unhitch` for root, `$XDG_RUNTIME_DIR/unhitch` or `/tmp/unhitch-UID` for others.
pub fn default_folder() -> PathBuf {
    let uid = sys::effective_uid();
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        _ if uid == 0 => PathBuf::from("/run/unhitch"),
        Some(folder) => PathBuf::from(folder).join("unhitch"),
        None => PathBuf::from(format!("/tmp/unhitch-{uid}")),
    }
}

/// A recorder's answer: the trace that it saved.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Answer {
    /// Where the trace is.
    pub path: PathBuf,
    /// What the user should know, such as why it is not where it should be.
    pub warnings: Vec<String>,
}

/// Asks the recorder that answers in `folder` for a save; gives the trace's path.
pub fn request_save(folder: &Path, notes: Option<&str>) -> Result<Answer, Error> {
    let path = folder.join(SOCKET);
    let failed = |action| {
        let path = path.clone();
        move |source: io::Error| Error::File { action, path, source }
    };
    let mut socket = match UnixStream::connect(&path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            return Err(Error::NotWatching { socket: path });
        }
        result => result.map_err(failed("reach the recorder at"))?,
    };
    socket.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(failed("set a timeout on"))?;
    writeln!(socket, "{}", json!({"save": {"notes": notes}})).map_err(failed("write to the recorder at"))?;
    let mut answer = String::new();
    BufReader::new(socket).read_line(&mut answer).map_err(failed("get an answer from the recorder at"))?;
    let answer: Value = serde_json::from_str(&answer).map_err(|_| Error::Refused("nothing: it ended while it saved".to_owned()))?;
    match (answer["path"].as_str(), answer["error"].as_str()) {
        (Some(path), _) => {
            let warnings = answer["warnings"].as_array().into_iter().flatten();
            Ok(Answer { path: PathBuf::from(path), warnings: warnings.filter_map(|line| Some(line.as_str()?.to_owned())).collect() })
        }
        (None, Some(error)) => Err(Error::Refused(error.to_owned())),
        (None, None) => Err(Error::Refused(answer.to_string())),
    }
}

/// The recorder's end. The socket is removed when it is dropped.
pub(crate) struct Server {
    listener: UnixListener,
    path: PathBuf,
}

/// A request for a save, to be answered.
pub(crate) struct Request {
    socket: UnixStream,
    pub(crate) notes: Option<String>,
}

impl Server {
    /// Listens in `folder`. A socket that nobody answers on is replaced; where somebody does, a second recorder is refused.
    pub(crate) fn bind(folder: &Path) -> Result<Self, Error> {
        private_folder(folder)?;
        let path = folder.join(SOCKET);
        if UnixStream::connect(&path).is_ok() {
            return Err(Error::AlreadyWatching { socket: path });
        }
        let failed = |action| {
            let path = path.clone();
            move |source| Error::File { action, path, source }
        };
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("remove the stale socket")(error)),
            _ => {}
        }
        let listener = UnixListener::bind(&path).map_err(failed("listen on"))?;
        fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(failed("protect"))?;
        listener.set_nonblocking(true).map_err(failed("listen on"))?;
        Ok(Self { listener, path })
    }

    /// Where it listens.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// To be polled.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// The next request that somebody entitled has made, if any.
    pub(crate) fn accept(&self) -> Option<Request> {
        let (socket, _) = self.listener.accept().ok()?;
        let uid = sys::peer_uid(socket.as_fd()).ok()?;
        socket.set_nonblocking(false).ok()?;
        socket.set_read_timeout(Some(REQUEST_TIMEOUT)).ok()?;
        socket.set_write_timeout(Some(REQUEST_TIMEOUT)).ok()?;
        let mut line = String::new();
        BufReader::new(&socket).take(REQUEST_MAX).read_line(&mut line).ok()?;
        let mut request = Request { socket, notes: None };
        if uid != 0 && uid != sys::effective_uid() {
            request.answer(json!({"error": format!("this recorder is not yours (it belongs to uid {})", sys::effective_uid())}));
            return None;
        }
        let parsed: Value = serde_json::from_str(&line).unwrap_or_default();
        let Some(save) = parsed.get("save") else {
            request.answer(json!({"error": "not understood; known: {\"save\":{\"notes\":\"…\"}}"}));
            return None;
        };
        request.notes = save["notes"].as_str().map(str::to_owned);
        Some(request)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Request {
    /// The save succeeded.
    pub(crate) fn saved(mut self, path: &Path, warnings: &[String]) {
        self.answer(json!({"path": path, "warnings": warnings}));
    }

    /// The save failed.
    pub(crate) fn failed(mut self, error: &Error) {
        self.answer(json!({"error": error.with_causes()}));
    }

    /// Whoever asked may have left: that is his affair.
    fn answer(&mut self, answer: Value) {
        let _ = writeln!(self.socket, "{answer}");
    }
}

/// Makes the folder, or checks that the one which is there is ours alone: in /tmp somebody else could have put it.
fn private_folder(folder: &Path) -> Result<(), Error> {
    let failed = |action: &'static str, source| Error::File { action, path: folder.to_owned(), source };
    match DirBuilder::new().mode(0o700).recursive(true).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed("make the folder", error)),
        _ => {}
    }
    let metadata = fs::symlink_metadata(folder).map_err(|error| failed("look at", error))?;
    if !metadata.is_dir() || metadata.uid() != sys::effective_uid() {
        let source = io::Error::new(io::ErrorKind::PermissionDenied, "it is not a folder of this user; remove it");
        return Err(failed("use", source));
    }
    if metadata.mode() & 0o077 != 0 {
        fs::set_permissions(folder, Permissions::from_mode(0o700)).map_err(|error| failed("protect", error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn served<T>(folder: &Path, client: impl FnOnce() -> T + Send, serve: impl FnOnce(Request)) -> T
    where
        T: Send,
    {
        let server = Server::bind(folder).unwrap();
        thread::scope(|scope| {
            let client = scope.spawn(client);
            let mut serve = Some(serve);
            while !client.is_finished() {
                let _ = sys::poll(&[server.fd()], 20);
                if let Some(request) = server.accept() {
                    (serve.take().expect("one request"))(request);
                }
            }
            client.join().unwrap()
        })
    }

    #[test]
    fn a_save_is_asked_for_and_answered() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("unhitch");
        let path = served(
            &folder,
            || request_save(&folder, Some("it hung")),
            |request| {
                assert_eq!(request.notes.as_deref(), Some("it hung"));
                request.saved(Path::new("/traces/a b.hitch"), &["elsewhere".to_owned()]);
            },
        );
        let expected = Answer { path: "/traces/a b.hitch".into(), warnings: vec!["elsewhere".to_owned()] };
        assert_eq!(path.unwrap(), expected);
        let refused = served(
            &folder,
            || request_save(&folder, None),
            |request| {
                request.failed(&Error::Refused("disk full".to_owned()));
            },
        );
        assert!(refused.unwrap_err().to_string().contains("disk full"));
        assert!(matches!(request_save(&folder, None), Err(Error::NotWatching { .. })));
    }

    #[test]
    fn the_second_recorder_is_refused_and_a_dead_ones_socket_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let first = Server::bind(folder.path()).unwrap();
        assert!(matches!(Server::bind(folder.path()), Err(Error::AlreadyWatching { .. })));
        assert_eq!(fs::metadata(first.path()).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(folder.path()).unwrap().mode() & 0o777, 0o700);
        drop(first);
        // What a killed recorder leaves behind: a socket file without a listener.
        drop(UnixListener::bind(folder.path().join(SOCKET)).unwrap());
        assert!(matches!(request_save(folder.path(), None), Err(Error::NotWatching { .. })));
        assert!(Server::bind(folder.path()).is_ok());
    }

    #[test]
    fn nonsense_is_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join(SOCKET);
        let talk = || {
            let mut client = UnixStream::connect(&socket)?;
            client.write_all(b"GET / HTTP/1.1\n")?;
            let mut answer = String::new();
            client.read_to_string(&mut answer).map(|_| answer)
        };
        let answer = served(folder.path(), talk, |_| panic!("no request"));
        assert!(answer.unwrap().contains("not understood"));
    }

    #[test]
    fn a_folder_that_is_not_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        assert!(Server::bind(&link).is_err_and(|error| error.with_causes().contains("not a folder of this user")));
    }
}
