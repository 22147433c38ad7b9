//! How one process asks another's recorder for a save: one line of JSON each way on a Unix socket.
//!
//! The answer to `{"save":{"notes":"…"}}` is `{"path":"…","warnings":[…]}` or `{"error":"…"}`. A
//! trace shows what all programs on a machine did, so only the recorder's user and root may ask for
//! one: the folder is 0700 and the socket 0600. Each end also checks the user at the other end
//! (SO_PEERCRED) before it sends anything, because anybody can put a socket into `/tmp`. Both ends
//! limit the length of a line and the time to receive it, so neither can block the other. If too
//! many clients are slow, the oldest is disconnected, so they cannot block anybody else.

mod client;
mod line;
mod server;
mod socket;

pub use client::{Answer, request_save};
pub(crate) use server::{Request, Server};

use crate::sys;
use std::path::PathBuf;

/// The folder for the socket of this user's recorder: `/run/unhitch` for root, else
/// `$XDG_RUNTIME_DIR/unhitch` or `/tmp/unhitch-UID`.
pub fn default_folder() -> PathBuf {
    let uid = sys::effective_uid();
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        _ if uid == 0 => PathBuf::from("/run/unhitch"),
        Some(folder) => PathBuf::from(folder).join("unhitch"),
        None => PathBuf::from(format!("/tmp/unhitch-{uid}")),
    }
}

#[cfg(test)]
mod tests {
    use super::socket::SOCKET;
    use super::*;
    use crate::error::Error;
    use std::fs::{self, Permissions};
    use std::io::{self, Read, Write};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::Path;
    use std::thread;
    use std::time::Duration;

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
    fn a_save_is_requested_and_answered() {
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
    fn a_second_recorder_is_refused_and_a_stale_socket_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let first = Server::bind(folder.path()).unwrap();
        assert!(matches!(Server::bind(folder.path()), Err(Error::AlreadyWatching { .. })));
        assert_eq!(fs::metadata(first.path()).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(folder.path()).unwrap().mode() & 0o777, 0o700);
        drop(first);
        // A killed recorder leaves a socket file without a listener behind.
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
    fn clients_that_send_too_little_or_too_much_block_nobody() {
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
        assert!(flood.join().unwrap().is_err(), "it is disconnected long before its end");
        // The others are still connected, but do not block a request.
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
        // Sending a byte now and then does not extend the time limit.
        while server.fds().len() > 1 {
            let _ = sys::poll(&server.fds(), 20);
            assert!(server.accept().is_none());
            let _ = slow.write(b" ");
        }
        assert_eq!(silent.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn a_prompt_request_is_served_however_many_clients_are_slow() {
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
        // A hundred more wait to be accepted, and one of them has sent a request.
        let connect = |_| UnixStream::connect(folder.path().join(SOCKET)).unwrap();
        let mut waiting: Vec<UnixStream> = (0..100).map(connect).collect();
        let asks = &mut waiting[50];
        asks.write_all(b"{\"save\":{}}\n").unwrap();
        server.accept().expect("a request").saved(Path::new("/a"), &[]);
        assert_eq!(client::read_answer(asks, Duration::from_secs(60)).unwrap()["path"], "/a");
    }

    #[test]
    fn a_request_that_was_not_read_is_retried() {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        let busy = thread::spawn(move || {
            // The first connection is closed before its request is read.
            drop(listener.accept().unwrap());
            let (mut socket, _) = listener.accept().unwrap();
            let _ = socket.read(&mut [0; 4096]).unwrap();
            socket.write_all(b"{\"path\":\"/a\"}\n").unwrap();
        });
        assert_eq!(request_save(folder.path(), None).unwrap().path, Path::new("/a"));
        busy.join().unwrap();
    }

    #[test]
    fn an_endless_answer_is_cut_off() {
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
    fn nothing_is_sent_to_another_users_recorder() {
        if sys::effective_uid() != 0 {
            return eprintln!("SKIPPED another user's socket: only root can make one");
        }
        const STRANGER: u32 = 4711;
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        let path = folder.path().to_owned();
        // Credentials are per thread: this thread becomes another user and stays so.
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
        let mut received = String::new();
        listener.accept().unwrap().0.read_to_string(&mut received).unwrap();
        assert_eq!(received, "");
        // A folder that belongs to the other user is not even searched.
        std::os::unix::fs::chown(folder.path(), Some(STRANGER), None).unwrap();
        assert!(refused(request_save(folder.path(), Some("a secret"))));
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "nobody connected");
        assert!(Server::bind(folder.path()).is_err());
    }
}
