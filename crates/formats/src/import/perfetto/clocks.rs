//! The clocks of a trace, and times of one in another.

use super::wire::Value;
use unhitch_model::linux::CLOCK_BOOTTIME;
use unhitch_model::linux::CLOCK_MONOTONIC;

/// `BuiltinClock`.
pub(super) const REALTIME: u32 = 1;
pub(super) const MONOTONIC: u32 = 3;
pub(super) const BOOTTIME: u32 = 6;
/// Clocks from here on belong to one sequence of packets, and no snapshot ties them to others.
const FIRST_OF_SEQUENCE: u32 = 64;

/// Snapshots: what several clocks showed at one instant.
#[derive(Default)]
pub(super) struct Clocks {
    snapshots: Vec<Vec<(u32, u64)>>,
    primary: Option<u32>,
}

impl Clocks {
    /// Maximum number of snapshots that are kept, and of clocks in each.
    const MAX: usize = 4096;
    const MAX_CLOCKS: usize = 32;

    /// Adds a `ClockSnapshot`.
    pub fn add(&mut self, snapshot: Value<'_>) {
        let mut clocks = Vec::new();
        for (field, value) in snapshot.fields() {
            match field {
                1 if clocks.len() < Self::MAX_CLOCKS => {
                    let (mut id, mut time) = (0, 0);
                    for (field, value) in value.fields() {
                        match field {
                            1 => id = value.u32(),
                            2 => time = value.number(),
                            _ => {}
                        }
                    }
                    clocks.push((id, time));
                }
                2 => self.primary = Some(value.u32()),
                _ => {}
            }
        }
        if self.snapshots.len() < Self::MAX {
            self.snapshots.push(clocks);
        }
    }

    /// The clock that the trace's times are of.
    pub fn primary(&self) -> u32 {
        self.primary.filter(|clock| *clock != 0).unwrap_or(BOOTTIME)
    }

    /// The number that Linux gives to the primary clock.
    pub fn linux_clock(&self) -> Option<u32> {
        match self.primary() {
            BOOTTIME => Some(CLOCK_BOOTTIME),
            MONOTONIC => Some(CLOCK_MONOTONIC),
            REALTIME => Some(0),
            5 => Some(4),
            _ => None,
        }
    }

    /// Wall-clock time of the primary clock's zero.
    pub fn epoch_ns(&self) -> Option<i128> {
        let snapshot = self.snapshots.first()?;
        Some(i128::from(at(snapshot, REALTIME)?) - i128::from(at(snapshot, self.primary())?))
    }

    /// Converts times of `clock` to the primary clock; `None` if no snapshot ties the two.
    pub fn conversion(&self, clock: u32) -> Option<Conversion> {
        let primary = self.primary();
        if clock == primary {
            return Some(Conversion::default());
        }
        if clock >= FIRST_OF_SEQUENCE {
            return None;
        }
        let tie = |snapshot: &Vec<(u32, u64)>| Some((at(snapshot, clock)?, at(snapshot, primary)?));
        let ties: Vec<(u64, u64)> = self.snapshots.iter().filter_map(tie).collect();
        let mut earliest: Vec<u64> = ties.iter().map(|(of_clock, _)| *of_clock).collect();
        for at in (1..earliest.len()).rev() {
            earliest[at - 1] = earliest[at - 1].min(earliest[at]);
        }
        (!ties.is_empty()).then_some(Conversion { ties, earliest })
    }
}

/// How times of one clock become those of the primary one.
#[derive(Default)]
pub(super) struct Conversion {
    /// What both clocks showed at the instants at which both were read; none if they are the same.
    ties: Vec<(u64, u64)>,
    /// For each of these, the earliest time of the clock from it on: a clock may be set back.
    earliest: Vec<u64>,
}

impl Conversion {
    /// A time in the primary clock. Clocks drift apart, so the last snapshot before counts.
    pub fn primary(&self, time: u64) -> u64 {
        let before = self.earliest.partition_point(|earliest| *earliest <= time);
        let tie = self.ties.get(before.saturating_sub(1));
        tie.map_or(time, |(of_clock, of_primary)| {
            of_primary.wrapping_add(time.wrapping_sub(*of_clock))
        })
    }
}

fn at(snapshot: &[(u32, u64)], clock: u32) -> Option<u64> {
    snapshot.iter().find(|(id, _)| *id == clock).map(|(_, time)| *time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_snapshot_before_a_time_counts_even_if_the_clock_was_set_back() {
        let snapshots = [(100, 1_000), (200, 1_100), (150, 1_201), (300, 1_350), (250, 1_500)];
        let snapshots = snapshots.map(|(real, boot)| vec![(REALTIME, real), (BOOTTIME, boot)]);
        let clocks = Clocks { snapshots: snapshots.to_vec(), primary: None };
        let conversion = clocks.conversion(REALTIME).unwrap();
        for time in 0..400 {
            // One after the other, as they are in the file.
            let last = snapshots.iter().rfind(|snapshot| snapshot[0].1 <= time);
            let [(_, real), (_, boot)] = last.unwrap_or(&snapshots[0])[..] else { panic!() };
            assert_eq!(conversion.primary(time), (boot + time).wrapping_sub(real), "{time}");
        }
        assert_eq!(clocks.conversion(BOOTTIME).unwrap().primary(7), 7);
        assert!(clocks.conversion(MONOTONIC).is_none() && clocks.conversion(64).is_none());
    }
}
