//! Scans the address space and lists the threads of a process, without stalling it.
//!
//! [`scan`] lists the mappings of a process (`space.rs`), one at a time however many there are
//! (`mappings.rs`), groups them by purpose (`groups.rs`), optionally counts their pages
//! (`pages.rs`), and compares the page tables that these need with those that the kernel has
//! allocated (`tables.rs`). It describes what stands out in words (`findings.rs`) and as a picture
//! ([`svg`]). [`Growth`] compares two scans. [`threads`] lists threads.
//!
//! *Why not `smaps` or `numa_maps`:* for these, the kernel walks all page tables of a mapping while
//! it holds the process's `mmap_lock`. If the scanner loses its CPU meanwhile it keeps the lock,
//! and the target cannot map memory until the scanner runs again: see the lab's `scan-stall`.
//!
//! # Example
//!
//! ```
//! use unhitch_scan::{Options, scan};
//!
//! let own = scan(std::process::id(), &Options::default(), &mut |_| ())?;
//! assert!(own.total.mappings > 0);
//! println!("{}", unhitch_scan::text(&own));
//! # Ok::<(), unhitch_scan::Error>(())
//! ```

#![warn(clippy::missing_errors_doc)]

mod address_space;
mod areas;
mod error;
mod figures;
mod findings;
mod groups;
mod growth;
mod mapping;
mod mappings;
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

pub use address_space::{AddressSpace, Method, TableFigures};
pub use areas::Area;
pub use error::Error;
pub use figures::{Figures, PageFigures, SIZE_CLASSES, class_limit, size_class};
pub use groups::{Group, Kind};
pub use growth::Growth;
pub use mapping::Access;
pub use process::{Process, all_pids, find};
pub use space::{Options, Progress, scan};
pub use stall::Calls;
pub use svg::svg;
pub use text::{text, title};
pub use threads::{ProcessThreads, Thread, text as threads_text, threads};
