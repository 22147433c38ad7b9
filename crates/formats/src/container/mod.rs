//! `NAME.hitch`, the file that Unhitch saves: a zip that any tool opens.
//!
//! | entry | holds |
//! |---|---|
//! | `perf.data` | the records, as perf reads them; *stored* on an 8-byte border, so that it is mapped in place |
//! | `meta.json` | [`ContainerMeta`]: what perf.data has no place for |
//! | `machine.json` | [`MachineFile`]: counters of the machine and of its control groups |
//! | `symbols.json` | [`SymbolFile`]: names resolved on the recording machine; added last, when the rest is on the disk |
//! | `notes.md` | the user's words |
//!
//! Further entries are allowed and ignored. A zip, because the parts are useful alone and need no
//! tool of ours to get at.

mod append;
mod check;
mod facts;
mod machine;
mod meta;
mod notes;
mod read;
mod recover;
mod symbols;
mod write;

pub use append::add_symbols;
pub use facts::{facts, holds_etl};
pub use machine::{
    CpuTotals, DeviceTotals, GroupAccounts, GroupName, MachineFile, MachineReading, Member,
    MemoryTotals, PressureTotals,
};
pub use meta::{ContainerMeta, CpuLoss, CpuWindow, FutexWaiter, ProcessFacts, ThreadFacts};
pub use notes::set_notes;
pub(crate) use read::{is_container, read, unpack_etl};
pub use symbols::SymbolFile;
pub use write::{ContainerParts, Readers, trace_file_name, write_container, write_container_for};

pub(crate) const PERF_DATA: &str = "perf.data";
pub(crate) const META: &str = "meta.json";
pub(crate) const MACHINE: &str = "machine.json";
pub(crate) const SYMBOLS: &str = "symbols.json";
pub(crate) const NOTES: &str = "notes.md";
/// The members that are read.
pub(crate) const MEMBERS: &[&str] = &[PERF_DATA, META, MACHINE, SYMBOLS, NOTES];
