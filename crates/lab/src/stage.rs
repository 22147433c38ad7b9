//! The stage on which every program plays: its schedule, its threads and their names, and how it
//! stops.
//!
//! Every sleep is a `ppoll` on the *curtain*, an event that is set once, at the end or on a signal.
//! So a run can end early without killing anything, and threads that only wait for their cue look
//! like what they are: idle.
//!
//! *Why the hang ends well before the run does:* the analysis needs to see the recovery to
//! understand a hang, so it must be in the recording. Whatever causes the hang checks
//! [`Stage::hang_is_on`] at least every few milliseconds, which is also the watchdog. As a
//! fallback, an alarm kills the program and all its processes if the run does not end by itself.

use crate::options::Options;
use crate::span::Span;
use crate::sys::{self, Child, EventFd, Shared, StopSignals};
use std::fmt::Arguments;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;

/// A thread of a program: its name (at most 15 bytes) and what it does.
pub type Role<'a> = (&'static str, Box<dyn FnOnce() -> io::Result<()> + Send + 'a>);

/// Makes a [`Role`].
pub fn role<'a>(name: &'static str, part: impl FnOnce() -> io::Result<()> + Send + 'a) -> Role<'a> {
    (name, Box::new(part))
}

/// How long after the end of the run the processes of a program may take to exit.
const PROCESS_GRACE_NS: u64 = 500_000_000;
/// How long after the planned end of the run, in seconds, the program is killed.
const ALARM_S: u32 = 5;

/// The schedule and the end of a running program, for all its processes. Times are in nanoseconds
/// of CLOCK_MONOTONIC.
pub struct Stage {
    program: &'static str,
    run: Span,
    hang: Span,
    curtain: EventFd,
    fallen: Shared<AtomicBool>,
    signal: AtomicI32,
    killed: AtomicBool,
}

impl Stage {
    /// Plans the run: the hang lasts from 25 % to at most 80 % of it.
    pub fn new(program: &'static str, options: &Options) -> io::Result<Self> {
        if !(3.0..=60.0).contains(&options.seconds) {
            let message =
                format!("the length of a run must be 3 to 60 seconds, not {}", options.seconds);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let start_ns = sys::monotonic_ns();
        let at = |share: f64| start_ns + (options.seconds * share * 1e9) as u64;
        Ok(Self {
            program,
            run: Span { start_ns, end_ns: at(1.0) },
            hang: Span { start_ns: at(0.25), end_ns: at(0.8) },
            curtain: EventFd::new()?,
            fallen: Shared::new(AtomicBool::new(false))?,
            signal: AtomicI32::new(0),
            killed: AtomicBool::new(false),
        })
    }

    /// The program's name.
    pub fn program(&self) -> &'static str {
        self.program
    }

    /// Plays all roles concurrently, each in its own thread, until the planned end, a stop signal
    /// or the failure of a role.
    pub fn perform(&self, roles: Vec<Role>) -> io::Result<()> {
        self.perform_with(vec![], roles)
    }

    /// Like [`Self::perform`], but plays `processes` on the first threads of their own processes,
    /// which start before the threads.
    pub fn perform_with(&self, processes: Vec<Role>, roles: Vec<Role>) -> io::Result<()> {
        sys::set_name(&format!("lab-{}", self.program))?;
        sys::bound_this_process(self.run.seconds() as u32 + ALARM_S)?;
        // If this is allowed, other load does not spoil the play. It ends with the process.
        let _ = sys::set_nice(-10);
        let mut children: Vec<Child> = Vec::new();
        // This is a plain loop because it is on every stack of these processes.
        for (name, part) in processes {
            children
                .push(sys::start_process(name, || part().inspect_err(|_| self.drop_curtain()))?);
        }
        let signals = StopSignals::block()?;
        thread::scope(|scope| {
            let mut result = Ok(());
            let mut threads = Vec::new();
            for (name, part) in roles {
                let play = move || part().inspect_err(|_| self.drop_curtain());
                match thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, play) {
                    Ok(thread) => threads.push(thread),
                    Err(error) => {
                        result = Err(error);
                        self.drop_curtain();
                    }
                }
            }
            self.wait_for_the_end(&signals);
            for thread in threads {
                let end = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                result = result.and(end);
            }
            let until_ns = sys::monotonic_ns() + PROCESS_GRACE_NS;
            for mut child in children {
                match child.wait_until(until_ns) {
                    Ok(true) => {}
                    Ok(false) => self.killed.store(true, Ordering::Relaxed),
                    Err(error) => result = result.and(Err(error)),
                }
            }
            result
        })
    }

    #[inline(never)]
    fn wait_for_the_end(&self, signals: &StopSignals) {
        while self.is_open() {
            match sys::wait_readable([self.curtain.as_fd(), signals.as_fd()], self.run.end_ns) {
                Ok([_, true]) => self.signal.store(signals.take().unwrap_or(0), Ordering::Relaxed),
                Ok([false, false]) if sys::monotonic_ns() < self.run.end_ns => continue,
                _ => {}
            }
            self.drop_curtain();
        }
    }

    fn drop_curtain(&self) {
        self.fallen.store(true, Ordering::Relaxed);
        self.curtain.set();
    }

    /// True until the run is over.
    pub fn is_open(&self) -> bool {
        !self.fallen.load(Ordering::Relaxed)
    }

    /// True while the hang may continue.
    pub fn hang_is_on(&self) -> bool {
        self.is_open() && sys::monotonic_ns() < self.hang.end_ns
    }

    /// Becomes readable when the run is over.
    pub fn curtain(&self) -> &EventFd {
        &self.curtain
    }

    /// Sleeps until `at_ns`; false if the run is over.
    #[inline(never)]
    pub fn sleep_until(&self, at_ns: u64) -> io::Result<bool> {
        while self.is_open() && sys::monotonic_ns() < at_ns {
            sys::wait_readable([self.curtain.as_fd()], at_ns)?;
        }
        Ok(self.is_open())
    }

    /// When the hang should start.
    pub fn hang_start_ns(&self) -> u64 {
        self.hang.start_ns
    }

    /// The time at which `share` (0 to 1) of the run has passed.
    pub fn moment_ns(&self, share: f64) -> u64 {
        self.run.start_ns + (self.run.duration_ns() as f64 * share) as u64
    }

    /// Seconds from the start of the run to `at_ns`.
    pub fn seconds_at(&self, at_ns: u64) -> f64 {
        at_ns.saturating_sub(self.run.start_ns) as f64 / 1e9
    }

    /// The run, from its start until now.
    pub fn run_so_far(&self) -> Span {
        Span { end_ns: sys::monotonic_ns(), ..self.run }
    }

    /// Why the run did not end as planned.
    pub fn interruption(&self) -> Option<String> {
        match self.signal.load(Ordering::Relaxed) {
            0 => self
                .killed
                .load(Ordering::Relaxed)
                .then(|| "a process did not exit in time and was killed".to_owned()),
            signal => Some(format!("stopped by signal {signal}")),
        }
    }

    /// Prints a line with the time to standard output. A closed pipe does not stop the play.
    pub fn print(&self, text: Arguments) {
        let at = self.seconds_at(sys::monotonic_ns());
        let _ = writeln!(io::stdout(), "{at:7.3} s  {text}");
    }
}

/// The longest of several spans.
#[derive(Clone, Copy, Debug, Default)]
pub struct Longest {
    /// The longest so far.
    pub span: Span,
    /// How many there have been.
    pub count: u64,
}

impl Longest {
    /// Adds a span; true if it is the longest so far.
    pub fn note(&mut self, span: Span) -> bool {
        self.count += 1;
        let is_longest = span.duration_ns() > self.span.duration_ns();
        if is_longest {
            self.span = span;
        }
        is_longest
    }
}
