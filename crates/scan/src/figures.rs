//! Sums over a set of mappings.

use crate::mapping::Access;
use crate::pages::PageCounts;
use serde::Serialize;

/// Number of size classes: blocks of at most 4 KiB, 16 KiB, 64 KiB, … 1 GiB (a factor of four), and
/// larger ones.
pub const SIZE_CLASSES: usize = 11;
const FIRST_SIZE_SHIFT: u32 = 12;

/// Sums over the pages of some mappings, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PageFigures {
    /// Resident in memory.
    pub resident_bytes: u64,
    /// Swapped out.
    pub swapped_bytes: u64,
    /// The part of the resident memory that is in huge pages.
    pub huge_bytes: u64,
    /// Page tables that these pages need, beyond those needed for pages at lower addresses.
    pub table_bytes: u64,
}

/// Sums over some mappings. A *block* is a mapping that can be accessed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Number of mappings.
    pub mappings: u64,
    /// Their address space.
    pub reserved_bytes: u64,
    /// The part of it that can be read, written or executed.
    pub committed_bytes: u64,
    /// Number of mappings that can be read, written or executed.
    pub blocks: u64,
    /// Number of mappings that can be executed.
    pub executable_blocks: u64,
    /// Their address space.
    pub executable_bytes: u64,
    /// Blocks by size, in the classes of [`size_class`].
    pub block_sizes: [u64; SIZE_CLASSES],
    /// Page tables that would be needed if every committed page were present, beyond those needed
    /// for lower addresses.
    pub table_bytes_if_full: u64,
    /// Sums over pages; absent if pages were not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<PageFigures>,
}

/// The size class of a block.
pub fn size_class(bytes: u64) -> usize {
    let shift = bytes.max(1).next_power_of_two().trailing_zeros();
    (shift.saturating_sub(FIRST_SIZE_SHIFT).div_ceil(2) as usize).min(SIZE_CLASSES - 1)
}

/// The maximum size of a block in a class, in bytes; `None` for the last class.
pub fn class_limit(class: usize) -> Option<u64> {
    (class + 1 < SIZE_CLASSES).then(|| 1 << (FIRST_SIZE_SHIFT as usize + 2 * class))
}

impl Figures {
    /// Adds a mapping of `bytes`.
    pub(crate) fn add(
        &mut self,
        bytes: u64,
        access: Access,
        table_bytes_if_full: u64,
        pages: Option<PageCounts>,
    ) {
        self.mappings += 1;
        self.reserved_bytes += bytes;
        if access.any() {
            self.committed_bytes += bytes;
            self.blocks += 1;
            if let Some(class) = self.block_sizes.get_mut(size_class(bytes)) {
                *class += 1;
            }
        }
        if access.execute {
            self.executable_blocks += 1;
            self.executable_bytes += bytes;
        }
        self.table_bytes_if_full += table_bytes_if_full;
        if let Some(pages) = pages {
            let sum = self.pages.get_or_insert_default();
            sum.resident_bytes += pages.resident_bytes;
            sum.swapped_bytes += pages.swapped_bytes;
            sum.huge_bytes += pages.huge_bytes;
            sum.table_bytes += pages.tables_bytes;
        }
    }

    /// Adds all mappings of `other`.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.mappings += other.mappings;
        self.reserved_bytes += other.reserved_bytes;
        self.committed_bytes += other.committed_bytes;
        self.blocks += other.blocks;
        self.executable_blocks += other.executable_blocks;
        self.executable_bytes += other.executable_bytes;
        for (class, more) in self.block_sizes.iter_mut().zip(other.block_sizes) {
            *class += more;
        }
        self.table_bytes_if_full += other.table_bytes_if_full;
        if let Some(more) = other.pages {
            let sum = self.pages.get_or_insert_default();
            sum.resident_bytes += more.resident_bytes;
            sum.swapped_bytes += more.swapped_bytes;
            sum.huge_bytes += more.huge_bytes;
            sum.table_bytes += more.table_bytes;
        }
    }

    /// Fragmentation: blocks per MiB of committed memory; zero if there is none.
    pub fn blocks_per_mib(&self) -> f64 {
        if self.committed_bytes == 0 {
            0.0
        } else {
            self.blocks as f64 / (self.committed_bytes as f64 / f64::from(1 << 20))
        }
    }

    /// The page tables of these mappings in bytes: those of the present pages if known, else an
    /// upper bound.
    pub fn table_bytes(&self) -> u64 {
        self.pages.map_or(self.table_bytes_if_full, |pages| pages.table_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_classes_have_the_stated_limits() {
        for bytes in [
            1,
            4096,
            4097,
            16 << 10,
            (16 << 10) + 1,
            1 << 20,
            3 << 20,
            1 << 30,
            (1 << 30) + 1,
            u64::MAX >> 1,
        ] {
            let class = size_class(bytes);
            assert!(class_limit(class).is_none_or(|limit| bytes <= limit), "{bytes}");
            assert!(
                class == 0 || class_limit(class - 1).is_some_and(|limit| bytes > limit),
                "{bytes}"
            );
        }
        assert_eq!(class_limit(SIZE_CLASSES - 2), Some(1 << 30));
    }
}
