//! The recorder's side of the naming process: starts it, opens files for it, and kills it if it
//! takes too long.

use super::channel::{Channel, Message};
use super::namer::{Namer, Unnamed};
use super::opener::Opener;
use super::programs::{Program, Programs};
use super::rules::RuleReader;
use crate::procfs;
use crate::sys;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use unhitch_formats::container::SymbolFile;
use unhitch_symbols::{UnwindRules, Wanted};

/// How long naming may take. The process normally ends long before; this is for one that has been
/// compromised.
const NAMING_TIMEOUT: Duration = Duration::from_secs(20);
/// How often the stop flag is checked, in milliseconds.
const STOP_CHECK_INTERVAL_MS: i32 = 50;
const INVALID_ANSWER: &str = "the process that looks up function names sent an invalid answer";
/// Maximum length of an answer in bytes.
const MAX_ANSWER_LEN: usize = 128 << 20;

/// Until when an answer may take that is asked for now.
fn limit() -> Instant {
    Instant::now() + NAMING_TIMEOUT
}

/// Names frames in an unprivileged process. The process is kept between saves, because it has
/// already read most files by then.
pub struct NamingProcess {
    program: PathBuf,
    arguments: Vec<OsString>,
    running: Option<Running>,
}

struct Running {
    child: Child,
    channel: Channel,
}

/// Why there is no answer.
struct Failure {
    words: String,
    /// The process has ended, or its end of the channel is closed: another one may answer.
    died: bool,
}

impl From<String> for Failure {
    fn from(words: String) -> Self {
        Self { words, died: false }
    }
}

impl NamingProcess {
    /// A process that will run `program` with `arguments`. The program must give up its rights and
    /// call [`serve`](super::serve) with its standard input. It is not started yet.
    pub fn new(program: PathBuf, arguments: Vec<OsString>) -> Self {
        Self { program, arguments, running: None }
    }

    fn start(&mut self) -> io::Result<&mut Running> {
        let mut known = self.running.take();
        let running = match known.take_if(|running| matches!(running.child.try_wait(), Ok(None))) {
            Some(running) => running,
            None => {
                let (channel, theirs) = Channel::pair()?;
                let mut command = Command::new(&self.program);
                command
                    .args(&self.arguments)
                    .env_clear()
                    .stdin(Stdio::from(theirs))
                    .stdout(Stdio::null())
                    .stderr(Stdio::null());
                Running { child: command.spawn()?, channel }
            }
        };
        Ok(self.running.insert(running))
    }

    /// Sends the request and opens files for the process until the answer has arrived.
    fn ask(
        &mut self,
        programs: &Arc<Programs>,
        request: &Message,
        (until, stop): (Instant, &AtomicBool),
    ) -> Result<Vec<u8>, Failure> {
        let mut session =
            Session { opener: Opener::new(Arc::clone(programs)), answer: Vec::new(), until, stop };
        let running = self.start().map_err(|error| {
            format!("the process that looks up function names could not be started ({error})")
        })?;
        running.channel.send(request).map_err(|error| ended(running, &error))?;
        let again = session.serve(running)?;
        if !again {
            self.end();
        }
        Ok(session.answer)
    }

    fn end(&mut self) {
        if let Some(mut running) = self.running.take() {
            // It may have exited by itself.
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

impl Namer for NamingProcess {
    fn prepare(&mut self) {
        // An error is reported when names are needed.
        let never = AtomicBool::new(false);
        if self.ask(&Arc::default(), &Message::Prepare, (limit(), &never)).is_err() {
            self.end();
        }
    }

    fn names(&mut self, trace: &Unnamed<'_>, stop: &AtomicBool) -> Result<SymbolFile, String> {
        let until = limit();
        let mut ask = || {
            let file = trace.file.try_clone().map_err(|error| error.to_string())?;
            let answer = self.ask(trace.programs, &Message::Trace(file), (until, stop));
            if answer.is_err() {
                self.end();
            }
            answer
        };
        // It dies where root truncates a file that it has mapped, as linkers do. Another one maps it as it is
        // then.
        let answer = match ask() {
            Err(Failure { died: true, .. }) => ask(),
            answer => answer,
        };
        let answer = answer.map_err(|failure| failure.words);
        serde_json::from_slice(&answer?).map_err(|_| INVALID_ANSWER.to_owned())
    }

    fn rule_reader(&self) -> Box<dyn RuleReader> {
        Box::new(Self::new(self.program.clone(), self.arguments.clone()))
    }
}

impl RuleReader for NamingProcess {
    fn open(&mut self, pid: u32, start_avma: u64, len: u64, path: &Path) -> Option<File> {
        let program = Program { pid, user: procfs::user(pid), start_avma, len };
        let programs = Arc::new(Programs::from_iter([(path.to_owned(), program)]));
        Opener::new(programs).open(Wanted::Mapped(path.to_owned())).ok()
    }

    fn rules(&mut self, file: File, stop: &AtomicBool) -> Option<UnwindRules> {
        match self.ask(&Arc::default(), &Message::Rules(file), (limit(), stop)) {
            Ok(answer) => UnwindRules::decode(&answer),
            Err(_) => {
                self.end();
                None
            }
        }
    }
}

impl Drop for NamingProcess {
    fn drop(&mut self) {
        self.end();
    }
}

/// The exchange with the process until one answer is complete.
struct Session<'a> {
    opener: Opener,
    answer: Vec<u8>,
    until: Instant,
    stop: &'a AtomicBool,
}

impl Session<'_> {
    /// Serves the process until it is ready or has named a trace. Returns true if it can name
    /// another.
    fn serve(&mut self, running: &mut Running) -> Result<bool, Failure> {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err("the recorder was stopped".to_owned().into());
            }
            if Instant::now() > self.until {
                let words = "the process that looks up function names took too long";
                return Err(words.to_owned().into());
            }
            let ready = sys::poll(&[running.channel.as_fd()], STOP_CHECK_INTERVAL_MS)
                .map_err(|error| ended(running, &error))?;
            if !ready.iter().any(|ready| ready.readable || ready.hung_up) {
                continue;
            }
            let answer = match running.channel.receive() {
                Ok(Some(Message::Open(wanted))) => match self.opener.open(wanted) {
                    Ok(file) => Message::File(file),
                    Err(errno) => Message::Refused(errno.raw_os_error()),
                },
                Ok(Some(Message::Part(part)))
                    if self.answer.len() + part.len() <= MAX_ANSWER_LEN =>
                {
                    self.answer.extend(part);
                    continue;
                }
                Ok(Some(Message::Done(again))) => return Ok(again),
                Ok(None) => return Err(ended(running, &io::ErrorKind::UnexpectedEof.into())),
                Ok(Some(_)) => {
                    return Err(INVALID_ANSWER.to_owned().into());
                }
                Err(error) => return Err(ended(running, &error)),
            };
            running.channel.send(&answer).map_err(|error| ended(running, &error))?;
        }
    }
}

/// Describes how the process ended, if it did.
fn ended(running: &mut Running, error: &io::Error) -> Failure {
    let words = match running.child.try_wait() {
        Ok(Some(status)) => format!("the process that looks up function names ended ({status})"),
        _ => format!("the process that looks up function names does not answer ({error})"),
    };
    Failure { words, died: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_dies_is_replaced_once() {
        let folder = tempfile::tempdir().unwrap();
        let starts = folder.path().join("starts");
        let script = format!("echo started >> '{}'", starts.display());
        let mut namer = NamingProcess::new("/bin/sh".into(), vec!["-c".into(), script.into()]);
        let (file, programs) = (tempfile::tempfile().unwrap(), Arc::default());
        let trace = Unnamed { file: &file, programs: &programs };
        let why = namer.names(&trace, &AtomicBool::new(false)).unwrap_err();
        assert!(why.starts_with("the process that looks up function names "), "{why}");
        assert_eq!(std::fs::read_to_string(&starts).unwrap().lines().count(), 2);
    }
}
