//! Reads trace files into a [`Trace`], and writes them.
//!
//! * [`perf_data`] reads and writes Linux `perf.data`, files and pipes, compressed or not;
//! * [`etl`] reads Windows event traces, compressed, merged or several together;
//! * [`import`] reads the traces of other tools: Perfetto, trace-cmd, `perf script`, LTTng;
//! * [`container`] reads and writes `NAME.hitch`, a zip around a `perf.data` that can be mapped in
//!   place;
//! * [`ring`] reads and writes the rings of the recorder that runs in the kernel;
//! * [`tracepoint`] reads the kernel's descriptions of its tracepoints, without which their samples
//!   are opaque bytes.
//!
//! Damage never causes a panic and rarely an error. The readers read what they can, and report what
//! they cannot read in the trace's warnings.
//!
//! Write a `perf.data` with one event and the name of one thread, and read it back:
//!
//! ```
//! use unhitch_formats::perf_data::attr::{self, flag, sample};
//! use unhitch_formats::perf_data::record::{self, SampleId};
//! use unhitch_formats::perf_data::{self, EventAttr, EventDesc, Features};
//! use unhitch_model::Time;
//!
//! let attr = EventAttr {
//!     kind: attr::TYPE_SOFTWARE,
//!     config: attr::SW_CPU_CLOCK,
//!     sample_type: sample::IDENTIFIER | sample::IP | sample::TID | sample::TIME | sample::CPU,
//!     sample_period: 1_000_000,
//!     flags: flag::SAMPLE_ID_ALL,
//!     ..EventAttr::default()
//! };
//! let event = EventDesc { name: "cpu-clock".to_owned(), attr, ids: vec![1] };
//! let features = Features { host: "box".to_owned(), ..Features::default() };
//! let mut records = Vec::new();
//! let id = SampleId { id: 1, ..SampleId::default() };
//! record::comm(&mut records, 40, 41, b"worker", false, &id);
//! let mut file = Vec::new();
//! perf_data::write(&mut file, &[event], &features, &[&records])?;
//!
//! let trace = unhitch_formats::read_bytes(&file)?;
//! assert_eq!((trace.meta.host.as_str(), trace.meta.sample_period_ns), ("box", 1_000_000));
//! let worker = trace.threads.incarnations(41)[0];
//! assert_eq!(trace.thread_name(worker, Time::ZERO), "worker");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod code_addresses;
mod cursor;
mod error;
mod mapping;
mod new_file;
mod scope;
mod thread_index;

pub mod container;
pub mod etl;
pub mod import;
pub mod perf_data;
pub mod ring;
pub mod scripts;
pub mod tracepoint;

pub use error::Error;
pub use new_file::{Existing, NewFile, Readers, unfinished};

use mapping::Content;
use scope::Scope;
use std::fs::File;
use std::path::{Path, PathBuf};
use unhitch_model::{Origin, Time, Trace, Warnings, Window};

/// Reads the trace at `path`. Its content decides which format it has. Only containers come with
/// function names.
///
/// # Errors
/// If the file cannot be opened, is not a trace, or is damaged where nothing can be read without.
pub fn open(path: &Path) -> Result<Trace, Error> {
    if let Some(metadata) = import::ctf::metadata_of(path) {
        return open_ctf(&metadata);
    }
    let content = Content::open(path)?;
    if etl::is_etl(content.bytes()) && !etl::is_merged(content.bytes()) {
        return open_with_siblings(path, content);
    }
    read(content.bytes(), Scope::All, &|part| content.release(part))
}

/// Reads the trace in `file`, which is not opened by its name.
///
/// # Errors
/// Those of [`open`].
pub fn open_file(file: File) -> Result<Trace, Error> {
    let content = Content::of(file, Path::new("the trace"))?;
    read(content.bytes(), Scope::All, &|part| content.release(part))
}

/// Reads the CTF trace that the file `metadata` describes.
fn open_ctf(metadata: &Path) -> Result<Trace, Error> {
    let description = Content::open(metadata)?;
    let files = import::ctf::streams_of(metadata);
    let contents: Vec<Content> =
        files.iter().map(|file| Content::open(file)).collect::<Result<_, _>>()?;
    let streams: Vec<&[u8]> = contents.iter().map(Content::bytes).collect();
    import::ctf::load(description.bytes(), &streams, &|part| {
        contents.iter().for_each(|content| content.release(part))
    })
}

/// Reads the processes, mappings and stacks of the trace in `file`, which is what function names
/// need. Switches and wake-ups of a recording by BPF are left out: in memory, they take many times
/// the space that they have in the file.
///
/// # Errors
/// Those of [`open`].
pub fn open_stacks(file: File) -> Result<Trace, Error> {
    let content = Content::of(file, Path::new("the trace"))?;
    read(content.bytes(), Scope::Stacks, &|part| content.release(part))
}

/// Minimum length of a file whose newest part is read first, bytes: a shorter one is read within
/// about a second.
const MIN_LEN: usize = 64 << 20;
/// How much of all rings is the newest part, bytes: a million switches and wake-ups.
const NEWEST_LEN: u64 = 8 << 20;

/// Reads the newest part of a long recording by BPF: all of it but the switches, wake-ups, samples and
/// facts before [`Meta::newest_from`](unhitch_model::Meta::newest_from), which are most of a file.
/// Threads, stacks and the origin of times are those of [`open`]. Checksums are not compared: that is
/// left to [`open`]. `None` of any other file, and of one that is not worth it.
///
/// # Errors
/// Those of [`open`].
pub fn open_newest(path: &Path) -> Result<Option<Trace>, Error> {
    let content = Content::open(path)?;
    let bytes = content.bytes();
    if bytes.len() < MIN_LEN || !container::is_container(bytes) || !container::has_rings(bytes) {
        return Ok(None);
    }
    let mut trace = read(bytes, Scope::Newest(NEWEST_LEN), &|part| content.release(part))?;
    let Some(from) = trace.meta.newest_from else { return Ok(None) };
    trace.meta.origin = Origin::At(trace.origin().min(trace.extent().start));
    trace
        .spans
        .iter_mut()
        .for_each(|span| span.window = span.window.intersect(Window::new(from, Time::MAX)));
    Ok(Some(trace))
}

/// Reads the Windows trace at `path` and the other sessions of the same recording as one trace.
/// They are `.etl` files that were not merged, or zips of them. Other files in the folder are not
/// read. With no `others` the same as [`open`].
///
/// # Errors
/// Those of [`open`], and if a file is not an `.etl` file, is merged already, or is given twice.
pub fn open_with(path: &Path, others: &[PathBuf]) -> Result<Trace, Error> {
    if others.is_empty() {
        return open(path);
    }
    let mut warnings = Warnings::default();
    let (mut contents, mut on_disk) = (Vec::<(&Path, Content)>::new(), 0);
    for path in std::iter::once(path).chain(others.iter().map(PathBuf::as_path)) {
        let cannot_join = |why: String| Error::Together { path: path.to_owned(), why };
        let content = Content::open(path).map_err(|error| match error {
            Error::Io { .. } => error,
            other => cannot_join(other.to_string()),
        })?;
        on_disk += content.bytes().len();
        let unpacked = match content.bytes() {
            zip if container::is_container(zip) => container::unpack_etl(zip, &mut warnings)
                .map_err(|error| cannot_join(error.to_string()))?,
            _ => Vec::new(),
        };
        if unpacked.is_empty() {
            contents.push((path, content));
        }
        contents.extend(unpacked.into_iter().map(|bytes| (path, Content::Read(bytes))));
    }
    for (number, (path, content)) in contents.iter().enumerate() {
        let why = match content.bytes() {
            bytes if !etl::is_etl(bytes) => {
                "only unmerged Windows sessions (.etl) can be read together, and this is not one"
            }
            bytes if etl::is_merged(bytes) => {
                "this trace is merged and already holds its sessions: open it alone"
            }
            bytes if contents.iter().take(number).any(|(_, other)| other.bytes() == bytes) => {
                "the same session is given twice"
            }
            _ => continue,
        };
        return Err(Error::Together { path: path.to_path_buf(), why: why.to_owned() });
    }
    let contents: Vec<Content> = contents.into_iter().map(|(_, content)| content).collect();
    let mut trace = load_etl(&contents, on_disk)?;
    trace.warnings.merge(warnings);
    Ok(trace)
}

/// Reads a Windows trace together with the files of the same recording in its folder.
fn open_with_siblings(path: &Path, content: Content) -> Result<Trace, Error> {
    let (mut contents, mut names) = (vec![content], Vec::new());
    for other in etl::sibling_files(path) {
        let Ok(content) = Content::open(&other) else { continue };
        if etl::is_etl(content.bytes()) && !etl::is_merged(content.bytes()) {
            contents.push(content);
            names.push(other.file_name().unwrap_or_default().display().to_string());
        }
    }
    let mut trace =
        load_etl(&contents, contents.iter().map(|content| content.bytes().len()).sum())?;
    if !names.is_empty() {
        trace.warnings.add(format!("read together with {} in the same folder", names.join(", ")));
    }
    Ok(trace)
}

/// `on_disk`: length in bytes of what the contents were read from.
fn load_etl(contents: &[Content], on_disk: usize) -> Result<Trace, Error> {
    let files: Vec<&[u8]> = contents.iter().map(Content::bytes).collect();
    etl::load(&files, on_disk, false, &|part| {
        contents.iter().for_each(|content| content.release(part))
    })
}

/// Reads a trace in memory.
///
/// # Errors
/// If it is not a trace, or is damaged where nothing can be read without.
pub fn read_bytes(bytes: &[u8]) -> Result<Trace, Error> {
    read(bytes, Scope::All, &|_| {})
}

fn read(bytes: &[u8], scope: Scope, release: &(dyn Fn(&[u8]) + Sync)) -> Result<Trace, Error> {
    if container::is_container(bytes) {
        container::read(bytes, scope, release)
    } else if etl::is_etl(bytes) {
        etl::load(&[bytes], bytes.len(), false, release)
    } else if let Some(trace) = import::load(bytes, release) {
        trace
    } else {
        perf_data::load(bytes, release)
    }
}
