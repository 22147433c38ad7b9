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

    /// A time of `clock` in the primary clock; `None` if no snapshot ties the two.
    pub fn convert(&self, clock: u32, time: u64) -> Option<u64> {
        let primary = self.primary();
        if clock == primary {
            return Some(time);
        }
        if clock >= FIRST_OF_SEQUENCE {
            return None;
        }
        let tie = |snapshot: &Vec<(u32, u64)>| Some((at(snapshot, clock)?, at(snapshot, primary)?));
        // Clocks drift apart, so the last snapshot before counts.
        let mut best: Option<(u64, u64)> = None;
        for (of_clock, of_primary) in self.snapshots.iter().filter_map(tie) {
            if best.is_none() || of_clock <= time {
                best = Some((of_clock, of_primary));
            }
        }
        let (of_clock, of_primary) = best?;
        Some(of_primary.wrapping_add(time.wrapping_sub(of_clock)))
    }
}

fn at(snapshot: &[(u32, u64)], clock: u32) -> Option<u64> {
    snapshot.iter().find(|(id, _)| *id == clock).map(|(_, time)| *time)
}
