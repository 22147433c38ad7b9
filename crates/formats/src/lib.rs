//! Trace files: what is on disk, to and from a [`Trace`](unhitch_model::Trace).
//!
//! * [`perf_data`] reads and writes Linux `perf.data`, files and pipes, compressed or not;
//! * [`etl`] reads Windows' event traces, compressed, merged or several together;
//! * [`container`] reads and writes `NAME.hitch`, a zip around a `perf.data` that can be mapped in
//!   place;
//! * [`tracepoint`] reads the kernel's descriptions of its tracepoints, without which their samples
//!   are opaque bytes.
//!
//! Damage never panics and rarely fails: what can be read is read, what cannot is a line in the
//! trace's warnings.

mod cursor;
mod error;
mod mapping;

pub mod container;
pub mod etl;
pub mod perf_data;
pub mod tracepoint;

pub use error::Error;

use mapping::Content;
use std::fs::File;
use std::path::{Path, PathBuf};
use unhitch_model::{Trace, Warnings};

/// Reads the trace at `path`, of whatever kind its content shows. Names of functions come with a
/// container; in others they are missing.
///
/// # Errors
/// When it cannot be opened, is no trace, or is damaged where nothing can be read without.
pub fn open(path: &Path) -> Result<Trace, Error> {
    let content = Content::open(path)?;
    if etl::is_etl(content.bytes()) && !etl::is_merged(content.bytes()) {
        return open_beside(path, content);
    }
    read(content.bytes(), &|part| content.release(part))
}

/// Reads the trace that `file` holds; what lies beside it is not looked at.
///
/// # Errors
/// Those of [`open`].
pub fn open_file(file: File) -> Result<Trace, Error> {
    let content = Content::of(file, Path::new("the trace"))?;
    read(content.bytes(), &|part| content.release(part))
}

/// Reads the Windows trace at `path` together with the other sessions that were recorded with it,
/// files or zips of them that were not merged, as one trace; what else lies beside `path` is not
/// looked at. Without others the same as [`open`].
///
/// # Errors
/// Those of [`open`], and when some are no `.etl` files, are merged already, or are given twice.
pub fn open_with(path: &Path, others: &[PathBuf]) -> Result<Trace, Error> {
    if others.is_empty() {
        return open(path);
    }
    let mut warnings = Warnings::default();
    let (mut contents, mut on_disk) = (Vec::<(&Path, Content)>::new(), 0);
    for path in std::iter::once(path).chain(others.iter().map(PathBuf::as_path)) {
        let apart = |why: String| Error::Together { path: path.to_owned(), why };
        let content = Content::open(path).map_err(|error| match error {
            Error::Io { .. } => error,
            other => apart(other.to_string()),
        })?;
        on_disk += content.bytes().len();
        let unpacked = match content.bytes() {
            zip if container::is_container(zip) => container::unpack_etl(zip, &mut warnings)
                .map_err(|error| apart(error.to_string()))?,
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
                "several files are one trace only where all are sessions of Windows (.etl), and this is none"
            }
            bytes if etl::is_merged(bytes) => {
                "this trace is merged and holds its sessions: give it alone"
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

/// A Windows trace, with the files that were recorded beside it.
fn open_beside(path: &Path, content: Content) -> Result<Trace, Error> {
    let (mut contents, mut names) = (vec![content], Vec::new());
    for other in etl::beside(path) {
        let Ok(content) = Content::open(&other) else { continue };
        if etl::is_etl(content.bytes()) && !etl::is_merged(content.bytes()) {
            contents.push(content);
            names.push(other.file_name().unwrap_or_default().display().to_string());
        }
    }
    let mut trace =
        load_etl(&contents, contents.iter().map(|content| content.bytes().len()).sum())?;
    if !names.is_empty() {
        trace.warnings.add(format!("read together with {} beside it", names.join(", ")));
    }
    Ok(trace)
}

/// `on_disk`: how long all of them are there.
fn load_etl(contents: &[Content], on_disk: usize) -> Result<Trace, Error> {
    let files: Vec<&[u8]> = contents.iter().map(Content::bytes).collect();
    etl::load(&files, on_disk, false, &|part| {
        contents.iter().for_each(|content| content.release(part))
    })
}

/// The same for a trace in memory.
///
/// # Errors
/// When it is no trace, or is damaged where nothing can be read without.
pub fn read_bytes(bytes: &[u8]) -> Result<Trace, Error> {
    read(bytes, &|_| {})
}

fn read(bytes: &[u8], release: &(dyn Fn(&[u8]) + Sync)) -> Result<Trace, Error> {
    if container::is_container(bytes) {
        container::read(bytes, release)
    } else if etl::is_etl(bytes) {
        etl::load(&[bytes], bytes.len(), false, release)
    } else {
        perf_data::load(bytes, release)
    }
}
