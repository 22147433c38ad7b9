//! [`AddressSpaces`]: which code was mapped where in each process, and when.
//!
//! A frame is a code location ([`Frame`](crate::Frame)) and not an address. Formats that know only
//! addresses need the mappings to turn one into the other.

use crate::{ModuleId, NameId, Time};
use rustc_hash::FxHashMap;

/// A mapping of code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// First address.
    pub start_avma: u64,
    /// The address behind the last one.
    pub end_avma: u64,
    /// The offset in the module of the first address. It is `start_avma` for a module whose offsets
    /// are avmas.
    pub module_offset: u64,
    /// When it was mapped; zero if before the recording.
    pub from: Time,
    /// Where the code comes from.
    pub module: ModuleId,
    /// Its path as recorded. That of anonymous memory may be `[heap]` or `//anon`.
    pub path: NameId,
}

/// The mappings of a process between two execs.
#[derive(Clone, Default, Debug)]
pub struct AddressSpace {
    /// When it began; zero if before the recording.
    pub from: Time,
    /// True if it began with an exec.
    pub by_exec: bool,
    /// Process and number of the address space that a fork copied it from.
    parent: Option<(u32, usize)>,
    /// By start address, then in the order of the records.
    mappings: Vec<Mapping>,
    /// The highest end in each part of the mappings: a binary tree in one list. Node 1 is the root,
    /// the children of node n are 2n and 2n + 1, and the second half are the mappings.
    highest_end: Vec<u64>,
}

/// All address spaces of a trace, by process, each process's in the order of their start.
#[derive(Clone, Default, Debug)]
pub struct AddressSpaces {
    by_pid: FxHashMap<u32, Vec<AddressSpace>>,
    /// Mappings of the kernel and its modules.
    pub kernel: Vec<Mapping>,
}

/// Maximum number of forks without an exec that are followed back to find a mapping.
const MAX_FORKS: usize = 64;
/// Maximum number of mappings, the last ones, that are looked at of those over an address.
const MAX_OVER: usize = 1024;

impl AddressSpaces {
    /// A process was forked. Its address space is a copy.
    pub fn fork(&mut self, pid: u32, parent_pid: u32, from: Time) {
        let parent = self.of(parent_pid).len().checked_sub(1).map(|number| (parent_pid, number));
        let space = AddressSpace { from, parent, ..AddressSpace::default() };
        self.by_pid.entry(pid).or_default().push(space);
    }

    /// A process runs another program, in a new address space.
    pub fn exec(&mut self, pid: u32, from: Time) {
        let space = AddressSpace { from, by_exec: true, ..AddressSpace::default() };
        self.by_pid.entry(pid).or_default().push(space);
    }

    /// Adds a mapping to the current address space of a process. Call [`sort`](Self::sort) after
    /// the last one.
    pub fn map(&mut self, pid: u32, mapping: Mapping) {
        let spaces = self.by_pid.entry(pid).or_default();
        if spaces.is_empty() {
            spaces.push(AddressSpace::default());
        }
        if let Some(space) = spaces.last_mut() {
            space.mappings.push(mapping);
        }
    }

    /// Prepares the look-ups by address.
    pub fn sort(&mut self) {
        self.by_pid.values_mut().flatten().for_each(AddressSpace::sort);
    }

    /// The address spaces of a process, oldest first.
    pub fn of(&self, pid: u32) -> &[AddressSpace] {
        self.by_pid.get(&pid).map_or(&[], Vec::as_slice)
    }

    /// The processes with their address spaces, by pid.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[AddressSpace])> {
        let mut pids: Vec<u32> = self.by_pid.keys().copied().collect();
        pids.sort_unstable();
        pids.into_iter().map(|pid| (pid, self.of(pid)))
    }

    /// An address space and those it was copied from, nearest first, each with the time up to which
    /// its mappings count.
    pub fn lineage(
        &self,
        pid: u32,
        number: usize,
    ) -> impl Iterator<Item = ((u32, usize), &AddressSpace, Time)> {
        let get = |key: (u32, usize), until| Some((key, self.of(key.0).get(key.1)?, until));
        let parent_of = move |&(_, space, until): &(_, &AddressSpace, Time)| {
            get(space.parent?, space.from.min(until))
        };
        std::iter::successors(get((pid, number), Time::MAX), parent_of).take(MAX_FORKS)
    }

    /// True if some code of the address space is known. Then an address that no mapping covers is
    /// not code.
    pub fn knows_mappings(&self, pid: u32, number: usize) -> bool {
        self.lineage(pid, number).any(|(_, space, _)| !space.mappings.is_empty())
    }

    /// The mappings that cover `avma`, oldest first: the address space's own, else the inherited
    /// one.
    pub fn covering(&self, pid: u32, number: usize, avma: u64) -> Vec<&Mapping> {
        for (_, space, until) in self.lineage(pid, number) {
            let mut covering = space.covering(avma);
            if until != Time::MAX && !covering.is_empty() {
                let last = covering.iter().rposition(|mapping| mapping.from <= until).unwrap_or(0);
                covering = vec![covering[last]];
            }
            if !covering.is_empty() {
                return covering;
            }
        }
        Vec::new()
    }
}

impl AddressSpace {
    fn sort(&mut self) {
        self.mappings.sort_by_key(|mapping| mapping.start_avma);
        let leaves = (self.mappings.len() + 1).next_power_of_two();
        self.highest_end = vec![0; 2 * leaves];
        for (leaf, mapping) in self.highest_end[leaves..].iter_mut().zip(&self.mappings) {
            *leaf = mapping.end_avma;
        }
        for node in (1..leaves).rev() {
            let [left, right] = [2 * node, 2 * node + 1].map(|child| self.highest_end[child]);
            self.highest_end[node] = left.max(right);
        }
    }

    /// Its own mappings, by start address, then in the order of the records.
    pub fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    /// The mappings that share an address with the range, from the last one on.
    fn overlapping(&self, start_avma: u64, last_avma: u64) -> impl Iterator<Item = &Mapping> {
        let mut end = self.mappings.partition_point(|mapping| mapping.start_avma <= last_avma);
        let all = std::iter::from_fn(move || {
            end = self.last_beyond(end, start_avma)?;
            self.mappings.get(end)
        });
        all.take(MAX_OVER)
    }

    /// The index of the last of the first `count` mappings that ends behind `avma`.
    fn last_beyond(&self, count: usize, avma: u64) -> Option<usize> {
        let (ends, leaves) = (&self.highest_end, self.highest_end.len() / 2);
        let ends_beyond = |node: usize| ends.get(node).is_some_and(|end| *end > avma);
        // Up to the first part on the left that has one.
        let mut node = leaves + count;
        while node.is_multiple_of(2) || !ends_beyond(node - 1) {
            node /= 2;
            if node <= 1 {
                return None;
            }
        }
        node -= 1;
        while node < leaves {
            node = 2 * node + usize::from(ends_beyond(2 * node + 1));
        }
        Some(node - leaves)
    }

    /// The mapping that covers `avma` if it is the only one, which is nearly always the case.
    pub fn only_mapping(&self, avma: u64) -> Option<&Mapping> {
        let mut covering = self.overlapping(avma, avma);
        covering.next().filter(|_| covering.next().is_none())
    }

    /// The mappings that cover `avma`, oldest first.
    pub fn covering(&self, avma: u64) -> Vec<&Mapping> {
        let mut covering: Vec<&Mapping> = self.overlapping(avma, avma).collect();
        // Those of one time are in the order of the records.
        covering.reverse();
        covering.sort_by_key(|mapping| mapping.from);
        covering
    }

    /// When one of its mappings begins to count: with the address space, unless something else was
    /// there before. *Why*: a recorder that missed a mapping finds it later, in `/proc`.
    pub fn counts_from(&self, mapping: &Mapping) -> Time {
        let last_avma = mapping.end_avma.saturating_sub(1);
        let replaces =
            self.overlapping(mapping.start_avma, last_avma).any(|other| other.from < mapping.from);
        if replaces { mapping.from } else { self.from }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(from: u64, start_avma: u64, end_avma: u64) -> Mapping {
        Mapping {
            start_avma,
            end_avma,
            module_offset: 0,
            from: Time::from_nanos(from),
            module: ModuleId(0),
            path: NameId::EMPTY,
        }
    }

    #[test]
    fn a_mapping_counts_from_the_start_unless_it_replaces_another() {
        let mut spaces = AddressSpaces::default();
        for (from, start, end) in [(10, 0x1000, 0x3000), (50, 0x2000, 0x2800), (60, 0x3000, 0x4000)]
        {
            spaces.map(7, mapping(from, start, end));
        }
        spaces.sort();
        let space = &spaces.of(7)[0];
        let from: Vec<u64> =
            space.mappings().iter().map(|mapping| space.counts_from(mapping).nanos()).collect();
        assert_eq!(from, [0, 50, 0]);
    }

    #[test]
    fn what_covers_an_address_is_found_among_many() {
        // Sizes and places that overlap in many ways.
        let all: Vec<Mapping> = (0..500_u64)
            .map(|n| {
                let start = n * 7_919 % 4_099;
                mapping(
                    n % 50,
                    start,
                    start + 1 + n * n % 300 + if n % 100 == 0 { 3_000 } else { 0 },
                )
            })
            .collect();
        let mut spaces = AddressSpaces::default();
        all.iter().for_each(|mapping| spaces.map(7, mapping.clone()));
        spaces.sort();
        let space = &spaces.of(7)[0];
        for avma in 0..8_000 {
            let mut expected: Vec<&Mapping> = space
                .mappings()
                .iter()
                .filter(|one| (one.start_avma..one.end_avma).contains(&avma))
                .collect();
            expected.sort_by_key(|mapping| mapping.from);
            assert_eq!(space.covering(avma), expected, "{avma}");
            let only = if let [only] = expected[..] { Some(only) } else { None };
            assert_eq!(space.only_mapping(avma), only);
        }
    }

    #[test]
    fn a_search_looks_at_so_many_mappings() {
        let mut spaces = AddressSpaces::default();
        (0..5_000).for_each(|from| spaces.map(7, mapping(from, 0x1000, 0x2000)));
        spaces.sort();
        let covering = spaces.of(7)[0].covering(0x1800);
        assert_eq!((covering.len(), covering[0].from.nanos()), (MAX_OVER, 5_000 - 1_024));
    }

    #[test]
    fn a_forked_process_has_what_its_parent_had_then() {
        let mut spaces = AddressSpaces::default();
        spaces.map(7, mapping(0, 0x1000, 0x2000));
        spaces.fork(8, 7, Time::from_nanos(20));
        spaces.map(7, mapping(30, 0x1000, 0x2000));
        spaces.fork(9, 8, Time::from_nanos(40));
        spaces.exec(9, Time::from_nanos(50));
        spaces.sort();
        let from = |pid, number| -> Vec<u64> {
            spaces.covering(pid, number, 0x1800).iter().map(|one| one.from.nanos()).collect()
        };
        assert_eq!([from(7, 0), from(8, 0), from(9, 0)], [vec![0, 30], vec![0], vec![0]]);
        assert!(spaces.covering(9, 1, 0x1800).is_empty() && !spaces.knows_mappings(9, 1));
        assert!(spaces.knows_mappings(9, 0) && !spaces.knows_mappings(10, 0));
    }
}
