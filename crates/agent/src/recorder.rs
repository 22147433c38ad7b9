//! The recorder, over its socket: marks, saves, and what it has saved.
//!
//! Lines of JSON (docs/control-socket.md). Each kind has a connection and a thread of its own, as a
//! save takes seconds, and marks must not wait for it.

use crate::error::Error;
use crate::event::{Event, Saved, Why};
use crate::mark::{InputMode, Mark};
use rustix::net::sockopt::socket_peercred;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Maximum length of a line of the recorder's, bytes.
const MAX_LINE: u64 = 64 << 10;
/// How long a save waits for the marks before it.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of marks in a request, by the protocol.
const MAX_MARKS: usize = 256;
/// Time limits for answers: to marks, and to a save with its verdict.
const MARKS_TIMEOUT: Duration = Duration::from_secs(30);
const SAVE_TIMEOUT: Duration = Duration::from_secs(180);
/// How long to wait before a recorder that is not there is looked for again.
const RETRY: Duration = Duration::from_secs(10);

/// Where recorders listen: the user's own, then the machine's.
pub fn sockets(chosen: Option<&Path>) -> Vec<PathBuf> {
    if let Some(chosen) = chosen {
        return vec![chosen.to_owned()];
    }
    let own = match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder).join("unhitch"),
        None => format!("/tmp/unhitch-{}", rustix::process::getuid().as_raw()).into(),
    };
    [own, "/run/unhitch".into()].map(|folder: PathBuf| folder.join("control.sock")).into()
}

/// A connection to a recorder.
struct Connection(BufReader<UnixStream>);

impl Connection {
    /// Connects to the first that is there. Talks only to recorders of this user and of root.
    fn open(sockets: &[PathBuf], timeout: Duration) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::Recorder(error.to_string());
        let stream = sockets.iter().find_map(|path| Some((path, UnixStream::connect(path).ok()?)));
        let Some((path, stream)) = stream else {
            return Err(match sockets.last() {
                Some(of_machine) if is_for_members(of_machine) => Error::NotMember,
                _ => Error::Recorder("none is running (unhitch watch)".to_owned()),
            });
        };
        let is_trusted = |uid: u32| uid == 0 || uid == rustix::process::getuid().as_raw();
        let folder = path.parent().unwrap_or(Path::new("/"));
        let owner = std::fs::symlink_metadata(folder).map_err(failed)?.uid();
        let peer = socket_peercred(&stream).map_err(|error| failed(error.into()))?;
        if !is_trusted(owner) || !is_trusted(peer.uid.as_raw()) {
            return Err(Error::Recorder(format!("{} belongs to another user", path.display())));
        }
        // No time means no limit; the system takes none of zero.
        let timeout = (!timeout.is_zero()).then_some(timeout);
        stream.set_write_timeout(timeout).map_err(failed)?;
        stream.set_read_timeout(timeout).map_err(failed)?;
        Ok(Self(BufReader::new(stream)))
    }

    fn send(&mut self, request: &Value) -> io::Result<()> {
        self.0.get_mut().write_all(format!("{request}\n").as_bytes())
    }

    /// The answer to a request.
    fn ask(&mut self, request: &Value) -> Result<Value, Error> {
        self.send(request).and_then(|()| self.receive()).map_err(lost)
    }

    /// The next line.
    fn receive(&mut self) -> io::Result<Value> {
        let mut line = Vec::new();
        Read::by_ref(&mut self.0).take(MAX_LINE).read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        serde_json::from_slice(&line).map_err(|_| io::ErrorKind::InvalidData.into())
    }
}

/// True if a recorder may be there for the members of a group, to which this user does not belong.
fn is_for_members(socket: &Path) -> bool {
    let folder = socket.parent().map(std::fs::metadata);
    let is_denied = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    folder.is_some_and(|folder| folder.is_ok_and(|about| about.mode() & 0o050 != 0))
        && UnixStream::connect(socket).is_err_and(is_denied)
}

fn lost(error: io::Error) -> Error {
    Error::Recorder(format!("no answer: {error}"))
}

/// What the thread that sends marks is told.
pub enum Outgoing {
    /// Marks that were made at once.
    Marks(Vec<Mark>),
    /// A save is about to be made: the other end is told when all that was marked before is sent.
    Flush(Sender<()>),
}

/// Sends marks until there is nobody left to make any.
pub fn send_marks(sockets: &[PathBuf], outgoing: &Receiver<Outgoing>, events: &Sender<Event>) {
    let mut connection: Option<Connection> = None;
    let mut failed: Option<Instant> = None;
    let mut refused = false;
    while let Ok(next) = outgoing.recv() {
        let marks = match next {
            Outgoing::Marks(marks) => marks,
            Outgoing::Flush(waiting) => {
                let _ = waiting.send(());
                continue;
            }
        };
        // Without a recorder there is nobody whose traces need marks.
        if failed.is_some_and(|at| at.elapsed() < RETRY) {
            continue;
        }
        for marks in marks.chunks(MAX_MARKS) {
            let request = json!({ "marks": marks.iter().map(Mark::json).collect::<Vec<_>>() });
            let Some(answer) = ask(&mut connection, sockets, &request) else { break };
            let reason = answer["reason"].as_str().or(answer["marks"]["reason"].as_str());
            if let Some(reason) = reason.filter(|_| !refused) {
                refused = true;
                let _ = events.send(Event::Missing(format!("marks are refused: {reason}")));
            }
        }
        failed = connection.is_none().then(Instant::now);
    }
}

/// The answer to a request about marks, over a connection that stays.
fn ask(connection: &mut Option<Connection>, sockets: &[PathBuf], request: &Value) -> Option<Value> {
    // A connection that was idle may have been closed: a new one gets one more try.
    for _ in 0..2 {
        if connection.is_none() {
            *connection = Connection::open(sockets, MARKS_TIMEOUT).ok();
        }
        let open = connection.as_mut()?;
        match open.send(request).and_then(|()| open.receive()) {
            Ok(answer) => return Some(answer),
            Err(_) => *connection = None,
        }
    }
    None
}

/// Makes the saves that are asked for, one after the other, each after the marks before it. None waits
/// for the verdict of another: the recorder forgets what is older than its buffers.
pub fn make_saves(
    sockets: &[PathBuf],
    wanted: &Receiver<Why>,
    marks: &Sender<Outgoing>,
    events: &Sender<Event>,
) {
    while let Ok(why) = wanted.recv() {
        let (waiting, sent) = channel();
        if marks.send(Outgoing::Flush(waiting)).is_ok() {
            let _ = sent.recv_timeout(FLUSH_TIMEOUT);
        }
        match save(sockets, &why) {
            Ok(None) => {}
            Ok(Some((connection, saved))) => {
                let _ = events.send(Event::Saved { why: why.clone(), saved: saved.clone() });
                let events = events.clone();
                std::thread::spawn(move || {
                    let told = match await_verdict(connection, saved) {
                        Ok(saved) => Event::Judged(saved),
                        Err(error) => failed(why, &error),
                    };
                    let _ = events.send(told);
                });
            }
            Err(error) => {
                let _ = events.send(failed(why, &error));
            }
        }
    }
}

/// The request for a save, by the protocol.
fn request(why: &Why) -> Value {
    let (by_hand, notes, trigger) = match why {
        Why::HotKey => (true, Some("hot key"), json!({"kind": "hot_key", "text": "hot key"})),
        Why::Hang(hang) => {
            let ms = hang.to_ns.saturating_sub(hang.from_ns) / 1_000_000;
            let class = if hang.class.is_empty() { "a window" } else { &hang.class };
            let text = match hang.is_over {
                true => format!("{class} did not answer for {ms} ms"),
                false => format!("{class} has not answered for {ms} ms"),
            };
            let text: String = text.chars().filter(|c| !c.is_control()).take(100).collect();
            let mut trigger = json!({"kind": "not_answering", "text": text});
            trigger["from_ns"] = hang.from_ns.into();
            trigger["to_ns"] = hang.to_ns.into();
            if let Some(pid) = hang.pid {
                trigger["pid"] = pid.into();
                // That is where programs read from the X server, nearly always.
                trigger["tid"] = pid.into();
            }
            (false, None, trigger)
        }
    };
    let save = json!({
        "notes": notes, "by_hand": by_hand, "trigger": trigger, "after_ms": 0, "verdict": true
    });
    json!({ "save": save })
}

/// Has a trace saved; its verdict follows on the connection. There is none if the recorder has already
/// saved enough of what nobody asked for: it counts those.
fn save(sockets: &[PathBuf], why: &Why) -> Result<Option<(Connection, Saved)>, Error> {
    let mut connection = Connection::open(sockets, SAVE_TIMEOUT)?;
    if let Why::Hang(hang) = why {
        // On the same connection, so that it has arrived before the trace is saved.
        connection.ask(&json!({ "marks": [hang.mark().json()] }))?;
    }
    let answer = connection.ask(&request(why))?;
    if answer["suppressed"] == true && *why != Why::HotKey {
        return Ok(None);
    }
    let Some(path) = answer["path"].as_str() else {
        let error = answer["error"].as_str().unwrap_or("it sent no path");
        return Err(Error::Recorder(error.to_owned()));
    };
    Ok(Some((connection, Saved { path: path.into(), verdict: None })))
}

fn await_verdict(mut connection: Connection, saved: Saved) -> Result<Saved, Error> {
    let answer = connection.receive().map_err(lost)?;
    let line = answer["verdict"]["line"].as_str().map(str::to_owned);
    let error = answer["verdict"]["error"].as_str();
    Ok(Saved { verdict: line.or_else(|| Some(format!("not judged: {}", error?))), ..saved })
}

fn failed(why: Why, error: &Error) -> Event {
    Event::SaveFailed { why, error: error.to_string() }
}

/// Adds a note to a trace that this user had saved.
pub fn add_note(sockets: &[PathBuf], trace: &Path, text: &str) -> Result<(), Error> {
    let mut connection = Connection::open(sockets, SAVE_TIMEOUT)?;
    let note = json!({ "path": trace.to_string_lossy(), "text": text });
    let answer = connection.ask(&json!({ "note": note }))?;
    if answer["noted"] == true {
        return Ok(());
    }
    Err(Error::Recorder(answer["error"].as_str().unwrap_or("it stored no note").to_owned()))
}

/// Listens for saves that others asked for, for ever. Meanwhile the recorder knows which marks of
/// input it gets.
pub fn listen(sockets: &[PathBuf], input: InputMode, events: &Sender<Event>) {
    let request = json!({ "subscribe": { "input": input.name() } });
    let mut refused = false;
    loop {
        let connection = Connection::open(sockets, Duration::ZERO);
        // At once, and not when the hot key is pressed in vain.
        if matches!(connection, Err(Error::NotMember)) && !std::mem::replace(&mut refused, true) {
            let _ = events.send(Event::Missing(Error::NotMember.to_string()));
        }
        if let Ok(mut connection) = connection
            && connection.send(&request).is_ok()
        {
            while let Ok(line) = connection.receive() {
                let judged = &line["judged"];
                let Some(path) = judged["path"].as_str() else { continue };
                let verdict = judged["verdict"]["line"].as_str().map(str::to_owned);
                let saved = Saved { path: path.into(), verdict };
                if events.send(Event::Judged(saved)).is_err() {
                    return;
                }
            }
        }
        std::thread::sleep(RETRY);
    }
}
