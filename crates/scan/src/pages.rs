//! Counts the present pages of a process, in pieces so small that nobody has to wait for us
//! (`PAGEMAP_SCAN`, Linux 6.7).
//!
//! The kernel holds the target's `mmap_lock` for reading while it walks a piece. *How a piece is
//! limited:* in address space (empty page tables take time and report nothing), and in the number
//! of pages found. Pieces grow while calls are short, and shrink after a long one.

use crate::error::Error;
use crate::stall::Calls;
use crate::sys::{self, Region};
use crate::tables::{Entry, PageTables, TABLE_BYTES};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Maximum number of regions per call.
const MAX_REGIONS: usize = 1024;
/// Maximum number of pages per call: 64 MiB of small pages.
const MAX_PAGES: u64 = 1 << 14;
/// Minimum size of a piece in bytes.
const MIN_PIECE: u64 = 2 << 20;
/// Initial size of a piece in bytes.
const FIRST_PIECE: u64 = 64 << 20;
/// Maximum size of a piece in bytes: at most 512 empty tables, half a millisecond.
const MAX_PIECE: u64 = 1 << 30;
/// A piece grows after a call that is shorter than this …
const SHORT_NS: u64 = 50_000;
/// … and shrinks after a call that is longer than this.
const LONG_NS: u64 = 150_000;

/// The kinds that the kernel should report for each page.
const REPORTED: u64 = sys::FILE | sys::PRESENT | sys::SWAPPED | sys::ZERO | sys::HUGE;
const HUGE_BYTES: u64 = 2 << 20;

/// The pages of a mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCounts {
    /// Resident bytes.
    pub resident_bytes: u64,
    /// Swapped bytes.
    pub swapped_bytes: u64,
    /// The part of the resident bytes that is in huge pages.
    pub huge_bytes: u64,
    /// Page tables needed for them, beyond those needed for lower mappings.
    pub tables_bytes: u64,
}

/// A range of one mapping whose pages to count.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// First address.
    pub start: u64,
    /// Address just after the last byte.
    pub end: u64,
    /// Size of its pages in bytes: above 4 KiB for hugetlb.
    pub page_bytes: u64,
}

/// Counts pages, in ascending order.
pub struct Pages {
    pagemap: File,
    path: PathBuf,
    regions: Vec<Region>,
    piece: u64,
    any_of: u64,
    /// The page tables of all pages seen.
    pub tables: PageTables,
}

impl Pages {
    /// The pages of process `pid`.
    pub fn open(pid: u32) -> Result<Self, Error> {
        let path = Path::new("/proc").join(pid.to_string()).join("pagemap");
        let pagemap = File::open(&path).map_err(|source| Error::File {
            action: "open",
            path: path.clone(),
            source,
        })?;
        let mut regions = vec![Region::default(); MAX_REGIONS];
        // The range is empty, so this only checks which kinds the kernel supports.
        let probe = |any_of, regions: &mut [Region]| {
            sys::scan_pages(pagemap.as_fd(), (0, 0), any_of, any_of, 1, regions)
        };
        let mut any_of = sys::PRESENT | sys::SWAPPED | sys::GUARD;
        if probe(any_of, &mut regions)
            .is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL))
        {
            any_of &= !sys::GUARD;
        }
        match probe(any_of, &mut regions) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL)) => {
                Err(Error::Missing {
                    what: "this kernel cannot list pages in bounded pieces (PAGEMAP_SCAN)"
                        .to_owned(),
                    remedy: "use Linux 6.7 or later, or scan without --pages".to_owned(),
                })
            }
            _ => Ok(Self {
                pagemap,
                path,
                regions,
                piece: FIRST_PIECE,
                any_of,
                tables: PageTables::default(),
            }),
        }
    }

    /// Counts the pages of `ranges`, which must be in ascending order; returns one count for each.
    /// If the process exits, the remaining counts are zero.
    pub fn count(&mut self, ranges: &[Range], calls: &mut Calls) -> Result<Vec<PageCounts>, Error> {
        let mut counts = vec![PageCounts::default(); ranges.len()];
        let Some(end) = ranges.last().map(|range| range.end) else { return Ok(counts) };
        let (mut at, mut current) = (0, 0);
        while let Some(range) = ranges.get(current) {
            if at >= range.end {
                current += 1;
                continue;
            }
            at = at.max(range.start);
            let to = at.saturating_add(self.piece).min(end);
            let (pagemap, reported) = (self.pagemap.as_fd(), REPORTED | self.any_of & sys::GUARD);
            let regions = &mut self.regions;
            let (answer, ns) = calls.time_ns("PAGEMAP_SCAN", || {
                sys::scan_pages(pagemap, (at, to), self.any_of, reported, MAX_PAGES, regions)
            });
            let (found, walked) = match answer {
                Ok(answer) => answer,
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => break,
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => continue,
                Err(source) => {
                    return Err(Error::File {
                        action: "scan the pages in",
                        path: self.path.clone(),
                        source,
                    });
                }
            };
            let (mut first, mut seen_to, mut found_pages) = (current, at, 0);
            for index in 0..found {
                let Some(&region) = self.regions.get(index) else { break };
                seen_to = region.end;
                found_pages += region.end.saturating_sub(region.start) / TABLE_BYTES;
                self.divide(region, ranges, &mut first, &mut counts);
            }
            // After more than 512 regions, the kernel (6.18) returns as `walk_end` where it paused
            // to copy them, although it continued after that.
            let is_whole = found < self.regions.len() && found_pages < MAX_PAGES;
            let next = walked.max(seen_to).min(to);
            // If the kernel made no progress, we would stay here forever.
            at = if is_whole || next <= at { to } else { next };
            self.piece = match ns {
                ..SHORT_NS => (self.piece * 2).min(MAX_PIECE),
                SHORT_NS..=LONG_NS => self.piece,
                _ => (self.piece / 2).max(MIN_PIECE),
            };
        }
        Ok(counts)
    }

    /// Divides a region among the ranges: it spans several mappings if their pages are of the same
    /// kind.
    fn divide(
        &mut self,
        region: Region,
        ranges: &[Range],
        first: &mut usize,
        counts: &mut [PageCounts],
    ) {
        while ranges.get(*first).is_some_and(|range| range.end <= region.start) {
            *first += 1;
        }
        let mut index = *first;
        while let (Some(range), Some(count)) = (ranges.get(index), counts.get_mut(index)) {
            if range.start >= region.end {
                break;
            }
            let (start, end) = (region.start.max(range.start), region.end.min(range.end));
            self.add(count, start, end, region.kinds, range.page_bytes);
            index += 1;
        }
    }

    fn add(&mut self, count: &mut PageCounts, start: u64, end: u64, kinds: u64, page_bytes: u64) {
        if start >= end {
            return;
        }
        let has = |kind| kinds & kind != 0;
        let bytes = end - start;
        if has(sys::ZERO) {
            // The zero page takes an entry in a table, but no memory.
        } else if has(sys::PRESENT) {
            count.resident_bytes += bytes;
        } else if !has(sys::GUARD) {
            count.swapped_bytes += bytes;
        }
        if has(sys::HUGE) && has(sys::PRESENT) && !has(sys::ZERO) {
            count.huge_bytes += bytes;
        }
        let entry = match page_bytes {
            _ if page_bytes > HUGE_BYTES => Entry::Giant,
            _ if page_bytes == HUGE_BYTES => Entry::Huge,
            _ if has(sys::HUGE) && has(sys::FILE) => Entry::Huge,
            _ => Entry::Small,
        };
        count.tables_bytes += self.tables.touch(start, end, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{RW, Synthetic};

    const START: u64 = 0x1000_0000_0000;
    const PAGE: u64 = 4096;
    const MIB: u64 = 1 << 20;

    /// The counts of these ranges, were the kernel to answer with these regions. Lengths in bytes,
    /// one after another.
    fn counts(ranges: &[(u64, u64)], regions: &[(u64, u64)]) -> (Vec<PageCounts>, PageTables) {
        let place = |lengths: &[(u64, u64)]| {
            let mut end = START;
            let mut next = |bytes| {
                end += bytes;
                (end - bytes, end)
            };
            lengths.iter().map(|&(bytes, what)| (next(bytes), what)).collect::<Vec<_>>()
        };
        let ranges: Vec<Range> = place(ranges)
            .into_iter()
            .map(|((start, end), page_bytes)| Range { start, end, page_bytes })
            .collect();
        let pagemap = File::open("/dev/null").unwrap();
        let tables = PageTables::default();
        let mut pages = Pages {
            pagemap,
            path: PathBuf::new(),
            regions: Vec::new(),
            piece: FIRST_PIECE,
            any_of: 0,
            tables,
        };
        let (mut counts, mut first) = (vec![PageCounts::default(); ranges.len()], 0);
        for ((start, end), kinds) in place(regions).into_iter().filter(|(_, kinds)| *kinds != 0) {
            pages.divide(Region { start, end, kinds }, &ranges, &mut first, &mut counts);
        }
        (counts, pages.tables)
    }

    #[test]
    fn swapped_pages_are_counted_apart_and_need_tables() {
        let regions = [
            (3 * PAGE, sys::PRESENT),
            (5 * PAGE, sys::SWAPPED),
            (PAGE, 0),
            // Goes on in the next mapping.
            (MIB, sys::SWAPPED | sys::FILE),
            // The kernel reports these as swapped, and these are there, but take no memory.
            (7 * PAGE, sys::SWAPPED | sys::GUARD),
            (PAGE, sys::PRESENT | sys::ZERO),
            (2 * PAGE, sys::PRESENT),
        ];
        let (found, tables) = counts(&[(10 * PAGE, PAGE), (2 * MIB, PAGE)], &regions);
        let [first, second] = found[..] else { panic!("{found:?}") };
        assert_eq!(
            (first.resident_bytes, first.swapped_bytes, first.huge_bytes),
            (3 * PAGE, 6 * PAGE, 0)
        );
        assert_eq!(
            (second.resident_bytes, second.swapped_bytes, second.huge_bytes),
            (2 * PAGE, MIB - PAGE, 0)
        );
        assert_eq!(
            (first.tables_bytes, second.tables_bytes, tables.bytes()),
            (3 * TABLE_BYTES, 0, 3 * TABLE_BYTES)
        );
        // What is all swapped out needs tables as well.
        assert_eq!(
            counts(&[(4 * MIB, PAGE)], &[(4 * MIB, sys::SWAPPED)]).1.bytes(),
            4 * TABLE_BYTES
        );
    }

    #[test]
    fn huge_pages_that_are_swapped_out_are_not_huge_in_memory() {
        let regions = [(4 * MIB, sys::PRESENT | sys::HUGE), (2 * MIB, sys::SWAPPED | sys::HUGE)];
        let (counts, _) = counts(&[(6 * MIB, PAGE)], &regions);
        assert_eq!(
            (counts[0].resident_bytes, counts[0].swapped_bytes, counts[0].huge_bytes),
            (4 * MIB, 2 * MIB, 4 * MIB)
        );
    }

    #[test]
    fn the_report_has_a_column_for_what_is_swapped() {
        let counts = counts(&[(8 * MIB, PAGE)], &[(MIB, sys::PRESENT), (3 * MIB, sys::SWAPPED)]).0;
        let mut space = Synthetic::default();
        space.map_as(START, 8 * MIB, RW, b"[anon:pool]", Some(counts[0]));
        let space = space.finish();
        let text = crate::text(&space);
        let cells = |line: &str| {
            line.split("  ")
                .filter(|cell| !cell.is_empty())
                .map(|cell| cell.trim().to_owned())
                .collect::<Vec<_>>()
        };
        let all =
            text.lines().find(|line| line.trim_start().starts_with("total ")).map(cells).unwrap();
        assert_eq!(all[..7], ["total", "1", "8 MiB", "8 MiB", "1 MiB", "3 MiB", "–"], "{text}");
        assert_eq!(space.groups[0].figures.pages.unwrap().swapped_bytes, 3 * MIB);
    }
}
