//! The accounts of one control group: CPU, memory and block devices.
//!
//! Formats: `Documentation/admin-guide/cgroup-v2.rst` and `cgroup-v1/` of the kernel.

use crate::procfs::read_small;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::path::Path;
use unhitch_formats::container::{CpuTotals, DeviceTotals, GroupAccounts, MemoryTotals};

/// Maximum number of block devices listed per group.
const MAX_DEVICES: usize = 32;
/// A limit of at least this many bytes means no limit: version 1 writes a very large number.
const NO_LIMIT_BYTES: u64 = 1 << 60;

/// The accounts of the group at `folder`.
pub(super) fn accounts(hierarchy: &str, folder: &Path) -> GroupAccounts {
    let read = |name: &str| read_small(&folder.join(name));
    let mut accounts = GroupAccounts::default();
    if matches!(hierarchy, "unified" | "cpu") {
        accounts.cpu = cpu(hierarchy == "unified", &read);
    }
    if matches!(hierarchy, "unified" | "memory") {
        accounts.memory = memory(hierarchy == "unified", &read);
    }
    match hierarchy {
        "unified" => accounts.io = io(&read),
        "blkio" => accounts.io = blkio(&read),
        _ => {}
    }
    accounts
}

/// Parses lines of the form `name value`.
fn flat(text: &str) -> FxHashMap<&str, u64> {
    text.lines()
        .filter_map(|line| {
            line.split_once(' ').and_then(|(name, value)| Some((name, value.trim().parse().ok()?)))
        })
        .collect()
}

/// The CPU account; `None` for a group that never had a limit.
fn cpu(unified: bool, read: &dyn Fn(&str) -> Option<String>) -> Option<CpuTotals> {
    let number = |text: Option<String>| text.and_then(|text| text.trim().parse::<u64>().ok());
    // `max` and -1 do not parse: there is no quota then.
    let (quota_us, period_us) = if unified {
        let max = read("cpu.max")?;
        let (quota, period) = max.trim().split_once(' ')?;
        (quota.parse::<u64>().ok(), period.parse().ok()?)
    } else {
        (number(read("cpu.cfs_quota_us")), number(read("cpu.cfs_period_us"))?)
    };
    let stat = read("cpu.stat")?;
    let stat = flat(&stat);
    let get = |name| stat.get(name).copied().unwrap_or(0);
    let throttled_ns =
        if unified { get("throttled_usec").saturating_mul(1000) } else { get("throttled_time") };
    (quota_us.is_some() || get("nr_periods") > 0).then(|| CpuTotals {
        quota_ns: quota_us.map(|quota| quota.saturating_mul(1000)),
        period_ns: period_us.saturating_mul(1000),
        periods: get("nr_periods"),
        throttled_periods: get("nr_throttled"),
        throttled_ns,
    })
}

/// The memory account; `None` for a group without a limit that never hit one.
fn memory(unified: bool, read: &dyn Fn(&str) -> Option<String>) -> Option<MemoryTotals> {
    let (limit, used) = if unified {
        ("memory.max", "memory.current")
    } else {
        ("memory.limit_in_bytes", "memory.usage_in_bytes")
    };
    let limit_bytes = read(limit)?.trim().parse().ok().filter(|limit| *limit < NO_LIMIT_BYTES);
    let mut events = BTreeMap::new();
    let mut add = |name: &str, count: u64| {
        if count > 0 {
            events.insert(name.to_owned(), count);
        }
    };
    if unified {
        flat(&read("memory.events").unwrap_or_default())
            .into_iter()
            .for_each(|(name, count)| add(name, count));
    } else {
        add(
            "failcnt",
            read("memory.failcnt").and_then(|count| count.trim().parse().ok()).unwrap_or(0),
        );
        let oom = read("memory.oom_control").unwrap_or_default();
        add("oom_kill", flat(&oom).get("oom_kill").copied().unwrap_or(0));
    }
    let used_bytes = || read(used).and_then(|used| used.trim().parse().ok()).unwrap_or(0);
    (limit_bytes.is_some() || !events.is_empty()).then(|| MemoryTotals {
        limit_bytes,
        used_bytes: used_bytes(),
        events,
    })
}

/// Version 2: `8:0 rbytes=1 wbytes=2 rios=3 wios=4 …`, and `8:0 rbps=1048576 wbps=max …`.
fn io(read: &dyn Fn(&str) -> Option<String>) -> Vec<DeviceTotals> {
    let mut devices: BTreeMap<String, DeviceTotals> = BTreeMap::new();
    for line in read("io.stat").unwrap_or_default().lines() {
        let mut words = line.split(' ');
        let Some(device) = words.next().filter(|device| device.contains(':')) else { continue };
        let totals = devices.entry(device.to_owned()).or_default();
        for (name, value) in words.filter_map(|word| word.split_once('=')) {
            let Ok(value) = value.parse() else { continue };
            match name {
                "rbytes" => totals.read_bytes = value,
                "wbytes" => totals.written_bytes = value,
                "rios" => totals.reads = value,
                "wios" => totals.writes = value,
                _ => {}
            }
        }
    }
    for line in read("io.max").unwrap_or_default().lines() {
        let Some((device, limits)) = line.split_once(' ') else { continue };
        let limits: Vec<&str> =
            limits.split(' ').filter(|limit| !limit.ends_with("=max")).collect();
        devices.entry(device.to_owned()).or_default().limits = limits.join(" ");
    }
    listed(devices)
}

/// Version 1: `8:0 Read 4096` in one file for bytes and one for operations, and a file for each
/// limit.
fn blkio(read: &dyn Fn(&str) -> Option<String>) -> Vec<DeviceTotals> {
    let mut devices: BTreeMap<String, DeviceTotals> = BTreeMap::new();
    for (file, bytes) in
        [("blkio.throttle.io_service_bytes", true), ("blkio.throttle.io_serviced", false)]
    {
        for line in read(file).unwrap_or_default().lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [device, operation, value] = words[..] else { continue };
            let Ok(value) = value.parse() else { continue };
            let totals = devices.entry(device.to_owned()).or_default();
            match (operation, bytes) {
                ("Read", true) => totals.read_bytes = value,
                ("Write", true) => totals.written_bytes = value,
                ("Read", false) => totals.reads = value,
                ("Write", false) => totals.writes = value,
                _ => {}
            }
        }
    }
    for (file, name) in [
        ("read_bps", "rbps"),
        ("write_bps", "wbps"),
        ("read_iops", "riops"),
        ("write_iops", "wiops"),
    ] {
        for line in read(&format!("blkio.throttle.{file}_device")).unwrap_or_default().lines() {
            let Some((device, limit)) = line.split_once(' ') else { continue };
            let limits = &mut devices.entry(device.to_owned()).or_default().limits;
            let blank = if limits.is_empty() { "" } else { " " };
            limits.push_str(&format!("{blank}{name}={}", limit.trim()));
        }
    }
    listed(devices)
}

/// The devices with I/O or limits.
fn listed(devices: BTreeMap<String, DeviceTotals>) -> Vec<DeviceTotals> {
    let named = devices.into_iter().map(|(device, totals)| DeviceTotals { device, ..totals });
    named
        .filter(|totals| totals.reads + totals.writes > 0 || !totals.limits.is_empty())
        .take(MAX_DEVICES)
        .collect()
}
