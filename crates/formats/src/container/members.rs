//! The names of a container's members.

pub(crate) const PERF_DATA: &str = "perf.data";
pub(crate) const RINGS: &str = "rings.bin";
pub(crate) const META: &str = "meta.json";
pub(crate) const MACHINE: &str = "machine.json";
pub(crate) const SYMBOLS: &str = "symbols.json";
pub(crate) const NOTES: &str = "notes.md";
/// The members that readers use.
pub(crate) const KNOWN: &[&str] = &[PERF_DATA, RINGS, META, MACHINE, SYMBOLS, NOTES];
