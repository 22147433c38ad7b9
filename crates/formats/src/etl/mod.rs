//! Event Tracing for Windows: `.etl` files, read anywhere, without Windows.
//!
//! The layouts are those of `ntwmi.h` (buffers, kernel events), `evntcons.h` (event headers),
//! `tdh.h` (descriptions of events) and [MS-XCA] (compression). A trace may be several files:
//! kernel and user sessions that were not merged share their clock.

mod assemble;
mod buffer;
mod catalogue;
mod clock;
mod columns;
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
mod method_name;
mod methods;
mod others;
mod parts;
mod paths;
mod rows;
mod schema;
mod tasks;
mod trace_logging;
mod xpress;

mod beside;

pub(crate) use beside::beside;
pub(crate) use load::{is_etl, is_merged, load};

use crate::Error;
use unhitch_model::Trace;

/// Reads files that were recorded together, and keeps *every* event among the trace's
/// [`events`](Trace::events) as it is in the file, those too that became switches, samples or
/// names.
///
/// # Errors
/// When the first is no `.etl` file, or damaged where nothing can be read without.
pub fn every_event(files: &[&[u8]]) -> Result<Trace, Error> {
    load(files, files.iter().map(|file| file.len()).sum(), true, &|_| {})
}
