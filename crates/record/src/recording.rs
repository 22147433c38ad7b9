//! Records once: for a time, while a command runs, or until stopped.

use crate::error::Error;
use crate::naming::Namer;
use crate::options::Options;
use crate::places::fallback_folders;
use crate::recorder::Recorder;
use crate::save::{Extras, SaveTarget, Saved};
use std::ffi::OsString;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often the stop flag is checked.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// When a recording ends. The stop flag ends it in any case.
#[derive(Clone, Debug)]
pub enum Until {
    /// After this time.
    For(Duration),
    /// When this command exits: the program and its arguments.
    Command(Vec<OsString>),
    /// Only when the stop flag is set.
    Stopped,
}

/// A finished recording.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recorded {
    /// The trace.
    pub saved: Saved,
    /// The exit status of the command, if there was one and it has exited.
    pub status: Option<ExitStatus>,
}

/// Records until `until`, or until `stop` is set, and saves. If the recording is longer than the
/// rings can hold, its beginning is lost: see the saved window and a warning. If `target` cannot be
/// written, the trace goes to the first of [`fallback_folders`] that can.
///
/// # Errors
/// When recording is not possible, the command cannot be started, or the trace cannot be written
/// anywhere.
pub fn record(
    options: &Options,
    until: &Until,
    target: &SaveTarget,
    namer: &mut dyn Namer,
    extras: &Extras,
    stop: &AtomicBool,
) -> Result<Recorded, Error> {
    let mut recorder = start(options, namer)?;
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
            "the ring buffers hold only the last {held:.1} s of {:.1} s: the beginning was \
             overwritten (use a larger --buffer)",
            begun.elapsed().as_secs_f64()
        ));
    }
    let never = AtomicBool::new(false);
    let mut saved = snapshot.prepare(extras)?.save_anywhere(target, &fallback_folders())?;
    drop(snapshot);
    // A stop that ended the recording does not end naming: the user wants names. A stop during
    // naming does.
    let is_ended = stop.load(Ordering::Relaxed);
    saved.name(namer, if is_ended { &never } else { stop });
    Ok(Recorded { saved, status })
}

/// Starts recording. Meanwhile prepares the namer, so that the save need not wait for it. That is
/// this thread's part, because a naming process ends with the thread that started it.
fn start(options: &Options, namer: &mut dyn Namer) -> Result<Recorder, Error> {
    let reader = namer.rule_reader();
    std::thread::scope(|scope| {
        let recorder = scope.spawn(|| Recorder::start_with(options, reader));
        namer.prepare();
        recorder.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn wait(duration: Duration, stop: &AtomicBool) {
    let begun = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let left = duration.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(STOP_CHECK_INTERVAL));
    }
}

/// Runs the command until it exits. If `stop` is set first, leaves it running.
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
        match receiver.recv_timeout(STOP_CHECK_INTERVAL) {
            Ok(status) => return status.map(Some).map_err(failed),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    Ok(None)
}
