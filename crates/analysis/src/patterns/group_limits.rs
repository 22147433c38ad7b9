//! Limits of control groups beside a wait for a disk or for memory: `io.max`, and what
//! `memory.events` counted meanwhile. The group's limit is told, not blamed: the counters are read
//! now and then, and others in the group used them up, too.

use super::case::Case;
use crate::wording::sentence::{Sentence, count, duration, sentence};
use std::collections::BTreeMap;
use unhitch_model::{DeviceAccount, GroupId, GroupReading, ThreadId, Window, units};

/// A limit on I/O of a control group, to a device that it used meanwhile.
pub(super) struct IoLimit {
    /// In words, with what the group used of it.
    pub(super) sentence: Sentence,
    /// The group's path.
    pub(super) group: String,
    /// The group used most of it between the two readings, so that requests may have waited for it.
    pub(super) is_used_up: bool,
}

/// The limits on I/O of the control groups that `waiter` is in, to devices that they used meanwhile.
pub(super) fn io(case: &Case<'_>, waiter: ThreadId) -> Vec<IoLimit> {
    let mut limits = Vec::new();
    for changed in changes(case, waiter) {
        for new in &changed.new.io {
            let Some(allowed) = allowed(new) else { continue };
            let old = changed.old.io.iter().find(|old| old.device == new.device);
            let old = old.cloned().unwrap_or_default();
            let moved = moved(&old, new);
            if moved.reads > 0 || moved.writes > 0 {
                let group = path(case, changed.group);
                let sentence = sentence!(
                    "Control group {}, which has {}, may only {} device {}: it read {} and wrote {} \
                     there in the {} between two readings of its counters.",
                    group.clone(),
                    case.name(waiter),
                    allowed,
                    new.device.clone(),
                    units::bytes(moved.read_bytes),
                    units::bytes(moved.written_bytes),
                    duration(changed.between.duration_ns())
                );
                let is_used_up = is_used_up(&moved, changed.between.duration_ns());
                limits.push(IoLimit { sentence, group, is_used_up });
            }
        }
    }
    limits
}

/// What was moved from one reading to the next, with the limits of the later one.
fn moved(old: &DeviceAccount, new: &DeviceAccount) -> DeviceAccount {
    DeviceAccount {
        device: new.device.clone(),
        read_bytes: new.read_bytes.saturating_sub(old.read_bytes),
        written_bytes: new.written_bytes.saturating_sub(old.written_bytes),
        reads: new.reads.saturating_sub(old.reads),
        writes: new.writes.saturating_sub(old.writes),
        limits: new.limits.clone(),
    }
}

/// True if at least half of what one of the limits lets through in `ns` was moved. *Why not more*:
/// a group that waits for its limit in one second may have been idle in the next.
fn is_used_up(moved: &DeviceAccount, ns: u64) -> bool {
    limits(moved).any(|(name, per_second)| {
        let used = match name {
            "rbps" => moved.read_bytes,
            "wbps" => moved.written_bytes,
            "riops" => moved.reads,
            "wiops" => moved.writes,
            _ => 0,
        };
        u128::from(used) * 2 * 1_000_000_000 >= u128::from(per_second) * u128::from(ns)
    })
}

/// Each limit by its name, with what it lets through in a second, of `wbps=4194304 riops=max`.
fn limits(account: &DeviceAccount) -> impl Iterator<Item = (&str, u64)> {
    account.limits.split(' ').filter_map(|limit| {
        let (name, value) = limit.split_once('=')?;
        Some((name, value.parse().ok()?))
    })
}

/// How often a control group that `waiter` is in reached a limit of its memory meanwhile.
pub(super) fn memory(case: &Case<'_>, waiter: ThreadId) -> Vec<Sentence> {
    let told = changes(case, waiter).into_iter().filter_map(|changed| {
        let new = changed.new.memory.as_ref()?;
        let old = changed.old.memory.clone().unwrap_or_default().events;
        let events = reached(&old, &new.events)?;
        let limit = new.limit_bytes.map(|limit| format!(" of {}", units::bytes(limit)));
        Some(sentence!(
            "Control group {}, which has {}, reached limits of its memory in the {} between two \
             readings of its counters: {}. It had {}{} in use.",
            path(case, changed.group),
            case.name(waiter),
            duration(changed.between.duration_ns()),
            events,
            units::bytes(new.used_bytes),
            limit.unwrap_or_default()
        ))
    });
    told.collect()
}

/// A group's counters before and after a stall.
struct Change {
    group: GroupId,
    old: GroupReading,
    new: GroupReading,
    between: Window,
}

/// The counters around the stall of the waiter's groups and of those that contain them, innermost
/// first.
fn changes(case: &Case<'_>, waiter: ThreadId) -> Vec<Change> {
    let (trace, window) = (case.analysis.trace, case.explanation.window);
    let report = &trace.machine;
    let groups = report.groups_of(&trace.threads, waiter);
    let groups = groups.iter().flat_map(|&group| report.with_parents(group));
    let known = groups.filter_map(|group| {
        let (before, after) = report.around(window)?;
        let new = after.groups.get(&group)?.clone();
        // Not listed before: it was created since, or had used nothing.
        let old = before.groups.get(&group).cloned();
        let old = old.or_else(|| before.is_whole.then(GroupReading::default))?;
        Some(Change { group, old, new, between: Window::new(before.time, after.time) })
    });
    known.collect()
}

fn path(case: &Case<'_>, group: GroupId) -> String {
    case.analysis.trace.machine.group(group).map_or_else(String::new, |group| group.path.clone())
}

/// `write 4 MiB/s to`, of `wbps=4194304`; nothing without a limit.
fn allowed(account: &DeviceAccount) -> Option<String> {
    let words = limits(account).filter_map(|(name, number)| {
        Some(match name {
            "rbps" => format!("read {}/s from", units::bytes(number)),
            "wbps" => format!("write {}/s to", units::bytes(number)),
            "riops" => format!("make {number} reads/s from"),
            "wiops" => format!("make {number} writes/s to"),
            _ => return None,
        })
    });
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| words.join(" and "))
}

/// `high 12 times, max 3 times`: the limits that were reached since, by the kernel's names.
fn reached(old: &BTreeMap<String, u64>, new: &BTreeMap<String, u64>) -> Option<Sentence> {
    let grown = new.iter().filter_map(|(name, new)| {
        let grown = new.saturating_sub(old.get(name).copied().unwrap_or(0));
        // `low` and `min` protect the group: reaching them delays others.
        let matters = grown > 0 && name != "low" && name != "min";
        matters.then(|| sentence!("{} {} times", name.clone(), count(grown)))
    });
    let grown: Vec<Sentence> = grown.collect();
    (!grown.is_empty()).then(|| Sentence::join(grown, ", "))
}
