//! Records once: for a time, while a command runs, or until told to stop.

use crate::error::Error;
use crate::naming::Namer;
use crate::places::fallback_folders;
use crate::recorder::{Options, Recorder};
use crate::save::{Extras, SaveTarget, Saved};
use std::ffi::OsString;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often the stop flag is looked at.
const GLANCE: Duration = Duration::from_millis(100);

/// When a recording ends. The stop flag ends any.
#[derive(Clone, Debug)]
pub enum Until {
    /// After this time.
    For(Duration),
    /// When this command has ended: the program and its arguments.
    Command(Vec<OsString>),
    /// Only by the stop flag.
    Stopped,
}

/// A recording that was made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recorded {
    /// The trace.
    pub saved: Saved,
    /// How the command ended, if there was one and it did.
    pub status: Option<ExitStatus>,
}

/// Records until `until`, or until `stop` is set, and saves. What a longer recording than the rings
/// hold loses is its beginning: the saved window and a warning tell. Where `target` cannot be
/// written the trace goes to the first of [`fallback_folders`] that takes it.
pub fn record(
    options: &Options,
    until: &Until,
    target: &SaveTarget,
    namer: &mut dyn Namer,
    extras: &Extras,
    stop: &AtomicBool,
) -> Result<Recorded, Error> {
    let mut recorder = Recorder::start(options)?;
    let begun = Instant::now();
    let status = match until {
        Until::Command(command) => run(command, stop)?,
        Until::For(duration) => {
            wait(*duration, stop);
            None
        }
        Until::Stopped => {
            wait(Duration::MAX, stop);
            None
        }
    };
    let mut snapshot = recorder.snapshot();
    drop(recorder);
    if !snapshot.from_start() {
        let held = snapshot.window().duration_ns() as f64 / 1e9;
        snapshot.warnings.push(format!(
            "the rings hold the last {held:.1} s of {:.1} s: the beginning is overwritten (use larger rings)",
            begun.elapsed().as_secs_f64()
        ));
    }
    let never = AtomicBool::new(false);
    let mut saved = snapshot.prepare(extras)?.save_anywhere(target, &fallback_folders())?;
    drop(snapshot);
    // Who ended the recording wants its names; who ends it after that does not wait for them.
    let is_ended = stop.load(Ordering::Relaxed);
    saved.name(namer, if is_ended { &never } else { stop });
    Ok(Recorded { saved, status })
}

fn wait(duration: Duration, stop: &AtomicBool) {
    let begun = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let left = duration.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(GLANCE));
    }
}

/// Runs the command to its end, or until `stop`; then it is left to itself.
fn run(command: &[OsString], stop: &AtomicBool) -> Result<Option<ExitStatus>, Error> {
    let failed = |source| Error::Command {
        command: command.first().map_or(String::new(), |name| name.to_string_lossy().into_owned()),
        source,
    };
    let (program, arguments) =
        command.split_first().ok_or_else(|| failed(std::io::ErrorKind::InvalidInput.into()))?;
    let mut child = Command::new(program).args(arguments).spawn().map_err(failed)?;
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(child.wait()));
    while !stop.load(Ordering::Relaxed) {
        match receiver.recv_timeout(GLANCE) {
            Ok(status) => return status.map(Some).map_err(failed),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    Ok(None)
}
