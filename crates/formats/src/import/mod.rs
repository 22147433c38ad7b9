//! Traces of other tools: Perfetto, trace-cmd, `perf script`, LTTng.
//!
//! Each reader decodes its format's events into an [`Import`](builder::Import), which makes a
//! [`Trace`](unhitch_model::Trace) of them. What a source cannot tell is in the trace's
//! [`lacks`](unhitch_model::Meta::lacks), and in its warnings, so that every answer says it.

mod builder;
mod contexts;
pub mod ctf;
mod frames;
mod gzip;
mod late_stacks;
mod lives;
mod perf_script;
mod perfetto;
mod readers;
mod trace_dat;
mod unpack;

pub use readers::format_of;
pub(crate) use readers::load;
