//! Linux `perf.data`: the recording format of `perf`, and of Unhitch inside its container.
//!
//! Specified by `include/uapi/linux/perf_event.h` (records, attributes) and
//! `tools/perf/Documentation/perf.data-file-format.txt` (file, features). One definition of each
//! structure serves reader, writer and recorder, so that they cannot drift apart.

pub mod attr;
mod coverage;
mod decode;
mod events;
mod expand;
mod feature;
mod header;
mod load;
pub mod record;
mod records;
mod resolve;
mod sample;
mod side_band;
mod space;
mod stack_table;
pub(crate) mod tasks;
mod walk;
mod write;

pub use attr::EventAttr;
pub(crate) use load::load;
pub use write::{ClockData, EventDesc, Features, write};

/// `"PERFILE2"`, the first eight bytes of a file of this machine's byte order.
pub(crate) const MAGIC: &[u8; 8] = b"PERFILE2";
/// Length of a file's header; a pipe's is 16.
pub(crate) const FILE_HEADER_LEN: u64 = 104;
/// Length of a record's header: type (4), misc (2), size (2).
pub(crate) const RECORD_HEADER_LEN: usize = 8;
