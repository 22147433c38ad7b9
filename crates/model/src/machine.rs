//! Counters of the machine and its control groups, read from time to time while recording.
//!
//! No event says that a control group used up its quota, or that a host took a virtual CPU away.
//! These counters do. They only grow, so what happened in a window is the difference between the
//! readings around it.

use crate::{ThreadId, Threads, Time, Window};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// A control group of a [`MachineReport`], by its index there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupId(pub u32);

/// A control group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ControlGroup {
    /// `unified` for version 2; for version 1 the controller that has its own hierarchy: `cpu`,
    /// `memory`, `blkio`.
    pub hierarchy: String,
    /// Its path in that hierarchy, from `/`.
    pub path: String,
}

/// The CPU account of a control group since its creation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuAccount {
    /// CPU time that it may use in each period, nanoseconds; `None` without a limit.
    pub quota_ns: Option<u64>,
    /// The length of a period, nanoseconds.
    pub period_ns: u64,
    /// Periods in which it wanted to run.
    pub periods: u64,
    /// Periods in which it used up its quota.
    pub throttled_periods: u64,
    /// How long its tasks were kept off CPUs for that, summed over CPUs, nanoseconds.
    pub throttled_ns: u64,
}

/// The memory account of a control group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MemoryAccount {
    /// Memory that it may use, bytes; `None` without a limit.
    pub limit_bytes: Option<u64>,
    /// Memory that it uses.
    pub used_bytes: u64,
    /// How often it reached a limit, by the kernel's names (`max`, `high`, `oom_kill`, …; `failcnt`
    /// in version 1).
    pub events: BTreeMap<String, u64>,
}

/// What a control group did on one block device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeviceAccount {
    /// `major:minor`.
    pub device: String,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Its limits there, as the kernel writes them (`rbps=1048576 wiops=100`); empty if it has
    /// none.
    pub limits: String,
}

/// The accounts of one control group at one time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GroupReading {
    /// Its CPU account, if it has or had a quota.
    pub cpu: Option<CpuAccount>,
    /// Its memory account.
    pub memory: Option<MemoryAccount>,
    /// Its block devices.
    pub io: Vec<DeviceAccount>,
}

/// How long tasks waited for a resource since the machine was started (`/proc/pressure`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pressure {
    /// Time in which some task waited, nanoseconds.
    pub some_ns: u64,
    /// Time in which all tasks that had work waited, nanoseconds.
    pub full_ns: u64,
}

/// What was done on a disk since it was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskAccount {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time in which it had requests, nanoseconds.
    pub busy_ns: u64,
    /// Time that its requests took, summed over requests, nanoseconds.
    pub queued_ns: u64,
}

/// All counters at one time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reading {
    /// When.
    pub time: Time,
    /// CPU time that the host gave to others while a virtual CPU wanted it, summed over CPUs,
    /// nanoseconds.
    pub steal_ns: Option<u64>,
    /// Pressure by resource: `cpu`, `io`, `memory`.
    pub pressure: BTreeMap<String, Pressure>,
    /// Counters of `/proc/vmstat`, by the kernel's names.
    pub vmstat: BTreeMap<String, u64>,
    /// Interrupts, of all CPUs.
    pub interrupts: Option<u64>,
    /// Soft interrupts, of all CPUs.
    pub soft_interrupts: Option<u64>,
    /// Whole disks by name.
    pub disks: BTreeMap<String, DiskAccount>,
    /// The accounts of control groups.
    pub groups: BTreeMap<GroupId, GroupReading>,
    /// True if all control groups were read. A group without an entry then did not exist, or had
    /// used up nothing yet.
    pub is_whole: bool,
}

/// All readings of a recording.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MachineReport {
    /// The control groups.
    pub groups: Vec<ControlGroup>,
    /// The readings, by time.
    pub readings: Vec<Reading>,
    /// The groups of a thread when it was last seen, one of each hierarchy. A thread that is not
    /// listed is in the groups of its process's first thread.
    pub members: FxHashMap<ThreadId, Vec<GroupId>>,
}

/// What one control group's quota did in a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Throttling {
    /// The group that has the quota.
    pub group: GroupId,
    /// CPU time that it may use in each period, nanoseconds; `None` if the limit was lifted
    /// meanwhile.
    pub quota_ns: Option<u64>,
    /// The length of a period, nanoseconds.
    pub period_ns: u64,
    /// Periods in which it wanted to run.
    pub periods: u64,
    /// Periods in which it used up its quota.
    pub throttled_periods: u64,
    /// How long its tasks were kept off CPUs, summed over CPUs, nanoseconds.
    pub throttled_ns: u64,
    /// The times of the two readings that this is the difference of.
    pub between: Window,
}

impl MachineReport {
    /// The group `id`.
    pub fn group(&self, id: GroupId) -> Option<&ControlGroup> {
        self.groups.get(id.0 as usize)
    }

    /// The groups of a thread, one of each hierarchy. If its process ended before it was seen in
    /// one, those of its parent, from which processes inherit their groups. Empty if unknown.
    pub fn groups_of(&self, threads: &Threads, thread: ThreadId) -> &[GroupId] {
        /// Maximum depth of the tree of processes; a deeper one is damage.
        const MAX_PARENTS: usize = 64;
        if let Some(groups) = self.members.get(&thread) {
            return groups;
        }
        let mut process = threads.process_of(thread);
        for _ in 0..MAX_PARENTS {
            if let Some(groups) = self.members.get(&process.leader) {
                return groups;
            }
            let born = threads.get(process.leader).start.unwrap_or(Time::ZERO);
            let parent = process
                .parent_pid
                .and_then(|pid| threads.at(pid, born))
                .filter(|parent| !parent.is_idle());
            match parent.map(|parent| threads.process_of(parent)) {
                Some(parent) if parent.pid != process.pid => process = parent,
                _ => break,
            }
        }
        &[]
    }

    /// The path of a thread's control group; of several hierarchies, the deepest path, which says most.
    /// `None` if no group of it is known.
    pub fn group_path(&self, threads: &Threads, thread: ThreadId) -> Option<&str> {
        let groups = self.groups_of(threads, thread).iter().filter_map(|&group| self.group(group));
        let paths = groups.map(|group| group.path.as_str());
        paths.max_by_key(|path| path.split('/').filter(|name| !name.is_empty()).count())
    }

    /// A group and the groups that contain it, innermost first, as far as they were seen.
    pub fn with_parents(&self, id: GroupId) -> Vec<GroupId> {
        let Some(group) = self.group(id) else { return Vec::new() };
        let contains = |other: &ControlGroup| {
            let rest = group.path.strip_prefix(other.path.trim_end_matches('/'));
            other.hierarchy == group.hierarchy
                && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let mut found: Vec<GroupId> = (0..self.groups.len() as u32)
            .map(GroupId)
            .filter(|id| self.group(*id).is_some_and(contains))
            .collect();
        found.sort_by_key(|id| {
            std::cmp::Reverse(self.group(*id).map_or(0, |group| group.path.len()))
        });
        found
    }

    /// What the quota of `group` did in `window`, by the closest readings around it; `None` if the
    /// group did not use up its quota, or has no known one.
    pub fn throttling(&self, group: GroupId, window: Window) -> Option<Throttling> {
        let account = |reading: &Reading| reading.groups.get(&group)?.cpu;
        let known: Vec<(Time, CpuAccount)> = self
            .readings
            .iter()
            .filter_map(|reading| match account(reading) {
                None if reading.is_whole => Some((reading.time, CpuAccount::default())),
                account => Some((reading.time, account?)),
            })
            .collect();
        let after = known
            .iter()
            .position(|(time, _)| *time >= window.end)
            .or(known.len().checked_sub(1))?;
        let before = known.iter().rposition(|(time, _)| *time <= window.start).unwrap_or(0);
        // A removed group reads as if it had never existed, so the last reading that has it counts.
        let has_it = |at: &usize| known[*at].1 != CpuAccount::default();
        let after = if has_it(&after) { after } else { (before..after).rev().find(has_it)? };
        let ((from, old), (to, new)) = (known[before], known[after]);
        let throttled_periods = new.throttled_periods.checked_sub(old.throttled_periods)?;
        (throttled_periods > 0 && from < to).then(|| Throttling {
            group,
            quota_ns: new.quota_ns.or(old.quota_ns),
            period_ns: if new.period_ns > 0 { new.period_ns } else { old.period_ns },
            periods: new.periods.saturating_sub(old.periods),
            throttled_periods,
            throttled_ns: new.throttled_ns.saturating_sub(old.throttled_ns),
            between: Window::new(from, to),
        })
    }

    /// The longest throttling in `window` among a thread's groups and the groups that contain them.
    pub fn throttled_by(
        &self,
        threads: &Threads,
        thread: ThreadId,
        window: Window,
    ) -> Option<Throttling> {
        let groups =
            self.groups_of(threads, thread).iter().flat_map(|&group| self.with_parents(group));
        let throttled = groups.filter_map(|group| self.throttling(group, window));
        throttled.max_by_key(|throttling| {
            (
                throttling.throttled_ns,
                throttling.throttled_periods,
                std::cmp::Reverse(throttling.group),
            )
        })
    }

    /// The last reading before `window` and the first one after it, or the nearest ones there are.
    pub fn around(&self, window: Window) -> Option<(&Reading, &Reading)> {
        let before = self
            .readings
            .iter()
            .rev()
            .find(|reading| reading.time <= window.start)
            .or(self.readings.first())?;
        let after = self
            .readings
            .iter()
            .find(|reading| reading.time >= window.end)
            .or(self.readings.last())?;
        (before.time < after.time).then_some((before, after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NameId, Process, Thread};

    fn report(accounts: &[&[(u32, u64, u64)]]) -> MachineReport {
        let group =
            |path: &str| ControlGroup { hierarchy: "unified".to_owned(), path: path.to_owned() };
        let account = |&(group, throttled_periods, throttled_ns): &(u32, u64, u64)| {
            let cpu = CpuAccount {
                quota_ns: Some(10),
                period_ns: 100,
                periods: throttled_periods * 2,
                throttled_periods,
                throttled_ns,
            };
            (GroupId(group), GroupReading { cpu: Some(cpu), ..GroupReading::default() })
        };
        let readings = accounts.iter().enumerate().map(|(second, groups)| Reading {
            time: Time::from_nanos(second as u64 * 1000),
            groups: groups.iter().map(account).collect(),
            is_whole: true,
            ..Reading::default()
        });
        MachineReport {
            groups: ["/", "/a", "/a/b", "/ab"].map(group).to_vec(),
            readings: readings.collect(),
            members: FxHashMap::default(),
        }
    }

    fn window(start: u64, end: u64) -> Window {
        Window::new(Time::from_nanos(start), Time::from_nanos(end))
    }

    #[test]
    fn a_window_gets_the_difference_of_the_readings_around_it() {
        // Group 1 was throttled in the second second only, long before as well; group 2 was created in
        // the second.
        let report = report(&[
            &[(1, 50, 5000)],
            &[(1, 50, 5000)],
            &[(1, 57, 5600), (2, 3, 300)],
            &[(1, 57, 5600)],
        ]);
        assert_eq!(report.throttling(GroupId(1), window(100, 900)), None, "not then");
        let found = report.throttling(GroupId(1), window(1200, 1800)).unwrap();
        assert_eq!((found.throttled_periods, found.periods, found.throttled_ns), (7, 14, 600));
        assert_eq!(found.between, window(1000, 2000));
        assert_eq!(report.throttling(GroupId(1), window(2100, 2900)), None, "no longer");
        let created = report.throttling(GroupId(2), window(1200, 2900)).unwrap();
        assert_eq!(
            (created.throttled_periods, created.between),
            (3, window(1000, 2000)),
            "gone at the last reading"
        );
        assert_eq!(report.throttling(GroupId(3), window(0, 3000)), None);
    }

    #[test]
    fn a_parents_quota_counts_and_a_namesakes_does_not() {
        let mut threads = Threads::new(NameId::default());
        let mut add = |pid: u32, parent_pid| {
            let process = threads.add_process(Process {
                pid,
                leader: ThreadId(pid),
                parent_pid,
                ..Process::default()
            });
            let names = Vec::new();
            threads.add(Thread {
                tid: pid,
                process,
                names,
                start: None,
                end: None,
                policy: None,
                nice: None,
            })
        };
        let (first, child, stranger) = (add(1, None), add(2, Some(1)), add(3, None));
        let mut report = report(&[&[], &[(1, 4, 400), (3, 9, 900)]]);
        report.members.insert(first, vec![GroupId(2)]);
        assert_eq!(report.with_parents(GroupId(2)), [GroupId(2), GroupId(1), GroupId(0)]);
        for thread in [first, child] {
            let found = report.throttled_by(&threads, thread, window(100, 200)).unwrap();
            assert_eq!((found.group, found.throttled_periods), (GroupId(1), 4));
        }
        assert_eq!(report.throttled_by(&threads, stranger, window(100, 200)), None);
    }
}
