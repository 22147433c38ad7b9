//! The process that names frames: reads files of strangers, has no rights, and asks the recorder
//! for every descriptor.

use super::channel::{Channel, MAX_MESSAGE_LEN, Message};
use super::{names_of, read};
use rustix::fd::OwnedFd;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use unhitch_formats::container::SymbolFile;
use unhitch_symbols::{Files, Options, Symbolizer, Wanted};

/// CPU time that the names of one trace may take.
const EFFORT: Duration = Duration::from_secs(4);

/// Reads what only this process itself can give: to be called before it gives up its rights.
pub fn prepare_to_serve() {
    unhitch_symbols::read_vdso();
}

/// Names the frames of one trace after the other, as `socket` asks for it, until the other side
/// leaves. The process must have given up its rights already; `missing` is what it could not give
/// up, a line each, which every trace is told.
///
/// # Errors
/// When the other side says what it should not, or something cannot be sent.
pub fn serve(socket: OwnedFd, missing: Vec<String>) -> io::Result<()> {
    let asking = Arc::new(Asking(Mutex::new(Channel::new(socket))));
    let options = Options { effort: Some(EFFORT), ..Options::default() };
    let mut symbolizer = Symbolizer::with_files(options, Arc::clone(&asking) as Arc<dyn Files>);
    symbolizer.prepare();
    asking.with(|channel| channel.send(&Message::Ready))?;
    loop {
        let trace = match asking.with(Channel::receive)? {
            Some(Message::Trace(file)) => read(file),
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
            format!("the process that reads programs' files is not fully confined: {line}")
        });
        let warnings = names.warnings().iter().cloned().chain(confined).collect();
        let json = serde_json::to_vec(&names.with_warnings(warnings))?;
        let again = !symbolizer.left_work_behind();
        asking.with(|channel| {
            json.chunks(MAX_MESSAGE_LEN - 1)
                .try_for_each(|part| channel.send(&Message::Names(part.to_vec())))?;
            channel.send(&Message::Done(again))
        })?;
        // What still waits for a file would take the next trace's answers.
        if !again {
            return Ok(());
        }
    }
}

/// Files that are asked for, one at a time.
struct Asking(Mutex<Channel>);

impl Asking {
    fn with<T>(&self, talk: impl FnOnce(&Channel) -> io::Result<T>) -> io::Result<T> {
        talk(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Files for Asking {
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
}
