//! What the machine and its control groups reported of themselves over a recording, for `unhitch
//! info`: the differences of their counters.

use crate::explain::throttling;
use crate::wording::units;
use serde::Serialize;
use std::collections::BTreeMap;
use unhitch_model::{GroupId, GroupReading, MachineReport, Reading, Throttling, Trace, Window};

/// Control groups that are printed, at most; the JSON has all.
const MAX_PRINTED_GROUPS: usize = 12;

/// The differences between the first reading and the last.
#[derive(Serialize, Debug)]
pub(super) struct MachineJson {
    from_ns: u64,
    to_ns: u64,
    readings: usize,
    steal_ns: Option<u64>,
    pressure: BTreeMap<String, PressureJson>,
    /// Counters of `/proc/vmstat` that grew, by how much.
    vmstat: BTreeMap<String, u64>,
    groups: Vec<GroupJson>,
}

#[derive(Serialize, Debug)]
struct PressureJson {
    some_ns: u64,
    full_ns: u64,
}

#[derive(Serialize, Debug)]
struct GroupJson {
    hierarchy: String,
    path: String,
    /// Processes (and threads that are elsewhere than their process) that were seen in it.
    members: usize,
    cpu: Option<CpuJson>,
    memory: Option<MemoryJson>,
    io: Vec<DeviceJson>,
}

#[derive(Serialize, Debug)]
struct CpuJson {
    quota_ns: Option<u64>,
    period_ns: u64,
    periods: u64,
    throttled_periods: u64,
    throttled_ns: u64,
}

#[derive(Serialize, Debug)]
struct MemoryJson {
    limit_bytes: Option<u64>,
    used_bytes: u64,
    /// How often it came to a limit, by the kernel's names.
    events: BTreeMap<String, u64>,
}

#[derive(Serialize, Debug)]
struct DeviceJson {
    device: String,
    read_bytes: u64,
    written_bytes: u64,
    reads: u64,
    writes: u64,
    limits: String,
}

impl MachineJson {
    /// Nothing where fewer than two readings were recorded.
    pub(super) fn new(trace: &Trace) -> Option<Self> {
        let report = &trace.machine;
        let (first, last) = (report.readings.first()?, report.readings.last()?);
        let between = Window::new(first.time, last.time);
        if between.is_empty() {
            return None;
        }
        let mut members: BTreeMap<GroupId, usize> = BTreeMap::new();
        report
            .members
            .values()
            .flatten()
            .for_each(|group| *members.entry(*group).or_default() += 1);
        let pressure = last.pressure.iter().filter_map(|(name, new)| {
            let old = first.pressure.get(name)?;
            let some_ns = new.some_ns.saturating_sub(old.some_ns);
            Some((
                name.clone(),
                PressureJson { some_ns, full_ns: new.full_ns.saturating_sub(old.full_ns) },
            ))
        });
        let groups = (0..report.groups.len() as u32).map(GroupId);
        Some(Self {
            from_ns: first.time.nanos(),
            to_ns: last.time.nanos(),
            readings: report.readings.len(),
            steal_ns: first.steal_ns.zip(last.steal_ns).map(|(old, new)| new.saturating_sub(old)),
            pressure: pressure.collect(),
            vmstat: grown(&first.vmstat, &last.vmstat),
            groups: groups
                .filter_map(|id| {
                    GroupJson::new(report, id, members.get(&id).copied().unwrap_or(0), first, last)
                })
                .collect(),
        })
    }

    /// Name and value of each line of text.
    pub(super) fn lines(&self, line: &mut impl FnMut(&str, &str)) {
        let span = self.to_ns - self.from_ns;
        let share = |ns: u64| {
            format!("{} ({})", units::duration(ns), units::rounded_percent(ns.min(span), span))
        };
        line("machine", &format!("its own counters over {}", units::duration(span)));
        for (name, pressure) in &self.pressure {
            line(
                "",
                &format!(
                    "{name} pressure: at least one task waited {}, all of them {}",
                    share(pressure.some_ns),
                    share(pressure.full_ns)
                ),
            );
        }
        if let Some(steal) = self.steal_ns {
            line("", &format!("CPU time taken by the host: {}", units::duration(steal)));
        }
        if !self.vmstat.is_empty() {
            let counts: Vec<String> = self
                .vmstat
                .iter()
                .map(|(name, count)| format!("{name} {}", units::count(*count)))
                .collect();
            line("", &counts.join(", "));
        }
        let limited: Vec<&GroupJson> =
            self.groups.iter().filter(|group| group.is_worth_a_line()).collect();
        let number = units::plural(self.groups.len() as u64, "control group");
        line("groups", &format!("{number}, {} of them with limits or I/O", limited.len()));
        limited.iter().take(MAX_PRINTED_GROUPS).for_each(|group| line("", &group.words()));
        if limited.len() > MAX_PRINTED_GROUPS {
            line(
                "",
                &format!("and {} more (--json lists all)", limited.len() - MAX_PRINTED_GROUPS),
            );
        }
    }
}

impl GroupJson {
    fn new(
        report: &MachineReport,
        id: GroupId,
        members: usize,
        first: &Reading,
        last: &Reading,
    ) -> Option<Self> {
        let group = report.group(id)?;
        // Of a group that ended before the save, what was read last.
        let newest = report
            .readings
            .iter()
            .rev()
            .find_map(|reading| reading.groups.get(&id))
            .cloned()
            .unwrap_or_default();
        let old = first.groups.get(&id).cloned().unwrap_or_default();
        let throttled = report.throttling(id, Window::new(first.time, last.time));
        Some(Self {
            hierarchy: group.hierarchy.clone(),
            path: group.path.clone(),
            members,
            cpu: cpu(&newest, &old, throttled),
            memory: newest.memory.map(|memory| MemoryJson {
                limit_bytes: memory.limit_bytes,
                used_bytes: memory.used_bytes,
                events: grown(&old.memory.unwrap_or_default().events, &memory.events),
            }),
            io: newest
                .io
                .into_iter()
                .map(|new| {
                    let old = old
                        .io
                        .iter()
                        .find(|old| old.device == new.device)
                        .cloned()
                        .unwrap_or_default();
                    DeviceJson {
                        read_bytes: new.read_bytes.saturating_sub(old.read_bytes),
                        written_bytes: new.written_bytes.saturating_sub(old.written_bytes),
                        reads: new.reads.saturating_sub(old.reads),
                        writes: new.writes.saturating_sub(old.writes),
                        device: new.device,
                        limits: new.limits,
                    }
                })
                .collect(),
        })
    }

    fn is_worth_a_line(&self) -> bool {
        self.cpu.is_some()
            || self.memory.is_some()
            || self.io.iter().any(|device| device.reads > 0 || device.writes > 0)
    }

    fn words(&self) -> String {
        let mut parts = Vec::new();
        if let Some(cpu) = &self.cpu {
            parts.push(throttling::used(
                cpu.quota_ns,
                cpu.period_ns,
                (cpu.throttled_periods, cpu.periods),
                cpu.throttled_ns,
            ));
        }
        if let Some(memory) = &self.memory {
            let limit = memory
                .limit_bytes
                .map_or(String::new(), |limit| format!(" of {} allowed", mib(limit)));
            let events = memory
                .events
                .iter()
                .map(|(name, count)| format!(", {name} {}", units::count(*count)));
            parts.push(format!(
                "{}{limit} in use{}",
                mib(memory.used_bytes),
                events.collect::<String>()
            ));
        }
        for device in self.io.iter().filter(|device| device.reads > 0 || device.writes > 0) {
            let limits = if device.limits.is_empty() {
                String::new()
            } else {
                format!(" (limited: {})", device.limits)
            };
            let (read, written) = (mib(device.read_bytes), mib(device.written_bytes));
            parts.push(format!("device {}: {read} read, {written} written{limits}", device.device));
        }
        let members = if self.members > 0 {
            format!(", {}", units::plural(self.members as u64, "member"))
        } else {
            String::new()
        };
        format!("{} ({}{members}): {}", self.path, self.hierarchy, parts.join("; "))
    }
}

/// What the quota did; for a group that was not throttled, its limit and how often it ran. None if
/// there was no quota while recording.
fn cpu(
    newest: &GroupReading,
    old: &GroupReading,
    throttled: Option<Throttling>,
) -> Option<CpuJson> {
    let (new, old) = (newest.cpu?, old.cpu.unwrap_or_default());
    if throttled.is_none() {
        new.quota_ns.or(old.quota_ns)?;
    }
    Some(CpuJson {
        quota_ns: new.quota_ns,
        period_ns: new.period_ns,
        periods: new.periods.saturating_sub(old.periods),
        throttled_periods: throttled.map_or(0, |throttled| throttled.throttled_periods),
        throttled_ns: throttled.map_or(0, |throttled| throttled.throttled_ns),
    })
}

/// The counters that grew, by how much.
fn grown(old: &BTreeMap<String, u64>, new: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let grown = new.iter().map(|(name, count)| {
        (name.clone(), count.saturating_sub(old.get(name).copied().unwrap_or(0)))
    });
    grown.filter(|(_, count)| *count > 0).collect()
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
