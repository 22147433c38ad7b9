//! Scans one address space: lists its mappings, optionally counts their pages, and compares page
//! tables.

use crate::address_space::{AddressSpace, Method, TableFigures};
use crate::areas::{Area, Areas};
use crate::error::Error;
use crate::figures::Figures;
use crate::groups::{Groups, Kind, Place};
use crate::mapping::{Access, Mapping};
use crate::mappings::Mappings;
use crate::pages::{PageCounts, Pages, Range};
use crate::process::Process;
use crate::stall::Calls;
use crate::sys;
use crate::tables::{Entry, PageTables, TABLE_BYTES};
use std::io::ErrorKind;
use std::time::Instant;

/// How many mappings to list before counting their pages.
const BATCH: usize = 1024;
/// Number of mappings between two progress reports.
const PROGRESS_INTERVAL: u64 = 1 << 14;

/// What to scan.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Also count pages.
    pub pages: bool,
    /// Count pages even at idle priority.
    pub force: bool,
    /// Read the text of `maps` even if the kernel supports queries.
    pub by_text: bool,
}

/// The progress of a scan.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Mappings so far.
    pub mappings: u64,
    /// Their address space in bytes.
    pub bytes: u64,
}

/// A mapping whose pages are to be counted.
pub(crate) struct Waiting {
    place: Place,
    access: Access,
    if_full: u64,
    range: Range,
}

/// Collects what is known about an address space while its mappings arrive, in ascending order. Its
/// size does not depend on their number.
pub(crate) struct Collector {
    groups: Groups,
    areas: Areas,
    pub total: Figures,
    full: PageTables,
    unseen: PageTables,
}

impl Collector {
    pub fn new() -> Self {
        Self {
            groups: Groups::new(),
            areas: Areas::default(),
            total: Figures::default(),
            full: PageTables::default(),
            unseen: PageTables::default(),
        }
    }

    pub fn add(&mut self, one: &Waiting, pages: Option<PageCounts>) {
        let (range, access) = ((one.range.start, one.range.end), one.access);
        self.total.add(range.1 - range.0, access, one.if_full, pages);
        self.groups.add(one.place, range, access, one.if_full, pages);
        let kind = if access.execute && one.place == Place::Run {
            Kind::Jit
        } else {
            self.groups.kind(one.place)
        };
        let resident_bytes = pages.map_or(0, |pages| pages.resident_bytes);
        self.areas.add(Area::new(range, kind, access.any(), access.execute, resident_bytes));
    }

    pub fn place(&mut self, mapping: &Mapping) -> Waiting {
        let place = self.groups.place(mapping);
        let (start, end) = (mapping.start, mapping.end);
        // `maps` does not contain the page size, and most hugetlb pages have 2 MiB.
        let page_bytes = if mapping.page_bytes == 0 && mapping.name.starts_with(b"/anon_hugepage") {
            2 << 20
        } else {
            mapping.page_bytes
        };
        let entry = if page_bytes > TABLE_BYTES { Entry::Huge } else { Entry::Small };
        let if_full = if mapping.access.any() { self.full.touch(start, end, entry) } else { 0 };
        if self.groups.kind(place) == Kind::Device {
            self.unseen.touch(start, end, entry);
        }
        Waiting { place, access: mapping.access, if_full, range: Range { start, end, page_bytes } }
    }

    /// Completes the result. `needed_bytes` is the size of the page tables that the present pages
    /// need, if known.
    pub fn finish(
        self,
        process: Process,
        needed_bytes: Option<u64>,
        method: Method,
        mut warnings: Vec<String>,
    ) -> AddressSpace {
        let (groups, smaller) = self.groups.finish();
        if smaller {
            warnings.push("small reservations are merged into one".to_owned());
        }
        let areas = self.areas.finish(&groups);
        let allocated_bytes = process.page_table_bytes;
        let mut space = AddressSpace {
            process,
            total: self.total,
            groups,
            page_tables: TableFigures {
                allocated_bytes,
                root_bytes: TABLE_BYTES,
                needed_bytes,
                empty_bytes: needed_bytes.map(|needed| allocated_bytes.saturating_sub(needed)),
                unseen_bytes: self.unseen.bytes(),
            },
            most_mappings: std::fs::read_to_string("/proc/sys/vm/max_map_count")
                .ok()
                .and_then(|count| count.trim().parse().ok()),
            method,
            findings: Vec::new(),
            warnings,
            areas,
        };
        space.findings = crate::findings::findings(&space);
        space
    }
}

/// Scans the address space of `pid`. Calls `progress` every few thousand mappings. If the process
/// exits during the scan, the result covers what was seen until then, and has a warning.
///
/// # Errors
/// When the process does not exist, has exited, is a kernel thread or belongs to another user; with
/// `pages` at idle priority; or when `/proc` cannot be read.
pub fn scan(
    pid: u32,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<AddressSpace, Error> {
    if options.pages && !options.force && sys::is_idle_priority() {
        return Err(Error::IdlePriority);
    }
    let start = Instant::now();
    let before = Process::with_memory(pid)?;
    let mut mappings =
        Mappings::open(pid, options.by_text).map_err(|source| refused(&before, source, "maps"))?;
    let has_plain_pages = sys::page_bytes() == TABLE_BYTES;
    let mut pages = match options.pages {
        true => Some(Pages::open(pid).map_err(|error| match error {
            Error::File { source, .. } => refused(&before, source, "pagemap"),
            other => other,
        })?),
        false => None,
    };
    let mut calls = Calls::default();
    let mut all = Collector::new();
    let mut waiting: Vec<Waiting> = Vec::with_capacity(BATCH);
    let mut seen = Progress { mappings: 0, bytes: 0 };
    while let Some(mapping) = mappings.next(&mut calls)? {
        // Every program that reads the time has this page, but the kernel does not report it.
        let is_clock = mapping.name == b"[vvar]";
        let one = all.place(&mapping);
        seen.mappings += 1;
        seen.bytes += one.range.end - one.range.start;
        match &mut pages {
            None => all.add(&one, None),
            Some(pages) => {
                if is_clock {
                    pages.tables.expect(one.range.start);
                }
                waiting.push(one);
                if waiting.len() >= BATCH {
                    count(pages, &mut waiting, &mut all, &mut calls)?;
                }
            }
        }
        if seen.mappings.is_multiple_of(PROGRESS_INTERVAL) {
            progress(seen);
        }
    }
    if let Some(pages) = &mut pages {
        count(pages, &mut waiting, &mut all, &mut calls)?;
    }
    let mut warnings = Vec::new();
    let after = match Process::with_memory(pid) {
        Ok(after) if after.is_same(&before) => after,
        _ => {
            warnings.push(
                "the process exited during the scan: the figures cover only what was seen until \
                 then"
                    .to_owned(),
            );
            before.clone()
        }
    };
    let needed = pages.as_ref().filter(|_| has_plain_pages).map(|pages| pages.tables.bytes());
    if options.pages {
        let pte_bytes = (before.page_table_bytes, after.page_table_bytes);
        warnings.extend(table_warning(has_plain_pages, pte_bytes, needed));
    }
    let method = Method {
        interface: mappings.interface(),
        duration_ns: u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
        calls,
    };
    Ok(all.finish(after, needed, method, warnings))
}

/// Why the comparison of page tables is missing or only approximate. `from` and `to` are `VmPTE` in
/// bytes before and after the scan, `needed` are the simulated tables.
fn table_warning(
    has_plain_pages: bool,
    (from, to): (u64, u64),
    needed: Option<u64>,
) -> Option<String> {
    if !has_plain_pages {
        let warning = "page tables are simulated only for pages of 4 KiB, but this machine has \
                       larger pages";
        return Some(warning.to_owned());
    }
    needed.filter(|needed| *needed > to || from != to).map(|needed| {
        format!(
            "page tables changed during the scan (VmPTE {from} → {to} bytes, simulated {needed}), \
             so the comparison is approximate"
        )
    })
}

/// Counts the pages of the waiting mappings, and adds them.
fn count(
    pages: &mut Pages,
    waiting: &mut Vec<Waiting>,
    all: &mut Collector,
    calls: &mut Calls,
) -> Result<(), Error> {
    let ranges: Vec<Range> = waiting.iter().map(|one| one.range).collect();
    for (one, counts) in waiting.drain(..).zip(pages.count(&ranges, calls)?) {
        all.add(&one, Some(counts));
    }
    Ok(())
}

/// The error for a file of a process that could not be opened.
fn refused(process: &Process, source: std::io::Error, file: &str) -> Error {
    let (pid, name) = (process.pid, process.name.clone());
    match source.kind() {
        ErrorKind::PermissionDenied => Error::NotPermitted { pid, name, owner: process.uid },
        ErrorKind::NotFound => Error::Ended { pid, name },
        _ if source.raw_os_error() == Some(libc::ESRCH) => Error::Ended { pid, name },
        _ => Error::File { action: "open", path: format!("/proc/{pid}/{file}").into(), source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::areas::MAX_AREAS;
    use crate::synthetic::{NONE, RW, RX, Synthetic};

    const MAPPINGS: u64 = 10_000_000;
    const START: u64 = 4 << 30;
    const STRIDE: u64 = 8 << 20;

    /// The most memory that this process ever had, bytes.
    fn peak_bytes() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        kib.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    #[test]
    fn ten_million_mappings_are_counted_to_the_byte_in_bounded_memory() {
        let (mut space, mut tables) = (Synthetic::default(), PageTables::default());
        let before = peak_bytes();
        for index in 0..MAPPINGS {
            let start = START + index * STRIDE;
            let (bytes, access) =
                [(4096, RW), (STRIDE, NONE), (4096, RX), (8192, RW)][index as usize % 4];
            // Each sixteenth has a name of its own.
            let name = if index % 16 == 0 { format!("[anon:{index}]") } else { String::new() };
            let touched = if access.any() { bytes } else { 0 };
            let tables_bytes = tables.touch(start, start + touched, Entry::Small);
            let pages =
                PageCounts { resident_bytes: touched, tables_bytes, ..PageCounts::default() };
            space.map_as(start, bytes, access, name.as_bytes(), Some(pages));
        }
        let space = space.finish();
        let (text, picture) = (crate::text(&space), crate::svg(&space));
        let grown = peak_bytes() - before;
        assert!(grown < 24 << 20, "{grown} bytes for {MAPPINGS} mappings");
        assert_eq!(space.total.mappings, MAPPINGS);
        assert_eq!(space.total.executable_blocks, MAPPINGS / 4);
        assert_eq!(space.groups.iter().map(|group| group.figures.mappings).sum::<u64>(), MAPPINGS);
        assert!(space.groups.len() < 5_000 && space.areas.len() <= MAX_AREAS);
        assert_eq!(space.areas.iter().map(|area| area.mappings).sum::<u64>(), MAPPINGS);
        // Three of four have a page, each in 2 MiB of its own, and every 1 GiB and 512 GiB from the
        // first to the last has one.
        let upto = |shift: u32| ((START + MAPPINGS * STRIDE - 1) >> shift) - (START >> shift) + 1;
        assert_eq!(
            space.page_tables.needed_bytes,
            Some((MAPPINGS / 4 * 3 + upto(30) + upto(39)) * TABLE_BYTES)
        );
        assert!(
            text.len() < 16 << 10 && picture.len() < 128 << 10,
            "{} and {} bytes",
            text.len(),
            picture.len()
        );
    }
}
