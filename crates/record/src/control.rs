//! How one process asks another's recorder for a save: one line of JSON each way on a Unix socket.
//!
//! `{"save":{"notes":"…"}}` is answered by `{"path":"…","warnings":[…]}` or `{"error":"…"}`. A
//! trace holds what all programs of a machine did, so only the recorder's own user and root may
//! ask: the folder is 0700, the socket 0600, and each end looks at who the other is (SO_PEERCRED)
//! before it says anything: what lies in `/tmp` may have been put there by somebody else. Lines and
//! the time for them are bounded on both ends, so that neither can hold up the other; of many who
//! are slow the oldest goes, so that they hold up nobody else.

mod client;
mod line;
mod server;

pub use client::{Answer, request_save};
pub(crate) use server::{Request, Server};

use crate::error::Error;
use crate::sys;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

const SOCKET: &str = "control.sock";
/// Longer lines are not read.
const LONGEST_LINE: usize = 64 << 10;
/// A request is short; a client that does not finish one is not waited for.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// The folder of this user's recorder: `/run/unhitch` for root, `$XDG_RUNTIME_DIR/unhitch` or
/// `/tmp/unhitch-UID` for others.
pub fn default_folder() -> PathBuf {
    let uid = sys::effective_uid();
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        _ if uid == 0 => PathBuf::from("/run/unhitch"),
        Some(folder) => PathBuf::from(folder).join("unhitch"),
        None => PathBuf::from(format!("/tmp/unhitch-{uid}")),
    }
}

/// Whether a user may be at the other end: ourselves, or root, who may do anything anyway.
fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == sys::effective_uid()
}

/// Connects, unless whoever listens takes too long to accept. The kernel knows no bound, so a
/// thread waits; it ends with the process.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let path = path.to_owned();
    std::thread::spawn(move || sender.send(UnixStream::connect(path)));
    receiver.recv_timeout(REQUEST_TIMEOUT).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// The user at the other end.
fn peer(socket: &UnixStream) -> io::Result<u32> {
    sys::peer_uid(socket.as_fd())
}

/// For whom a line is not meant.
fn stranger(uid: u32) -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("it belongs to another user (uid {uid})"),
    )
}

/// Makes the folder, or checks that the one which is there is ours alone: in /tmp somebody else
/// could have put it.
fn private_folder(folder: &Path) -> Result<(), Error> {
    let failed =
        |action: &'static str, source| Error::File { action, path: folder.to_owned(), source };
    match DirBuilder::new().mode(0o700).recursive(true).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(failed("make the folder", error));
        }
        _ => {}
    }
    let metadata = fs::symlink_metadata(folder).map_err(|error| failed("look at", error))?;
    if !metadata.is_dir() || metadata.uid() != sys::effective_uid() {
        let source = io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it is not a folder of this user; remove it",
        );
        return Err(failed("use", source));
    }
    if metadata.mode() & 0o077 != 0 {
        fs::set_permissions(folder, Permissions::from_mode(0o700))
            .map_err(|error| failed("protect", error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;
    use std::thread;

    fn served<T>(folder: &Path, client: impl FnOnce() -> T + Send, serve: impl FnOnce(Request)) -> T
    where
        T: Send,
    {
        let mut server = Server::bind(folder).unwrap();
        thread::scope(|scope| {
            let client = scope.spawn(client);
            let mut serve = Some(serve);
            while !client.is_finished() {
                let _ = sys::poll(&server.fds(), 20);
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
        let expected =
            Answer { path: "/traces/a b.hitch".into(), warnings: vec!["elsewhere".to_owned()] };
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
        assert!(
            Server::bind(&link)
                .is_err_and(|error| error.with_causes().contains("not a folder of this user"))
        );
    }

    #[test]
    fn who_says_little_or_too_much_holds_up_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Server::bind(folder.path()).unwrap();
        let connect = || UnixStream::connect(folder.path().join(SOCKET)).unwrap();
        let (mut silent, mut slow, mut endless) = (connect(), connect(), connect());
        slow.write_all(b"{").unwrap();
        let flood = thread::spawn(move || endless.write_all(&vec![b'x'; 64 << 20]));
        while !flood.is_finished() {
            let _ = sys::poll(&server.fds(), 20);
            assert!(server.accept().is_none());
        }
        assert!(flood.join().unwrap().is_err(), "it is sent away long before its end");
        // The others are still there, and no reason to wait.
        let folder = folder.path();
        let asked = thread::scope(|scope| {
            let asked = scope.spawn(|| request_save(folder, None));
            while !asked.is_finished() {
                let _ = sys::poll(&server.fds(), 20);
                if let Some(request) = server.accept() {
                    request.saved(Path::new("/a"), &[]);
                }
            }
            asked.join().unwrap()
        });
        assert_eq!(asked.unwrap().path, Path::new("/a"));
        // A byte now and then is no reason to wait longer.
        while server.fds().len() > 1 {
            let _ = sys::poll(&server.fds(), 20);
            assert!(server.accept().is_none());
            let _ = slow.write(b" ");
        }
        assert_eq!(silent.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn who_asks_at_once_is_heard_however_many_are_slow() {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Server::bind(folder.path()).unwrap();
        let mut slow = || {
            let mut client = UnixStream::connect(folder.path().join(SOCKET)).unwrap();
            client.write_all(b"{").unwrap();
            assert!(server.accept().is_none());
            client
        };
        let clients: Vec<UnixStream> = (0..300).map(|_| slow()).collect();
        assert!(server.fds().len() < clients.len(), "not all are kept");
        // As many wait to be let in, and one of them has asked.
        let connect = |_| UnixStream::connect(folder.path().join(SOCKET)).unwrap();
        let mut waiting: Vec<UnixStream> = (0..100).map(connect).collect();
        let asks = &mut waiting[50];
        asks.write_all(b"{\"save\":{}}\n").unwrap();
        server.accept().expect("a request").saved(Path::new("/a"), &[]);
        assert_eq!(client::read_answer(asks, Duration::from_secs(60)).unwrap()["path"], "/a");
    }

    #[test]
    fn who_was_not_heard_asks_again() {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        let busy = thread::spawn(move || {
            // Unread is what he sent to whom it is closed.
            drop(listener.accept().unwrap());
            let (mut socket, _) = listener.accept().unwrap();
            let _ = socket.read(&mut [0; 4096]).unwrap();
            socket.write_all(b"{\"path\":\"/a\"}\n").unwrap();
        });
        assert_eq!(request_save(folder.path(), None).unwrap().path, Path::new("/a"));
        busy.join().unwrap();
    }

    #[test]
    fn an_answer_without_an_end_is_not_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        let liar =
            thread::spawn(move || listener.accept().unwrap().0.write_all(&vec![b'x'; 64 << 20]));
        let error = request_save(folder.path(), None).unwrap_err().with_causes();
        assert!(error.contains("the line is too long"), "{error}");
        assert!(liar.join().unwrap().is_err());
        let (mut near, _silent) = UnixStream::pair().unwrap();
        let error = client::read_answer(&mut near, Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn another_users_recorder_is_told_nothing() {
        if sys::effective_uid() != 0 {
            return eprintln!("SKIPPED another user's socket: only root can make one");
        }
        const STRANGER: u32 = 4711;
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        let path = folder.path().to_owned();
        // Rights are a thread's: this one becomes somebody else, and stays it.
        let listener = thread::spawn(move || {
            let uid = rustix::process::Uid::from_raw(STRANGER);
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            UnixListener::bind(path.join(SOCKET)).unwrap()
        });
        let listener = listener.join().unwrap();
        let refused = |error: Result<Answer, Error>| {
            error.is_err_and(|error| error.with_causes().contains("another user (uid 4711)"))
        };
        assert!(refused(request_save(folder.path(), Some("a secret"))));
        let mut said = String::new();
        listener.accept().unwrap().0.read_to_string(&mut said).unwrap();
        assert_eq!(said, "");
        // A folder of his is not even looked into.
        std::os::unix::fs::chown(folder.path(), Some(STRANGER), None).unwrap();
        assert!(refused(request_save(folder.path(), Some("a secret"))));
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "nobody came");
        assert!(Server::bind(folder.path()).is_err());
    }
}
