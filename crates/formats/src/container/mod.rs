//! `NAME.hitch`, the file that Unhitch saves: a zip that any tool can open.
//!
//! | entry | holds |
//! |---|---|
//! | `perf.data` | the records, as perf reads them; *stored* and aligned to 8 bytes, so that it can be mapped in place |
//! | `meta.json` | [`ContainerMeta`]: facts that perf.data has no place for |
//! | `machine.json` | [`MachineFile`]: counters of the machine and of its control groups |
//! | `symbols.json` | [`SymbolFile`]: names resolved on the recording machine; added last, when the rest is on disk |
//! | `scripts.json` | [`ScriptFile`](crate::scripts::ScriptFile): the functions of interpreted programs |
//! | `notes.md` | the user's notes |
//! | `marks.json` | [`MarkFile`]: moments that people and programs marked |
//! | `save.json` | [`SaveFile`]: why the trace was saved |
//! | `start.json`, `start.data` | of a recording that was written while it went on: what was known at its start |
//!
//! Further entries are allowed and ignored. *Why a zip*: the parts are useful on their own, and no
//! special tool is needed to extract them.

mod append;
mod check;
mod grow;
mod headers;
mod listing;
mod machine;
mod marks;
mod members;
mod meta;
mod notes;
mod read;
mod recover;
mod save;
mod symbols;
mod verdict;
mod write;

pub use crate::new_file::Readers;
pub use append::add_symbols;
pub use grow::{Growing, LastParts};
pub use listing::{holds_etl, read_meta, read_save};
pub use machine::{
    CpuTotals, DeviceTotals, DiskTotals, GroupAccounts, GroupName, MachineFile, MachineReading,
    Member, MemoryTotals, PressureTotals,
};
pub use marks::{Mark, MarkFile};
pub(crate) use members::SCRIPTS;
pub use meta::{
    ContainerMeta, CpuLoss, CpuWindow, FutexWaiter, Holder, LoopPeer, ProcessFacts, ThreadFacts,
};
pub use notes::set_notes;
pub(crate) use read::{has_rings, is_container, read, unpack_etl};
pub use save::{SaveFile, SuppressedHits, TriggerFacts};
pub use symbols::SymbolFile;
pub use verdict::{read_verdict, verdict_path};
pub use write::{ContainerParts, trace_file_name, write_container, write_container_for};
