//! Writes Windows trace files (`.etl`) and symbol files (`.pdb`), to test readers with.
//!
//! Real traces with context switches are not public, so tests need synthetic ones. A reader must
//! not be tested against its own mirror image, so this crate shares nothing with the reader and was
//! written from descriptions of the format alone. It is for tests only: it panics on contradictions
//! instead of returning errors.
//!
//! [`Writer`] takes events by time and lays them out in buffers like the kernel: a buffer per CPU
//! that goes to the file when it is full, plain or compressed. [`KernelEvent`] encodes the kernel's
//! events, [`StackCache`] its keyed call stacks, [`win32k`] and [`uiforetw`] the events of UIforETW
//! traces, and [`Pdb`] a symbol file.
//!
//! Write a trace with one context switch:
//!
//! ```
//! use unhitch_etl_writer::{CSwitch, KernelEvent, Options, Writer};
//!
//! let mut writer = Writer::new(Options::default());
//! let switch = CSwitch { new_tid: 41, old_state: 2, ..CSwitch::default() };
//! writer.kernel(0, 1_000, &KernelEvent::CSwitch(switch));
//! let trace = unhitch_formats::read_bytes(&writer.finish())?;
//! assert_eq!(trace.threads.get(trace.switches.next[0]).tid, 41);
//! # Ok::<(), unhitch_formats::Error>(())
//! ```

mod bytes;
pub mod clr;
mod event;
mod kernel;
mod logfile;
pub mod metadata;
mod pdb;
mod stacks;
pub mod uiforetw;
pub mod win32k;
mod writer;
mod xpress;

pub use bytes::Bytes;
pub use event::{Extended, Guid, Header};
pub use kernel::{
    CSwitch, Image, Interrupt, KernelEvent, Process, ReadyThread, Rundown, ThreadFacts, wait_reason,
};
pub use logfile::LogFile;
pub use pdb::{Pdb, Procedure, Public};
pub use stacks::StackCache;
pub use writer::{Clock, Compression, Options, UsedLength, Writer};
pub use xpress::compress;
