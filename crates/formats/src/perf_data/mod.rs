//! Linux `perf.data`: the recording format of `perf`, and of Unhitch inside its container.
//!
//! Specified by `include/uapi/linux/perf_event.h` (records, attributes) and
//! `tools/perf/Documentation/perf.data-file-format.txt` (file, features). Reader, writer and
//! recorder share one definition of each structure, so they cannot drift apart.

pub mod attr;
mod columns;
mod coverage;
mod decode;
mod description;
pub(crate) mod events;
mod expand;
mod export;
mod feature;
mod header;
mod load;
mod merge;
pub mod record;
mod records;
mod resolve;
pub(crate) mod rows;
mod sample;
pub(crate) mod side_band;
mod space;
mod stack_table;
pub(crate) mod tasks;
pub mod tracepoints;
mod walk;
mod write;

pub use attr::EventAttr;
pub use description::{ClockData, EventDesc, Features};
pub use export::{Exported, Selection, export, export_showing};
pub(crate) use load::{Parts, load};
pub use write::{around, describe, write};
