//! The naming process: parses untrusted files, has no rights, and asks the recorder for every file
//! descriptor.

use super::channel::{Channel, MAX_MESSAGE_LEN, Message};
use super::namer::{names_of, read};
use rustix::fd::OwnedFd;
use rustix::fs::fstat;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use unhitch_formats::container::SymbolFile;
use unhitch_symbols::{Files, Options, Symbolizer, Wanted};

/// Maximum CPU time for naming one trace.
const MAX_CPU_TIME: Duration = Duration::from_secs(4);

/// Reads what only this process itself can access. Call this before giving up the rights.
pub fn prepare_to_serve() {
    unhitch_symbols::read_vdso();
}

/// Names the frames of one trace after another, as requested through `socket`, until the other side
/// closes it. The process must already have given up its rights. `missing` lists what it could not
/// give up, one line each; the lines are added to every trace as warnings.
///
/// # Errors
/// When the other side sends an invalid message, or sending fails.
pub fn serve(socket: OwnedFd, missing: Vec<String>) -> io::Result<()> {
    let remote = Arc::new(RemoteFiles(Mutex::new(Channel::new(socket))));
    let options = Options { effort: Some(MAX_CPU_TIME), ..Options::default() };
    let mut symbolizer = Symbolizer::with_files(options, Arc::clone(&remote) as Arc<dyn Files>);
    loop {
        let trace = match remote.with(Channel::receive)? {
            Some(Message::Trace(file)) => read(file),
            Some(Message::Prepare) => {
                symbolizer.prepare();
                answer(&remote, &[], true)?;
                continue;
            }
            Some(Message::Rules(file)) => {
                let rules = unhitch_symbols::unwind_rules(file).unwrap_or_default();
                answer(&remote, &rules.encode(), true)?;
                continue;
            }
            None => return Ok(()),
            Some(_) => return Err(io::ErrorKind::InvalidData.into()),
        };
        let names = trace.map_or_else(
            |why| {
                SymbolFile::default().with_warnings(vec![format!("functions have no names: {why}")])
            },
            |trace| names_of(trace, &mut symbolizer),
        );
        let confined = missing.iter().map(|line| {
            format!("the process that looks up function names is not fully confined: {line}")
        });
        let warnings = names.warnings().iter().cloned().chain(confined).collect();
        let json = serde_json::to_vec(&names.with_warnings(warnings))?;
        let again = !symbolizer.left_work_behind();
        answer(&remote, &json, again)?;
        // A reader that still waits for a file would take the answers meant for the next trace.
        if !again {
            return Ok(());
        }
    }
}

fn answer(remote: &RemoteFiles, bytes: &[u8], again: bool) -> io::Result<()> {
    remote.with(|channel| {
        bytes
            .chunks(MAX_MESSAGE_LEN - 1)
            .try_for_each(|part| channel.send(&Message::Part(part.to_vec())))?;
        channel.send(&Message::Done(again))
    })
}

/// Opens files by asking the recorder, one at a time.
struct RemoteFiles(Mutex<Channel>);

impl RemoteFiles {
    fn with<T>(&self, act: impl FnOnce(&Channel) -> io::Result<T>) -> io::Result<T> {
        act(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Files for RemoteFiles {
    fn open(&self, wanted: &Wanted) -> io::Result<File> {
        self.with(|channel| {
            channel.send(&Message::Open(wanted.clone()))?;
            match channel.receive()? {
                Some(Message::File(file)) => Ok(file),
                Some(Message::Refused(errno)) => Err(io::Error::from_raw_os_error(errno)),
                _ => Err(io::ErrorKind::InvalidData.into()),
            }
        })
    }

    /// Nobody but root can truncate such a file, and then another process names the trace. The
    /// recorder opens nothing on file systems that others could control.
    fn may_map(&self, file: &File) -> bool {
        const GROUP_OR_OTHERS_WRITE: u32 = 0o022;
        fstat(file)
            .is_ok_and(|about| about.st_uid == 0 && about.st_mode & GROUP_OR_OTHERS_WRITE == 0)
    }
}
