//! Event Tracing for Windows: reads `.etl` files on any system.
//!
//! The layouts are those of `ntwmi.h` (buffers, kernel events), `evntcons.h` (event headers),
//! `tdh.h` (event descriptions) and [MS-XCA] (compression). A trace may be several files: kernel
//! and user sessions that were not merged, but share a clock.

mod assemble;
mod buffer;
mod catalogue;
mod clock;
mod columns;
mod coverage;
mod decode;
mod event;
#[doc(hidden)]
pub mod fuzzing;
mod hook;
mod images;
mod join;
mod kernel;
mod kinds;
mod load;
mod manifest;
mod merged;
mod method_name;
mod methods;
mod parts;
mod paths;
mod provider_events;
mod rows;
mod schema;
mod sibling_files;
mod space_id;
mod tasks;
mod trace_logging;
mod xpress;

pub(crate) use load::{is_etl, is_merged, load};
pub(crate) use sibling_files::sibling_files;

use crate::Error;
use unhitch_model::Trace;

/// Reads files that were recorded together, and keeps *every* event unchanged among the trace's
/// [`events`](Trace::events), even those that became switches, samples or names.
///
/// # Errors
/// If the first file is not an `.etl` file, or is damaged where nothing can be read without.
pub fn every_event(files: &[&[u8]]) -> Result<Trace, Error> {
    load(files, files.iter().map(|file| file.len()).sum(), true, &|_| {})
}
