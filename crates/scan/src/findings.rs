//! What stands out in an address space, in words: a text for each finding, the most expensive
//! first.

use crate::address_space::AddressSpace;
use crate::figures::Figures;
use crate::groups::{Group, Kind};
use unhitch_model::units::{bytes, count, plural, rounded_percent};

/// A group with fewer mappings than this is not an outlier, whatever its share.
const MIN_OUTLIER_MAPPINGS: u64 = 1000;
/// Page tables smaller than this, in bytes, do not matter.
const MIN_TABLE_BYTES: u64 = 1 << 20;
/// Memory is scattered if page tables take at least 1/32 of it. Full page tables take 1/512 of the
/// memory that they map.
const SCATTERED_RATIO: u64 = 32;
const PAGE: u64 = 4096;

/// The findings; at least one.
pub fn findings(space: &AddressSpace) -> Vec<String> {
    let mut found = Vec::new();
    found.extend(space.groups.iter().filter_map(|group| dominant(space, group)));
    found.extend(empty_tables(space));
    found.extend(scattered(space));
    found.extend(limit(space));
    found.extend(space.groups.iter().filter_map(fragments));
    if found.is_empty() {
        found.push("Nothing stands out.".to_owned());
    }
    found
}

/// The name of a group, at the start of a sentence.
pub fn described(group: &Group) -> String {
    let size = bytes(group.figures.reserved_bytes);
    match (group.kind, group.start) {
        (Kind::Reservation, Some(start)) => format!("One reservation ({size} at {start:#x})"),
        (Kind::Reservation, None) => "The group of smaller reservations".to_owned(),
        (Kind::Jit, _) => "Code generated at run time".to_owned(),
        (Kind::Anonymous, _) if group.name.is_empty() => "Anonymous memory".to_owned(),
        (Kind::Stack, _) if group.name == "threads" => {
            "Memory that looks like thread stacks".to_owned()
        }
        (Kind::Kernel, _) => "The kernel's own memory".to_owned(),
        _ => format!("{:?}", group.name),
    }
}

/// Number of blocks of code generated at run time, wherever they are.
fn runtime_code(space: &AddressSpace) -> u64 {
    let is_code = |group: &&Group| {
        matches!(group.kind, Kind::Jit | Kind::Reservation | Kind::Anonymous | Kind::Shared)
    };
    space.groups.iter().filter(is_code).map(|group| group.figures.executable_blocks).sum()
}

/// Page tables of a group in bytes, and `up to` if that is only an upper bound.
fn tables(figures: &Figures) -> (u64, &'static str) {
    (figures.table_bytes(), if figures.pages.is_some() { "" } else { "up to " })
}

/// True if there is much more inaccessible space between the blocks than memory in them.
fn is_sparse(figures: &Figures) -> bool {
    figures.committed_bytes.saturating_mul(16) < figures.reserved_bytes
}

/// If a reservation looks like a bitmap of code, the number of blocks of code. Such a bitmap has
/// many single pages far apart, none of them code, and the process has a few blocks of code
/// generated at run time. Everything else gives `None`: arenas and heaps commit long pieces, stacks
/// are close together, and a process without generated code has nothing to mark.
fn mapped_code(space: &AddressSpace, group: &Group) -> Option<u64> {
    let figures = &group.figures;
    let code = runtime_code(space);
    let is_of_pages = figures.blocks >= MIN_OUTLIER_MAPPINGS
        && figures.committed_bytes / PAGE <= 2 * figures.blocks;
    let is_map = group.kind == Kind::Reservation
        && figures.executable_blocks == 0
        && is_of_pages
        && is_sparse(figures);
    (is_map && code > 0 && figures.blocks >= 10 * code).then_some(code)
}

/// A group that holds a large part of the mappings or of the page tables.
fn dominant(space: &AddressSpace, group: &Group) -> Option<String> {
    let (figures, total) = (&group.figures, &space.total);
    let (table_bytes, at_most) = tables(figures);
    let table_bytes = table_bytes.min(space.page_tables.allocated_bytes);
    let has_many =
        figures.mappings >= MIN_OUTLIER_MAPPINGS && figures.mappings * 4 >= total.mappings;
    let holds_tables = figures.pages.is_some()
        && table_bytes >= 4 * MIN_TABLE_BYTES
        && table_bytes * 4 >= space.page_tables.allocated_bytes;
    if !has_many && !holds_tables {
        return None;
    }
    let share = rounded_percent(figures.mappings, total.mappings);
    let mut text =
        format!("{} holds {share} of the mappings ({})", described(group), count(figures.mappings));
    if table_bytes >= MIN_TABLE_BYTES {
        text += &format!(" and {at_most}{} of page tables", bytes(table_bytes));
    }
    let map_of = mapped_code(space, group);
    if let Some(code) = map_of {
        text += &format!(" for {}", plural(code, "executable block"));
    }
    text += ".";
    if figures.blocks >= MIN_OUTLIER_MAPPINGS {
        let pages = plural(figures.committed_bytes / PAGE, "committed page");
        text += &format!(
            " It has {pages} ({}) in {} blocks",
            bytes(figures.committed_bytes),
            count(figures.blocks)
        );
        let cost = table_bytes.saturating_mul(100) / figures.committed_bytes.max(1);
        match (is_sparse(figures), cost) {
            (true, 10..) => {
                text +=
                    &format!(", so far apart that their page tables add {at_most}{cost} % to that.")
            }
            (true, _) => text += ", far apart.",
            _ => text += ".",
        }
        if map_of.is_some() {
            text += " That is what a bitmap of the address space looks like if it is filled for \
                     code at random addresses and not cleared when the code is freed.";
        }
    }
    Some(text)
}

fn empty_tables(space: &AddressSpace) -> Option<String> {
    let tables = space.page_tables;
    let sure = tables.empty_bytes?.saturating_sub(tables.unseen_bytes);
    (sure >= MIN_TABLE_BYTES).then(|| {
        format!(
            "{} of page tables ({} of all) are empty: the memory that they mapped was freed, but \
             the tables remain. The kernel keeps a table until all of the 2 MiB that it maps are \
             unmapped, or released (MADV_DONTNEED) in one call.",
            bytes(sure),
            rounded_percent(sure, tables.allocated_bytes)
        )
    })
}

fn scattered(space: &AddressSpace) -> Option<String> {
    let (tables, process) = (space.page_tables.allocated_bytes, &space.process);
    let mapped = process
        .resident_bytes
        .saturating_add(process.swapped_bytes)
        .saturating_add(process.hugetlb_bytes);
    (tables >= 4 * MIN_TABLE_BYTES && tables.saturating_mul(SCATTERED_RATIO) >= mapped).then(|| {
        let dense = (mapped / 512).max(4096);
        format!(
            "Page tables take {} for {} of memory, which is {}; densely used memory would need {}.",
            bytes(tables),
            bytes(mapped),
            rounded_percent(tables, mapped),
            bytes(dense)
        )
    })
}

fn limit(space: &AddressSpace) -> Option<String> {
    let max = space.most_mappings?;
    (space.total.mappings.saturating_mul(4) >= max.saturating_mul(3)).then(|| {
        let (have, max) = (count(space.total.mappings), count(max));
        format!(
            "The process has {have} of the {max} mappings that the system allows per process \
             (vm.max_map_count): beyond that limit, mmap, mprotect and munmap fail."
        )
    })
}

/// A lot of code in small pieces.
fn fragments(group: &Group) -> Option<String> {
    let figures = &group.figures;
    let is_code = matches!(group.kind, Kind::Jit | Kind::Reservation);
    (is_code
        && figures.executable_blocks >= MIN_OUTLIER_MAPPINGS
        && figures.executable_bytes / figures.executable_blocks <= 64 << 10)
        .then(|| {
            format!(
                "{} has its code in {} of {} on average.",
                described(group),
                plural(figures.executable_blocks, "block"),
                bytes(figures.executable_bytes / figures.executable_blocks)
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{NONE, RW, RX, Synthetic};

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;
    const HERE: u64 = 0x1000_0000_0000;

    /// A reservation of `bytes` with `blocks` of `block_bytes` each, at the end of equal parts.
    fn reservation(space: &mut Synthetic, bytes: u64, blocks: u64, block_bytes: u64) {
        let stride = bytes / blocks;
        for block in 0..blocks {
            let start = HERE + block * stride;
            space.map(start, stride - block_bytes, NONE).map(
                start + stride - block_bytes,
                block_bytes,
                RW,
            );
        }
        // A piece of at least 1 MiB without access makes this a reservation.
        space.map(HERE + blocks * stride, 2 * MIB, NONE);
    }

    fn code(space: &mut Synthetic, blocks: u64) {
        for block in 0..blocks {
            space.map(0x2000_0000_0000 + block * GIB, 4096, RX);
        }
    }

    fn text(space: Synthetic) -> String {
        findings(&space.finish()).join("\n")
    }

    #[test]
    fn single_pages_far_apart_with_little_code_are_a_bitmap() {
        let mut space = Synthetic::default();
        reservation(&mut space, 2 << 40, 24_866, 4096);
        code(&mut space, 98);
        let text = text(space);
        assert!(
            text.starts_with(
                "One reservation (2.00 TiB at 0x100000000000) holds 99.8 % of the mappings (49,733)"
            ),
            "{text}"
        );
        assert!(
            text.contains(
                " for 98 executable blocks. It has 24,866 committed pages (97.1 MiB) in \
                 24,866 blocks, so far apart"
            ),
            "{text}"
        );
        assert!(text.contains("That is what a bitmap of the address space looks like"), "{text}");
    }

    /// This is not a bitmap of code, and the text does not mention code.
    fn assert_no_bitmap(what: &str, space: Synthetic) {
        let text = text(space);
        assert!(text.contains("One reservation ("), "{what}: {text}");
        assert!(!text.contains("executable block") && !text.contains("bitmap"), "{what}: {text}");
    }

    #[test]
    fn fibre_stacks_with_guard_pages_are_not_a_bitmap() {
        for (stack_bytes, code_blocks) in [(64 << 10, 3), (64 << 10, 0), (8 << 10, 3), (4096, 3)] {
            let mut space = Synthetic::default();
            reservation(&mut space, 5_000 * (stack_bytes + 4096), 5_000, stack_bytes);
            code(&mut space, code_blocks);
            assert_no_bitmap("stacks", space);
        }
        // Stacks that grow downwards in a lot of reserved space have more than a page each.
        let mut space = Synthetic::default();
        reservation(&mut space, 5_000 * MIB, 5_000, 16 << 10);
        code(&mut space, 3);
        assert_no_bitmap("growing stacks", space);
    }

    #[test]
    fn heap_arenas_are_not_a_bitmap() {
        // Like those of Go and Java virtual machines: a lot of reserved space, committed in long
        // pieces; the latter with some compiled code.
        for (blocks, block_bytes, code_blocks) in
            [(1_500, 4 * MIB, 0), (2_000, 64 << 10, 40), (20_000, 64 << 10, 40)]
        {
            let mut space = Synthetic::default();
            reservation(&mut space, 512 * GIB, blocks, block_bytes);
            code(&mut space, code_blocks);
            assert_no_bitmap("arena", space);
        }
    }

    #[test]
    fn without_generated_code_there_is_no_bitmap() {
        for code_blocks in [0, 10_000] {
            let mut space = Synthetic::default();
            reservation(&mut space, 2 << 40, 24_866, 4096);
            code(&mut space, code_blocks);
            assert_no_bitmap("sparse array", space);
        }
    }
}
