//! Turns a snapshot into a `NAME.hitch`.
//!
//! The records are encoded as a `perf.data` and written together with what the recorder itself
//! knows. Once that is on disk, the frames are named, while their programs are still on this
//! machine, and the names are added: see the `naming` module. That is why a trace reads the same on
//! any machine.

use crate::error::Error;
use crate::naming::{Namer, Programs, Unnamed};
use crate::places::{self, SaveTarget};
use crate::recording_info::RecordingInfo;
use crate::snapshot::Snapshot;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use unhitch_formats::container::{
    ContainerMeta, ContainerParts, CpuWindow, FutexWaiter, MachineFile, ProcessFacts, Readers,
    SymbolFile, ThreadFacts, add_symbols, write_container_for,
};
use unhitch_formats::perf_data::{self, Features};
use unhitch_formats::scripts::ScriptFile;
use unhitch_model::{CpuSpan, Window};

/// What to store in a trace besides the recording.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// Notes of the user.
    pub notes: Option<String>,
    /// Additional entries of the container: name and content.
    pub entries: Vec<(String, Vec<u8>)>,
}

/// A saved trace.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Saved {
    /// The file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// The window that the events of all CPUs cover.
    pub window: Window,
    /// The window that each CPU's events cover.
    pub spans: Vec<CpuSpan>,
    /// Number of records from the rings, and from the side-band.
    pub records: (usize, usize),
    /// Warnings for the user; they are also stored in the trace.
    pub warnings: Vec<String>,
    /// How long each part took.
    pub timings: Timings,
    /// The open file, whatever is at its path by now.
    pub(crate) file: Arc<File>,
    pub(crate) programs: Arc<Programs>,
}

/// How long the parts of a save took, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Timings {
    /// Copying the rings.
    pub ring_copy_ns: u64,
    /// Reading `/proc`.
    pub proc_ns: u64,
    /// Encoding the `perf.data`.
    pub encode_ns: u64,
    /// Writing the file to disk, including names.
    pub write_ns: u64,
    /// Reading it back and naming its frames.
    pub names_ns: u64,
}

impl Timings {
    /// The sum of all parts, in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.ring_copy_ns + self.proc_ns + self.encode_ns + self.write_ns + self.names_ns
    }
}

/// An encoded trace, which only needs to be written and named. It does not hold a ring.
pub struct Prepared {
    perf_data: Vec<u8>,
    rings: Option<Vec<u8>>,
    meta: ContainerMeta,
    machine: MachineFile,
    scripts: ScriptFile,
    extras: Extras,
    programs: Arc<Programs>,
    wall_ns: i64,
    window: Window,
    spans: Vec<CpuSpan>,
    records: (usize, usize),
    readers: Readers,
    timings: Timings,
}

impl Snapshot {
    /// Writes the trace and names its frames.
    ///
    /// # Errors
    /// When the trace cannot be encoded or written. Nothing is left behind then, and the snapshot
    /// can be saved elsewhere.
    pub fn save(
        &self,
        target: &SaveTarget,
        namer: &mut dyn Namer,
        extras: &Extras,
    ) -> Result<Saved, Error> {
        let mut saved = self.prepare(extras)?.save(target)?;
        saved.name(namer, &AtomicBool::new(false));
        Ok(saved)
    }

    /// Encodes the trace.
    ///
    /// # Errors
    /// When it cannot be encoded.
    pub fn prepare(&self, extras: &Extras) -> Result<Prepared, Error> {
        let begun = Instant::now();
        let (perf_data, mut records) = self.encode()?;
        let rings = self.bpf_rings.as_ref().map(|rings| {
            let (bytes, count) = rings.encode();
            records.0 += count;
            bytes
        });
        let encode_ns = begun.elapsed().as_nanos() as u64;
        Ok(Prepared {
            perf_data,
            rings,
            meta: self.meta(self.info.warnings.iter().chain(&self.warnings).cloned().collect()),
            machine: self.machine.clone(),
            scripts: self.scripts.clone(),
            extras: extras.clone(),
            programs: Arc::clone(&self.programs),
            wall_ns: self.wall_ns,
            window: self.window(),
            spans: self.spans(),
            records,
            readers: self.info.readers,
            timings: Timings {
                ring_copy_ns: self.ring_copy_ns,
                proc_ns: self.proc_ns,
                encode_ns,
                ..Timings::default()
            },
        })
    }

    /// Returns the `perf.data`, and how many records of the rings and the side-band it holds.
    fn encode(&self) -> Result<(Vec<u8>, (usize, usize)), Error> {
        let mut data: Vec<&[u8]> = self.sideband.iter().map(|record| &*record.bytes).collect();
        let sideband = data.len();
        data.extend(self.rings.iter().flat_map(|ring| ring.records()));
        let features = self.features();
        let mut out =
            Vec::with_capacity(data.iter().map(|record| record.len()).sum::<usize>() + (256 << 10));
        perf_data::write(&mut out, &self.info.events, &features, &data)
            .map_err(|source| Error::System { action: "encode the trace", source })?;
        Ok((out, (data.len() - sideband, sideband)))
    }

    /// What the `perf.data` says about machine and recording.
    pub(crate) fn features(&self) -> Features {
        Features {
            clock_id: Some(RecordingInfo::clock(self.wall_ns, self.clock.nanos())),
            sample_window: Some(self.window()),
            ..self.info.features.clone()
        }
    }

    pub(crate) fn meta(&self, warnings: Vec<String>) -> ContainerMeta {
        let features = &self.info.features;
        let threads = self.live.iter().flat_map(|process| {
            process.threads.iter().map(|thread| ThreadFacts {
                pid: process.pid,
                tid: thread.tid,
                name: String::from_utf8_lossy(&thread.name).into_owned(),
                policy: Some(thread.policy),
                nice: Some(thread.nice),
            })
        });
        let processes = self
            .command_lines
            .iter()
            .map(|(pid, line)| ProcessFacts { pid: *pid, command_line: line.clone() });
        ContainerMeta {
            version: 1,
            producer: features.producer.clone(),
            host: features.host.clone(),
            kernel: features.kernel.clone(),
            arch: features.arch.clone(),
            cpus: features.cpus_online as u16,
            memory_bytes: features.memory_kib << 10,
            clock: "monotonic".to_owned(),
            epoch_ns: Some(self.wall_ns - self.clock.nanos() as i64),
            sample_period_ns: self.info.sample_period_ns,
            recorder: self.info.options.clone(),
            spans: self.spans().into_iter().map(window).collect(),
            losses: Vec::new(),
            threads: threads.collect(),
            processes: processes.collect(),
            futex_waits: self.futex_waits.iter().map(futex_wait).collect(),
            holders: self.peers.holders.clone(),
            holders_complete: self.peers.is_complete(),
            connections: self.peers.connections.clone(),
            loop_peers: self.peers.of_loops.clone(),
            warnings,
        }
    }
}

impl Prepared {
    /// The trace is for these readers, and not for those that were set when recording began.
    pub(crate) fn for_readers(self, readers: Readers) -> Self {
        Self { readers, ..self }
    }

    /// Writes the trace to `target`, and nowhere else.
    ///
    /// # Errors
    /// When it cannot be written. Nothing is left behind then.
    pub fn save(&self, target: &SaveTarget) -> Result<Saved, Error> {
        self.write(target, self.readers)
    }

    /// Writes the trace to `target`. If that fails, writes it under a new name to the target's
    /// folder or to the first of `fallbacks` that works; then only its owner can read it. The
    /// warnings of the result say where it went and why.
    ///
    /// # Errors
    /// When no place works: the error lists the reasons.
    pub fn save_anywhere(
        &self,
        target: &SaveTarget,
        fallbacks: &[PathBuf],
    ) -> Result<Saved, Error> {
        let written =
            places::first_that_works(target, fallbacks, self.readers, |target, readers| {
                self.write(target, readers)
            });
        let (mut saved, reasons) = written?;
        saved.warnings.extend(places::elsewhere(&saved.path, &reasons));
        Ok(saved)
    }

    /// Minimum number of bytes that a save writes: the records are stored as they are, the rest is
    /// compressed.
    fn bytes(&self) -> u64 {
        (self.perf_data.len() + self.rings.as_ref().map_or(0, Vec::len)) as u64 + 4096
    }

    fn write(&self, target: &SaveTarget, readers: Readers) -> Result<Saved, Error> {
        let begun = Instant::now();
        places::check_space(&target.folder(), self.bytes())?;
        let (path, file) = places::publish(target, self.wall_ns, |path| {
            let parts = ContainerParts {
                meta: &self.meta,
                perf_data: &mut |out| out.write_all(&self.perf_data),
                rings: self.rings.as_deref(),
                symbols: None,
                notes: self.extras.notes.as_deref(),
                extra: self
                    .machine
                    .entry()
                    .into_iter()
                    .chain(self.scripts.entry())
                    .chain(self.extras.entries.iter().cloned())
                    .collect(),
            };
            write_container_for(readers, path, parts)
        })?;
        let bytes = file.metadata().map_or(0, |metadata| metadata.len());
        let timings = Timings { write_ns: begun.elapsed().as_nanos() as u64, ..self.timings };
        let (window, spans, warnings) =
            (self.window, self.spans.clone(), self.meta.warnings.clone());
        let (file, programs) = (Arc::new(file), Arc::clone(&self.programs));
        Ok(Saved {
            path,
            bytes,
            window,
            spans,
            records: self.records,
            warnings,
            timings,
            file,
            programs,
        })
    }
}

impl Saved {
    /// Adds names to the trace's frames, unless `stop` is set first. If there are no names, the
    /// trace and the warnings say why.
    pub fn name(&mut self, namer: &mut dyn Namer, stop: &AtomicBool) {
        let begun = Instant::now();
        let named = namer.names(&Unnamed { file: &self.file, programs: &self.programs }, stop);
        let symbols = named.unwrap_or_else(|why| {
            SymbolFile::default()
                .with_warnings(vec![format!("program functions have no names: {why}")])
        });
        self.warnings.extend_from_slice(symbols.warnings());
        self.timings.names_ns = begun.elapsed().as_nanos() as u64;
        let begun = Instant::now();
        match add_symbols(&self.file, &self.path, &symbols) {
            Ok(len) => self.bytes = len,
            Err(error) => self
                .warnings
                .push(format!("function names could not be added to the trace: {error}")),
        }
        self.timings.write_ns += begun.elapsed().as_nanos() as u64;
    }
}

fn window(span: CpuSpan) -> CpuWindow {
    CpuWindow {
        cpu: span.cpu,
        start_ns: span.window.start.nanos(),
        end_ns: span.window.end.nanos(),
    }
}

fn futex_wait(wait: &crate::futex::FutexWaiter) -> FutexWaiter {
    FutexWaiter {
        time_ns: wait.time.nanos(),
        tid: wait.tid,
        word_avma: wait.word_avma,
        owner_tid: wait.owner_tid,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// A trace of `len` bytes for tests of writing.
    pub(crate) fn prepared(len: usize) -> Prepared {
        Prepared {
            perf_data: vec![7; len],
            rings: None,
            meta: ContainerMeta::default(),
            machine: MachineFile::default(),
            scripts: ScriptFile::default(),
            extras: Extras::default(),
            programs: Arc::default(),
            wall_ns: 0,
            window: Window::default(),
            spans: Vec::new(),
            records: (0, 0),
            readers: Readers::Owner,
            timings: Timings::default(),
        }
    }

    #[test]
    fn a_trace_goes_to_the_first_place_that_works() {
        let folder = tempfile::tempdir().unwrap();
        let (taken, blocked, open) =
            (folder.path().join("a.hitch"), folder.path().join("file"), folder.path().join("open"));
        fs::write(&taken, b"older").unwrap();
        fs::write(&blocked, b"").unwrap();
        let trace = prepared(100);
        // The file exists: the trace goes to the same folder, under a similar name.
        let target = SaveTarget::File(taken.clone());
        let saved = trace.save_anywhere(&target, std::slice::from_ref(&open)).unwrap();
        assert!(
            saved.path.parent() == Some(folder.path())
                && saved.path.to_string_lossy().ends_with("_a.hitch"),
            "{:?}",
            saved.path
        );
        assert_eq!(fs::read(&taken).unwrap(), b"older");
        let why = saved.warnings.last().unwrap();
        assert!(
            why.contains("because it could not be written to the requested place")
                && why.contains("never overwritten"),
            "{why}"
        );
        // The folder cannot be created: the trace goes to the next one, which is created private.
        let target = SaveTarget::File(blocked.join("in/b.hitch"));
        let saved = trace.save_anywhere(&target, &[blocked.join("state"), open.clone()]).unwrap();
        assert_eq!(saved.path.parent(), Some(open.as_path()));
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&open), mode(&saved.path)), (0o700, 0o600));
        // No place works: the error lists all reasons.
        let error = trace
            .save_anywhere(&target, &[blocked.join("state"), blocked.join("home")])
            .unwrap_err();
        let Error::Nowhere { reasons } = &error else { panic!("{error}") };
        assert!(
            reasons.len() >= 3
                && error.to_string().contains("file/state")
                && error.to_string().contains("file/home"),
            "{error}"
        );
    }
}
