//! Kernel traces of LTTng: folders in the Common Trace Format 1.8 (<https://diamon.org/ctf/>).
//!
//! A folder has a file `metadata`, which describes the events in a language of its own, TSDL, and
//! files with the events of one CPU each, in packets.

mod bits;
mod events;
mod folder;
mod grammar;
mod load;
mod metadata;
mod packets;
mod tokens;
mod types;

pub(crate) use folder::{metadata_of, streams_of};
pub use load::load;
