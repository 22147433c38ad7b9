//! trace-cmd's `trace.dat`, versions 6 and 7: pages of the kernel's ring buffer, with the
//! descriptions of their events.
//!
//! `trace-cmd.dat.v6(5)` and `trace-cmd.dat.v7(5)` describe the file. The pages are those of
//! `kernel/trace/ring_buffer.c`; `Documentation/trace/ring-buffer-design.rst` describes them.

mod events;
mod file;
mod header;
mod kernel_names;
mod load;
mod pages;

pub(super) use load::{is_trace_dat, load};
