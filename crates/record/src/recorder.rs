//! [`Recorder`]: starts recording, reports its status and takes snapshots.

use crate::bpf::{Engine, RingState, WatchWords, Watcher};
use crate::error::Error;
use crate::machine::Machine;
use crate::naming::{LocalRules, RuleReader};
use crate::options::Options;
use crate::recording_info::RecordingInfo;
use crate::session::{CpuRing, Rings, Running, Session};
use crate::snapshot::{Buffers, Snapshot};
use crate::{permission, sys};
use rustc_hash::FxHashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use unhitch_formats::perf_data::attr::TYPE_TRACEPOINT;
use unhitch_formats::ring::WaitedFor;
use unhitch_model::{CpuSpan, Time, Window};

/// A running recorder. Dropping it ends the recording.
pub struct Recorder {
    running: Running,
    machine: Machine,
    info: Arc<RecordingInfo>,
    buffers: Buffers,
    /// When events were counted last, and how many there were.
    counted: (Time, Vec<(String, u64)>),
}

/// The state of a recorder.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Status {
    /// The state of each CPU's ring.
    pub cpus: Vec<CpuStatus>,
    /// The window that all CPUs' rings cover.
    pub common: Window,
    /// Events per second since the last status, by name. The sampling clock is left out, because
    /// its count is not the number of samples.
    pub rates: Vec<(String, f64)>,
    /// Pinned and allocated memory, in bytes.
    pub memory_bytes: usize,
    /// Processes in the side-band log.
    pub processes: usize,
    /// Records that were lost so far: of the side-band, which the kernel could not deliver, and of the
    /// BPF programs, which interrupted each other.
    pub lost: u64,
}

/// The state of one CPU's ring.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CpuStatus {
    /// The CPU.
    pub cpu: u16,
    /// What the ring covers; the start is accurate to a second.
    pub held: Window,
    /// Bytes of the ring in use.
    pub used_bytes: usize,
    /// Size of the ring in bytes.
    pub ring_bytes: usize,
}

impl Recorder {
    /// Starts recording. [`Recorder::warnings`] and every trace list the optional features that
    /// this machine lacks.
    ///
    /// # Errors
    /// When the kernel does not permit recording or lacks something that it requires; the error
    /// says what to do about it.
    pub fn start(options: &Options) -> Result<Self, Error> {
        Self::start_with(options, Box::new(LocalRules))
    }

    /// As [`start`](Self::start), but another reads the unwind tables of the programs that run.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(options: &Options, reader: Box<dyn RuleReader>) -> Result<Self, Error> {
        Self::start_to(Rings::Overwritten, options, reader)
    }

    /// As [`start_with`](Self::start_with); `kept` says what becomes of the rings.
    pub(crate) fn start_to(
        kept: Rings,
        options: &Options,
        reader: Box<dyn RuleReader>,
    ) -> Result<Self, Error> {
        let mut warnings = Vec::new();
        let tracefs = permission::tracefs(&mut warnings)?;
        let running = Running::start(options, kept, &tracefs, reader, &mut warnings)?;
        let machine = Machine::start(&running.session, &mut warnings);
        if let Some(pid) = options.only_pid {
            warnings.push(format!(
                "only the threads that process {pid} had when recording started are recorded, and \
                 the threads that they switch with or wake"
            ));
        }
        let info = Arc::new(RecordingInfo::new(options, &running.session, &tracefs, warnings)?);
        // Not zeros: zeroed pages would not be backed by memory until the first save needs them.
        let rings = running.session.cpus.iter().filter_map(|cpu| cpu.ring.overwriting());
        let buffers = rings.map(|ring| vec![1; ring.len()]).collect();
        let buffers = Arc::new(Mutex::new(buffers));
        let mut recorder =
            Self { running, machine, info, buffers, counted: (Time::ZERO, Vec::new()) };
        recorder.counted = (sys::monotonic_now(), recorder.counts());
        Ok(recorder)
    }

    /// What records: `bpf` or `perf`.
    pub fn engine(&self) -> &'static str {
        if self.running.session.engine.is_some() { "bpf" } else { "perf" }
    }

    /// Optional features that are missing, each with the command that enables it.
    pub fn warnings(&self) -> &[String] {
        &self.info.warnings
    }

    /// What the recording has lacked so far, as a trace that is saved now would say.
    pub(crate) fn lacks(&self) -> Vec<String> {
        self.running.session.engine.as_ref().map(Engine::warnings).unwrap_or_default()
    }

    /// Begins to watch waits.
    pub(crate) fn watch(&self, watches: &[WatchWords]) -> Result<Watcher, String> {
        match &self.running.session.engine {
            Some(engine) => engine.watch(watches),
            None => Watcher::alone(watches),
        }
    }

    /// What the rings hold, and the event rates since the last call.
    pub fn status(&mut self) -> Status {
        let session = &self.running.session;
        let now = sys::monotonic_now();
        let counts = self.counts();
        let seconds = now.since(self.counted.0).max(1) as f64 / 1e9;
        let old: FxHashMap<&str, u64> =
            self.counted.1.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        let rates = counts
            .iter()
            .map(|(name, new)| {
                let more = new.saturating_sub(old.get(name.as_str()).copied().unwrap_or(0));
                (name.clone(), more as f64 / seconds)
            })
            .collect();
        let cpus = self.rings(now);
        let common = Window::new(cpus.iter().map(|cpu| cpu.held.start).max().unwrap_or(now), now);
        let memory_bytes = session.memory() + cpus.iter().map(|cpu| cpu.ring_bytes).sum::<usize>();
        let (processes, sideband_lost) = {
            let sideband = session.sideband();
            (sideband.log.processes(), sideband.log.lost())
        };
        let lost = sideband_lost + session.engine.as_ref().map_or(0, Engine::lost);
        self.counted = (now, counts);
        Status { cpus, common, rates, memory_bytes, processes, lost }
    }

    /// Copies the rings; recording continues without a gap.
    pub fn snapshot(&mut self) -> Snapshot {
        self.snapshot_until(&AtomicBool::new(false))
    }

    /// Copies the rings; reads `/proc` only until `stop` is set, and then the snapshot says what is
    /// missing.
    pub fn snapshot_until(&mut self, stop: &AtomicBool) -> Snapshot {
        Snapshot::take(&self.running.session, &self.machine, &self.info, &self.buffers, stop)
    }

    /// What a trace still lacks whose rings were written already, up to the end of `spans`.
    /// `waited_for`: what the waits in them are about.
    pub(crate) fn rest_of(&self, spans: &[CpuSpan], waited_for: &WaitedFor) -> Snapshot {
        let session = &self.running.session;
        Snapshot::without_rings(session, &self.machine, &self.info, spans, waited_for)
    }

    /// Everything that exists while recording.
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.running.session
    }

    /// What every trace says about the recording.
    pub(crate) fn info(&self) -> &Arc<RecordingInfo> {
        &self.info
    }

    /// The state of each CPU's ring.
    fn rings(&self, now: Time) -> Vec<CpuStatus> {
        let session = &self.running.session;
        if let Some(engine) = &session.engine {
            let status = |ring: RingState| CpuStatus {
                cpu: ring.cpu,
                held: Window::new(ring.held_from, now),
                used_bytes: ring.used_bytes,
                ring_bytes: engine.ring_bytes(),
            };
            return engine.states().into_iter().map(status).collect();
        }
        let status = |(from, cpu): (Time, &CpuRing)| CpuStatus {
            cpu: cpu.cpu,
            held: Window::new(from, now),
            used_bytes: cpu.ring.written().min(cpu.ring.len() as u64) as usize,
            ring_bytes: cpu.ring.len(),
        };
        session.held_from().into_iter().zip(&session.cpus).map(status).collect()
    }

    /// How often each event has occurred, summed over all CPUs.
    fn counts(&self) -> Vec<(String, u64)> {
        let session = &self.running.session;
        if let Some(engine) = &session.engine {
            let counts = engine.counts().into_iter();
            return counts.map(|(name, count)| (name.to_owned(), count)).collect();
        }
        let mut counts = vec![0; session.events.len()];
        for open in session.cpus.iter().flat_map(|cpu| &cpu.events) {
            counts[open.event] += open.count();
        }
        let named = session.events.iter().zip(counts);
        let named = named.filter(|(event, _)| event.attr.kind == TYPE_TRACEPOINT);
        named.map(|(event, count)| (event.name.clone(), count)).collect()
    }
}
