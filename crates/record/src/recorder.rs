//! [`Recorder`]: everything that is on while recording, behind three verbs.

use crate::error::Error;
use crate::facts::Facts;
use crate::machine::Machine;
use crate::session::Running;
use crate::snapshot::{Buffers, Snapshot};
use crate::{probe, sys};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use unhitch_formats::container::Readers;
use unhitch_formats::perf_data::attr::TYPE_TRACEPOINT;
use unhitch_model::{Time, Window};

/// What to record, and how much of it to keep.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Length of each CPU's ring in bytes, rounded up to a power of two. As much again is kept for
    /// the copy of a save.
    pub ring_bytes_per_cpu: usize,
    /// CPU samples per second and CPU; 0 for none.
    pub sample_hz: u32,
    /// Whether stacks go on into user mode (by frame pointers).
    pub user_stacks: bool,
    /// Greatest depth of a stack; the kernel's own limit holds too.
    pub max_stack: u16,
    /// Record only switches, wakings and lock waits that involve a thread which this process has at
    /// the start. CPU samples, lifetimes and names stay those of the whole machine: who had the CPU
    /// instead is part of the answer. Threads created later are not followed, because a filter
    /// cannot be changed while it is on; the trace says so.
    pub only_pid: Option<u32>,
    /// Who may read the traces. What is written elsewhere than asked for is its owner's alone.
    pub readers: Readers,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ring_bytes_per_cpu: 16 << 20,
            sample_hz: 199,
            user_stacks: true,
            max_stack: 127,
            only_pid: None,
            readers: Readers::Owner,
        }
    }
}

/// A running recorder. Recording ends when it is dropped.
pub struct Recorder {
    running: Running,
    machine: Machine,
    facts: Arc<Facts>,
    buffers: Buffers,
    counted: (Time, Vec<u64>),
}

/// What a recorder holds and does.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Status {
    /// Of each CPU.
    pub cpus: Vec<CpuStatus>,
    /// The window that all CPUs' rings cover.
    pub common: Window,
    /// Events per second since the last status, by name. Without the sampling clock, whose count is
    /// not that of its samples.
    pub rates: Vec<(String, f64)>,
    /// Pinned and allocated memory, bytes.
    pub memory_bytes: usize,
    /// Processes in the side-band's log.
    pub processes: usize,
    /// Side-band records that the kernel could not deliver.
    pub sideband_lost: u64,
}

/// What one CPU's ring holds.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CpuStatus {
    /// The CPU.
    pub cpu: u16,
    /// What its ring covers; the start is known to a second.
    pub held: Window,
    /// Bytes of the ring in use, of how many.
    pub used_bytes: usize,
    /// Length of the ring.
    pub ring_bytes: usize,
}

impl Recorder {
    /// Opens and starts everything. What this machine lacks without being vital is told by
    /// [`Recorder::warnings`] and in every trace.
    pub fn start(options: &Options) -> Result<Self, Error> {
        let mut warnings = Vec::new();
        let tracefs = probe::tracefs(&mut warnings)?;
        let running = Running::start(options, &tracefs, &mut warnings)?;
        let machine = Machine::start(&running.session, &mut warnings);
        if let Some(pid) = options.only_pid {
            warnings.push(format!(
                "only threads that process {pid} had when recording began are recorded, with those they switch with and wake"
            ));
        }
        let facts = Arc::new(Facts::new(options, &running.session, &tracefs, warnings)?);
        // Not zeros: those would stay unbacked until the first save needs them.
        let buffers = running.session.cpus.iter().map(|cpu| vec![1; cpu.ring.len()]).collect();
        let buffers = Arc::new(Mutex::new(buffers));
        let mut recorder =
            Self { running, machine, facts, buffers, counted: (Time::ZERO, Vec::new()) };
        recorder.counted = (sys::monotonic_now(), recorder.counts());
        Ok(recorder)
    }

    /// What could not be had, each with the command that mends it.
    pub fn warnings(&self) -> &[String] {
        &self.facts.warnings
    }

    /// What the recorder holds, and the rates of events since the last call.
    pub fn status(&mut self) -> Status {
        let session = &self.running.session;
        let now = sys::monotonic_now();
        let counts = self.counts();
        let seconds = now.since(self.counted.0).max(1) as f64 / 1e9;
        let rates = session
            .events
            .iter()
            .zip(counts.iter().zip(&self.counted.1))
            .filter(|(event, _)| event.attr.kind == TYPE_TRACEPOINT);
        let rates = rates
            .map(|(event, (new, old))| {
                (event.name.clone(), new.saturating_sub(*old) as f64 / seconds)
            })
            .collect();
        let held =
            session.held_from().into_iter().zip(&session.cpus).map(|(from, cpu)| CpuStatus {
                cpu: cpu.cpu,
                held: Window::new(from, now),
                used_bytes: cpu.ring.written().min(cpu.ring.len() as u64) as usize,
                ring_bytes: cpu.ring.len(),
            });
        let cpus: Vec<CpuStatus> = held.collect();
        let common = Window::new(cpus.iter().map(|cpu| cpu.held.start).max().unwrap_or(now), now);
        let memory_bytes = session.memory() + cpus.iter().map(|cpu| cpu.ring_bytes).sum::<usize>();
        let (processes, sideband_lost) = {
            let sideband = session.sideband();
            (sideband.log.processes(), sideband.log.lost())
        };
        self.counted = (now, counts);
        Status { cpus, common, rates, memory_bytes, processes, sideband_lost }
    }

    /// Copies what the rings hold; recording goes on without a gap.
    pub fn snapshot(&mut self) -> Snapshot {
        self.snapshot_until(&AtomicBool::new(false))
    }

    /// The same; what `/proc` adds is read until `stop` is set, and the snapshot says what is
    /// missing.
    pub fn snapshot_until(&mut self, stop: &AtomicBool) -> Snapshot {
        Snapshot::take(&self.running.session, &self.machine, &self.facts, &self.buffers, stop)
    }

    /// How often each event has occurred, on all CPUs.
    fn counts(&self) -> Vec<u64> {
        let session = &self.running.session;
        let mut counts = vec![0; session.events.len()];
        for open in session.cpus.iter().flat_map(|cpu| &cpu.events) {
            counts[open.event] += open.count();
        }
        counts
    }
}
