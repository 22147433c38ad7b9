//! What the recorder holds at one instant: copies of the rings, the side-band, and what `/proc`
//! adds.
//!
//! The most urgent comes first: the write positions of all rings, within microseconds; then the
//! copies, while the oldest records still exist (see [`ring`](crate::ring) for why nothing is
//! lost); then the futex waits; then names and mappings, which change slowly.

use crate::bpf::{RingsCopy, Sleeper, unwind_sleepers};
use crate::futex::{self, FutexWaiter};
use crate::machine::Machine;
use crate::naming::Programs;
use crate::procfs::{self, LiveProcess};
use crate::recording_info::RecordingInfo;
use crate::ring::RingCopy;
use crate::session::Session;
use crate::sideband::Record;
use crate::sys;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};
use unhitch_formats::container::MachineFile;
use unhitch_formats::perf_data::record::kind;
use unhitch_model::{CpuSpan, Time, Window};

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
    pub(crate) machine: MachineFile,
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
    /// True if nothing has been overwritten since recording started.
    pub(crate) from_start: bool,
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
    pub(crate) fn take(
        session: &Session,
        machine: &Machine,
        info: &Arc<RecordingInfo>,
        buffers: &Buffers,
        stop: &AtomicBool,
    ) -> Self {
        let mut free = std::mem::take(&mut *buffers.lock().unwrap_or_else(PoisonError::into_inner));
        let largest = session.cpus.iter().map(|cpu| cpu.ring.len()).max().unwrap_or(0);
        while free.len() < session.cpus.len() {
            free.push(vec![1; largest]);
        }

        let begun = Instant::now();
        let points: Vec<_> = session.cpus.iter().map(|cpu| cpu.ring.copy_point()).collect();
        let copies: Vec<RingCopy> = session
            .cpus
            .iter()
            .zip(points)
            .zip(free)
            .map(|((cpu, point), buffer)| cpu.ring.copy(point, buffer))
            .collect();
        let (bpf_rings, mut warnings) = match &session.engine {
            Some(engine) => (Some(engine.copy()), engine.warnings()),
            None => (None, Vec::new()),
        };
        let ring_copy_ns = begun.elapsed().as_nanos() as u64;
        let (wall, clock) = (SystemTime::now(), sys::monotonic_now());

        let mut rings = Vec::new();
        for (cpu, copy) in session.cpus.iter().zip(copies) {
            let span = span(&copy, cpu.cpu, cpu.started, info, &mut warnings);
            rings.push(CpuCopy { span, from_start: copy.from_start, copy: Some(copy) });
        }
        let mut snapshot = Self {
            rings,
            bpf_rings,
            sideband: Vec::new(),
            live: Vec::new(),
            command_lines: Vec::new(),
            futex_waits: Vec::new(),
            machine: MachineFile::default(),
            programs: Arc::default(),
            warnings,
            wall_ns: wall
                .duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0, |wall| wall.as_nanos() as i64),
            clock,
            info: Arc::clone(info),
            ring_copy_ns,
            proc_ns: 0,
            buffers: Arc::clone(buffers),
        };
        let begun = Instant::now();
        if !machine.read(true) {
            snapshot.warnings.push(
                "the counters of control groups at the time of the save are missing: \
                 the kernel did not answer in time"
                    .to_owned(),
            );
        }
        snapshot.machine = machine.file(snapshot.window().start);
        snapshot.complete(session, stop);
        snapshot.proc_ns = begun.elapsed().as_nanos() as u64;
        snapshot
    }

    /// Adds what can only be known now, and what the side-band lost.
    fn complete(&mut self, session: &Session, stop: &AtomicBool) {
        self.live = procfs::processes(stop);
        let incomplete: Vec<bool> = {
            let mut sideband = session.sideband();
            sideband.drain();
            let lost = sideband.log.lost() > 0;
            self.live.iter().map(|process| lost || !sideband.log.is_complete(process)).collect()
        };
        let mut asleep: FxHashMap<u32, Vec<Sleeper>> = FxHashMap::default();
        for sleeper in self.bpf_rings.iter_mut().flat_map(|rings| rings.sleepers.drain(..)) {
            asleep.entry(sleeper.pid).or_default().push(sleeper);
        }
        let (shared, mappings) = match &session.engine {
            Some(engine) => (Some(Arc::clone(engine.shared())), engine.mappings()),
            None => (None, FxHashMap::default()),
        };
        let items = self
            .live
            .iter()
            .zip(incomplete)
            .map(|(process, incomplete)| {
                let asleep = asleep.get(&process.pid).cloned().unwrap_or_default();
                let own = mappings.get(&process.pid).copied();
                (process.pid, (process.clone(), incomplete, asleep, own))
            })
            .collect();
        let (mut found, unread) = procfs::read_each(
            items,
            procfs::PROCESS_TIMEOUT,
            stop,
            move |pid, (process, incomplete, asleep, own)| {
                let asleep = match &shared {
                    Some(shared) => unwind_sleepers(asleep, pid, *own, shared),
                    None => Vec::new(),
                };
                let space = incomplete.then(|| procfs::address_space(pid));
                (futex::waits(process), space, asleep)
            },
        );
        self.warnings.extend(unread.warnings());
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
            let (waits, space, asleep) = found.remove(&process.pid).unwrap_or_default();
            self.futex_waits.extend(waits);
            unwound.extend(asleep);
            sideband.log.complete(process, space.as_ref());
        }
        // The others have at least their kernel stacks.
        let done: FxHashSet<u32> = unwound.iter().map(|sleeper: &Sleeper| sleeper.tid()).collect();
        unwound.extend(asleep.into_values().flatten().filter(|other| !done.contains(&other.tid())));
        if let Some(rings) = &mut self.bpf_rings {
            rings.sleepers = unwound;
        }
        self.programs = Arc::new(Programs::new(&self.live, sideband.log.mappings()));
        let end = self.window().end;
        self.sideband = sideband.log.records();
        self.sideband.retain(|record| record.time <= end);
        self.command_lines = sideband.log.command_lines();
        self.warnings.extend(sideband.log.warnings());
        let recorded: Vec<u16> = self.spans().iter().map(|span| span.cpu).collect();
        self.warnings.extend(hotplugged(&recorded));
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

    /// True if the rings hold everything since recording started.
    pub fn from_start(&self) -> bool {
        self.rings.iter().all(|ring| ring.from_start)
            && self.bpf_rings.as_ref().is_none_or(|rings| rings.from_start)
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
            warnings.push(format!(
                "CPU {cpu} overwrote its whole ring buffer while it was being \
                 copied: its events are missing (use a larger --buffer)"
            ));
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

/// Warnings for CPUs that came online or went offline while recording.
fn hotplugged(recorded: &[u16]) -> Vec<String> {
    let online = procfs::online_cpus();
    let came = online.iter().filter(|cpu| !recorded.contains(cpu));
    let went = recorded.iter().filter(|cpu| !online.contains(cpu));
    let came = came.map(|cpu| {
        format!(
            "CPU {cpu} came online after recording started and is not recorded: restart the \
             recorder"
        )
    });
    came.chain(
        went.map(|cpu| format!("CPU {cpu} went offline while recording: it is no longer recorded")),
    )
    .collect()
}
