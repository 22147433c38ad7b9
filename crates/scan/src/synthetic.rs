//! Synthetic address spaces for tests.

use crate::address_space::{AddressSpace, Method};
use crate::mapping::{Access, Mapping};
use crate::pages::PageCounts;
use crate::process::Process;
use crate::space::Collector;
use crate::stall::Calls;

pub const RW: Access = Access { read: true, write: true, execute: false, shared: false };
pub const RX: Access = Access { read: true, write: false, execute: true, shared: false };
pub const NONE: Access = Access { read: false, write: false, execute: false, shared: false };

/// A synthetic address space, to which mappings are added in ascending order.
pub struct Synthetic(Collector);

impl Default for Synthetic {
    fn default() -> Self {
        Self(Collector::new())
    }
}

impl Synthetic {
    /// Adds unnamed private memory, whose pages were not counted.
    pub fn map(&mut self, start: u64, bytes: u64, access: Access) -> &mut Self {
        self.map_as(start, bytes, access, b"", None)
    }

    /// Adds any mapping, optionally with its pages.
    pub fn map_as(
        &mut self,
        start: u64,
        bytes: u64,
        access: Access,
        name: &[u8],
        pages: Option<PageCounts>,
    ) -> &mut Self {
        let mapping =
            Mapping { start, end: start + bytes, access, page_bytes: 4096, inode: 0, name };
        let waiting = self.0.place(&mapping);
        self.0.add(&waiting, pages);
        self
    }

    /// The result of its scan. It has the page tables that its pages need, or else the maximum that
    /// its mappings may need.
    pub fn finish(self) -> AddressSpace {
        let total = &self.0.total;
        let needed = total.pages.map(|pages| pages.table_bytes);
        let process = Process {
            pid: 1,
            name: "synthetic".to_owned(),
            page_table_bytes: total.table_bytes(),
            ..Process::default()
        };
        let method = Method { interface: "none", duration_ns: 0, calls: Calls::default() };
        self.0.finish(process, needed, method, Vec::new())
    }
}
