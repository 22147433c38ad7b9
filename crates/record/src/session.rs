//! The open events and rings of a recording, and the thread that drains the side-band.
//!
//! Formats: perf_event_open(2). The drain thread sleeps in poll until a side-band ring is a quarter
//! full, or for at most a second. Every second it notes how fast the rings fill in the
//! [`History`](crate::history::History), so that old side-band records can be dropped without ever
//! reading the rings.

use crate::bpf::Engine;
use crate::error::Error;
use crate::events::{self, Event};
use crate::history::History;
use crate::naming::RuleReader;
use crate::options::{DEFAULT_RING_BYTES, EngineChoice, Options};
use crate::ring::{DrainedRing, OverwriteRing};
use crate::sideband::SidebandLog;
use crate::{kernel, permission, procfs, sys};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use unhitch_formats::perf_data::EventAttr;
use unhitch_model::Time;

/// Size of a side-band ring in bytes; it holds about a thousand records.
const SIDEBAND_LEN: usize = 128 << 10;
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
    pub(crate) ring: OverwriteRing,
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

/// Everything that exists while recording.
pub(crate) struct Session {
    pub(crate) events: Vec<Event>,
    pub(crate) cpus: Vec<CpuRing>,
    /// Records instead of the events.
    pub(crate) engine: Option<Engine>,
    sideband: Mutex<Sideband>,
    pub(crate) sideband_attr: EventAttr,
    pub(crate) sideband_ids: Vec<u64>,
    history: Mutex<History>,
}

/// The side-band rings and their log.
pub(crate) struct Sideband {
    rings: Vec<DrainedRing>,
    pub(crate) log: SidebandLog,
    scratch: Vec<u8>,
    compacted: usize,
}

impl Sideband {
    /// Reads all new records into the log.
    pub(crate) fn drain(&mut self) {
        self.scratch.clear();
        for ring in &mut self.rings {
            ring.drain(&mut self.scratch);
        }
        self.log.add(&self.scratch);
    }
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
        tracefs: &Path,
        reader: Box<dyn RuleReader>,
        warnings: &mut Vec<String>,
    ) -> Result<Self, Error> {
        sys::raise_open_files();
        let online = procfs::online_cpus();
        // Programs in the kernel have rings of their own; only the side-band is left.
        let engine = load_engine(options, &online, warnings)?;
        let (events, trials) = match engine {
            None => events::plan(options, tracefs, &online, warnings)?,
            Some(_) => (Vec::new(), Vec::new()),
        };

        let (fds, rings, sideband_attr, sideband_ids) = open_sideband(&online, warnings)?;
        let cpus = match events.is_empty() {
            true => Vec::new(),
            false => open_rings(&online, &events, ring_len(options), warnings)?,
        };
        drop(trials);
        let log = SidebandLog::default();
        let sideband = Mutex::new(Sideband { rings, log, scratch: Vec::new(), compacted: 0 });
        let history = Mutex::new(History::new(
            cpus.iter().map(|cpu| (cpu.ring.len() as u64, cpu.started)).collect(),
        ));
        let mut session =
            Session { events, cpus, engine, sideband, sideband_attr, sideband_ids, history };

        // First the side-band, then /proc: a process that appears in between is in both, and no
        // process is in neither.
        for fd in &fds {
            sys::enable(fd.as_fd())
                .map_err(|source| Error::System { action: "start the side-band", source })?;
        }
        session.seed(warnings);
        for cpu in &mut session.cpus {
            for event in &cpu.events {
                sys::enable(event.fd.as_fd())
                    .map_err(|source| Error::System { action: "start an event", source })?;
            }
            cpu.started = sys::monotonic_now();
        }
        if let Some(engine) = &mut session.engine {
            engine.attach(options, reader)?;
        }
        session.history().restart(session.cpus.iter().map(|cpu| cpu.started));

        let session = Arc::new(session);
        let (stop, stopped) = UnixStream::pair()
            .map_err(|source| Error::System { action: "create a socket pair", source })?;
        let drained = Arc::clone(&session);
        let drain = std::thread::Builder::new()
            .name("unhitch-drain".to_owned())
            .spawn(move || drained.drain_until(&fds, &stopped));
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

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time from which on each CPU's ring holds everything, estimated without reading the
    /// rings.
    pub(crate) fn held_from(&self) -> Vec<Time> {
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

    fn drain_until(&self, fds: &[OwnedFd], stop: &UnixStream) {
        let mut sources: Vec<&OwnedFd> = fds.iter().collect();
        loop {
            let mut polled = vec![stop.as_fd()];
            polled.extend(sys::borrow(sources.iter().copied()));
            let Ok(ready) = sys::poll(&polled, 1000) else { return };
            if ready.first().is_none_or(|stop| stop.readable || stop.hung_up) {
                return;
            }
            // The event of a CPU that went offline stays hung up forever: waiting for it would
            // spin.
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
        }
    }

    fn compact(&self, sideband: &mut Sideband) {
        let held_from = self.held_from();
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
        rings + engine + sideband.rings.len() * SIDEBAND_LEN + sideband.log.memory()
    }
}

/// The programs in the kernel, if they are to record and the kernel allows it.
fn load_engine(
    options: &Options,
    online: &[u16],
    warnings: &mut Vec<String>,
) -> Result<Option<Engine>, Error> {
    match options.engine {
        EngineChoice::Perf => Ok(None),
        EngineChoice::Bpf if options.only_pid.is_some() => Err(Error::System {
            action: "record by BPF",
            source: io::Error::other("it records the whole machine, not one process"),
        }),
        EngineChoice::Bpf => Engine::load(options, online).map(Some),
        // A filter for one process needs performance events.
        EngineChoice::Auto if options.only_pid.is_some() => Ok(None),
        EngineChoice::Auto => match Engine::load(options, online) {
            Ok(engine) => Ok(Some(engine)),
            Err(error) => {
                warnings.push(format!(
                    "performance events record, because BPF is not available ({error}): stacks of \
                     programs without frame pointers are cut"
                ));
                Ok(None)
            }
        },
    }
}

/// The requested ring size in bytes, rounded up to a size that the kernel accepts.
fn ring_len(options: &Options) -> usize {
    let wanted = options.ring_bytes_per_cpu.unwrap_or(DEFAULT_RING_BYTES);
    wanted.clamp(MIN_RING_BYTES, 1 << 30).next_power_of_two()
}

/// True if the CPU went offline. Events are opened CPU by CPU, and such a CPU is left out.
fn is_offline(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENODEV)
}

fn open_failed(event: &str, cpu: u16, source: io::Error) -> Error {
    match source.raw_os_error() {
        _ if permission::is_permission(&source) => {
            permission::not_permitted(&format!("{event} on CPU {cpu} ({source})"))
        }
        Some(libc::EMFILE) => Error::NotPermitted {
            what: "Recording needs more open files than the limit allows.".to_owned(),
            remedy: "Raise it:  ulimit -n 65536".to_owned(),
        },
        _ => Error::Event { event: event.to_owned(), cpu, source },
    }
}

type OpenSideband = (Vec<OwnedFd>, Vec<DrainedRing>, EventAttr, Vec<u64>);

fn open_sideband(online: &[u16], warnings: &mut Vec<String>) -> Result<OpenSideband, Error> {
    let (mut fds, mut rings, mut attr, mut ids) =
        (Vec::new(), Vec::new(), EventAttr::default(), Vec::new());
    for &cpu in online {
        let mut len = SIDEBAND_LEN;
        loop {
            let (fd, opened) = match events::sideband(cpu, (len / 4) as u32) {
                Err(error) if is_offline(&error) => break,
                result => result.map_err(|error| open_failed("dummy:HG", cpu, error))?,
            };
            match DrainedRing::new(fd.as_fd(), len) {
                Ok(ring) => {
                    ids.push(
                        sys::event_id(fd.as_fd())
                            .map_err(|source| open_failed("dummy:HG", cpu, source))?,
                    );
                    (attr, _) = (opened, fds.push(fd));
                    rings.push(ring);
                    break;
                }
                Err(error) if is_memory(&error) && len > 16 << 10 => len /= 2,
                Err(error) => return Err(open_failed("the side-band ring", cpu, error)),
            }
        }
    }
    if rings.len() < online.len() {
        warnings.push("a CPU went offline while recording started: it is left out".to_owned());
    }
    Ok((fds, rings, attr, ids))
}

/// EPERM: over the limit of pinned memory. ENOMEM: no memory left.
fn is_memory(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM))
}

/// Opens all events on all CPUs, with smaller rings if large ones are not allowed. All CPUs get the
/// same size, because the smallest ring limits the time span of the trace.
fn open_rings(
    online: &[u16],
    events: &[Event],
    wanted: usize,
    warnings: &mut Vec<String>,
) -> Result<Vec<CpuRing>, Error> {
    let mut len = wanted;
    loop {
        let opened: Result<Vec<Option<CpuRing>>, OpenError> =
            online.iter().map(|&cpu| open_cpu(cpu, events, len)).collect();
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
fn open_cpu(cpu: u16, events: &[Event], len: usize) -> Result<Option<CpuRing>, OpenError> {
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
                    let mapped = OverwriteRing::new(fd.as_fd(), len);
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
