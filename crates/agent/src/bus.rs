//! The session's message bus, as far as the agent needs it: calls, their answers, and signals.
//!
//! *Why not a library*: `zbus` is the one that is well kept and has no C in it. It is 20 more crates
//! and two minutes of CPU time to build, in a program that most people use without a desktop; this
//! is two files. By the D-Bus specification, 1.0; little-endian only.

mod wire;

pub use wire::{Body, Choice, Message, Value};

use crate::error::Error;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use wire::{Kind, MAX_MESSAGE};

/// Time limit for an answer, also to the login.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum length of a line of the login, bytes.
const MAX_LOGIN: u64 = 4096;

type Waiting = Arc<Mutex<HashMap<u32, std::sync::mpsc::SyncSender<Message>>>>;

/// A connection.
pub struct Bus {
    writer: Mutex<UnixStream>,
    waiting: Waiting,
    serial: AtomicU32,
}

fn failed(error: impl ToString) -> Error {
    Error::Bus(error.to_string())
}

impl Bus {
    /// Connects to the session's bus. Signals go to `signals`.
    pub fn connect(signals: Sender<Message>) -> Result<Self, Error> {
        let address = std::env::var("DBUS_SESSION_BUS_ADDRESS").ok();
        let runtime = || Some(format!("unix:path={}/bus", std::env::var("XDG_RUNTIME_DIR").ok()?));
        let address = address.or_else(runtime).ok_or_else(|| failed("there is none"))?;
        let stream = open(&address)?;
        stream.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
        stream.set_write_timeout(Some(TIMEOUT)).map_err(failed)?;
        let mut reader = BufReader::new(stream.try_clone().map_err(failed)?);
        log_in(&mut reader, &stream)?;
        stream.set_read_timeout(None).map_err(failed)?;
        let waiting = Waiting::default();
        let answers = Arc::clone(&waiting);
        std::thread::spawn(move || {
            while let Ok(message) = read_message(&mut reader) {
                deliver(&answers, &signals, message);
            }
            // Whoever still waits gets no answer.
            answers.lock().unwrap_or_else(PoisonError::into_inner).clear();
        });
        let bus = Self { writer: Mutex::new(stream), waiting, serial: AtomicU32::new(0) };
        bus.call(&Message::to_bus("Hello", Body::default()))?;
        Ok(bus)
    }

    /// Asks for the signals of an interface.
    pub fn add_match(&self, sender: &str, interface: &str) -> Result<(), Error> {
        let rule = format!("type='signal',sender='{sender}',interface='{interface}'");
        self.call(&Message::to_bus("AddMatch", Body::default().string(&rule))).map(|_| ())
    }

    /// Calls a method, and returns the values of its answer.
    pub fn call(&self, message: &Message) -> Result<Vec<Value>, Error> {
        // 0 is not a serial.
        let serial = self.serial.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, receiver) = sync_channel(1);
        let waiting = || self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting().insert(serial, sender);
        let bytes = message.bytes(serial);
        self.writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .write_all(&bytes)
            .map_err(failed)?;
        let answer = receiver.recv_timeout(TIMEOUT);
        waiting().remove(&serial);
        let answer = answer.map_err(|_| failed("no answer"))?;
        match answer.kind {
            Kind::Error => {
                let text = answer.values.first().and_then(Value::as_str).unwrap_or_default();
                Err(failed(format!("{}: {text}", answer.error)))
            }
            _ => Ok(answer.values),
        }
    }
}

/// An answer goes to who waits for it, a signal to the channel; we offer no methods to call.
fn deliver(waiting: &Waiting, signals: &Sender<Message>, message: Message) {
    match message.kind {
        Kind::Answer | Kind::Error => {
            let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(sender) = waiting.remove(&message.answers) {
                let _ = sender.try_send(message);
            }
        }
        Kind::Signal => {
            let _ = signals.send(message);
        }
        Kind::Call => {}
    }
}

/// Opens the first address that is a Unix socket and can be reached.
fn open(addresses: &str) -> Result<UnixStream, Error> {
    let mut last = failed("its address is not that of a Unix socket");
    for address in addresses.split(';') {
        let Some(parameters) = address.strip_prefix("unix:") else { continue };
        let of = |key: &str| {
            let mut found = parameters.split(',').filter_map(|pair| pair.split_once('='));
            found.find(|(name, _)| *name == key).map(|(_, value)| unescaped(value))
        };
        let opened = match (of("path"), of("abstract")) {
            (Some(path), _) => {
                use std::os::unix::ffi::OsStringExt;
                UnixStream::connect(std::ffi::OsString::from_vec(path))
            }
            (None, Some(name)) => SocketAddr::from_abstract_name(name)
                .and_then(|address| UnixStream::connect_addr(&address)),
            (None, None) => continue,
        };
        match opened {
            Ok(stream) => return Ok(stream),
            Err(error) => last = failed(error),
        }
    }
    Err(last)
}

/// Addresses have some bytes as `%XX`.
fn unescaped(value: &str) -> Vec<u8> {
    let mut parts = value.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let code = part.get(..2).and_then(|code| u8::from_str_radix(code, 16).ok());
        match code {
            Some(code) => {
                bytes.push(code);
                bytes.extend(&part.as_bytes()[2..]);
            }
            None => bytes.extend(part.as_bytes()),
        }
    }
    bytes
}

/// Says who we are: the bus asks the kernel whether that is so.
fn log_in(reader: &mut impl BufRead, mut writer: &UnixStream) -> Result<(), Error> {
    let uid = rustix::process::getuid().as_raw().to_string();
    let uid: String = uid.bytes().map(|byte| format!("{byte:02x}")).collect();
    writer.write_all(format!("\0AUTH EXTERNAL {uid}\r\n").as_bytes()).map_err(failed)?;
    let mut line = String::new();
    reader.take(MAX_LOGIN).read_line(&mut line).map_err(failed)?;
    if !line.starts_with("OK ") {
        return Err(failed("it does not let us in"));
    }
    writer.write_all(b"BEGIN\r\n").map_err(failed)
}

fn read_message(reader: &mut impl Read) -> std::io::Result<Message> {
    let mut bytes = vec![0; wire::FIXED];
    reader.read_exact(&mut bytes)?;
    let invalid = || std::io::Error::from(std::io::ErrorKind::InvalidData);
    let total =
        wire::total_len(&bytes).filter(|total| *total <= MAX_MESSAGE).ok_or_else(invalid)?;
    bytes.resize(total, 0);
    reader.read_exact(&mut bytes[wire::FIXED..])?;
    Message::parse(&bytes).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_unescaped() {
        assert_eq!(unescaped("/run/a%20b%2fc"), b"/run/a b/c");
        assert_eq!(unescaped("%zz%"), b"zz");
        assert!(open("tcp:host=localhost").is_err());
        assert!(open("unix:path=/nonexistent;unix:tmpdir=/tmp").is_err());
    }
}
