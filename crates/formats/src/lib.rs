//! Trace files: what is on disk, to and from a [`Trace`](unhitch_model::Trace).
//!
//! * [`perf_data`] reads and writes Linux `perf.data`, files and pipes, compressed or not;
//! * [`container`] reads and writes `NAME.hitch`, a zip around a `perf.data` that can be mapped in place;
//! * [`tracepoint`] reads the kernel's descriptions of its tracepoints, without which their samples are opaque bytes.
//!
//! Damage never panics and rarely fails: what can be read is read, what cannot is a line in the trace's warnings.

mod cursor;
mod error;
mod mapping;

pub mod container;
pub mod perf_data;
pub mod tracepoint;

pub use error::Error;

use mapping::Content;
use std::path::Path;
use unhitch_model::Trace;

/// Reads the trace at `path`, of whatever kind its content shows. Names of functions come with a container; in others they are missing.
///
/// # Errors
/// When it cannot be opened, is no trace, or is damaged where nothing can be read without.
pub fn open(path: &Path) -> Result<Trace, Error> {
    let content = Content::open(path)?;
    read(content.bytes(), &|part| content.release(part))
}

/// The same for a trace in memory.
///
/// # Errors
/// When it is no trace, or is damaged where nothing can be read without.
pub fn read_bytes(bytes: &[u8]) -> Result<Trace, Error> {
    read(bytes, &|_| {})
}

fn read(bytes: &[u8], release: &(dyn Fn(&[u8]) + Sync)) -> Result<Trace, Error> {
    if container::is_container(bytes) { container::read(bytes, release) } else { perf_data::load(bytes, release) }
}
