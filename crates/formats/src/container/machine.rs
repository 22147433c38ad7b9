//! `machine.json`: counters of the machine and its control groups, read while recording.
//!
//! The counters are the kernel's own, counted since the machine or the group was started; what
//! happened between two readings is their difference. Names have the unit. Times are nanoseconds of
//! the trace's clock. A missing field has its default, so that older files stay readable.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use unhitch_model::{
    ControlGroup, CpuAccount, DeviceAccount, DiskAccount, GroupId, GroupReading, MachineReport,
    MemoryAccount, Pressure, Reading, Time, Trace,
};

/// The content of `machine.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineFile {
    /// Version of this layout: 1.
    pub version: u32,
    /// The control groups. Everything else refers to them by their index here, from 0.
    pub groups: Vec<GroupName>,
    /// The tasks in them.
    pub members: Vec<Member>,
    /// The readings, by time. The first one is at or before the start of what the trace covers, if
    /// there was one that early; the last one is at the save.
    pub readings: Vec<MachineReading>,
}

/// A control group.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupName {
    /// `unified` for version 2; for version 1 the controller: `cpu`, `memory`, `blkio`.
    pub hierarchy: String,
    /// Its path there, as `/proc/PID/cgroup` has it.
    pub path: String,
}

/// The groups of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Member {
    /// The task: a process by its pid, or a thread whose groups differ from its process's.
    pub tid: u32,
    /// When it was last seen in them.
    pub time_ns: u64,
    /// Its groups, one of each hierarchy.
    pub groups: Vec<u32>,
}

/// All counters at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineReading {
    /// When.
    pub time_ns: u64,
    /// CPU time that the host gave to others (`/proc/stat`), summed over CPUs.
    pub steal_ns: Option<u64>,
    /// `/proc/pressure/*` by resource.
    pub pressure: BTreeMap<String, PressureTotals>,
    /// Some counters of `/proc/vmstat`, by the kernel's names.
    pub vmstat: BTreeMap<String, u64>,
    /// Interrupts (`/proc/stat`), of all CPUs.
    pub interrupts: Option<u64>,
    /// Soft interrupts.
    pub soft_interrupts: Option<u64>,
    /// Whole disks by name (`/proc/diskstats`). Left out are those that were never used.
    pub disks: BTreeMap<String, DiskTotals>,
    /// Accounts of control groups. Left out are those that never had a limit and never reached one.
    pub groups: Vec<GroupAccounts>,
    /// True if every control group was read.
    pub whole: bool,
}

/// `total=` of the lines of a file of `/proc/pressure`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PressureTotals {
    /// Some task was waiting.
    pub some_ns: u64,
    /// All tasks that had work were waiting.
    pub full_ns: u64,
}

/// What was done on a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskTotals {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time in which it had requests.
    pub busy_ns: u64,
    /// Time that its requests took, summed over requests.
    pub queued_ns: u64,
}

/// The accounts of one control group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupAccounts {
    /// Which group.
    pub group: u32,
    /// `cpu.max` and `cpu.stat`; version 1: `cpu.cfs_quota_us`, `cpu.cfs_period_us`, `cpu.stat`.
    pub cpu: Option<CpuTotals>,
    /// `memory.max`, `.current`, `.events`; version 1: `memory.limit_in_bytes`, `.usage_in_bytes`,
    /// `.failcnt`, `.oom_control`.
    pub memory: Option<MemoryTotals>,
    /// `io.stat` and `io.max`; version 1: `blkio.throttle.*`.
    pub io: Vec<DeviceTotals>,
}

/// A group's CPU account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuTotals {
    /// CPU time allowed in each period; null without a limit.
    pub quota_ns: Option<u64>,
    /// Length of a period.
    pub period_ns: u64,
    /// Periods in which it wanted to run.
    pub periods: u64,
    /// Periods in which it used up its quota.
    pub throttled_periods: u64,
    /// How long its tasks were kept off CPUs, summed over CPUs.
    pub throttled_ns: u64,
}

/// A group's memory account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryTotals {
    /// Memory allowed; null without a limit.
    pub limit_bytes: Option<u64>,
    /// Memory in use.
    pub used_bytes: u64,
    /// How often it reached a limit, by the kernel's names.
    pub events: BTreeMap<String, u64>,
}

/// What a group did on one block device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceTotals {
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
    /// Its limits there, as the kernel writes them in `io.max`; empty if it has none.
    pub limits: String,
}

impl MachineFile {
    /// The member's name and content, for [`ContainerParts::extra`](super::ContainerParts::extra).
    pub fn entry(&self) -> Option<(String, Vec<u8>)> {
        // All of it can be written as JSON, so this never fails.
        serde_json::to_vec(self).ok().map(|json| (super::members::MACHINE.to_owned(), json))
    }

    /// Adds its content to `trace`. Leaves out references to groups that are not listed.
    pub(super) fn apply(self, trace: &mut Trace) {
        let known = self.groups.len() as u32;
        let mut readings: Vec<Reading> =
            self.readings.into_iter().map(|reading| reading.into_model(known)).collect();
        readings.sort_by_key(|reading| reading.time);
        let members = self.members.into_iter().filter_map(|member| {
            let thread = trace.threads.at(member.tid, Time::from_nanos(member.time_ns))?;
            Some((
                thread,
                member.groups.into_iter().filter(|group| *group < known).map(GroupId).collect(),
            ))
        });
        let members = members.collect();
        let groups = self
            .groups
            .into_iter()
            .map(|group| ControlGroup { hierarchy: group.hierarchy, path: group.path });
        trace.machine = MachineReport { groups: groups.collect(), readings, members };
    }
}

impl MachineReading {
    fn into_model(self, known: u32) -> Reading {
        let pressure = self
            .pressure
            .into_iter()
            .map(|(name, p)| (name, Pressure { some_ns: p.some_ns, full_ns: p.full_ns }));
        let groups = self.groups.into_iter().filter(|accounts| accounts.group < known);
        let disks = self.disks.into_iter().map(|(name, totals)| (name, totals.into_model()));
        Reading {
            time: Time::from_nanos(self.time_ns),
            steal_ns: self.steal_ns,
            pressure: pressure.collect(),
            vmstat: self.vmstat,
            interrupts: self.interrupts,
            soft_interrupts: self.soft_interrupts,
            disks: disks.collect(),
            groups: groups
                .map(|accounts| (GroupId(accounts.group), accounts.into_model()))
                .collect(),
            is_whole: self.whole,
        }
    }
}

impl GroupAccounts {
    fn into_model(self) -> GroupReading {
        GroupReading {
            cpu: self.cpu.map(|cpu| CpuAccount {
                quota_ns: cpu.quota_ns,
                period_ns: cpu.period_ns,
                periods: cpu.periods,
                throttled_periods: cpu.throttled_periods,
                throttled_ns: cpu.throttled_ns,
            }),
            memory: self.memory.map(|memory| MemoryAccount {
                limit_bytes: memory.limit_bytes,
                used_bytes: memory.used_bytes,
                events: memory.events,
            }),
            io: self.io.into_iter().map(DeviceTotals::into_model).collect(),
        }
    }
}

impl DiskTotals {
    fn into_model(self) -> DiskAccount {
        let Self { read_bytes, written_bytes, busy_ns, queued_ns } = self;
        DiskAccount { read_bytes, written_bytes, busy_ns, queued_ns }
    }
}

impl DeviceTotals {
    fn into_model(self) -> DeviceAccount {
        let Self { device, read_bytes, written_bytes, reads, writes, limits } = self;
        DeviceAccount { device, read_bytes, written_bytes, reads, writes, limits }
    }
}
