//! The text that `perf script` prints: `tools/perf/builtin-script.c`.
//!
//! An event is a line, and the frames of its stack follow, innermost first, until an empty line.

mod fields;
mod line;
mod load;
mod stack;

pub(crate) use load::{is_perf_script, load};
