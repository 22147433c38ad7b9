//! Groups mappings by purpose: files, the heap, stacks, named or unnamed anonymous memory, code
//! generated at run time, reservations.
//!
//! Linux does not say which mappings were created by one call. So a *reservation* is inferred: a
//! run of unnamed private mappings without gaps, of which one is at least 1 MiB long and
//! inaccessible. That is how programs hold address space that they commit piece by piece: code
//! ranges, pointer cages, bitmaps, allocator arenas. This needs memory for a few hundred groups,
//! however many mappings there are.

use crate::figures::Figures;
use crate::mapping::{Access, Mapping};
use crate::pages::PageCounts;
use crate::process::text;
use serde::Serialize;
use std::collections::HashMap;

/// Minimum size in bytes of an inaccessible piece that makes a run a reservation: it is too large
/// for a guard page.
const MIN_RESERVED: u64 = 1 << 20;
/// Maximum size in bytes of the guard of a thread stack.
const MAX_GUARD: u64 = 256 << 10;
/// Minimum size in bytes of a thread stack.
const MIN_STACK: u64 = 16 << 10;
/// Maximum number of groups with a name.
const MAX_NAMES: usize = 4096;
/// Maximum number of reservations with a group of their own.
const MAX_RESERVATIONS: usize = 256;

/// The purpose of mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A program, a library or another file.
    File,
    /// `[heap]`, which grows with brk.
    Heap,
    /// The stack of the main thread, and unnamed memory right above a guard page.
    Stack,
    /// Private memory without a file, with or without a name given by the program.
    Anonymous,
    /// Shared memory: memfd, System V, `/dev/shm`, shared anonymous.
    Shared,
    /// Unnamed private memory that can be executed: code generated at run time.
    Jit,
    /// Contiguous unnamed memory, often mostly inaccessible.
    Reservation,
    /// Memory of a device, whose pages the kernel does not report.
    Device,
    /// Mappings of the kernel: `[vdso]`, `[vvar]`.
    Kernel,
}

/// Mappings of one kind and name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Their purpose.
    pub kind: Kind,
    /// The file, the name given by the program, or empty.
    pub name: String,
    /// The first address (avma) of a reservation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    /// Sums over its mappings.
    pub figures: Figures,
}

/// The group or run that a mapping belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The group with this index.
    Group(usize),
    /// The current run of unnamed memory.
    Run,
}

/// A run of unnamed memory without gaps.
#[derive(Default)]
struct Run {
    start: u64,
    end: u64,
    reserves: bool,
    /// The end of a piece that may be a guard page.
    guard_end: u64,
    anonymous: Figures,
    stack: Figures,
    jit: Figures,
}

/// Collects mappings, in ascending order, into groups.
pub(crate) struct Groups {
    groups: Vec<Group>,
    by_name: HashMap<Box<[u8]>, usize>,
    run: Run,
    reservations: Vec<Group>,
    has_smaller: bool,
}

/// Groups that always exist, with the same index as here.
const SINGLE: [(Kind, &str); 9] = [
    (Kind::Anonymous, ""),
    (Kind::Stack, "threads"),
    (Kind::Jit, ""),
    (Kind::Heap, "[heap]"),
    (Kind::Stack, "[stack]"),
    (Kind::Kernel, ""),
    (Kind::Reservation, "smaller ones"),
    (Kind::File, "other files"),
    (Kind::Anonymous, "other names"),
];
const ANONYMOUS: usize = 0;
const THREADS: usize = 1;
const JIT: usize = 2;
const SMALLER: usize = 6;
const OTHER_FILES: usize = 7;
const OTHER_NAMES: usize = 8;

impl Groups {
    pub fn new() -> Self {
        let group = |(kind, name): (Kind, &str)| Group {
            kind,
            name: name.to_owned(),
            start: None,
            figures: Figures::default(),
        };
        Self {
            groups: SINGLE.map(group).into(),
            by_name: HashMap::new(),
            run: Run::default(),
            reservations: Vec::new(),
            has_smaller: false,
        }
    }

    /// Determines where the mapping belongs.
    pub fn place(&mut self, mapping: &Mapping) -> Place {
        let name = mapping.name;
        if name.is_empty() && mapping.inode == 0 && !mapping.access.shared {
            return Place::Run;
        }
        if let Some(&index) = self.by_name.get(name) {
            return Place::Group(index);
        }
        let kind = kind_of(name, mapping.inode);
        let single = match kind {
            Kind::Heap => Some(3),
            Kind::Stack => Some(4),
            Kind::Kernel => Some(5),
            Kind::Anonymous | Kind::Shared | Kind::Device if self.by_name.len() >= MAX_NAMES => {
                Some(OTHER_NAMES)
            }
            _ if self.by_name.len() >= MAX_NAMES => Some(OTHER_FILES),
            _ => None,
        };
        let index = single.unwrap_or_else(|| {
            self.groups.push(Group {
                kind,
                name: shown_name(name),
                start: None,
                figures: Figures::default(),
            });
            self.groups.len() - 1
        });
        if self.by_name.len() < MAX_NAMES {
            self.by_name.insert(name.into(), index);
        }
        Place::Group(index)
    }

    /// The kind of mappings in that place, as far as it is already known.
    pub fn kind(&self, place: Place) -> Kind {
        match place {
            Place::Run => Kind::Anonymous,
            Place::Group(index) => {
                self.groups.get(index).map_or(Kind::Anonymous, |group| group.kind)
            }
        }
    }

    /// Adds the mapping.
    pub fn add(
        &mut self,
        place: Place,
        (start, end): (u64, u64),
        access: Access,
        if_full: u64,
        pages: Option<PageCounts>,
    ) {
        let bytes = end.saturating_sub(start);
        let index = match place {
            Place::Group(index) => index,
            Place::Run => {
                if self.run.end != start {
                    self.end_run();
                    self.run.start = start;
                }
                let run = &mut self.run;
                run.end = end;
                let part = match access {
                    Access { execute: true, .. } => &mut run.jit,
                    Access { write: true, .. } if run.guard_end == start && bytes >= MIN_STACK => {
                        &mut run.stack
                    }
                    _ => &mut run.anonymous,
                };
                part.add(bytes, access, if_full, pages);
                run.reserves |= !access.any() && bytes >= MIN_RESERVED;
                if !access.any() && bytes <= MAX_GUARD {
                    run.guard_end = end;
                }
                return;
            }
        };
        if let Some(group) = self.groups.get_mut(index) {
            group.figures.add(bytes, access, if_full, pages);
        }
    }

    fn end_run(&mut self) {
        let run = std::mem::take(&mut self.run);
        if !run.reserves {
            for (index, figures) in
                [(ANONYMOUS, run.anonymous), (THREADS, run.stack), (JIT, run.jit)]
            {
                self.merge(index, &figures);
            }
            return;
        }
        let mut figures = run.anonymous;
        figures.merge(&run.stack);
        figures.merge(&run.jit);
        self.reservations.push(Group {
            kind: Kind::Reservation,
            name: String::new(),
            start: Some(run.start),
            figures,
        });
        if self.reservations.len() >= 2 * MAX_RESERVATIONS {
            self.keep_large_reservations();
        }
    }

    fn keep_large_reservations(&mut self) {
        self.reservations.sort_by_key(|group| {
            std::cmp::Reverse((group.figures.mappings, group.figures.table_bytes(), group.start))
        });
        let smaller = self.reservations.split_off(MAX_RESERVATIONS.min(self.reservations.len()));
        self.has_smaller |= !smaller.is_empty();
        for group in smaller {
            self.merge(SMALLER, &group.figures);
        }
    }

    fn merge(&mut self, index: usize, figures: &Figures) {
        if let Some(group) = self.groups.get_mut(index) {
            group.figures.merge(figures);
        }
    }

    /// All groups that are not empty, most mappings first; and whether small reservations were
    /// merged into one group.
    pub fn finish(mut self) -> (Vec<Group>, bool) {
        self.end_run();
        self.keep_large_reservations();
        let mut groups = self.groups;
        groups.append(&mut self.reservations);
        groups.retain(|group| group.figures.mappings > 0);
        groups.sort_by(|a, b| {
            let key = |group: &Group| {
                std::cmp::Reverse((group.figures.mappings, group.figures.committed_bytes))
            };
            key(a)
                .cmp(&key(b))
                .then_with(|| (a.kind, &a.name, a.start).cmp(&(b.kind, &b.name, b.start)))
        });
        (groups, self.has_smaller)
    }
}

fn kind_of(name: &[u8], inode: u64) -> Kind {
    let starts = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start.as_bytes()));
    match name {
        b"[heap]" => Kind::Heap,
        b"[stack]" => Kind::Stack,
        _ if starts(&["[anon:"]) => Kind::Anonymous,
        _ if starts(&[
            "[anon_shmem:",
            "/memfd:",
            "/SYSV",
            "/dev/shm/",
            "/dev/zero",
            "/anon_hugepage",
        ]) =>
        {
            Kind::Shared
        }
        _ if starts(&["/dev/", "anon_inode:"]) => Kind::Device,
        _ if starts(&["["]) => Kind::Kernel,
        [] if inode == 0 => Kind::Shared,
        _ => Kind::File,
    }
}

/// The name to show: `malloc` for `[anon:malloc]`.
fn shown_name(name: &[u8]) -> String {
    let inner = name
        .strip_prefix(b"[anon:")
        .or_else(|| name.strip_prefix(b"[anon_shmem:"))
        .and_then(|name| name.strip_suffix(b"]"));
    text(inner.unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RW: Access = Access { read: true, write: true, execute: false, shared: false };
    const RX: Access = Access { read: true, write: false, execute: true, shared: false };
    const NONE: Access = Access { read: false, write: false, execute: false, shared: false };

    fn add(groups: &mut Groups, start: u64, bytes: u64, access: Access, name: &str) {
        let end = start + bytes;
        let (page_bytes, name) = (4096, name.as_bytes());
        let place = groups.place(&Mapping { start, end, access, page_bytes, inode: 0, name });
        groups.add(place, (start, end), access, 0, None);
    }

    fn grouped(mappings: &[(u64, u64, Access, &str)]) -> Vec<(Kind, String, u64, u64)> {
        let mut groups = Groups::new();
        for &(start, bytes, access, name) in mappings {
            add(&mut groups, start, bytes, access, name);
        }
        let (groups, _) = groups.finish();
        groups
            .into_iter()
            .map(|group| {
                (group.kind, group.name, group.figures.mappings, group.figures.executable_blocks)
            })
            .collect()
    }

    #[test]
    fn a_run_with_an_inaccessible_piece_is_a_reservation_with_the_code_in_it() {
        let groups = grouped(&[
            (0x1000_0000, 4 << 20, NONE, ""),
            (0x1040_0000, 4096, RX, ""),
            (0x1040_1000, 8 << 20, NONE, ""),
            (0x2000_0000, 4096, RX, ""),
            (0x3000_0000, 4096, RW, ""),
        ]);
        assert_eq!(
            groups,
            [
                (Kind::Reservation, String::new(), 3, 1),
                (Kind::Anonymous, String::new(), 1, 0),
                (Kind::Jit, String::new(), 1, 1)
            ]
        );
    }

    #[test]
    fn memory_above_a_guard_page_is_a_stack() {
        let groups = grouped(&[
            (0x1000_0000, 4096, NONE, ""),
            (0x1000_1000, 8 << 20, RW, ""),
            (0x1080_1000, 4096, NONE, ""),
            (0x1080_2000, 8 << 20, RW, ""),
        ]);
        assert_eq!(
            groups,
            [(Kind::Stack, "threads".to_owned(), 2, 0), (Kind::Anonymous, String::new(), 2, 0)]
        );
    }

    #[test]
    fn names_say_what_memory_is_for() {
        let kinds = [
            ("/usr/lib/libc.so.6", Kind::File),
            ("[heap]", Kind::Heap),
            ("[anon:malloc]", Kind::Anonymous),
            ("/memfd:x (deleted)", Kind::Shared),
            ("/dev/shm/x", Kind::Shared),
            ("/dev/dri/card0", Kind::Device),
            ("[vdso]", Kind::Kernel),
            ("[vvar_vclock]", Kind::Kernel),
        ];
        for (name, kind) in kinds {
            assert_eq!(kind_of(name.as_bytes(), 0), kind, "{name}");
        }
        assert_eq!(shown_name(b"[anon:malloc]"), "malloc");
    }

    #[test]
    fn many_files_and_reservations_take_bounded_memory_and_none_is_lost() {
        let mut groups = Groups::new();
        for index in 0..3_000 {
            let start = 0x1_0000_0000 + index * 0x1000_0000;
            for (start, bytes, access, name) in [
                (start, 2 << 20, NONE, String::new()),
                (start + (8 << 20), 4096, RX, format!("/lib/{index}")),
                (start + (9 << 20), 4096, RW, format!("[anon:{index}]")),
            ] {
                add(&mut groups, start, bytes, access, &name);
            }
        }
        let (groups, smaller) = groups.finish();
        assert!(smaller && groups.len() <= MAX_NAMES + MAX_RESERVATIONS + SINGLE.len());
        assert_eq!(groups.iter().map(|group| group.figures.mappings).sum::<u64>(), 9_000);
    }
}
