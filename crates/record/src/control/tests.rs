//! Tests of both ends together.

use super::line::Lines;
use super::request::Request;
use super::socket::{MAX_LINE_LEN, SOCKET};
use super::*;
use crate::error::Error;
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::Duration;
use unhitch_model::InputMarks;

fn save(socket: &Path, notes: Option<&str>) -> Result<Answer, Error> {
    request_save(socket, &json!({ "notes": notes }))
}

fn served<T>(
    folder: &Path,
    client: impl FnOnce() -> T + Send,
    serve: impl FnOnce(SaveRequest) -> Value,
) -> T
where
    T: Send,
{
    let mut server = Server::bind(folder, None).unwrap();
    thread::scope(|scope| {
        let client = scope.spawn(client);
        let mut serve = Some(serve);
        while !client.is_finished() {
            let _ = sys::poll(&server.fds(), 20);
            for incoming in server.accept() {
                let Request::Save(save) = incoming.request else { panic!("{incoming:?}") };
                let answer = (serve.take().expect("one request"))(save);
                server.answer(incoming.client, &answer);
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
        || save(&folder.join(SOCKET), Some("it hung")),
        |request| {
            assert_eq!((request.notes.as_deref(), request.by_hand), (Some("it hung"), true));
            saved(Path::new("/traces/a b.hitch"), &["elsewhere".to_owned()])
        },
    );
    let expected =
        Answer { path: "/traces/a b.hitch".into(), warnings: vec!["elsewhere".to_owned()] };
    assert_eq!(path.unwrap(), expected);
    let refused = served(&folder, || save(&folder.join(SOCKET), None), |_| failed("disk full"));
    assert!(refused.unwrap_err().to_string().contains("disk full"));
    assert!(matches!(save(&folder.join(SOCKET), None), Err(Error::NotWatching { .. })));
}

#[test]
fn a_second_recorder_is_refused_and_a_stale_socket_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let first = Server::bind(folder.path(), None).unwrap();
    assert!(matches!(Server::bind(folder.path(), None), Err(Error::AlreadyWatching { .. })));
    assert_eq!(fs::metadata(first.path()).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(folder.path()).unwrap().mode() & 0o777, 0o700);
    drop(first);
    // A killed recorder leaves a socket file without a listener behind.
    drop(UnixListener::bind(folder.path().join(SOCKET)).unwrap());
    assert!(matches!(save(&folder.path().join(SOCKET), None), Err(Error::NotWatching { .. })));
    assert!(Server::bind(folder.path(), None).is_ok());
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
        Server::bind(&link, None)
            .is_err_and(|error| error.with_causes().contains("not a folder of this user"))
    );
}

#[test]
fn clients_that_send_too_little_or_too_much_block_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::bind(folder.path(), None).unwrap();
    let connect = || UnixStream::connect(folder.path().join(SOCKET)).unwrap();
    let (mut silent, mut slow, mut endless) = (connect(), connect(), connect());
    slow.write_all(b"{").unwrap();
    let flood = thread::spawn(move || endless.write_all(&vec![b'x'; 64 << 20]));
    while !flood.is_finished() {
        let _ = sys::poll(&server.fds(), 20);
        assert!(server.accept().is_empty());
    }
    assert!(flood.join().unwrap().is_err(), "it is disconnected long before its end");
    // The others are still connected, but do not block a request.
    let folder = folder.path();
    let asked = thread::scope(|scope| {
        let asked = scope.spawn(|| save(&folder.join(SOCKET), None));
        while !asked.is_finished() {
            let _ = sys::poll(&server.fds(), 20);
            for incoming in server.accept() {
                server.answer(incoming.client, &saved(Path::new("/a"), &[]));
            }
        }
        asked.join().unwrap()
    });
    assert_eq!(asked.unwrap().path, Path::new("/a"));
    // Sending a byte now and then does not extend the time limit.
    while server.fds().len() > 1 {
        let _ = sys::poll(&server.fds(), 20);
        assert!(server.accept().is_empty());
        let _ = slow.write(b" ");
    }
    assert_eq!(silent.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_prompt_request_is_served_however_many_clients_are_slow() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::bind(folder.path(), None).unwrap();
    let mut slow = || {
        let mut client = UnixStream::connect(folder.path().join(SOCKET)).unwrap();
        client.write_all(b"{").unwrap();
        assert!(server.accept().is_empty());
        client
    };
    let clients: Vec<UnixStream> = (0..300).map(|_| slow()).collect();
    assert!(server.fds().len() < clients.len(), "not all are kept");
    // A hundred more wait to be accepted, and one of them has sent a request.
    let connect = |_| UnixStream::connect(folder.path().join(SOCKET)).unwrap();
    let mut waiting: Vec<UnixStream> = (0..100).map(connect).collect();
    let asks = &mut waiting[50];
    asks.write_all(b"{\"save\":{}}\n").unwrap();
    let requests = server.accept();
    let [incoming] = &requests[..] else { panic!("{requests:?}") };
    server.answer(incoming.client, &saved(Path::new("/a"), &[]));
    let mut lines = Lines::new(MAX_LINE_LEN, Duration::from_secs(60));
    assert_eq!(client::read_answer(asks, &mut lines).unwrap()["path"], "/a");
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
    assert_eq!(save(&folder.path().join(SOCKET), None).unwrap().path, Path::new("/a"));
    busy.join().unwrap();
}

#[test]
fn an_endless_answer_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
    let liar = thread::spawn(move || listener.accept().unwrap().0.write_all(&vec![b'x'; 64 << 20]));
    let error = save(&folder.path().join(SOCKET), None).unwrap_err().with_causes();
    assert!(error.contains("the line is too long"), "{error}");
    assert!(liar.join().unwrap().is_err());
    let (mut near, _silent) = UnixStream::pair().unwrap();
    let mut lines = Lines::new(9, Duration::from_millis(20));
    let error = client::read_answer(&mut near, &mut lines).unwrap_err();
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
    assert!(refused(save(&folder.path().join(SOCKET), Some("a secret"))));
    let mut received = String::new();
    listener.accept().unwrap().0.read_to_string(&mut received).unwrap();
    assert_eq!(received, "");
    // A folder that belongs to the other user is not even searched.
    std::os::unix::fs::chown(folder.path(), Some(STRANGER), None).unwrap();
    assert!(refused(save(&folder.path().join(SOCKET), Some("a secret"))));
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "nobody connected");
    assert!(Server::bind(folder.path(), None).is_err());
}

/// Serves one client, on another thread, until it is done.
fn with_server<T: Send>(
    server: &mut Server,
    client: impl FnOnce() -> T + Send,
    mut serve: impl FnMut(&mut Server, Incoming),
) -> T {
    thread::scope(|scope| {
        let client = scope.spawn(client);
        while !client.is_finished() {
            let _ = sys::poll(&server.fds(), 20);
            for incoming in server.accept() {
                serve(server, incoming);
            }
        }
        client.join().unwrap()
    })
}

#[test]
fn one_connection_carries_many_requests_and_answers_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join(SOCKET);
    let mut server = Server::bind(folder.path(), None).unwrap();
    let client = || {
        let mut client = UnixStream::connect(&socket).unwrap();
        let mark = br#"{"marks":[{"kind":"note","text":"a"}]}"#;
        client.write_all(&[&mark[..], b"\n{\"status\":{}}\n", mark, b"\n"].concat()).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answers = String::new();
        client.read_to_string(&mut answers).unwrap();
        answers
    };
    let mut count = 0;
    let answers = with_server(&mut server, client, |server, incoming| {
        count += 1;
        assert!(incoming.peer.class == Class::Owner && incoming.peer.pid == std::process::id());
        if count == 2 {
            server.answer_first(incoming.client, &json!({ "first": 2 }));
        }
        server.answer(incoming.client, &json!({ "number": count }));
    });
    assert_eq!(answers, "{\"number\":1}\n{\"first\":2}\n{\"number\":2}\n{\"number\":3}\n");
    assert!(server.fds().len() == 1, "it left");
}

#[test]
fn subscribers_are_told_and_one_that_does_not_read_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join(SOCKET);
    let mut server = Server::bind(folder.path(), None).unwrap();
    let subscribe = || {
        let mut client = UnixStream::connect(&socket).unwrap();
        let mut lines = Lines::new(MAX_LINE_LEN, Duration::from_secs(60));
        client.write_all(b"{\"subscribe\":{\"input\":\"private\"}}\n").unwrap();
        assert_eq!(client::read_answer(&mut client, &mut lines).unwrap()["subscribed"], true);
        (client, lines)
    };
    let ((mut reads, mut lines), _sleeps) = with_server(
        &mut server,
        || (subscribe(), subscribe()),
        |server, incoming| {
            let Request::Subscribe(input) = incoming.request else { panic!("{incoming:?}") };
            server.subscribe(incoming.client, input);
        },
    );
    assert_eq!(server.fds().len(), 3);
    assert_eq!(server.input_of_agents().collect::<Vec<_>>(), [InputMarks::Private; 2]);
    let long = "x".repeat(32 << 10);
    for number in 0..100 {
        server.publish(|_| json!({ "saved": number, "long": long }));
        assert_eq!(client::read_answer(&mut reads, &mut lines).unwrap()["saved"], number);
    }
    assert_eq!(server.fds().len(), 2, "its buffer was full");
    assert!(server.accept().is_empty());
    assert_eq!(server.fds().len(), 2, "it may be silent");
    // One that speaks would wake the recorder as often as it likes.
    reads.write_all(b"\n").unwrap();
    assert!(server.accept().is_empty());
    assert_eq!(server.input_of_agents().count(), 0, "both are gone");
}

const GROUP: u32 = 4712;

/// A server for the members of a group, in the folder `unhitch`; `None` for who may not make one.
fn of_group() -> Option<(tempfile::TempDir, Server)> {
    if sys::effective_uid() != 0 {
        eprintln!("SKIPPED a group's socket: only root can make one");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let server = Server::bind(&folder.path().join("unhitch"), Some(GROUP)).unwrap();
    Some((folder, server))
}

/// Runs as another user, in these groups. Credentials are per thread: this one stays so.
fn become_member(uid: u32, groups: &[u32]) {
    use rustix::process::{Gid, Uid};
    let groups: Vec<_> = groups.iter().copied().map(Gid::from_raw).collect();
    rustix::thread::set_thread_groups(&groups).unwrap();
    let (gid, uid) = (Gid::from_raw(uid), Uid::from_raw(uid));
    rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
    rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
}

#[test]
fn regression_a_member_who_asks_too_often_is_read_later_whatever_the_requests_are() {
    let Some((folder, mut server)) = of_group() else { return };
    let socket = folder.path().join("unhitch").join(SOCKET);
    let ask = || {
        become_member(4711, &[GROUP]);
        let mut client = UnixStream::connect(&socket).unwrap();
        // More than a minute's, so that some are left however slow all is.
        client.write_all("{\"marks\":[7]}\n".repeat(900).as_bytes()).unwrap();
        client
    };
    let begun = std::time::Instant::now();
    let mut count = 0;
    let answer = |server: &mut Server, incoming: Incoming| {
        count += 1;
        server.answer(incoming.client, &json!({ "marks": {} }));
    };
    let client = with_server(&mut server, ask, answer);
    while server.due().is_none() {
        for incoming in server.accept() {
            count += 1;
            server.answer(incoming.client, &json!({ "marks": {} }));
        }
    }
    // 50 at once, and ten a second.
    assert!((50..=51 + begun.elapsed().as_millis() / 100).contains(&count), "{count}");
    assert_eq!(server.fds().len(), 1, "it cannot wake us meanwhile");
    let due = server.due().unwrap();
    assert!(server.accept().is_empty() || due <= std::time::Instant::now());
    while server.due().is_some_and(|due| due > std::time::Instant::now()) {
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(server.accept().len(), 1, "it has waited");
    drop(client);
}

#[test]
fn a_group_may_enter_and_strangers_may_not() {
    let Some((root, mut server)) = of_group() else { return };
    let folder = root.path().join("unhitch");
    let about = |path: &Path| {
        let about = fs::metadata(path).unwrap();
        (about.mode() & 0o777, about.uid(), about.gid())
    };
    let socket = folder.join(SOCKET);
    assert_eq!((about(&folder), about(&socket)), ((0o750, 0, GROUP), (0o660, 0, GROUP)));
    let ask = |uid: u32, groups: &[u32]| {
        let (socket, groups) = (socket.clone(), groups.to_vec());
        move || {
            become_member(uid, &groups);
            let mut client = UnixStream::connect(socket)?;
            // Who is refused may be too late to ask.
            let _ = client.write_all(b"{\"status\":{}}\n");
            let mut answer = [0; 4096];
            let len = client.read(&mut answer)?;
            Ok::<_, io::Error>(String::from_utf8_lossy(&answer[..len]).into_owned())
        }
    };
    let class = |server: &mut Server, incoming: Incoming| {
        assert_eq!((incoming.peer.uid, incoming.peer.class), (4711, Class::Group));
        server.answer(incoming.client, &json!({ "status": {} }));
    };
    let member = with_server(&mut server, ask(4711, &[5, GROUP]), class);
    assert_eq!(member.unwrap(), "{\"status\":{}}\n");
    let stranger = with_server(&mut server, ask(4711, &[5]), class);
    assert_eq!(stranger.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    // Somebody who was let in by mistake is still asked who they are.
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&socket, Permissions::from_mode(0o666)).unwrap();
    let stranger = with_server(&mut server, ask(4711, &[5]), class);
    assert!(stranger.unwrap().contains("you are no member"));
}
