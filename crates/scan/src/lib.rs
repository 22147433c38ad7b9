//! Looks at a process's address space, and at its threads, without stalling it.
//!
//! [`scan`] lists the mappings of a process (`space.rs`), one at a time however many there are
//! (`mapping.rs`), sorts them by what they are for (`groups.rs`), counts their pages if asked to
//! (`pages.rs`), and compares the page tables that these need with those that the kernel allocated
//! (`tables.rs`). What stands out is said in words (`findings.rs`), and drawn ([`svg`]). [`Growth`]
//! compares two scans. [`threads`] lists threads.
//!
//! *Why not `smaps` or `numa_maps`:* for them the kernel walks all page tables of a mapping with
//! the process's `mmap_lock` held. A scanner that is then given no CPU keeps the lock, and the
//! target cannot map any memory until it is: see the lab's `scan-stall`.

mod areas;
mod error;
mod figures;
mod findings;
mod groups;
mod growth;
mod mapping;
mod maps_text;
mod pages;
mod process;
mod space;
mod stall;
mod svg;
#[cfg(test)]
mod synthetic;
#[allow(unsafe_code)]
mod sys;
mod tables;
mod text;
mod threads;

pub use areas::Area;
pub use error::Error;
pub use figures::{Figures, PageFigures, SIZE_CLASSES, class_limit, size_class};
pub use groups::{Group, Kind};
pub use growth::Growth;
pub use mapping::Access;
pub use process::{Process, all_pids, find};
pub use space::{AddressSpace, Method, Options, Progress, TableFigures, scan};
pub use stall::Calls;
pub use svg::svg;
pub use text::{text, title};
pub use threads::{ProcessThreads, Thread, text as threads_text, threads};
