//! [`AddressSpace`]: the result of a scan.

use crate::areas::Area;
use crate::figures::Figures;
use crate::groups::Group;
use crate::process::Process;
use crate::stall::Calls;
use serde::Serialize;

/// Page tables: allocated by the kernel, and needed for the pages. In bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TableFigures {
    /// Allocated by the kernel (VmPTE), without the root.
    pub allocated_bytes: u64,
    /// The root.
    pub root_bytes: u64,
    /// Needed for the present pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed_bytes: Option<u64>,
    /// Allocated but not needed: memory was freed, or device memory is mapped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empty_bytes: Option<u64>,
    /// Needed for device memory, whose pages the kernel does not report: this much of the empty
    /// tables may be in use.
    pub unseen_bytes: u64,
}

/// How the scan was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Method {
    /// The kernel interface that listed the mappings.
    pub interface: &'static str,
    /// How long it took, in nanoseconds.
    pub duration_ns: u64,
    /// The maximum time for which the target may have waited for us.
    #[serde(flatten)]
    pub calls: Calls,
}

/// The result of a scan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AddressSpace {
    /// The process, as of the end of the scan.
    pub process: Process,
    /// Sums over all mappings.
    pub total: Figures,
    /// Sums by purpose, most mappings first.
    pub groups: Vec<Group>,
    /// Page tables.
    pub page_tables: TableFigures,
    /// Maximum number of mappings that the system allows per process.
    pub most_mappings: Option<u64>,
    /// How the scan was done.
    pub method: Method,
    /// What stands out, in words.
    pub findings: Vec<String>,
    /// What the figures do not cover, or may have wrong.
    pub warnings: Vec<String>,
    /// Where the mappings are, for the picture.
    #[serde(skip)]
    pub areas: Vec<Area>,
}
