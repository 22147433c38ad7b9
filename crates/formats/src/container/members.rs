//! The names of a container's members.

pub(crate) const PERF_DATA: &str = "perf.data";
pub(crate) const RINGS: &str = "rings.bin";
/// Of a recording that was written while it went on: what `meta.json` and the description of the
/// events were when it began.
pub(crate) const START: &str = "start.json";
pub(crate) const START_EVENTS: &str = "start.data";
pub(crate) const META: &str = "meta.json";
pub(crate) const MACHINE: &str = "machine.json";
pub(crate) const SYMBOLS: &str = "symbols.json";
/// The functions of scripts.
pub(crate) const SCRIPTS: &str = "scripts.json";
pub(crate) const NOTES: &str = "notes.md";
/// Marks of people and programs.
pub(crate) const MARKS: &str = "marks.json";
/// Why the trace was saved.
pub(crate) const SAVE: &str = "save.json";
/// The members that readers use.
pub(crate) const KNOWN: &[&str] =
    &[PERF_DATA, RINGS, START, START_EVENTS, META, MACHINE, SYMBOLS, SCRIPTS, NOTES, MARKS, SAVE];
