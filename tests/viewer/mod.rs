//! A running `unhitch view`, and requests to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// `unhitch view`, stopped at the end of the test.
pub struct Viewer {
    pub child: Child,
    pub port: u16,
    token: String,
}

impl Viewer {
    /// Starts it; it prints its address on the first line.
    pub fn start(command: &mut Command) -> Self {
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = piped.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("http://127.0.0.1:").unwrap();
        let (port, token) = address.split_once("/?token=").unwrap();
        Self { port: port.parse().unwrap(), token: token.to_owned(), child }
    }

    /// Sends a request, as `GET /api/server`; returns the whole answer.
    pub fn ask(&self, head: &str, body: &[u8]) -> String {
        let (port, token, len) = (self.port, &self.token, body.len());
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        write!(
            stream,
            "{head} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\
             Connection: close\r\nContent-Type: application/json\r\nContent-Length: {len}\r\n\r\n"
        )
        .unwrap();
        stream.write_all(body).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
