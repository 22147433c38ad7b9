//! Counts the page tables that a set of pages needs, in the same way as the kernel (`VmPTE` in
//! `/proc/PID/status`).
//!
//! With pages of 4 KiB, each level has 512 entries of 8 bytes: one table page per 2 MiB unit that
//! contains a page, one per 1 GiB unit, and one per 512 GiB unit. The root is one more, which
//! `VmPTE` does not include. A transparent huge page of anonymous memory keeps a table in reserve
//! for when it is split (`pgtable_trans_huge_deposit`), so it costs as much as small pages. Huge
//! pages of files do not, nor does hugetlb. *Why this is exact:* the kernel allocates a table for
//! the first page and does not free it until the memory is unmapped.

/// A table has the size of a page.
pub const TABLE_BYTES: u64 = 4096;
const TABLE_SHIFT: u32 = 21;
const DIRECTORY_SHIFT: u32 = 30;
const UPPER_SHIFT: u32 = 39;

/// How pages are entered into the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// In a last-level table for each 2 MiB: small pages, and transparent huge pages of anonymous
    /// memory.
    Small,
    /// In the table of a 1 GiB unit: huge pages of files, hugetlb.
    Huge,
    /// In the table of a 512 GiB unit: hugetlb of 1 GiB.
    Giant,
}

/// The units of one level that were seen so far; addresses arrive in ascending order.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    count: u64,
    /// The last unit plus one; zero before the first.
    next: u64,
    /// A unit that counts even if none of its pages is reported.
    expected: Option<u64>,
}

impl Level {
    fn touch(&mut self, start: u64, end: u64, shift: u32) {
        let first = (start >> shift).max(self.next);
        let next = ((end - 1) >> shift) + 1;
        if next > first {
            self.count += next - first;
            self.next = next;
        }
        self.expected = self.expected.filter(|unit| !(start >> shift..next).contains(unit));
    }

    fn expect(&mut self, page: u64, shift: u32) {
        self.expected = Some(page >> shift).filter(|unit| *unit >= self.next);
    }
}

/// Counts the tables of pages that are reported in ascending order.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageTables {
    small: Level,
    directory: Level,
    upper: Level,
}

impl PageTables {
    /// Adds pages from `start` to `end`. Returns how many bytes of tables they need beyond those of
    /// the pages before.
    pub fn touch(&mut self, start: u64, end: u64, entry: Entry) -> u64 {
        if start >= end {
            return 0;
        }
        let before = self.seen();
        if entry == Entry::Small {
            self.small.touch(start, end, TABLE_SHIFT);
        }
        if entry != Entry::Giant {
            self.directory.touch(start, end, DIRECTORY_SHIFT);
        }
        self.upper.touch(start, end, UPPER_SHIFT);
        (self.seen() - before) * TABLE_BYTES
    }

    /// Number of tables of the reported pages.
    const fn seen(&self) -> u64 {
        self.small.count + self.directory.count + self.upper.count
    }

    /// Adds a small page at `page`, above all pages so far, that is present but may not be
    /// reported. There can only be one at a time.
    pub fn expect(&mut self, page: u64) {
        self.small.expect(page, TABLE_SHIFT);
        self.directory.expect(page, DIRECTORY_SHIFT);
        self.upper.expect(page, UPPER_SHIFT);
    }

    /// All tables without the root, in bytes.
    pub fn bytes(&self) -> u64 {
        let expected = [self.small, self.directory, self.upper]
            .iter()
            .filter(|level| level.expected.is_some())
            .count();
        (self.seen() + expected as u64) * TABLE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const PAGE: u64 = 4096;

    #[test]
    fn one_page_needs_a_table_of_each_level_and_its_neighbour_none() {
        let mut tables = PageTables::default();
        assert_eq!(tables.touch(0x7f00_0000_0000, 0x7f00_0000_1000, Entry::Small), 3 * TABLE_BYTES);
        assert_eq!(tables.touch(0x7f00_0000_1000, 0x7f00_0000_2000, Entry::Small), 0);
        assert_eq!(tables.touch(0x7f00_0020_0000, 0x7f00_0020_1000, Entry::Small), TABLE_BYTES);
        assert_eq!(tables.touch(0x7f00_0040_0000, 0x7f00_0060_0000, Entry::Huge), 0);
        assert_eq!(tables.touch(0x7f00_4000_0000, 0x7f00_8000_0000, Entry::Giant), 0);
        assert_eq!(tables.touch(5, 5, Entry::Small), 0);
    }

    #[test]
    fn an_expected_page_counts_once_whatever_comes_below_and_above_it() {
        let vvar = 0x7fff_0000_3000;
        for others in [
            &[][..],
            &[0x7fff_0000_0000],
            &[0x7fff_0000_5000],
            &[0x7ffe_ffff_f000, 0x7fff_0000_5000],
            &[0x7ffe_ffff_f000],
        ] {
            let mut tables = PageTables::default();
            tables.expect(vvar);
            for page in others {
                tables.touch(*page, page + PAGE, Entry::Small);
            }
            let mut pages: Vec<u64> = others.iter().copied().chain([vvar]).collect();
            pages.sort_unstable();
            let mut plain = PageTables::default();
            for page in pages {
                plain.touch(page, page + PAGE, Entry::Small);
            }
            assert_eq!(tables.bytes(), plain.bytes(), "{others:x?}");
        }
    }

    #[test]
    fn counts_equal_sets_of_units() {
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        for _ in 0..200 {
            let (mut tables, mut sets) = (PageTables::default(), [const { BTreeSet::new() }; 3]);
            let mut address = 0_u64;
            for _ in 0..60 {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                address += PAGE << (random >> 33 & 31).min(26);
                let end = address + PAGE * (1 + (random >> 40 & 1023));
                tables.touch(address, end, Entry::Small);
                for (set, shift) in sets.iter_mut().zip([TABLE_SHIFT, DIRECTORY_SHIFT, UPPER_SHIFT])
                {
                    set.extend((address..end).step_by(PAGE as usize).map(|page| page >> shift));
                }
                address = end;
            }
            assert_eq!(
                tables.bytes(),
                sets.iter().map(|set| set.len() as u64).sum::<u64>() * TABLE_BYTES
            );
        }
    }
}
