//! Writes a recording to its trace while it goes on.
//!
//! A round takes what the rings hold: names and mappings first, then the events of all CPUs up to
//! positions that were read together. It is in the file before the next round begins, so a recorder
//! that is killed loses less than one round. The file has its own name before the first of them, and
//! can be read at any time: see [`Growing`].

use crate::bpf::Engine;
use crate::error::Error;
use crate::places::{self, SaveTarget};
use crate::recorder::Recorder;
use crate::recording_info::RecordingInfo;
use crate::ring;
use crate::save::{Extras, Saved, Timings};
use crate::session::Session;
use crate::snapshot::Snapshot;
use crate::sys;
use rustc_hash::FxHashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use unhitch_formats::container::{ContainerMeta, Growing, LastParts, Readers};
use unhitch_formats::perf_data::record::{auxtrace, kind};
use unhitch_formats::perf_data::{self, Features};
use unhitch_formats::ring::{
    BLOCK_BYTES, RingPiece, WaitedFor, count, encode_pieces, encode_sleepers,
};
use unhitch_model::units::bytes;
use unhitch_model::{CpuSpan, Time, Window};

/// Bytes that are collected before they are written.
const WRITE_BYTES: usize = 4 << 20;
/// Minimum room for a trace to begin with.
const FIRST_BYTES: u64 = 1 << 20;
/// Recording ends when less than this part of the disk is free, or less than so many bytes if that
/// is less: others need room, too, and so do names.
const FREE_PART: u64 = 20;
const MAX_FREE_BYTES: u64 = 512 << 20;

/// A recording that is being written.
pub(crate) struct Stream {
    container: Growing,
    session: Arc<Session>,
    info: Arc<RecordingInfo>,
    /// What `meta.json` would be now.
    start: ContainerMeta,
    /// Why the trace is not where it should be.
    moved: Option<String>,
    /// How far the rings of the kernel's programs were written, by CPU.
    positions: Vec<u64>,
    /// The time up to which everything was written.
    taken: Time,
    buffer: Vec<u8>,
    waited_for: WaitedFor,
    written: Written,
    /// True if a round could not be written.
    has_failed: bool,
}

/// What was written, and what was not.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    /// Records of the rings.
    pub(crate) records: u64,
    /// Records of processes, names and mappings.
    pub(crate) side_records: u64,
    /// Events that the kernel dropped because a ring was full.
    pub(crate) lost: u64,
    /// Bytes of rings that were written, and that were overwritten before.
    ring_bytes: u64,
    lost_bytes: u64,
}

impl Written {
    /// Lost events. Those in bytes that were overwritten are estimated by the others.
    pub(crate) fn lost_events(&self) -> u64 {
        let events = u128::from(self.lost_bytes) * u128::from(self.records);
        self.lost + (events / u128::from(self.ring_bytes.max(1))) as u64
    }
}

impl Stream {
    /// Creates the trace at `target`, or else in the first of `fallbacks` that works.
    pub(crate) fn create(
        recorder: &Recorder,
        target: &SaveTarget,
        fallbacks: &[PathBuf],
    ) -> Result<Self, Error> {
        let (session, info) = (Arc::clone(recorder.session()), Arc::clone(recorder.info()));
        let now = Snapshot::at_start(&session, &info);
        let start = now.meta(info.warnings.clone());
        let features = Features { sample_window: None, ..now.features() };
        let description = perf_data::describe(&info.events, &features);
        let [head, _] = perf_data::around(&info.events, &Features::default(), 0);
        let create = |target: &SaveTarget, readers: Readers| {
            places::check_space(&target.folder(), description.len() as u64 + FIRST_BYTES)?;
            places::publish(target, now.wall_ns, |path| {
                Growing::create(readers, path, &start, &description, &head)
            })
        };
        let created = places::first_that_works(target, fallbacks, info.readers, create);
        let ((path, container), reasons) = created?;
        let positions = vec![0; session.engine.as_ref().map_or(0, |engine| engine.cpus().len())];
        Ok(Self {
            container,
            session,
            info,
            start,
            moved: places::elsewhere(&path, &reasons),
            positions,
            taken: now.clock,
            buffer: Vec::new(),
            waited_for: WaitedFor::default(),
            written: Written::default(),
            has_failed: false,
        })
    }

    /// Writes what the rings hold now. Returns how full the fullest was, from 0 to 1.
    pub(crate) fn round(&mut self) -> Result<f64, Error> {
        let result = self.write_round();
        self.has_failed |= result.is_err();
        result
    }

    fn write_round(&mut self) -> Result<f64, Error> {
        let side_records = {
            let mut sideband = self.session.sideband();
            sideband.drain();
            sideband.log.take_unwritten()
        };
        let session = Arc::clone(&self.session);
        let taken = sys::monotonic_now();
        self.side_records(&side_records)?;
        let fullest = match &session.engine {
            Some(engine) => self.pieces(engine)?,
            None => self.events(&session)?,
        };
        self.taken = taken;
        Ok(fullest)
    }

    fn side_records(&mut self, records: &[u8]) -> Result<(), Error> {
        self.container.append(&[records])?;
        self.written.side_records += ring::records(records).count() as u64;
        Ok(())
    }

    /// Drains the rings of performance events.
    fn events(&mut self, session: &Session) -> Result<f64, Error> {
        let mut fullest = 0_f64;
        for cpu in &session.cpus {
            let Some(mut of_cpu) = cpu.ring.drained() else { continue };
            fullest = fullest.max(of_cpu.waiting() as f64 / of_cpu.len() as f64);
            let begin = self.buffer.len();
            of_cpu.drain(&mut self.buffer);
            drop(of_cpu);
            for record in ring::records(&self.buffer[begin..]) {
                self.written.records += 1;
                self.written.lost += lost_before(record);
            }
            if self.buffer.len() >= WRITE_BYTES {
                self.write_events()?;
            }
        }
        self.write_events()?;
        Ok(fullest)
    }

    fn write_events(&mut self) -> Result<(), Error> {
        let result = self.container.append(&[&self.buffer]);
        self.buffer.clear();
        Ok(result?)
    }

    /// Copies what the rings of the kernel's programs have more than at the last round.
    fn pieces(&mut self, engine: &Engine) -> Result<f64, Error> {
        let ends: Vec<u64> = engine.cpus().iter().map(|&cpu| engine.written(cpu)).collect();
        let (mut fullest, mut pieces) = (0_f64, Vec::new());
        for ((index, &cpu), end) in engine.cpus().iter().enumerate().zip(ends) {
            let waiting = end.saturating_sub(self.positions[index]) as f64;
            fullest = fullest.max(waiting / engine.ring_bytes() as f64);
            while self.positions[index] < end {
                let from = self.positions[index];
                // Ends with the ring or with a block, and so between two records.
                let block = BLOCK_BYTES as u64;
                let to = end.min((from + WRITE_BYTES as u64) / block * block);
                let start = engine.copy_between(cpu, from, to, &mut self.buffer);
                self.positions[index] = to;
                self.written.lost_bytes += start - from;
                if start < to {
                    pieces.push((cpu, start, (to - start) as usize));
                }
                if self.buffer.len() >= WRITE_BYTES {
                    self.write_pieces(&mut pieces)?;
                }
            }
        }
        self.write_pieces(&mut pieces)?;
        Ok(fullest)
    }

    fn write_pieces(&mut self, pieces: &mut Vec<(u16, u64, usize)>) -> Result<(), Error> {
        let mut rest = self.buffer.as_slice();
        let pieces = pieces.drain(..).filter_map(|(cpu, start, len)| {
            let (bytes, others) = rest.split_at_checked(len)?;
            rest = others;
            Some(RingPiece { cpu, start, bytes })
        });
        let pieces: Vec<RingPiece<'_>> = pieces.collect();
        if pieces.is_empty() {
            return Ok(());
        }
        self.written.records += pieces.iter().map(|piece| count(piece) as u64).sum::<u64>();
        self.written.ring_bytes += self.buffer.len() as u64;
        pieces.iter().for_each(|piece| self.waited_for.add_piece(piece));
        let result = append_foreign(&mut self.container, &encode_pieces(&pieces), &self.buffer);
        self.buffer.clear();
        result
    }

    /// Length of the trace so far, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.container.bytes()
    }

    /// What was written so far.
    pub(crate) fn written(&self) -> Written {
        self.written
    }

    /// Why recording cannot go on, in a sentence; `None` if it can.
    pub(crate) fn limit(&self, max_bytes: Option<u64>) -> Option<String> {
        if let Some(max_bytes) = max_bytes.filter(|max| self.bytes() >= *max) {
            return Some(format!("the trace has reached {} (--max-size)", bytes(max_bytes)));
        }
        let folder = SaveTarget::File(self.container.path().to_owned()).folder();
        let space = sys::disk_space(&folder).ok()??;
        let needed = (space.total / FREE_PART).clamp(FIRST_BYTES, MAX_FREE_BYTES);
        (space.free < needed).then(|| {
            format!(
                "the disk is nearly full ({} of {} free)",
                bytes(space.free),
                bytes(space.total)
            )
        })
    }

    /// Removes the trace: nothing was recorded.
    pub(crate) fn discard(self) {
        let _ = std::fs::remove_file(self.container.path());
    }

    /// Finishes the trace. If that fails, it ends where it ends, and the warnings say so. Also
    /// returns whether it is finished. `ended` is why recording ended before it should.
    pub(crate) fn finish(
        mut self,
        recorder: Recorder,
        extras: &Extras,
        ended: Option<String>,
    ) -> (Saved, bool) {
        let has_failed = self.has_failed;
        let begun = Instant::now();
        let spans: Vec<CpuSpan> = self.spans();
        let snapshot = recorder.rest_of(&spans, &self.waited_for);
        drop(recorder);
        let own = self.info.warnings.iter().chain(&snapshot.warnings).cloned();
        let mut meta = snapshot.meta(own.chain(ended).collect());
        self.add_exited(&mut meta);
        let finished = self.write_rest(&snapshot, &meta, extras);
        let mut warnings = meta.warnings;
        warnings.extend(self.moved.take());
        let lost = self.written.lost_events();
        if lost > 0 {
            warnings.push(format!(
                "about {lost} events were lost, because the trace could not be written as fast as \
                 they came (use a larger --buffer)"
            ));
        }
        let is_finished = finished.is_ok();
        if let Err(error) = finished {
            // One message is enough for a full disk.
            let why =
                if has_failed { String::new() } else { format!(" ({})", error.with_causes()) };
            warnings.push(format!(
                "the trace is not finished{why}: it can be read all the same, but has no function \
                 names yet"
            ));
        }
        let timings = Timings {
            proc_ns: snapshot.proc_ns,
            write_ns: (begun.elapsed().as_nanos() as u64).saturating_sub(snapshot.proc_ns),
            ..Timings::default()
        };
        let (path, bytes) = (self.container.path().to_owned(), self.container.bytes());
        let saved = Saved {
            path,
            bytes,
            window: snapshot.window(),
            spans,
            records: (self.written.records as usize, self.written.side_records as usize),
            warnings,
            timings,
            file: Arc::new(self.container.into_file()),
            programs: Arc::clone(&snapshot.programs),
        };
        (saved, is_finished)
    }

    /// Adds the command lines of processes that have exited meanwhile.
    fn add_exited(&self, meta: &mut ContainerMeta) {
        let living: FxHashSet<u32> = meta.processes.iter().map(|process| process.pid).collect();
        let exited = self.start.processes.iter().filter(|process| !living.contains(&process.pid));
        meta.processes.extend(exited.cloned());
    }

    fn write_rest(
        &mut self,
        snapshot: &Snapshot,
        meta: &ContainerMeta,
        extras: &Extras,
    ) -> Result<(), Error> {
        let side_records = self.session.sideband().log.take_unwritten();
        self.side_records(&side_records)?;
        if let Some(rings) = &snapshot.bpf_rings {
            let sleepers = encode_sleepers(&rings.sleeper_parts());
            append_foreign(&mut self.container, &sleepers, &[])?;
        }
        let len = self.container.record_bytes();
        let own = snapshot.machine.entry().into_iter().chain(snapshot.scripts.entry());
        let entries = own.chain(extras.entries.iter().cloned());
        self.container.finish(LastParts {
            around: perf_data::around(&self.info.events, &snapshot.features(), len),
            meta,
            notes: extras.notes.as_deref(),
            extra: entries.collect(),
        })?;
        Ok(())
    }

    fn spans(&self) -> Vec<CpuSpan> {
        let span = |(cpu, started): (u16, Time)| CpuSpan {
            cpu,
            window: Window::new(started, self.taken.max(started)),
        };
        self.session.started().into_iter().map(span).collect()
    }
}

/// Adds pieces of rings to the records.
fn append_foreign(container: &mut Growing, head: &[u8], bytes: &[u8]) -> Result<(), Error> {
    let mut record = Vec::new();
    let len = head.len() + bytes.len();
    let padding = len.next_multiple_of(8) - len;
    auxtrace(&mut record, (len + padding) as u64);
    Ok(container.append(&[&record, head, bytes, &[0; 8][..padding]])?)
}

/// The events that a record says were dropped before it.
fn lost_before(record: &[u8]) -> u64 {
    let is_loss = record.first_chunk::<4>().is_some_and(|of| u32::from_le_bytes(*of) == kind::LOST);
    let lost = record.get(16..24).filter(|_| is_loss).and_then(|lost| lost.try_into().ok());
    lost.map_or(0, u64::from_le_bytes)
}
