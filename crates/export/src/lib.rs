//! Traces, with what is known of them, as files of other tools.
//!
//! [`FORMATS`] is the registry: a format is an entry with a writer. A writer gets a [`Job`], writes
//! to a stream, and returns a [`Report`] of what the file holds and what it cannot. Only perf.data,
//! which needs nothing but the trace, is written elsewhere ([`unhitch_formats::perf_data`]).

mod firefox;
mod folded;
mod formats;
mod frames;
mod job;
mod perfetto;
mod pprof;
mod protobuf;
mod report;
mod set;
mod stalls;
mod tables;
mod waits;
mod weighed;

pub use formats::{FORMATS, Format};
pub use job::{Job, Of, Progress};
pub use report::Report;
