//! Perfetto's traces: a sequence of `TracePacket`s, as protocol buffers.
//!
//! The messages are those of `protos/perfetto/trace/` in Perfetto's repository. Fields are read by
//! number; a comment names each. Fields that no part of a trace is made of are skipped.

mod clocks;
mod detect;
mod ftrace;
mod interned;
mod load;
mod processes;
mod recording;
mod samples;
mod wire;

pub(crate) use detect::is_perfetto;
pub(super) use load::load;
