//! The open events and rings of a recording, and the thread that drains the side-band.
//!
//! Formats: perf_event_open(2). The drain thread sleeps in poll until a side-band ring is a quarter
//! full, or for at most a second. Every second it notes how fast the rings fill in the
//! [`History`](crate::history::History), so that old side-band records can be dropped without ever
//! reading the rings.

use crate::bpf::Engine;
use crate::error::Error;
use crate::events::{self, Event, is_memory, is_offline, open_failed};
use crate::history::History;
use crate::hotplug::{self, Hotplug};
use crate::naming::RuleReader;
use crate::options::{DEFAULT_RING_BYTES, EngineChoice, MAX_DEFAULT_BYTES, Options};
use crate::ring::{DrainedRing, EventRing, OverwriteRing};
use crate::sideband::Sideband;
use crate::{kernel, permission, procfs, sys};
use rustc_hash::FxHashSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use unhitch_model::Time;

/// Minimum size of a ring in bytes; a smaller one is not worth having.
pub(crate) const MIN_RING_BYTES: usize = 256 << 10;
/// The side-band log is compacted when it has grown by this many bytes.
const COMPACT_GROWTH_BYTES: usize = 1 << 20;
/// A log that is larger than this (in bytes) even after compaction keeps only what belongs to the
/// time that *all* CPUs still hold, rather than to the time that any of them holds.
const LARGE_LOG_BYTES: usize = 32 << 20;

/// One CPU's events, all writing into one ring.
pub(crate) struct CpuRing {
    pub(crate) cpu: u16,
    pub(crate) ring: EventRing,
    pub(crate) events: Vec<OpenEvent>,
    /// The time from which on all events are enabled.
    pub(crate) started: Time,
}

/// An open event.
pub(crate) struct OpenEvent {
    fd: OwnedFd,
    pub(crate) id: u64,
    /// Index into the session's events.
    pub(crate) event: usize,
}

impl OpenEvent {
    /// How often the event has occurred.
    pub(crate) fn count(&self) -> u64 {
        sys::read_count(self.fd.as_fd()).unwrap_or(0)
    }
}

/// What becomes of the rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rings {
    /// The oldest end is overwritten; a save copies them.
    Overwritten,
    /// They are emptied all the time, and what they held is written to the trace.
    Streamed,
}

/// Everything that exists while recording.
pub(crate) struct Session {
    pub(crate) rings: Rings,
    pub(crate) events: Vec<Event>,
    pub(crate) cpus: Vec<CpuRing>,
    /// Records instead of the events.
    pub(crate) engine: Option<Engine>,
    sideband: Mutex<Sideband>,
    /// CPUs that went offline and came back, and of which events are missing since then.
    unrecorded: Mutex<FxHashSet<u16>>,
    history: Mutex<History>,
}

/// A session and its drain thread; dropping it stops both.
pub(crate) struct Running {
    pub(crate) session: Arc<Session>,
    stop: UnixStream,
    drain: Option<JoinHandle<()>>,
}

impl Running {
    /// Opens and starts everything. Missing optional features are added to `warnings`.
    pub(crate) fn start(
        options: &Options,
        kept: Rings,
        tracefs: &Path,
        reader: Box<dyn RuleReader>,
        warnings: &mut Vec<String>,
    ) -> Result<Self, Error> {
        sys::raise_open_files();
        let online = procfs::online_cpus();
        let engine = load_engine(options, || Engine::load(options, &online), warnings)?;
        Self::start_with(engine, &online, options, kept, tracefs, reader, warnings)
    }

    /// Without an `engine`, performance events record.
    fn start_with(
        engine: Option<Engine>,
        online: &[u16],
        options: &Options,
        kept: Rings,
        tracefs: &Path,
        reader: Box<dyn RuleReader>,
        warnings: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let mut sideband = Sideband::open(online, warnings)?;
        if kept == Rings::Streamed {
            sideband.log.keep_unwritten();
        }
        let mut session = Session {
            rings: kept,
            events: Vec::new(),
            cpus: Vec::new(),
            engine,
            sideband: Mutex::new(sideband),
            unrecorded: Mutex::default(),
            history: Mutex::new(History::new(Vec::new())),
        };

        // First the side-band, then /proc: a process that appears in between is in both, and no
        // process is in neither.
        session.sideband().enable()?;
        session.seed(warnings);
        if let Some(engine) = &mut session.engine
            && let Err(error) = engine.attach(options, reader)
        {
            without_engine(options, &error, warnings)?;
            session.engine = None;
        }
        if session.engine.is_none() {
            session.open_events(options, tracefs, online, warnings)?;
        }
        session.enable_events()?;

        let session = Arc::new(session);
        let (stop, stopped) = UnixStream::pair()
            .map_err(|source| Error::System { action: "create a socket pair", source })?;
        let drained = Arc::clone(&session);
        let drain = std::thread::Builder::new()
            .name("unhitch-drain".to_owned())
            .spawn(move || drained.drain_until(&stopped));
        let drain = drain.map_err(|source| Error::System { action: "start a thread", source })?;
        Ok(Self { session, stop, drain: Some(drain) })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.stop.shutdown(std::net::Shutdown::Both);
        if let Some(drain) = self.drain.take() {
            let _ = drain.join();
        }
    }
}

impl Session {
    /// Locks the side-band; the drain thread waits meanwhile.
    pub(crate) fn sideband(&self) -> MutexGuard<'_, Sideband> {
        // After a panic under this lock, the log is still usable: at worst, a record is missing.
        self.sideband.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the performance events, which do not record yet.
    fn open_events(
        &mut self,
        options: &Options,
        tracefs: &Path,
        online: &[u16],
        warnings: &mut Vec<String>,
    ) -> Result<(), Error> {
        let (mut events, trials) = events::plan(options, tracefs, online, warnings)?;
        if self.rings == Rings::Streamed {
            events.iter_mut().for_each(Event::forward);
        }
        self.cpus =
            open_rings(online, &events, self.rings, ring_len(options, online.len()), warnings)?;
        self.events = events;
        drop(trials);
        Ok(())
    }

    fn enable_events(&mut self) -> Result<(), Error> {
        for cpu in &mut self.cpus {
            for event in &cpu.events {
                sys::enable(event.fd.as_fd())
                    .map_err(|source| Error::System { action: "start an event", source })?;
            }
            cpu.started = sys::monotonic_now();
        }
        let rings = self.cpus.iter().map(|cpu| (cpu.ring.len() as u64, cpu.started)).collect();
        self.history = Mutex::new(History::new(rings));
        Ok(())
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What each CPU has recorded, and when it began.
    pub(crate) fn started(&self) -> Vec<(u16, Time)> {
        match &self.engine {
            Some(engine) => engine.cpus().iter().map(|&cpu| (cpu, engine.started())).collect(),
            None => self.cpus.iter().map(|cpu| (cpu.cpu, cpu.started)).collect(),
        }
    }

    /// The time from which on the trace has everything of each CPU. Of a ring that is overwritten,
    /// it is estimated without reading the ring.
    pub(crate) fn held_from(&self) -> Vec<Time> {
        if self.rings == Rings::Streamed {
            return self.started().into_iter().map(|(_, started)| started).collect();
        }
        if let Some(engine) = &self.engine {
            return engine.states().into_iter().map(|ring| ring.held_from).collect();
        }
        let written: Vec<u64> = self.cpus.iter().map(|cpu| cpu.ring.written()).collect();
        self.history().held_from(&written)
    }

    /// Adds the existing processes to the log.
    fn seed(&self, warnings: &mut Vec<String>) {
        let never = AtomicBool::new(false);
        let processes = procfs::processes(&never);
        let pids = processes.iter().map(|process| (process.pid, ())).collect();
        let (spaces, unread) =
            procfs::read_each(pids, procfs::PROCESS_TIMEOUT, &never, |pid, ()| {
                procfs::address_space(pid)
            });
        warnings.extend(unread.warnings());
        let kernel = kernel::mapping();
        let mut sideband = self.sideband();
        sideband.log.add(&kernel);
        sideband.drain();
        for process in &processes {
            sideband.log.complete(process, spaces.get(&process.pid));
        }
    }

    fn drain_until(&self, stop: &UnixStream) {
        let mut hotplug = Hotplug::new(sys::monotonic_now());
        let mut sources = self.sideband().events();
        loop {
            let mut polled = vec![stop.as_fd()];
            polled.extend(sources.iter().map(|event| event.as_fd()));
            let Ok(ready) = sys::poll(&polled, 1000) else { return };
            if ready.first().is_none_or(|stop| stop.readable || stop.hung_up) {
                return;
            }
            // Waiting for an event that has hung up would spin.
            let mut hung_up = ready[1..].iter().map(|ready| ready.hung_up);
            sources.retain(|_| !hung_up.next().unwrap_or(false));
            let now = sys::monotonic_now();
            let written: Vec<u64> = self.cpus.iter().map(|cpu| cpu.ring.written()).collect();
            self.history().note(now, &written);
            let mut sideband = self.sideband();
            sideband.drain();
            if sideband.log.memory() > sideband.compacted + COMPACT_GROWTH_BYTES {
                self.compact(&mut sideband);
            }
            drop(sideband);
            if hotplug.is_due(now) {
                hotplug.is_open = !self.reopen();
                sources = self.sideband().events();
            }
        }
    }

    /// Opens again what the kernel has closed because a CPU was offline for some time. Returns true if
    /// nothing is left to be opened.
    fn reopen(&self) -> bool {
        let reopened = self.sideband().reopen();
        if !reopened.cpus.is_empty() {
            // What happened since then is only in /proc.
            self.seed(&mut Vec::new());
        }
        let mut unrecorded = self.unrecorded.lock().unwrap_or_else(PoisonError::into_inner);
        unrecorded.extend(reopened.cpus);
        if let Some(engine) = &self.engine {
            unrecorded.retain(|cpu| engine.sample(*cpu).is_err());
        }
        reopened.all && (unrecorded.is_empty() || self.engine.is_none())
    }

    /// What is missing of CPUs that went offline or came online, as warnings for the user.
    pub(crate) fn hotplugged(&self) -> Vec<String> {
        let recorded: Vec<u16> = self.started().into_iter().map(|(cpu, _)| cpu).collect();
        let unrecorded = self.unrecorded.lock().unwrap_or_else(PoisonError::into_inner);
        hotplug::warnings(&recorded, &unrecorded, self.engine.is_some())
    }

    fn compact(&self, sideband: &mut Sideband) {
        let held_from = match self.rings {
            Rings::Overwritten => self.held_from(),
            // What is over has been written, or is a copy that will be.
            Rings::Streamed => vec![sys::monotonic_now()],
        };
        sideband.log.compact(held_from.iter().copied().min().unwrap_or_default());
        if sideband.log.memory() > LARGE_LOG_BYTES {
            sideband.log.compact(held_from.iter().copied().max().unwrap_or_default());
        }
        sideband.compacted = sideband.log.memory();
    }

    /// Memory of the rings and the log, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let rings: usize = self.cpus.iter().map(|cpu| cpu.ring.len()).sum();
        let sideband = self.sideband();
        let engine = self.engine.as_ref().map_or(0, Engine::memory);
        rings + engine + sideband.memory()
    }
}

/// The programs in the kernel, if they are to record and `load` can load them. They have rings of
/// their own; only the side-band is left to performance events.
fn load_engine(
    options: &Options,
    load: impl FnOnce() -> Result<Engine, Error>,
    warnings: &mut Vec<String>,
) -> Result<Option<Engine>, Error> {
    match options.engine {
        EngineChoice::Perf => Ok(None),
        EngineChoice::Bpf if options.only_pid.is_some() => Err(Error::System {
            action: "record by BPF",
            source: io::Error::other("it records the whole machine, not one process"),
        }),
        // A filter for one process needs performance events.
        EngineChoice::Auto if options.only_pid.is_some() => Ok(None),
        EngineChoice::Auto | EngineChoice::Bpf => match load() {
            Ok(engine) => Ok(Some(engine)),
            Err(error) => without_engine(options, &error, warnings).map(|()| None),
        },
    }
}

/// Lets performance events record instead of the programs in the kernel, with a warning that says
/// why; an error if nothing else was to record.
fn without_engine(
    options: &Options,
    error: &Error,
    warnings: &mut Vec<String>,
) -> Result<(), Error> {
    let reason = error.with_causes().replace('\n', " ");
    if options.engine == EngineChoice::Bpf {
        return Err(Error::NotPermitted {
            what: format!("BPF cannot record here: {reason}"),
            remedy: "Record by performance events:  --engine perf".to_owned(),
        });
    }
    warnings.push(format!(
        "performance events record, which cost more and cut the stacks of programs without frame \
         pointers; BPF cannot record here: {reason}"
    ));
    Ok(())
}

/// The size of each of the rings of `cpus` CPUs, in bytes. What was asked for is rounded up to a size
/// that the kernel accepts; the default is rounded down, as it is limited in all.
fn ring_len(options: &Options, cpus: usize) -> usize {
    let share = MAX_DEFAULT_BYTES / cpus.max(1);
    let default = || DEFAULT_RING_BYTES.min((share + 1).next_power_of_two() / 2);
    let wanted = options.ring_bytes_per_cpu.unwrap_or_else(default);
    wanted.clamp(MIN_RING_BYTES, 1 << 30).next_power_of_two()
}

/// Opens all events on all CPUs, with smaller rings if large ones are not allowed. All CPUs get the
/// same size, because the smallest ring limits the time span of the trace.
fn open_rings(
    online: &[u16],
    events: &[Event],
    kept: Rings,
    wanted: usize,
    warnings: &mut Vec<String>,
) -> Result<Vec<CpuRing>, Error> {
    let mut len = wanted;
    loop {
        let opened: Result<Vec<Option<CpuRing>>, OpenError> =
            online.iter().map(|&cpu| open_cpu(cpu, events, kept, len)).collect();
        match opened {
            Ok(cpus) => {
                let cpus: Vec<CpuRing> = cpus.into_iter().flatten().collect();
                if len < wanted {
                    let limit = permission::memory_limit(wanted, online.len());
                    warnings.push(format!(
                        "the ring buffers have {} KiB per CPU instead of {} KiB: {limit}",
                        len >> 10,
                        wanted >> 10
                    ));
                }
                return Ok(cpus);
            }
            Err(OpenError::Memory(_)) if len > MIN_RING_BYTES => len /= 2,
            Err(OpenError::Memory(error)) => {
                return Err(Error::NotPermitted {
                    what: format!("The ring buffers cannot be allocated: {error}."),
                    remedy: permission::memory_limit(len, online.len()),
                });
            }
            Err(OpenError::Other(error)) => return Err(error),
        }
    }
}

enum OpenError {
    Memory(io::Error),
    Other(Error),
}

/// Opens all events of one CPU with one ring; `None` if the CPU is offline.
fn open_cpu(
    cpu: u16,
    events: &[Event],
    kept: Rings,
    len: usize,
) -> Result<Option<CpuRing>, OpenError> {
    let mut open: Vec<OpenEvent> = Vec::new();
    let mut ring = None;
    for (index, event) in events.iter().enumerate() {
        let failed = |error| OpenError::Other(open_failed(&event.name, cpu, error));
        for variant in event.variants_on(cpu) {
            let fd = match variant.open(cpu) {
                Err(error) if is_offline(&error) => return Ok(None),
                result => result.map_err(failed)?,
            };
            match open.first() {
                None => {
                    let mapped = match kept {
                        Rings::Overwritten => {
                            OverwriteRing::new(fd.as_fd(), len).map(EventRing::Overwriting)
                        }
                        Rings::Streamed => DrainedRing::new(fd.as_fd(), len)
                            .map(|ring| EventRing::Drained(Mutex::new(ring))),
                    };
                    ring = Some(mapped.map_err(|error| {
                        if is_memory(&error) { OpenError::Memory(error) } else { failed(error) }
                    })?);
                }
                Some(first) => sys::set_output(fd.as_fd(), first.fd.as_fd()).map_err(failed)?,
            }
            let id = sys::event_id(fd.as_fd()).map_err(failed)?;
            open.push(OpenEvent { fd, id, event: index });
        }
    }
    Ok(ring.map(|ring| CpuRing { cpu, ring, events: open, started: Time::ZERO }))
}

#[cfg(test)]
mod tests;
