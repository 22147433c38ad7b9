//! What stands out in an address space, in words: one sentence for each thing, the one that costs
//! most first.

use crate::figures::Figures;
use crate::groups::{Group, Kind};
use crate::space::AddressSpace;
use unhitch_model::units::{bytes, count, plural, rounded_percent};

/// A group below this many mappings is no outlier, whatever its share.
const MANY_MAPPINGS: u64 = 1000;
/// Tables smaller than this cost nobody anything.
const MUCH_TABLE: u64 = 1 << 20;
/// Full page tables take 1/512 of the memory that they map; from here on it is scattered.
const SCATTERED: u64 = 32;
const PAGE: u64 = 4096;

/// The sentences; at least one.
pub fn findings(space: &AddressSpace) -> Vec<String> {
    let mut said = Vec::new();
    said.extend(space.groups.iter().filter_map(|group| crowd(space, group)));
    said.extend(empty_tables(space));
    said.extend(scattered(space));
    said.extend(limit(space));
    said.extend(space.groups.iter().filter_map(fragments));
    if said.is_empty() {
        said.push("Nothing stands out.".to_owned());
    }
    said
}

/// What to call a group, at the start of a sentence.
pub fn called(group: &Group) -> String {
    let size = bytes(group.figures.reserved_bytes);
    match (group.kind, group.start) {
        (Kind::Reservation, Some(start)) => format!("One reservation ({size} at {start:#x})"),
        (Kind::Reservation, None) => "The smaller reservations".to_owned(),
        (Kind::Jit, _) => "Code made at run time".to_owned(),
        (Kind::Anonymous, _) if group.name.is_empty() => "Anonymous memory".to_owned(),
        (Kind::Stack, _) if group.name == "threads" => "What looks like threads' stacks".to_owned(),
        (Kind::Kernel, _) => "The kernel's own memory".to_owned(),
        _ => format!("{:?}", group.name),
    }
}

/// The blocks of code made at run time, wherever they are.
fn runtime_code(space: &AddressSpace) -> u64 {
    let is_code = |group: &&Group| {
        matches!(group.kind, Kind::Jit | Kind::Reservation | Kind::Anonymous | Kind::Shared)
    };
    space.groups.iter().filter(is_code).map(|group| group.figures.executable_blocks).sum()
}

/// Page tables of a group, and whether that is what is there or what there can be.
fn tables(figures: &Figures) -> (u64, &'static str) {
    (figures.table_bytes(), if figures.pages.is_some() { "" } else { "up to " })
}

/// Whether there is much more that cannot be accessed than that can be, between the blocks.
fn is_sparse(figures: &Figures) -> bool {
    figures.committed_bytes.saturating_mul(16) < figures.reserved_bytes
}

/// The blocks of code that a reservation seems to be the bitmap of: many single pages far apart,
/// none of it code, beside a few blocks of code made at run time. `None` for what is anything else:
/// arenas and heaps commit long pieces, stacks lie close together, and a process without code of
/// its own making has nothing to mark.
fn mapped_code(space: &AddressSpace, group: &Group) -> Option<u64> {
    let figures = &group.figures;
    let code = runtime_code(space);
    let is_of_pages =
        figures.blocks >= MANY_MAPPINGS && figures.committed_bytes / PAGE <= 2 * figures.blocks;
    let is_map = group.kind == Kind::Reservation
        && figures.executable_blocks == 0
        && is_of_pages
        && is_sparse(figures);
    (is_map && code > 0 && figures.blocks >= 10 * code).then_some(code)
}

/// A group that holds much of the mappings or of the page tables.
fn crowd(space: &AddressSpace, group: &Group) -> Option<String> {
    let (figures, total) = (&group.figures, &space.total);
    let (table_bytes, at_most) = tables(figures);
    let table_bytes = table_bytes.min(space.page_tables.allocated_bytes);
    let is_crowd = figures.mappings >= MANY_MAPPINGS && figures.mappings * 4 >= total.mappings;
    let holds_tables = figures.pages.is_some()
        && table_bytes >= 4 * MUCH_TABLE
        && table_bytes * 4 >= space.page_tables.allocated_bytes;
    if !is_crowd && !holds_tables {
        return None;
    }
    let share = rounded_percent(figures.mappings, total.mappings);
    let mut text =
        format!("{} holds {share} of the mappings ({})", called(group), count(figures.mappings));
    if table_bytes >= MUCH_TABLE {
        text += &format!(" and {at_most}{} of page tables", bytes(table_bytes));
    }
    let map_of = mapped_code(space, group);
    if let Some(code) = map_of {
        text += &format!(" for {}", plural(code, "executable block"));
    }
    text += ".";
    if figures.blocks >= MANY_MAPPINGS {
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
            text += " That is what a bitmap of the address space looks like that is filled in for code at random addresses and not emptied \
                     when the code is freed.";
        }
    }
    Some(text)
}

fn empty_tables(space: &AddressSpace) -> Option<String> {
    let tables = space.page_tables;
    let sure = tables.empty_bytes?.saturating_sub(tables.unseen_bytes);
    (sure >= MUCH_TABLE).then(|| {
        format!(
            "{} of page tables are empty, {} of all: memory that was freed and still costs. The kernel keeps a table until the whole 2 MiB \
             that it maps is unmapped, or given back (MADV_DONTNEED) in one call.",
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
    (tables >= 4 * MUCH_TABLE && tables.saturating_mul(SCATTERED) >= mapped).then(|| {
        let least = (mapped / 512).max(4096);
        format!(
            "Page tables take {} for {} of memory, {} of it; densely used memory would need {}.",
            bytes(tables),
            bytes(mapped),
            rounded_percent(tables, mapped),
            bytes(least)
        )
    })
}

fn limit(space: &AddressSpace) -> Option<String> {
    let most = space.most_mappings?;
    (space.total.mappings.saturating_mul(4) >= most.saturating_mul(3)).then(|| {
        let (have, most) = (count(space.total.mappings), count(most));
        format!("It has {have} of the {most} mappings that the system allows a process (vm.max_map_count): beyond, mmap, mprotect and munmap fail.")
    })
}

/// Much code in little pieces.
fn fragments(group: &Group) -> Option<String> {
    let figures = &group.figures;
    let is_code = matches!(group.kind, Kind::Jit | Kind::Reservation);
    (is_code
        && figures.executable_blocks >= MANY_MAPPINGS
        && figures.executable_bytes / figures.executable_blocks <= 64 << 10)
        .then(|| {
            format!(
                "{} has its code in {} of {} on average.",
                called(group),
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

    /// A reservation of `bytes` with `blocks` of so many bytes, each at the end of its share of it.
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
        // What has no access for 1 MiB on end makes it a reservation.
        space.map(HERE + blocks * stride, 2 * MIB, NONE);
    }

    fn code(space: &mut Synthetic, blocks: u64) {
        for block in 0..blocks {
            space.map(0x2000_0000_0000 + block * GIB, 4096, RX);
        }
    }

    fn said(space: Synthetic) -> String {
        findings(&space.finish()).join("\n")
    }

    #[test]
    fn single_pages_far_apart_beside_little_code_are_its_bitmap() {
        let mut space = Synthetic::default();
        reservation(&mut space, 2 << 40, 24_866, 4096);
        code(&mut space, 98);
        let said = said(space);
        assert!(
            said.starts_with(
                "One reservation (2.00 TiB at 0x100000000000) holds 99.8 % of the mappings (49,733)"
            ),
            "{said}"
        );
        assert!(
            said.contains(" for 98 executable blocks. It has 24,866 committed pages (97.1 MiB) in 24,866 blocks, so far apart"),
            "{said}"
        );
        assert!(said.contains("That is what a bitmap of the address space looks like"), "{said}");
    }

    /// None of these is a bitmap of code, and nothing is said of the code beside them.
    fn is_no_bitmap(what: &str, space: Synthetic) {
        let said = said(space);
        assert!(said.contains("One reservation ("), "{what}: {said}");
        assert!(!said.contains("executable block") && !said.contains("bitmap"), "{what}: {said}");
    }

    #[test]
    fn fibre_stacks_with_guard_pages_are_no_bitmap() {
        for (stack_bytes, code_blocks) in [(64 << 10, 3), (64 << 10, 0), (8 << 10, 3), (4096, 3)] {
            let mut space = Synthetic::default();
            reservation(&mut space, 5_000 * (stack_bytes + 4096), 5_000, stack_bytes);
            code(&mut space, code_blocks);
            is_no_bitmap("stacks", space);
        }
        // Stacks that grow downwards in much reserved room have more than a page each.
        let mut space = Synthetic::default();
        reservation(&mut space, 5_000 * MIB, 5_000, 16 << 10);
        code(&mut space, 3);
        is_no_bitmap("growing stacks", space);
    }

    #[test]
    fn arenas_of_heaps_are_no_bitmap() {
        // As Go and Java virtual machines have them: much reserved, committed in long pieces; the
        // latter with some compiled code.
        for (blocks, block_bytes, code_blocks) in
            [(1_500, 4 * MIB, 0), (2_000, 64 << 10, 40), (20_000, 64 << 10, 40)]
        {
            let mut space = Synthetic::default();
            reservation(&mut space, 512 * GIB, blocks, block_bytes);
            code(&mut space, code_blocks);
            is_no_bitmap("arena", space);
        }
    }

    #[test]
    fn without_code_made_at_run_time_there_is_nothing_to_mark() {
        for code_blocks in [0, 10_000] {
            let mut space = Synthetic::default();
            reservation(&mut space, 2 << 40, 24_866, 4096);
            code(&mut space, code_blocks);
            is_no_bitmap("sparse array", space);
        }
    }
}
