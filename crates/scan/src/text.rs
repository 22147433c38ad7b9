//! An address space as text: the process, what stands out, a table of groups, block sizes, and the
//! cost of the scan.

use crate::address_space::AddressSpace;
use crate::figures::{Figures, SIZE_CLASSES, class_limit};
use crate::groups::{Group, Kind};
use std::fmt::Write;
use unhitch_model::units::{bytes, count, duration, plural};
use unhitch_model::visible;

/// Maximum number of groups with their own row; the rest is summed.
const MAX_ROWS: usize = 12;
const LINE_CHARS: usize = 120;
/// A file or named group has its own row if it has at least 1/20 of the mappings, of the committed
/// memory or of the page tables.
const OWN_ROW_RATIO: u64 = 20;

/// The report, about twenty lines.
pub fn text(space: &AddressSpace) -> String {
    let mut out = head(space);
    out.push('\n');
    for finding in &space.findings {
        for (index, line) in lines(&visible(finding), LINE_CHARS).iter().enumerate() {
            let _ = writeln!(out, "  {}{line}", if index == 0 { "* " } else { "  " });
        }
    }
    out.push('\n');
    out += &table(space);
    out += &sizes(space);
    out += &foot(space);
    out
}

/// Breaks text into lines of about `max` characters; a unit stays with its number.
pub(crate) fn lines(text: &str, max: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let is_unit = ["%", "B", "KiB", "MiB", "GiB", "TiB"]
            .contains(&word.trim_end_matches(['.', ',', ')', ';']));
        match lines.last_mut() {
            Some(line) if is_unit || line.chars().count() + word.chars().count() < max => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Name and pid of the process, such as `chrome 1234`.
pub fn title(space: &AddressSpace) -> String {
    format!("{} {}", visible(&space.process.name), space.process.pid)
}

fn head(space: &AddressSpace) -> String {
    let (process, total) = (&space.process, &space.total);
    let mut memory = format!("{} resident", bytes(process.resident_bytes));
    for (size, what) in
        [(process.swapped_bytes, "swapped"), (process.hugetlb_bytes, "in hugetlb pages")]
    {
        if size > 0 {
            let _ = write!(memory, ", {} {what}", bytes(size));
        }
    }
    let mut out = format!(
        "{}, user {}, {}: {}, {} reserved, {} committed, {memory}\n",
        title(space),
        process.uid,
        plural(process.threads, "thread"),
        plural(total.mappings, "mapping"),
        bytes(total.reserved_bytes),
        bytes(total.committed_bytes)
    );
    let tables = &space.page_tables;
    let _ = write!(out, "Page tables: {} and the root", bytes(tables.allocated_bytes));
    let _ = match (tables.needed_bytes, tables.empty_bytes) {
        (Some(needed), Some(0)) if needed == tables.allocated_bytes => {
            writeln!(out, "; the pages that are present need all of them")
        }
        (Some(needed), Some(empty)) => writeln!(
            out,
            "; the pages that are present need {}, so {} are empty",
            bytes(needed),
            bytes(empty)
        ),
        _ => writeln!(out, "; use --pages to see how much of them is empty"),
    };
    if tables.unseen_bytes > 0 && tables.needed_bytes.is_some() {
        let _ = writeln!(
            out,
            "  (up to {} of that may be used for device memory, which cannot be seen)",
            bytes(tables.unseen_bytes)
        );
    }
    out
}

/// The name of a group in the first column of the table.
fn row_name(group: &Group) -> String {
    let name = visible(&group.name);
    match (group.kind, group.start) {
        (Kind::Reservation, Some(start)) => format!("reservation at {start:#x}"),
        (Kind::Reservation, None) => "smaller reservations".to_owned(),
        (Kind::File, _) => format!("file {}", name.rsplit('/').next().unwrap_or(&name)),
        (Kind::Heap, _) => "heap".to_owned(),
        (Kind::Stack, _) if name == "threads" => "thread stacks".to_owned(),
        (Kind::Stack, _) => "stack".to_owned(),
        (Kind::Anonymous, _) if name.is_empty() => "anonymous".to_owned(),
        (Kind::Anonymous, _) => format!("anonymous {name}"),
        (Kind::Shared, _) => format!("shared {name}"),
        (Kind::Jit, _) => "code generated at run time".to_owned(),
        (Kind::Device, _) => format!("device {name}"),
        (Kind::Kernel, _) => "kernel".to_owned(),
    }
}

/// The rows of the table: a few large groups by themselves, the others summed by kind.
fn rows(space: &AddressSpace) -> Vec<(String, Figures)> {
    let total = &space.total;
    let mut rows: Vec<(String, Figures)> = Vec::new();
    let mut sums: Vec<(Kind, u64, Figures)> = Vec::new();
    for group in &space.groups {
        let figures = &group.figures;
        let is_large = figures.mappings.saturating_mul(OWN_ROW_RATIO) >= total.mappings
            || figures.committed_bytes.saturating_mul(OWN_ROW_RATIO) >= total.committed_bytes
            || figures.table_bytes().saturating_mul(OWN_ROW_RATIO)
                >= space.page_tables.allocated_bytes;
        let is_single = !matches!(group.kind, Kind::File | Kind::Shared | Kind::Device)
            && group.name.is_empty();
        if (is_large || is_single) && rows.len() < MAX_ROWS {
            rows.push((row_name(group), figures.clone()));
            continue;
        }
        match sums.iter_mut().find(|(kind, ..)| *kind == group.kind) {
            Some((_, groups, sum)) => {
                *groups += 1;
                sum.merge(figures);
            }
            None => sums.push((group.kind, 1, figures.clone())),
        }
    }
    sums.sort_by_key(|(kind, ..)| *kind);
    rows.extend(sums.into_iter().map(|(kind, groups, sum)| (sum_name(kind, groups), sum)));
    rows
}

fn sum_name(kind: Kind, groups: u64) -> String {
    match kind {
        Kind::File => plural(groups, "other file"),
        Kind::Heap => "heap".to_owned(),
        Kind::Stack => "stacks".to_owned(),
        Kind::Anonymous => format!("{} anonymous", count(groups)),
        Kind::Shared => format!("{} shared", count(groups)),
        Kind::Jit => "code generated at run time".to_owned(),
        Kind::Reservation => plural(groups, "other reservation"),
        Kind::Device => plural(groups, "device"),
        Kind::Kernel => "kernel".to_owned(),
    }
}

fn table(space: &AddressSpace) -> String {
    let has_pages = space.total.pages.is_some();
    let mut head = vec!["", "mappings", "reserved", "committed"];
    if has_pages {
        head.extend(["resident", "swapped", "huge"]);
    }
    head.extend([if has_pages { "tables" } else { "tables ≤" }, "exec blocks", "blocks/MiB"]);
    let cells = |name: String, figures: &Figures| {
        let mut cells = vec![
            name,
            count(figures.mappings),
            size(figures.reserved_bytes),
            size(figures.committed_bytes),
        ];
        if let Some(pages) = figures.pages.or(has_pages.then(Default::default)) {
            cells.extend([pages.resident_bytes, pages.swapped_bytes, pages.huge_bytes].map(size));
        }
        cells.push(size(figures.table_bytes()));
        cells.push(if figures.executable_blocks == 0 {
            "–".to_owned()
        } else {
            count(figures.executable_blocks)
        });
        cells.push(match figures.blocks_per_mib() {
            0.0 => "–".to_owned(),
            few @ ..10.0 => format!("{few:.2}"),
            many => format!("{many:.0}"),
        });
        cells
    };
    let mut lines = vec![head.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    lines.extend(rows(space).into_iter().map(|(name, figures)| cells(name, &figures)));
    lines.push(cells("total".to_owned(), &space.total));
    aligned(&lines)
}

fn size(n: u64) -> String {
    if n == 0 { "–".to_owned() } else { bytes(n) }
}

/// Pads columns to their widest cell: the first aligned to the left, the others to the right.
pub(crate) fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| {
        lines
            .iter()
            .filter_map(|line| line.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for line in lines {
        let cells =
            line.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
        let _ = writeln!(out, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    out
}

/// `blocks by size: ≤ 4 KiB 24,866 · ≤ 16 KiB 12`.
fn sizes(space: &AddressSpace) -> String {
    let sizes = space.total.block_sizes.iter().enumerate().filter(|(_, blocks)| **blocks > 0);
    let words: Vec<String> = sizes
        .map(|(class, blocks)| match class_limit(class) {
            Some(limit) => format!("≤ {} {}", bytes(limit), count(*blocks)),
            None => format!(
                "> {} {}",
                bytes(class_limit(SIZE_CLASSES - 2).unwrap_or(0)),
                count(*blocks)
            ),
        })
        .collect();
    format!("  blocks by size: {}\n", words.join(" · "))
}

fn foot(space: &AddressSpace) -> String {
    let (method, mut out) = (&space.method, String::new());
    for warning in &space.warnings {
        let _ = writeln!(out, "  note: {}", visible(warning));
    }
    let _ = writeln!(
        out,
        "  scanned in {} with {}: the longest of {} took {} ({}), so the process cannot have \
         waited longer than that for the scan",
        duration(method.duration_ns),
        method.interface,
        plural(method.calls.calls, "call"),
        duration(method.calls.longest_call_ns),
        method.calls.longest_call
    );
    out
}
