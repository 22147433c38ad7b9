//! Writes what Windows would: trace files (`.etl`) and symbol files (`.pdb`), to test readers with.
//!
//! Real traces with context switches are not public, so tests need made-up ones, and a reader must
//! not be tested by its own mirror image: this crate shares nothing with the reader and was written
//! from descriptions of the format alone. It is for tests; it panics on contradictions instead of
//! returning errors.
//!
//! [`Writer`] takes events in the order of time and lays them out in buffers as the kernel does: a
//! buffer per CPU that goes to the file when it is full, plain or compressed. [`KernelEvent`]
//! encodes what the kernel logs, [`StackCache`] its keyed call stacks, [`win32k`] and [`uiforetw`]
//! what hang hunters add, [`Pdb`] a symbol file.

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
