//! Where mappings are in the address space: a bounded number of areas, for the picture. If there
//! are too many, the areas with the smallest gaps between them are merged.

use crate::groups::{Group, Kind};

/// Maximum number of areas in the result.
pub const MAX_AREAS: usize = 96;
/// Maximum number of areas while collecting.
const MAX_COLLECTED: usize = 4096;

/// A part of the address space. Addresses are those of the process (avma), sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// First address.
    pub start: u64,
    /// Address just after the last byte.
    pub end: u64,
    /// The kind of most of its mappings.
    pub kind: Kind,
    /// Votes for that kind; another kind replaces it by majority.
    votes: u64,
    /// Number of mappings.
    pub mappings: u64,
    /// Mapped address space.
    pub reserved_bytes: u64,
    /// Memory that can be accessed.
    pub committed_bytes: u64,
    /// Resident memory, if pages were counted.
    pub resident_bytes: u64,
    /// Memory that can be executed.
    pub executable_bytes: u64,
}

impl Area {
    pub(crate) fn new(
        (start, end): (u64, u64),
        kind: Kind,
        committed: bool,
        executable: bool,
        resident_bytes: u64,
    ) -> Self {
        let bytes = end.saturating_sub(start);
        let bytes_if = |condition: bool| if condition { bytes } else { 0 };
        Self {
            start,
            end,
            kind,
            votes: 1,
            mappings: 1,
            reserved_bytes: bytes,
            committed_bytes: bytes_if(committed),
            resident_bytes,
            executable_bytes: bytes_if(executable),
        }
    }

    fn join(&mut self, next: &Self) {
        self.end = next.end;
        self.mappings += next.mappings;
        self.reserved_bytes += next.reserved_bytes;
        self.committed_bytes += next.committed_bytes;
        self.resident_bytes += next.resident_bytes;
        self.executable_bytes += next.executable_bytes;
        if self.kind == next.kind {
            self.votes += next.votes;
        } else if next.votes > self.votes {
            (self.kind, self.votes) = (next.kind, next.votes - self.votes);
        } else {
            self.votes -= next.votes;
        }
    }
}

/// Collects mappings, in ascending order.
#[derive(Default)]
pub(crate) struct Areas(Vec<Area>);

impl Areas {
    /// Adds a mapping.
    pub fn add(&mut self, next: Area) {
        match self.0.last_mut() {
            // Neighbours of different kinds stay separate, so that a reservation next to a library
            // is visible.
            Some(last) if last.end == next.start && last.kind == next.kind => last.join(&next),
            _ => self.0.push(next),
        }
        if self.0.len() >= MAX_COLLECTED {
            self.reduce(MAX_COLLECTED / 2);
        }
    }

    fn reduce(&mut self, max: usize) {
        let Some(excess) = self.0.len().checked_sub(max).filter(|excess| *excess > 0) else {
            return;
        };
        let mut gaps: Vec<u64> = self.0.windows(2).map(gap).collect();
        let (_, &mut widest, _) = gaps.select_nth_unstable(excess - 1);
        // If several gaps are equally wide, close only as many as needed.
        let mut equal = excess - gaps.iter().filter(|gap| **gap < widest).count().min(excess);
        let mut reduced: Vec<Area> = Vec::with_capacity(max);
        for area in self.0.drain(..) {
            match reduced.last_mut() {
                Some(last) => {
                    let gap = area.start.saturating_sub(last.end);
                    if gap < widest {
                        last.join(&area);
                    } else if gap == widest && equal > 0 {
                        equal -= 1;
                        last.join(&area);
                    } else {
                        reduced.push(area);
                    }
                }
                None => reduced.push(area),
            }
        }
        self.0 = reduced;
    }

    /// All areas. An area that mostly belongs to a reservation in `groups` becomes a reservation.
    pub fn finish(mut self, groups: &[Group]) -> Vec<Area> {
        self.reduce(MAX_AREAS);
        let reservations =
            groups.iter().filter_map(|group| Some((group.start?, group.figures.reserved_bytes)));
        for (start, bytes) in reservations {
            let area = self.0.iter_mut().find(|area| (area.start..area.end).contains(&start));
            if let Some(area) = area.filter(|area| bytes >= area.reserved_bytes / 2) {
                area.kind = Kind::Reservation;
            }
        }
        self.0
    }
}

fn gap(pair: &[Area]) -> u64 {
    match pair {
        [a, b] => b.start.saturating_sub(a.end),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_mappings_become_few_areas_and_none_is_lost() {
        let mut areas = Areas::default();
        for index in 0..50_000_u64 {
            let start = index * 0x10_0000 + (index / 1000) * 0x1_0000_0000;
            areas.add(Area::new((start, start + 4096), Kind::Anonymous, true, index % 2 == 0, 0));
        }
        let areas = areas.finish(&[]);
        assert!(areas.len() <= MAX_AREAS && areas.len() >= 50, "{}", areas.len());
        assert_eq!(areas.iter().map(|area| area.mappings).sum::<u64>(), 50_000);
        assert_eq!(areas.iter().map(|area| area.executable_bytes).sum::<u64>(), 25_000 * 4096);
        assert!(areas.is_sorted_by(|a, b| a.end < b.start));
    }
}
