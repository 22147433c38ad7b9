//! What the kernel's counters grew by between two readings: the rows of the table of counters.

use std::collections::BTreeMap;
use unhitch_model::{MachineReport, Reading, Time, Window};

/// What a counter counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    /// Time.
    Nanoseconds,
    /// Data.
    Bytes,
    /// What happened.
    Times,
}

/// What one counter grew by between two readings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Growth {
    pub from: Time,
    pub until: Time,
    /// What the counter is about: a resource, a disk, a control group.
    pub of: String,
    pub counter: String,
    pub unit: Unit,
    pub amount: u64,
}

/// A counter at one reading, by what it is about and its name.
type Counters = BTreeMap<(String, String), (Unit, u64)>;

/// The growths between readings that overlap `window`, by time.
pub(super) fn growths(report: &MachineReport, window: Window) -> Vec<Growth> {
    let pairs = report.readings.windows(2).filter_map(|pair| Some((pair.first()?, pair.get(1)?)));
    let overlaps =
        |(old, new): &(&Reading, &Reading)| Window::new(old.time, new.time).overlaps(window);
    pairs.filter(overlaps).flat_map(|(old, new)| between(report, old, new)).collect()
}

/// Leaves out what only one of the two has, and what never happened on this machine. A counter that
/// began anew counts from zero.
fn between(report: &MachineReport, old: &Reading, new: &Reading) -> Vec<Growth> {
    let before = counters(report, old);
    let grown = counters(report, new).into_iter().filter_map(|((of, counter), (unit, now))| {
        let (_, then) = before.get(&(of.clone(), counter.clone()))?;
        if now == 0 && *then == 0 {
            return None;
        }
        let amount = now.checked_sub(*then).unwrap_or(now);
        Some(Growth { from: old.time, until: new.time, of, counter, unit, amount })
    });
    grown.collect()
}

fn counters(report: &MachineReport, reading: &Reading) -> Counters {
    let mut found = Counters::new();
    let mut add = |of: &str, counter: &str, unit, value| {
        found.insert((of.to_owned(), counter.to_owned()), (unit, value));
    };
    for (resource, pressure) in &reading.pressure {
        add(resource, "some waited", Unit::Nanoseconds, pressure.some_ns);
        add(resource, "all waited", Unit::Nanoseconds, pressure.full_ns);
    }
    for (disk, account) in &reading.disks {
        add(disk, "busy", Unit::Nanoseconds, account.busy_ns);
        add(disk, "queued", Unit::Nanoseconds, account.queued_ns);
        add(disk, "read", Unit::Bytes, account.read_bytes);
        add(disk, "written", Unit::Bytes, account.written_bytes);
    }
    for (name, value) in &reading.vmstat {
        add("memory", name, Unit::Times, *value);
    }
    let of_machine = [
        ("stolen", Unit::Nanoseconds, reading.steal_ns),
        ("interrupts", Unit::Times, reading.interrupts),
        ("soft interrupts", Unit::Times, reading.soft_interrupts),
    ];
    for (counter, unit, value) in of_machine {
        value.into_iter().for_each(|value| add("machine", counter, unit, value));
    }
    for (id, group) in &reading.groups {
        let Some((path, cpu)) = report.group(*id).map(|group| &group.path).zip(group.cpu) else {
            continue;
        };
        add(path, "throttled", Unit::Nanoseconds, cpu.throttled_ns);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use unhitch_model::{DiskAccount, Pressure};

    fn reading(ms: u64, some_ns: u64, disk: Option<u64>) -> Reading {
        let disk = disk.map(|read_bytes| {
            ("sda".to_owned(), DiskAccount { read_bytes, ..DiskAccount::default() })
        });
        Reading {
            time: Time::from_nanos(ms * 1_000_000),
            pressure: [("io".to_owned(), Pressure { some_ns, full_ns: 0 })].into(),
            disks: disk.into_iter().collect(),
            ..Reading::default()
        }
    }

    #[test]
    fn a_counter_grows_between_the_readings_that_both_have_it() {
        let report = MachineReport {
            // The disk came later, and began anew once.
            readings: vec![
                reading(0, 7, None),
                reading(500, 9, Some(4096)),
                reading(1000, 9, Some(8192)),
                reading(1500, 9, Some(512)),
            ],
            ..MachineReport::default()
        };
        let all = growths(&report, Window::new(Time::ZERO, Time::MAX));
        let of = |wanted: &str| -> Vec<(u64, u64)> {
            let found = all.iter().filter(|growth| growth.counter == wanted);
            found.map(|growth| (growth.from.nanos() / 1_000_000, growth.amount)).collect()
        };
        assert_eq!(of("some waited"), [(0, 2), (500, 0), (1000, 0)]);
        assert_eq!(of("read"), [(500, 4096), (1000, 512)]);
        assert_eq!(of("written"), [], "nothing was ever written");
        let at = Time::from_nanos(600_000_000);
        assert!(growths(&report, Window::new(at, at.plus(1))).iter().all(|g| g.from < at));
    }
}
