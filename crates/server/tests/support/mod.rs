//! A server for each test, and a client that sends exactly the given bytes.
//!
//! *Why no HTTP library:* what must be refused is what no library would send.

use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use unhitch_analysis::Rules;
use unhitch_model::Trace;
use unhitch_server::{Config, ListingQuestion, Server, Tools, Unreadable};

/// Maximum time of any step of a test; a server that hangs must not hang the tests.
const PATIENCE: Duration = Duration::from_secs(120);

/// The trace of a real starved lock that comes with the program.
pub fn real_trace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/starve.hitch")
}

/// A server on a folder.
pub struct Served {
    pub folder: TempDir,
    pub port: u16,
    pub token: String,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.status, self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The value of a header, its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let line = self
            .headers
            .lines()
            .find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")))?;
        Some(line.split_once(':')?.1.trim())
    }
}

impl Served {
    /// Serves a folder with the real trace, and the files that `more` puts there.
    pub fn new(upload_limit_bytes: u64, more: impl FnOnce(&Path)) -> Self {
        Self::by(tools(), upload_limit_bytes, more)
    }

    /// The same, with other tools.
    pub fn by(tools: Tools, upload_limit_bytes: u64, more: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(real_trace(), folder.path().join("starve.hitch")).unwrap();
        more(folder.path());
        let path = folder.path().to_owned();
        let (port, token) = serve_by(tools, &path, None, upload_limit_bytes);
        Self { folder, port, token }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Sends a request and reads the answer; `head` is all of it but the body, without the empty
    /// line.
    pub fn send(&self, head: &str, body: &[u8]) -> Answer {
        let mut stream = self.connect();
        // A server that refuses early closes while we still send; its answer is read anyway.
        let _ = stream
            .write_all(format!("{head}\r\n\r\n").as_bytes())
            .and_then(|()| stream.write_all(body));
        read(&mut stream)
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The head of an authorized request.
    pub fn head(&self, method: &str, path: &str) -> String {
        format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\nConnection: close",
            self.port, self.token
        )
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send(&self.head("GET", path), b"")
    }

    /// The same as JSON, which must be an answer.
    pub fn ask(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()
    }

    pub fn with_body(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> Answer {
        let head = self.head(method, path);
        self.send(
            &format!("{head}\r\nContent-Type: {kind}\r\nContent-Length: {}", body.len()),
            body,
        )
    }

    /// Waits until a trace is ready, or has failed.
    pub fn until_judged(&self, trace: &str) -> Value {
        loop {
            let status = self.ask(&format!("/api/t/{trace}/status"));
            if status["ready"]["stalls"] == true || status["stage"] == "failed" {
                return status;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the folder holds `files` files, finished or not.
    pub fn until_folder_counts(&self, files: usize) {
        let since = Instant::now();
        let count = || std::fs::read_dir(self.folder.path()).unwrap().count();
        while count() != files {
            assert!(since.elapsed() < PATIENCE, "the folder holds {} files, not {files}", count());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The server still answers authorized requests.
    pub fn assert_alive(&self) {
        assert_eq!(self.ask("/api/server")["version"], env!("CARGO_PKG_VERSION"));
    }

    /// The folder holds exactly these files: nothing of a failed upload is left.
    pub fn assert_folder_holds(&self, names: &[&str]) {
        let mut found: Vec<String> = std::fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        found.sort();
        assert_eq!(found, names);
    }
}

/// What reads traces in tests.
pub fn tools() -> Tools {
    Tools {
        open: Box::new(open),
        open_newest: Box::new(|_| None),
        listing: Box::new(listing),
        rules: Rules::default(),
        stored_verdicts: true,
    }
}

/// Serves `path`; the port and the token.
pub fn serve(path: &Path, upload_limit_bytes: u64) -> (u16, String) {
    serve_with(path, None, upload_limit_bytes)
}

/// The same, with the report over a fleet.
pub fn serve_with(path: &Path, fleet: Option<PathBuf>, upload_limit_bytes: u64) -> (u16, String) {
    serve_by(tools(), path, fleet, upload_limit_bytes)
}

/// The same, with other tools.
pub fn serve_by(
    tools: Tools,
    path: &Path,
    fleet: Option<PathBuf>,
    upload_limit_bytes: u64,
) -> (u16, String) {
    let path = path.to_owned();
    let server = Server::bind(Config { path, fleet, port: 0, upload_limit_bytes, tools }).unwrap();
    let address = server.address();
    let (port, token) =
        address.strip_prefix("http://127.0.0.1:").unwrap().split_once("/?token=").unwrap();
    let (port, token) = (port.parse().unwrap(), token.to_owned());
    // It ends with the test's process.
    std::thread::spawn(move || server.run().unwrap());
    (port, token)
}

pub fn open(path: &Path) -> Result<Trace, Unreadable> {
    let mut trace = unhitch_formats::open(path)
        .map_err(|error| Unreadable::of(&error, format!("{}: {error}", path.display())))?;
    unhitch_analysis::repair(&mut trace);
    Ok(trace)
}

/// The real one is part of the command line, and tested there.
fn listing(_: &Trace, question: &ListingQuestion<'_>) -> Result<Value, String> {
    if question.function == "nowhere" {
        return Err("no sample is in it".to_owned());
    }
    let instruction = json!({ "offset": 4_660, "address": u64::MAX, "text": "nop", "samples": 3, "share": 1.0, "in_loop": true, "origin": "" });
    Ok(json!({
        "version": 1, "function": question.function, "samples": question.samples.len(), "code": "/bin/x",
        "loop": { "instructions": 1, "samples": 3, "share": 1.0 }, "instructions": [instruction],
    }))
}

/// Reads an answer to the end of the connection.
pub fn read(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    // Before a connection is reset, its answer has arrived.
    let _ = stream.read_to_end(&mut bytes);
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(bytes.len());
    let headers = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = headers.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = bytes.get(end + 4..).unwrap_or_default().to_vec();
    let answer = Answer { status, headers, body };
    assert_ne!(answer.header("transfer-encoding"), Some("chunked"), "answers have a length");
    answer
}
