//! Turns a snapshot into a `NAME.hitch`.
//!
//! The records are encoded as a `perf.data`, read back as any reader will read them, and the frames found are named while the programs
//! they belong to are still on this machine: that is why a trace reads the same anywhere.

use crate::error::Error;
use crate::facts::Facts;
use crate::snapshot::Snapshot;
use crate::sys;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;
use unhitch_formats::container::{
    ContainerMeta, ContainerParts, CpuWindow, FutexWaiter, ProcessFacts, SymbolFile, ThreadFacts, trace_file_name, write_container,
};
use unhitch_formats::perf_data::{self, Features};
use unhitch_model::{CpuSpan, Trace, Window};
use unhitch_symbols::Symbolizer;

/// Where a trace goes. An existing file is never overwritten.
#[derive(Clone, Debug)]
pub enum SaveTarget {
    /// This file.
    File(PathBuf),
    /// A new file in this folder, named by the local time and by what it shows.
    Folder {
        /// The folder; it must exist.
        folder: PathBuf,
        /// One or two words, e.g. `save`.
        what: String,
    },
}

/// What goes into a trace besides what was recorded.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// The user's words.
    pub notes: Option<String>,
    /// Further entries of the container: name and content.
    pub entries: Vec<(String, Vec<u8>)>,
}

/// A saved trace.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Saved {
    /// The file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// The window that all CPUs' events cover.
    pub window: Window,
    /// What each CPU's events cover.
    pub spans: Vec<CpuSpan>,
    /// Records from the rings, and from the side-band.
    pub records: (usize, usize),
    /// What the user should know; it stands in the trace too.
    pub warnings: Vec<String>,
    /// What took how long.
    pub timings: Timings,
}

/// How long the parts of a save took, nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Timings {
    /// Copying the rings.
    pub ring_copy_ns: u64,
    /// Reading `/proc`.
    pub proc_ns: u64,
    /// Putting the `perf.data` together.
    pub encode_ns: u64,
    /// Reading it back.
    pub read_ns: u64,
    /// Naming the frames.
    pub symbols_ns: u64,
    /// Writing the file, until it is on the disk.
    pub write_ns: u64,
}

impl Timings {
    /// All of it.
    pub fn total_ns(&self) -> u64 {
        self.ring_copy_ns + self.proc_ns + self.encode_ns + self.read_ns + self.symbols_ns + self.write_ns
    }
}

impl Snapshot {
    /// Writes the trace. On an error nothing is left behind, and the snapshot can be saved elsewhere.
    pub fn save(&self, target: &SaveTarget, symbolizer: &mut Symbolizer, extras: &Extras) -> Result<Saved, Error> {
        let mut timings = Timings { ring_copy_ns: self.ring_copy_ns, proc_ns: self.proc_ns, ..Timings::default() };
        let mut clock = Instant::now();
        let mut lap = || std::mem::replace(&mut clock, Instant::now()).elapsed().as_nanos() as u64;

        let (perf_data, records) = self.encode()?;
        timings.encode_ns = lap();
        let mut warnings: Vec<String> = self.facts.warnings.iter().chain(&self.warnings).cloned().collect();
        let trace = unhitch_formats::read_bytes(&perf_data);
        timings.read_ns = lap();
        let symbols = match trace {
            Ok(mut trace) => {
                warnings.extend(resolve(&mut trace, symbolizer));
                Some(SymbolFile::from_trace(&trace))
            }
            // Better a trace without names than none.
            Err(error) => {
                warnings.push(format!("functions are not named, because the trace could not be read back: {error}"));
                None
            }
        };
        timings.symbols_ns = lap();

        let meta = self.meta(warnings);
        let path = publish(target, self.wall_ns, |path| {
            let parts = ContainerParts {
                meta: &meta,
                perf_data: &mut |out| out.write_all(&perf_data),
                symbols: symbols.as_ref(),
                notes: extras.notes.as_deref(),
                extra: extras.entries.clone(),
            };
            write_container(path, parts)
        })?;
        timings.write_ns = lap();
        let bytes = fs::metadata(&path).map_or(0, |metadata| metadata.len());
        Ok(Saved { path, bytes, window: self.window(), spans: self.spans(), records, warnings: meta.warnings, timings })
    }

    /// The `perf.data`, and how many records of rings and side-band it holds.
    fn encode(&self) -> Result<(Vec<u8>, (usize, usize)), Error> {
        let mut data: Vec<&[u8]> = self.sideband.iter().map(|record| &*record.bytes).collect();
        let sideband = data.len();
        data.extend(self.rings.iter().flat_map(|ring| ring.records()));
        let features = Features {
            clock_id: Some(Facts::clock(self.wall_ns, self.clock.nanos())),
            sample_window: Some(self.window()),
            ..self.facts.features.clone()
        };
        let mut out = Vec::with_capacity(data.iter().map(|record| record.len()).sum::<usize>() + (256 << 10));
        perf_data::write(&mut out, &self.facts.events, &features, &data)
            .map_err(|source| Error::System { action: "encode the trace", source })?;
        Ok((out, (data.len() - sideband, sideband)))
    }

    fn meta(&self, warnings: Vec<String>) -> ContainerMeta {
        let features = &self.facts.features;
        let threads = self.live.iter().flat_map(|process| {
            process.threads.iter().map(|thread| ThreadFacts {
                pid: process.pid,
                tid: thread.tid,
                name: String::from_utf8_lossy(&thread.name).into_owned(),
                policy: Some(thread.policy),
                nice: Some(thread.nice),
            })
        });
        let processes = self.command_lines.iter().map(|(pid, line)| ProcessFacts { pid: *pid, command_line: line.clone() });
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
            sample_period_ns: self.facts.sample_period_ns,
            recorder: self.facts.options.clone(),
            spans: self.spans().into_iter().map(window).collect(),
            losses: Vec::new(),
            threads: threads.collect(),
            processes: processes.collect(),
            futex_waits: self.futex_waits.iter().map(futex_wait).collect(),
            warnings,
        }
    }
}

fn window(span: CpuSpan) -> CpuWindow {
    CpuWindow { cpu: span.cpu, start_ns: span.window.start.nanos(), end_ns: span.window.end.nanos() }
}

fn futex_wait(wait: &crate::futex::FutexWaiter) -> FutexWaiter {
    FutexWaiter { time_ns: wait.time.nanos(), tid: wait.tid, word_avma: wait.word_avma, owner_tid: wait.owner_tid }
}

/// Names the frames; gives what the symbolizer has to say. What the reader said, every later reader will say again.
fn resolve(trace: &mut Trace, symbolizer: &mut Symbolizer) -> Vec<String> {
    trace.warnings = unhitch_model::Warnings::default();
    symbolizer.resolve(trace);
    trace.warnings.lines().collect()
}

/// Writes to the target's name; in a folder, to the first that is free.
fn publish(target: &SaveTarget, wall_ns: i64, write: impl Fn(&Path) -> Result<(), unhitch_formats::Error>) -> Result<PathBuf, Error> {
    let (folder, what) = match target {
        SaveTarget::File(path) => return write(path).map(|()| path.clone()).map_err(Error::from),
        SaveTarget::Folder { folder, what } => (folder, what),
    };
    let [year, month, day, hour, minute, second] = sys::local_time(wall_ns.div_euclid(1_000_000_000));
    let stamp = format!("{year:04}-{month:02}-{day:02}_{hour:02}-{minute:02}-{second:02}");
    let mut number = 1;
    loop {
        let what = if number == 1 { what.clone() } else { format!("{what}-{number}") };
        let path = folder.join(trace_file_name(&stamp, &what));
        match write(&path) {
            Ok(()) => return Ok(path),
            Err(unhitch_formats::Error::Exists(_)) if number < 1000 => number += 1,
            Err(error) => return Err(error.into()),
        }
    }
}
