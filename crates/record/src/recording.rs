//! Records once: for a time, while a command runs, or until stopped. The trace is written meanwhile.

use crate::error::Error;
use crate::naming::Namer;
use crate::options::Options;
use crate::places::{SaveTarget, fallback_folders};
use crate::recorder::Recorder;
use crate::save::{Extras, Saved};
use crate::session::Rings;
use crate::stream::Stream;
use std::ffi::OsString;
use std::io;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Time between two rounds of writing: at most this, and less if the rings fill fast. It is also how
/// often the stop flag is checked.
const MAX_INTERVAL: Duration = Duration::from_millis(100);
const MIN_INTERVAL: Duration = Duration::from_millis(2);
/// How full a ring should be when it is emptied: far from full, as the next second may be busier.
const WANTED_SHARE: f64 = 0.125;
/// Time between two reports of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

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
    /// The process id of the command, if there was one.
    pub command_pid: Option<u32>,
}

/// How far a recording is.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// How long it has been going on.
    pub elapsed: Duration,
    /// Events in the trace.
    pub events: u64,
    /// Length of the trace in bytes.
    pub bytes: u64,
    /// Events that were lost, because they came faster than they could be written; an estimate.
    pub lost: u64,
}

/// Records until `until`, or until `stop` is set, and writes the trace meanwhile. Whatever happens
/// to this process, what was written can be read. If `target` cannot be written when recording
/// starts, the trace goes to the first of [`fallback_folders`] that can. `report` is called twice a
/// second.
///
/// Recording also ends, with a warning, when the trace has [`Options::max_bytes`], when the disk is
/// nearly full, or when the trace cannot be written any more.
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
    report: &mut dyn FnMut(&Progress),
    stop: &AtomicBool,
) -> Result<Recorded, Error> {
    let recorder = start(options, namer)?;
    let mut stream = Stream::create(&recorder, target, &fallback_folders())?;
    let (pid, exit) = match until {
        Until::Command(command) => match run(command) {
            Ok((pid, exit)) => (Some(pid), Some(exit)),
            Err(error) => {
                stream.discard();
                return Err(error);
            }
        },
        _ => (None, None),
    };
    let (ended, status) = write_until(&mut stream, until, exit.as_ref(), options, report, stop)?;
    let (mut saved, is_finished) = stream.finish(recorder, extras, ended);
    let never = AtomicBool::new(false);
    // A stop that ended the recording does not end naming: the user wants names. A stop during
    // naming does.
    let is_ended = stop.load(Ordering::Relaxed);
    if is_finished {
        saved.name(namer, if is_ended { &never } else { stop });
    }
    Ok(Recorded { saved, status, command_pid: pid })
}

/// Starts recording. Meanwhile prepares the namer, so that the end need not wait for it. That is
/// this thread's part, because a naming process ends with the thread that started it.
fn start(options: &Options, namer: &mut dyn Namer) -> Result<Recorder, Error> {
    let reader = namer.rule_reader();
    std::thread::scope(|scope| {
        let recorder = scope.spawn(|| Recorder::start_to(Rings::Streamed, options, reader));
        namer.prepare();
        recorder.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// How a command ended, as soon as it has.
type Exit = Receiver<io::Result<ExitStatus>>;

/// Writes one round after another. Returns why recording ended early, if it did, and how the command
/// ended.
fn write_until(
    stream: &mut Stream,
    until: &Until,
    exit: Option<&Exit>,
    options: &Options,
    report: &mut dyn FnMut(&Progress),
    stop: &AtomicBool,
) -> Result<(Option<String>, Option<ExitStatus>), Error> {
    let (begun, mut reported, mut interval) = (Instant::now(), Instant::now(), MIN_INTERVAL);
    let (mut status, mut is_over) = (None, false);
    loop {
        let early = match stream.round() {
            Ok(_) if is_over => return Ok((None, status)),
            Ok(fullest) => {
                interval = next_interval(interval, fullest);
                stream.limit(options.max_bytes)
            }
            Err(error) => Some(format!("the trace could not be written ({})", error.with_causes())),
        };
        if let Some(why) = early {
            let goes_on =
                if exit.is_some() && status.is_none() { "; the command goes on" } else { "" };
            let why = format!(
                "the recording ended after {:.1} s: {why}{goes_on}",
                begun.elapsed().as_secs_f64()
            );
            return Ok((Some(why), status));
        }
        if reported.elapsed() >= PROGRESS_INTERVAL {
            reported = Instant::now();
            let written = stream.written();
            report(&Progress {
                elapsed: begun.elapsed(),
                events: written.records,
                bytes: stream.bytes(),
                lost: written.lost_events(),
            });
        }
        let left = match until {
            Until::For(duration) => duration.saturating_sub(begun.elapsed()),
            _ => Duration::MAX,
        };
        // What is recorded until the end belongs to the trace: one more round.
        match wait(exit, left.min(interval)) {
            Some(ended) => {
                let named = |source| Error::Command { command: name_of(until), source };
                (status, is_over) = (Some(ended.map_err(named)?), true);
            }
            None => is_over = left <= interval || stop.load(Ordering::Relaxed),
        }
    }
}

/// Empties the rings as often as they fill to a certain share.
fn next_interval(interval: Duration, fullest: f64) -> Duration {
    let wanted = interval.as_secs_f64() * WANTED_SHARE / fullest.max(1e-6);
    // Not much longer than the last time: bursts come in groups.
    let wanted = wanted.min(interval.as_secs_f64() * 2.0);
    Duration::from_secs_f64(wanted).clamp(MIN_INTERVAL, MAX_INTERVAL)
}

/// Waits for the command, but no longer than `time`.
fn wait(exit: Option<&Exit>, time: Duration) -> Option<io::Result<ExitStatus>> {
    match exit.map(|exit| exit.recv_timeout(time)) {
        Some(Ok(status)) => Some(status),
        Some(Err(RecvTimeoutError::Timeout)) => None,
        Some(Err(RecvTimeoutError::Disconnected)) | None => {
            std::thread::sleep(time);
            None
        }
    }
}

fn name_of(until: &Until) -> String {
    let name = match until {
        Until::Command(command) => command.first(),
        _ => None,
    };
    name.map_or(String::new(), |name| name.to_string_lossy().into_owned())
}

/// Starts the command; returns its process id, too. If recording ends first, it goes on.
fn run(command: &[OsString]) -> Result<(u32, Exit), Error> {
    let failed = |source| Error::Command {
        command: command.first().map_or(String::new(), |name| name.to_string_lossy().into_owned()),
        source,
    };
    let (program, arguments) =
        command.split_first().ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
    let mut child = Command::new(program).args(arguments).spawn().map_err(failed)?;
    let pid = child.id();
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(child.wait()));
    Ok((pid, receiver))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_emptied_before_they_are_full_and_not_too_often() {
        let mut interval = MIN_INTERVAL;
        // A ring that takes a minute to fill is emptied ten times a second.
        for _ in 0..20 {
            interval = next_interval(interval, interval.as_secs_f64() / 60.0);
        }
        assert_eq!(interval, MAX_INTERVAL);
        // One that takes a fifth of a second is emptied when an eighth is full.
        for _ in 0..20 {
            interval = next_interval(interval, interval.as_secs_f64() / 0.2);
        }
        assert!(interval.abs_diff(Duration::from_millis(25)) < Duration::from_millis(1));
        assert_eq!(next_interval(interval, 1.0), interval.mul_f64(0.125).max(MIN_INTERVAL));
        assert_eq!(next_interval(MIN_INTERVAL, 1.0), MIN_INTERVAL);
        assert_eq!(next_interval(MIN_INTERVAL, 0.0), MIN_INTERVAL * 2);
    }
}
