//! What the recorder holds at one instant: copies of the rings, the side-band, and what `/proc`
//! adds.
//!
//! The most urgent comes first: the write positions of all rings, within microseconds; then the
//! copies, while the oldest records still exist (see [`ring`](crate::ring) for why nothing is
//! lost); then the futex waits; then names and mappings, which change slowly.

use crate::bpf::{Engine, RingsCopy, Sleeper, unwind_sleepers};
use crate::futex::{self, FutexWaiter};
use crate::machine::Machine;
use crate::naming::Programs;
use crate::peers::{self, Peers};
use crate::procfs::{self, AddressSpace, LiveProcess};
use crate::recording_info::RecordingInfo;
use crate::ring::{OverwriteRing, RingCopy};
use crate::session::{CpuRing, Session};
use crate::sideband::Record;
use crate::sys;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use unhitch_formats::container::MachineFile;
use unhitch_formats::perf_data::record::kind;
use unhitch_formats::ring::{SocketPorts, WaitedFor};
use unhitch_formats::scripts::ScriptFile;
use unhitch_model::{CpuSpan, Time, Window};

/// How long a save waits for the unwind tables of processes whose sleepers' stacks are cut.
const TABLES_TIMEOUT: Duration = Duration::from_millis(300);

/// Buffers for copies, filled once so that a save on a machine short of memory does not wait for
/// pages.
pub(crate) type Buffers = Arc<Mutex<Vec<Vec<u8>>>>;

/// What the recorder held at one instant. It can be saved more than once, e.g. elsewhere when the
/// disk is full.
pub struct Snapshot {
    pub(crate) rings: Vec<CpuCopy>,
    /// What the programs in the kernel recorded, instead of the above.
    pub(crate) bpf_rings: Option<RingsCopy>,
    pub(crate) sideband: Vec<Record>,
    pub(crate) live: Vec<LiveProcess>,
    pub(crate) command_lines: Vec<(u32, String)>,
    pub(crate) futex_waits: Vec<FutexWaiter>,
    pub(crate) peers: Peers,
    pub(crate) machine: MachineFile,
    pub(crate) scripts: ScriptFile,
    pub(crate) programs: Arc<Programs>,
    pub(crate) warnings: Vec<String>,
    /// The same instant on the wall clock (nanoseconds since 1970) and on the clock of the records.
    pub(crate) wall_ns: i64,
    pub(crate) clock: Time,
    pub(crate) info: Arc<RecordingInfo>,
    pub(crate) ring_copy_ns: u64,
    pub(crate) proc_ns: u64,
    buffers: Buffers,
}

/// A copy of one CPU's ring.
pub(crate) struct CpuCopy {
    pub(crate) span: CpuSpan,
    copy: Option<RingCopy>,
}

impl CpuCopy {
    /// The records, oldest first.
    pub(crate) fn records(&self) -> Vec<&[u8]> {
        let mut records: Vec<&[u8]> = self.copy.iter().flat_map(RingCopy::records).collect();
        records.reverse();
        records
    }
}

impl Snapshot {
    /// Copies the rings, and adds what `/proc` knows.
    pub(crate) fn take(
        session: &Session,
        machine: &Machine,
        info: &Arc<RecordingInfo>,
        buffers: &Buffers,
        stop: &AtomicBool,
    ) -> Self {
        let begun = Instant::now();
        let mut snapshot = Self::empty(info, buffers);
        snapshot.copy_rings(session);
        snapshot.ring_copy_ns = begun.elapsed().as_nanos() as u64;
        snapshot.finish(session, machine, stop);
        snapshot
    }

    /// What a trace still lacks whose rings were written already, up to the end of `spans`.
    pub(crate) fn without_rings(
        session: &Session,
        machine: &Machine,
        info: &Arc<RecordingInfo>,
        spans: &[CpuSpan],
        waited_for: &WaitedFor,
    ) -> Self {
        let mut snapshot = Self::empty(info, &Arc::default());
        if let Some(engine) = &session.engine {
            (snapshot.bpf_rings, snapshot.warnings) =
                (Some(engine.asleep(spans, waited_for)), engine.warnings());
        } else {
            let written = |&span| CpuCopy { span, copy: None };
            snapshot.rings = spans.iter().map(written).collect();
        }
        snapshot.finish(session, machine, &AtomicBool::new(false));
        snapshot
    }

    /// What is known when recording begins.
    pub(crate) fn at_start(session: &Session, info: &Arc<RecordingInfo>) -> Self {
        let mut snapshot = Self::empty(info, &Arc::default());
        snapshot.note_time();
        snapshot.live = procfs::processes(&AtomicBool::new(false));
        snapshot.command_lines = session.sideband().log.command_lines();
        snapshot
    }

    fn empty(info: &Arc<RecordingInfo>, buffers: &Buffers) -> Self {
        Self {
            rings: Vec::new(),
            bpf_rings: None,
            sideband: Vec::new(),
            live: Vec::new(),
            command_lines: Vec::new(),
            futex_waits: Vec::new(),
            peers: Peers::default(),
            machine: MachineFile::default(),
            scripts: ScriptFile::default(),
            programs: Arc::default(),
            warnings: Vec::new(),
            wall_ns: 0,
            clock: Time::ZERO,
            info: Arc::clone(info),
            ring_copy_ns: 0,
            proc_ns: 0,
            buffers: Arc::clone(buffers),
        }
    }

    fn copy_rings(&mut self, session: &Session) {
        let rings: Vec<(&CpuRing, &OverwriteRing)> =
            session.cpus.iter().filter_map(|cpu| Some((cpu, cpu.ring.overwriting()?))).collect();
        let mut free =
            std::mem::take(&mut *self.buffers.lock().unwrap_or_else(PoisonError::into_inner));
        let largest = rings.iter().map(|(_, ring)| ring.len()).max().unwrap_or(0);
        while free.len() < rings.len() {
            free.push(vec![1; largest]);
        }
        let points: Vec<_> = rings.iter().map(|(_, ring)| ring.copy_point()).collect();
        let copies: Vec<RingCopy> = rings
            .iter()
            .zip(points)
            .zip(free)
            .map(|(((_, ring), point), buffer)| ring.copy(point, buffer))
            .collect();
        if let Some(engine) = &session.engine {
            let copy = engine.copy();
            self.warnings = engine.warnings();
            self.warnings.extend(copy.overwritten.iter().map(|&cpu| overwritten(cpu)));
            self.bpf_rings = Some(copy);
        }
        for ((cpu, _), copy) in rings.iter().zip(copies) {
            let span = span(&copy, cpu.cpu, cpu.started, &self.info, &mut self.warnings);
            self.rings.push(CpuCopy { span, copy: Some(copy) });
        }
    }

    fn note_time(&mut self) {
        let (wall, clock) = (SystemTime::now(), sys::monotonic_now());
        self.wall_ns =
            wall.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |wall| wall.as_nanos() as i64);
        self.clock = clock;
    }

    /// Adds the time, the machine's counters, and what `/proc` knows.
    fn finish(&mut self, session: &Session, machine: &Machine, stop: &AtomicBool) {
        self.note_time();
        let begun = Instant::now();
        if !machine.read(true) {
            self.warnings.push(
                "the counters of control groups at the time of the save are missing: \
                 the kernel did not answer in time"
                    .to_owned(),
            );
        }
        self.machine = machine.file(self.window().start);
        self.complete(session, stop);
        self.proc_ns = begun.elapsed().as_nanos() as u64;
    }

    /// Adds what can only be known now, and what the side-band lost.
    fn complete(&mut self, session: &Session, stop: &AtomicBool) {
        self.live = procfs::processes(stop);
        let mut by_process: FxHashMap<u32, Vec<Sleeper>> = FxHashMap::default();
        for sleeper in self.bpf_rings.iter_mut().flat_map(|rings| rings.sleepers.drain(..)) {
            by_process.entry(sleeper.pid).or_default().push(sleeper);
        }
        let asleep: Asleep =
            by_process.into_iter().map(|(pid, sleepers)| (pid, sleepers.into())).collect();
        let mut found = self.read_processes(session, &asleep, stop);
        if let Some(engine) = &session.engine {
            for (pid, unwound) in unwind_again(engine, &asleep, &found, stop) {
                found.entry(pid).and_modify(|(_, _, sleepers)| *sleepers = unwound);
            }
        }
        if stop.load(Ordering::Relaxed) {
            self.warnings.push(
                "the recorder was stopped during this save: information from \
                 `/proc` may be missing"
                    .to_owned(),
            );
        }

        let mut sideband = session.sideband();
        sideband.drain();
        let living: FxHashSet<u32> = self.live.iter().map(|process| process.pid).collect();
        sideband.log.mark_exited(&living, self.clock);
        let mut unwound = Vec::new();
        for process in &self.live {
            let (waits, read, asleep) = found.remove(&process.pid).unwrap_or_default();
            self.futex_waits.extend(waits);
            unwound.extend(asleep);
            let space = match &read {
                Some(Read::All(space)) => Some(space),
                _ => None,
            };
            sideband.log.complete(process, space);
            if let Some(Read::Title(title)) = read {
                sideband.log.retitle(process.pid, title);
            }
        }
        self.scripts =
            session.engine.as_ref().map(|engine| engine.shared().scripts()).unwrap_or_default();
        // The others have at least their kernel stacks.
        let done: FxHashSet<u32> = unwound.iter().map(|sleeper: &Sleeper| sleeper.tid()).collect();
        let others = asleep.values().flat_map(|sleepers| sleepers.iter());
        unwound.extend(others.filter(|other| !done.contains(&other.tid())).cloned());
        self.programs = Arc::new(Programs::new(&self.live, sideband.log.mappings()));
        let end = self.window().end;
        self.sideband = sideband.log.records();
        self.sideband.retain(|record| record.time <= end);
        self.command_lines = sideband.log.command_lines();
        self.warnings.extend(sideband.log.warnings());
        // What follows takes long, and others wait for the side-band.
        drop(sideband);
        self.add_sleepers(unwound);
        // Not all processes are known if the recorder was stopped.
        self.peers.is_cut |= stop.load(Ordering::Relaxed);
        self.warnings.extend(session.hotplugged());
    }

    /// Reads what is still to be known of each process: all, or only the title that it has given itself.
    fn read_processes(
        &mut self,
        session: &Session,
        asleep: &Asleep,
        stop: &AtomicBool,
    ) -> FxHashMap<u32, Found> {
        let (incomplete, titled): (Vec<bool>, FxHashSet<u32>) = {
            let mut sideband = session.sideband();
            sideband.drain();
            let lost = sideband.log.lost() > 0;
            let is_incomplete = |process| lost || !sideband.log.is_complete(process);
            let lines = sideband.log.command_lines().into_iter();
            let titled = lines.filter(|(_, line)| procfs::is_title(line)).map(|(pid, _)| pid);
            (self.live.iter().map(is_incomplete).collect(), titled.collect())
        };
        let (shared, mappings) = match &session.engine {
            Some(engine) => (Some(Arc::clone(engine.shared())), engine.mappings()),
            None => (None, FxHashMap::default()),
        };
        let items = self.live.iter().zip(incomplete).map(|(process, incomplete)| {
            let asleep = asleep.get(&process.pid).cloned().unwrap_or_default();
            let own = mappings.get(&process.pid).copied();
            (process.pid, (process.clone(), incomplete, asleep, own))
        });
        let (found, unread) = procfs::read_each(
            items.collect(),
            procfs::PROCESS_TIMEOUT,
            stop,
            move |pid, (process, incomplete, asleep, own)| {
                let asleep = match &shared {
                    Some(shared) => unwind_sleepers(asleep, pid, *own, shared),
                    None => Vec::new(),
                };
                let read = match *incomplete {
                    true => Some(Read::All(procfs::address_space(pid))),
                    false if titled.contains(&pid) => {
                        Some(Read::Title(procfs::command_line_of(pid)))
                    }
                    false => None,
                };
                (futex::waits(process), read, asleep)
            },
        );
        self.warnings.extend(unread.warnings());
        found
    }

    /// Adds the threads that sleep, and who has the other ends of what threads wait for.
    fn add_sleepers(&mut self, sleepers: Vec<Sleeper>) {
        let Some(rings) = &mut self.bpf_rings else { return };
        rings.sleepers = sleepers;
        let waited_for = rings.waited_for();
        let sockets: Vec<SocketPorts> = waited_for.sockets.into_values().collect();
        let pids = self.live.iter().map(|process| process.pid);
        let end = Instant::now() + peers::TIME_LIMIT;
        let inodes = waited_for.inodes.into_iter().collect();
        self.peers = peers::find(pids, inodes, &sockets, &rings.askings.all, end);
        if rings.askings.is_cut {
            self.warnings.push(
                "whom event loops asked is not fully known: they wait for more connections than are \
                 looked at"
                    .to_owned(),
            );
        }
        if self.peers.is_cut {
            self.warnings.push(
                "which processes have the other ends of pipes and sockets is not fully known: not \
                 all open descriptors could be looked at"
                    .to_owned(),
            );
        }
    }

    /// The window that the rings of all CPUs cover.
    pub fn window(&self) -> Window {
        let spans = self.spans();
        let start = spans.iter().map(|span| span.window.start).max().unwrap_or_default();
        let end = spans.iter().map(|span| span.window.end).min().unwrap_or_default();
        Window::new(start, end.max(start))
    }

    /// What each CPU's ring covers.
    pub fn spans(&self) -> Vec<CpuSpan> {
        match &self.bpf_rings {
            Some(rings) => rings.spans.clone(),
            None => self.rings.iter().map(|ring| ring.span).collect(),
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let used =
            self.rings.iter_mut().filter_map(|ring| ring.copy.take()).map(RingCopy::into_buffer);
        let mut free = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        free.extend(used);
        free.truncate(self.rings.len());
    }
}

/// What is wrong with a ring that went round while it was copied.
fn overwritten(cpu: u16) -> String {
    format!(
        "CPU {cpu} overwrote its whole ring buffer while it was being copied: its events are \
         missing (use a larger --buffer)"
    )
}

/// The time that a copy covers: from its oldest complete record, or from the start of the
/// recording, to the time of the copy.
fn span(
    copy: &RingCopy,
    cpu: u16,
    started: Time,
    info: &RecordingInfo,
    warnings: &mut Vec<String>,
) -> CpuSpan {
    let mut records = copy.records();
    let oldest = records.by_ref().last().and_then(|record| time_of(record, info));
    if records.damaged() {
        warnings.push(format!(
            "the ring buffer of CPU {cpu} is damaged: events older than the damaged place are missing"
        ));
    }
    let start = match oldest {
        _ if copy.from_start && !records.damaged() => started,
        Some(oldest) => oldest,
        None => {
            warnings.push(overwritten(cpu));
            copy.taken
        }
    };
    CpuSpan { cpu, window: Window::new(start.min(copy.taken), copy.taken) }
}

/// The time of a record on a ring: near the start in samples, near the end in all other records.
fn time_of(record: &[u8], info: &RecordingInfo) -> Option<Time> {
    let word =
        |offset: usize| Some(u64::from_le_bytes(record.get(offset..offset + 8)?.try_into().ok()?));
    let at = match u32::from_le_bytes(*record.first_chunk::<4>()?) {
        kind::SAMPLE => 24 + if info.has_ip(word(8)?) { 8 } else { 0 },
        _ => record.len().checked_sub(24)?,
    };
    word(at).map(Time::from_nanos)
}

/// The threads that sleep, by process.
type Asleep = FxHashMap<u32, Arc<[Sleeper]>>;

/// What was found out about a process: futex waits, what was read of its memory, its threads that sleep.
type Found = (Vec<FutexWaiter>, Option<Read>, Vec<Sleeper>);

/// What was read of a process's memory at the save.
enum Read {
    All(AddressSpace),
    /// Only the title in the place of its command line.
    Title(String),
}

/// The sleepers of processes of which too little was known to unwind them: because they had never
/// waited long before, or have mapped more since. Their mappings are read now.
fn unwind_again(
    engine: &Engine,
    asleep: &Asleep,
    found: &FxHashMap<u32, Found>,
    stop: &AtomicBool,
) -> FxHashMap<u32, Vec<Sleeper>> {
    let lacks_tables =
        |(_, (_, _, sleepers)): &(&u32, &Found)| sleepers.iter().any(Sleeper::lacks_tables);
    let pids: Vec<u32> = found.iter().filter(lacks_tables).map(|(pid, _)| *pid).collect();
    if pids.is_empty() || !engine.read_mappings(pids.clone(), TABLES_TIMEOUT) {
        return FxHashMap::default();
    }
    let (mappings, shared) = (engine.mappings(), Arc::clone(engine.shared()));
    let items = pids
        .iter()
        .filter_map(|pid| Some((*pid, (asleep.get(pid)?.clone(), mappings.get(pid).copied()))));
    let unwind = move |pid, (asleep, own): &(Arc<[Sleeper]>, Option<[u32; 2]>)| {
        unwind_sleepers(asleep, pid, *own, &shared)
    };
    procfs::read_each(items.collect(), procfs::PROCESS_TIMEOUT, stop, unwind).0
}
