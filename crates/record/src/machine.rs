//! Counters of the whole machine, read at an interval: pressure, memory, steal time, interrupts,
//! disks, and the accounts of control groups.
//!
//! Formats: proc(5) (`stat`, `vmstat`), `Documentation/accounting/psi.rst`. The counters only grow,
//! so a save needs a reading near the start of what its rings hold. When that will be is not known
//! in advance. So a thread takes a reading every half second, or less often if that would cost more
//! than 1/2000 of a CPU (1/1000 where they are slow), and keeps a few of them. *Why a separate thread:* reading the accounts of a
//! group takes kernel locks, which the hanging program may hold.

use crate::control_groups::{self, Hierarchy};
use crate::disks;
use crate::procfs::read_small;
use crate::session::Session;
use crate::sys;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use unhitch_formats::container::{
    GroupAccounts, GroupName, MachineFile, MachineReading, Member, PressureTotals,
};
use unhitch_model::Time;

/// Minimum time between two readings.
const MIN_INTERVAL: Duration = Duration::from_millis(500);
/// The interval is this many times the duration of a reading, as long as it is no longer than
/// [`MAX_INTERVAL`]: what happened in a stall is read off the readings around it.
const INTERVAL_PER_READING: u32 = 2000;
const MAX_INTERVAL: Duration = Duration::from_secs(5);
/// In any case, it is at least this many times that duration.
const MIN_INTERVAL_PER_READING: u32 = 1000;
/// Maximum time that one reading may spend on groups.
const MAX_GROUPS_TIME: Duration = Duration::from_millis(50);
/// How long a start or a save waits for a reading.
const READING_TIMEOUT: Duration = Duration::from_millis(250);
/// Maximum number of readings kept.
const MAX_READINGS: usize = 64;
/// Maximum number of tasks whose groups are kept.
const MAX_MEMBERS: usize = 8192;

/// The counters of `/proc/vmstat` that help to explain a hang: swapping, reclaim and its stalls,
/// compaction, OOM kills.
const VMSTAT: &[&str] = &[
    "allocstall_device",
    "allocstall_dma",
    "allocstall_dma32",
    "allocstall_movable",
    "allocstall_normal",
    "compact_fail",
    "compact_stall",
    "oom_kill",
    "pgmajfault",
    "pgscan_direct",
    "pgscan_direct_throttle",
    "pgscan_kswapd",
    "pgsteal_direct",
    "pgsteal_kswapd",
    "pswpin",
    "pswpout",
    "workingset_refault_anon",
    "workingset_refault_file",
];

/// The thread that takes readings, and its log. Dropping this ends the thread, but does not wait
/// for it.
pub(crate) struct Machine {
    log: Arc<Mutex<Log>>,
    commands: Sender<Command>,
}

/// A request for a reading, whose sender waits for it.
struct Command {
    done: Sender<()>,
    /// Whether to read the groups of every task, too.
    members: bool,
}

/// One reading, with its groups by name.
#[derive(Clone, Debug, Default)]
struct Entry {
    reading: MachineReading,
    groups: BTreeMap<GroupName, GroupAccounts>,
}

/// The readings kept, and the groups of tasks.
#[derive(Default)]
struct Log {
    entries: Vec<Entry>,
    members: FxHashMap<u32, (u64, Vec<GroupName>)>,
}

impl Machine {
    /// Starts the thread and takes the first reading. The rings of `session` determine which
    /// readings are still needed. All of this is optional: errors become warnings.
    pub(crate) fn start(session: &Arc<Session>, warnings: &mut Vec<String>) -> Self {
        let log = Arc::new(Mutex::new(Log::default()));
        let (commands, received) = channel();
        let (session, kept) = (Arc::downgrade(session), Arc::clone(&log));
        let thread = std::thread::Builder::new()
            .name("unhitch-machine".to_owned())
            .spawn(move || run(&session, &kept, &received));
        if let Err(error) = thread {
            warnings.push(format!("control groups and pressure are not recorded: {error}"));
        }
        let machine = Self { log, commands };
        if !machine.read(false) {
            let warning = "control groups and pressure could not be read when recording started: \
                           the kernel did not answer";
            warnings.push(warning.to_owned());
        }
        machine
    }

    /// Takes a reading now; false if that takes too long.
    pub(crate) fn read(&self, members: bool) -> bool {
        let (done, waited) = channel();
        self.commands.send(Command { done, members }).is_ok()
            && waited.recv_timeout(READING_TIMEOUT).is_ok()
    }

    /// The readings for a trace that starts at `start`.
    pub(crate) fn file(&self, start: Time) -> MachineFile {
        let log = lock(&self.log);
        let first = log
            .entries
            .iter()
            .rposition(|entry| entry.reading.time_ns <= start.nanos())
            .unwrap_or(0);
        let entries = log.entries.get(first..).unwrap_or_default();
        let mut names: BTreeMap<&GroupName, u32> = BTreeMap::new();
        names.extend(entries.iter().flat_map(|entry| entry.groups.keys()).map(|name| (name, 0)));
        let from = entries.first().map_or(0, |entry| entry.reading.time_ns);
        let mut members: Vec<_> =
            log.members.iter().filter(|(_, (time, _))| *time >= from).collect();
        members.sort_unstable_by_key(|(tid, _)| **tid);
        names.extend(members.iter().flat_map(|(_, (_, groups))| groups).map(|name| (name, 0)));
        names.values_mut().zip(0..).for_each(|(index, number)| *index = number);
        let index = |name: &GroupName| names.get(name).copied().unwrap_or(u32::MAX);
        let last = entries.len().saturating_sub(1);
        let readings = entries.iter().enumerate().map(|(at, entry)| MachineReading {
            groups: entry
                .groups
                .iter()
                // In between, only CPU accounts are needed: a quota may throttle for just a moment.
                .filter(|(_, accounts)| at == 0 || at == last || accounts.cpu.is_some())
                .map(|(name, accounts)| GroupAccounts { group: index(name), ..accounts.clone() })
                .collect(),
            ..entry.reading.clone()
        });
        MachineFile {
            version: 1,
            readings: readings.collect(),
            members: members
                .into_iter()
                .map(|(tid, (time_ns, groups))| Member {
                    tid: *tid,
                    time_ns: *time_ns,
                    groups: groups.iter().map(index).collect(),
                })
                .collect(),
            groups: names.keys().map(|name| (*name).clone()).collect(),
        }
    }
}

fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    // After a panic under this lock, the log is still usable: at worst, a reading is missing.
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(session: &Weak<Session>, log: &Mutex<Log>, commands: &Receiver<Command>) {
    let hierarchies = control_groups::hierarchies();
    let mut interval = MIN_INTERVAL;
    loop {
        let command = match commands.recv_timeout(interval) {
            Ok(command) => Some(command),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let begun = Instant::now();
        let (entry, limited) = take(&hierarchies);
        let time_ns = entry.reading.time_ns;
        // Get the start of the rings without keeping the session alive while we read.
        let held_from = session
            .upgrade()
            .map(|session| session.held_from().into_iter().max().unwrap_or_default());
        lock(log).add(entry, held_from);
        lock(log).add_members(time_ns, limited.into_iter().map(|(pid, group)| (pid, vec![group])));
        if let Some(Command { members: true, .. }) = command {
            let members = members(&hierarchies, Instant::now() + MAX_GROUPS_TIME);
            lock(log).add_members(time_ns, members);
        } else {
            interval = interval_after(begun.elapsed());
        }
        if let Some(command) = command {
            let _ = command.done.send(());
        }
    }
}

/// The time to the next reading, after one that took so long.
fn interval_after(reading: Duration) -> Duration {
    let wanted = reading.saturating_mul(INTERVAL_PER_READING).min(MAX_INTERVAL);
    wanted.max(reading.saturating_mul(MIN_INTERVAL_PER_READING)).max(MIN_INTERVAL)
}

/// Takes one reading; also returns which processes are in limited groups.
fn take(hierarchies: &[Hierarchy]) -> (Entry, Vec<(u32, GroupName)>) {
    let time_ns = sys::monotonic_now().nanos();
    let text = |path: &str| read_small(Path::new(path)).unwrap_or_default();
    let pressure = ["cpu", "io", "memory"].into_iter();
    let pressure = pressure.filter_map(|name| {
        Some((name.to_owned(), parse_pressure(&text(&format!("/proc/pressure/{name}")))?))
    });
    let groups = control_groups::read(hierarchies, Instant::now() + MAX_GROUPS_TIME);
    let stat = text("/proc/stat");
    let reading = MachineReading {
        time_ns,
        steal_ns: parse_steal(&stat),
        pressure: pressure.collect(),
        vmstat: parse_vmstat(&text("/proc/vmstat")),
        interrupts: parse_total(&stat, "intr"),
        soft_interrupts: parse_total(&stat, "softirq"),
        disks: disks::read(),
        groups: Vec::new(),
        whole: groups.is_whole,
    };
    (Entry { reading, groups: groups.accounts }, groups.limited)
}

/// The groups of all tasks: first of all processes, then of threads in other groups than their
/// process.
fn members(hierarchies: &[Hierarchy], deadline: Instant) -> Vec<(u32, Vec<GroupName>)> {
    let mut found: Vec<(u32, Vec<GroupName>)> = Vec::new();
    let groups_of = |path: String| {
        let groups = control_groups::parse_membership(&read_small(Path::new(&path))?, hierarchies);
        (!groups.is_empty()).then_some(groups)
    };
    let in_time = |found: &Vec<_>| found.len() < MAX_MEMBERS && Instant::now() < deadline;
    for pid in crate::procfs::numbers(Path::new("/proc")) {
        if !in_time(&found) {
            return found;
        }
        found.extend(groups_of(format!("/proc/{pid}/cgroup")).map(|groups| (pid, groups)));
    }
    for at in 0..found.len() {
        let pid = found[at].0;
        for tid in crate::procfs::thread_ids(pid).into_iter().filter(|tid| *tid != pid) {
            if !in_time(&found) {
                return found;
            }
            let different = groups_of(format!("/proc/{pid}/task/{tid}/cgroup"))
                .filter(|groups| *groups != found[at].1);
            found.extend(different.map(|groups| (tid, groups)));
        }
    }
    found
}

impl Log {
    /// Adds a reading. Of the readings before `held_from`, only the last is kept. If there are too
    /// many, drops the one whose neighbours are closest in time.
    fn add(&mut self, entry: Entry, held_from: Option<Time>) {
        self.entries.push(entry);
        if let Some(held_from) = held_from {
            let needed = self
                .entries
                .iter()
                .rposition(|entry| entry.reading.time_ns <= held_from.nanos())
                .unwrap_or(0);
            self.entries.drain(..needed);
        }
        if self.entries.len() > MAX_READINGS {
            let time = |at: usize| self.entries[at].reading.time_ns;
            let closest = (1..self.entries.len() - 1).min_by_key(|&at| time(at + 1) - time(at - 1));
            closest.map(|at| self.entries.remove(at));
        }
    }

    /// Notes the groups of tasks. In the same hierarchy, the latest group replaces earlier ones.
    fn add_members(
        &mut self,
        time_ns: u64,
        members: impl IntoIterator<Item = (u32, Vec<GroupName>)>,
    ) {
        for (tid, groups) in members {
            let (seen, known) = self.members.entry(tid).or_default();
            *seen = time_ns;
            known.retain(|old| !groups.iter().any(|new| new.hierarchy == old.hierarchy));
            known.extend(groups);
        }
        if self.members.len() > MAX_MEMBERS {
            let mut times: Vec<u64> = self.members.values().map(|(time, _)| *time).collect();
            let at = times.len() - MAX_MEMBERS / 2;
            let (_, from, _) = times.select_nth_unstable(at);
            let from = *from;
            self.members.retain(|_, (time, _)| *time >= from);
        }
    }
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=123`, in microseconds.
fn parse_pressure(text: &str) -> Option<PressureTotals> {
    let total = |kind: &str| {
        let line = text.lines().find(|line| line.split(' ').next() == Some(kind))?;
        line.split(' ').find_map(|word| word.strip_prefix("total="))?.parse::<u64>().ok()
    };
    // For CPUs, the kernel has no machine-wide `full` count.
    Some(PressureTotals {
        some_ns: total("some")?.saturating_mul(1000),
        full_ns: total("full").unwrap_or(0).saturating_mul(1000),
    })
}

/// The eighth number of the first line, in clock ticks (USER_HZ, which is 100 everywhere).
fn parse_steal(stat: &str) -> Option<u64> {
    const TICK_NS: u64 = 10_000_000;
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    line.split_ascii_whitespace()
        .nth(7)?
        .parse::<u64>()
        .ok()
        .map(|ticks| ticks.saturating_mul(TICK_NS))
}

/// The first number of a line of `/proc/stat`: that of all kinds.
fn parse_total(stat: &str, line: &str) -> Option<u64> {
    let mut lines = stat.lines().filter_map(|known| known.strip_prefix(line));
    lines.find_map(|rest| rest.strip_prefix(' '))?.split(' ').next()?.parse().ok()
}

fn parse_vmstat(text: &str) -> BTreeMap<String, u64> {
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    let wanted = lines.filter(|(name, _)| VMSTAT.binary_search(name).is_ok());
    wanted.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(time_ns: u64) -> Entry {
        Entry {
            reading: MachineReading { time_ns, ..MachineReading::default() },
            ..Entry::default()
        }
    }

    fn name(path: &str) -> GroupName {
        GroupName { hierarchy: "cpu".to_owned(), path: path.to_owned() }
    }

    #[test]
    fn counters_are_found() {
        let pressure = "some avg10=69.71 avg60=60.15 avg300=84.90 total=1767\nfull avg10=0.00 \
                        avg60=0.00 avg300=0.00 total=3\n";
        assert_eq!(
            parse_pressure(pressure),
            Some(PressureTotals { some_ns: 1_767_000, full_ns: 3000 })
        );
        assert_eq!(parse_pressure("nonsense"), None);
        assert_eq!(
            parse_steal("cpu  139500 262766 40081 45233 693 0 438 687 0 0\ncpu0 1\n"),
            Some(6_870_000_000)
        );
        assert_eq!(parse_steal("cpu0 1 2"), None);
        let stat = "cpu 1\nintr 4711 3 0\nctxt 8\nsoftirq 42 1 2\n";
        let totals = ["intr", "softirq", "soft"].map(|line| parse_total(stat, line));
        assert_eq!(totals, [Some(4711), Some(42), None]);
        assert!(VMSTAT.is_sorted());
        let vmstat = parse_vmstat("nr_free_pages 5\npswpin 7\noom_kill 1\n");
        assert_eq!(
            vmstat.into_iter().collect::<Vec<_>>(),
            [("oom_kill".to_owned(), 1), ("pswpin".to_owned(), 7)]
        );
    }

    #[test]
    fn slow_readings_are_rarer_but_not_by_much() {
        let after = |micros| interval_after(Duration::from_micros(micros)).as_millis();
        assert_eq!(
            [100, 1_000, 2_500, 4_000, 50_000].map(after),
            [500, 2_000, 5_000, 5_000, 50_000]
        );
    }

    #[test]
    fn the_kept_readings_cover_what_the_rings_hold() {
        let mut log = Log::default();
        for second in 0..1000 {
            log.add(entry(second), Some(Time::from_nanos(second.saturating_sub(100))));
        }
        let times: Vec<u64> = log.entries.iter().map(|entry| entry.reading.time_ns).collect();
        assert!(times.len() <= MAX_READINGS && times.is_sorted(), "{times:?}");
        assert!(
            times[0] <= 899 && times.iter().filter(|time| **time < 899).count() <= 1,
            "one before the start: {times:?}"
        );
        assert_eq!(times.last(), Some(&999));
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] <= 8), "{times:?}");
    }

    #[test]
    fn a_file_only_contains_the_groups_it_refers_to() {
        let machine = Machine { log: Arc::default(), commands: channel().0 };
        {
            let mut log = lock(&machine.log);
            for (time, path) in [(1, "/gone"), (5, "/a"), (9, "/a")] {
                let mut entry = entry(time);
                entry.groups.insert(
                    name(path),
                    GroupAccounts { cpu: Some(Default::default()), ..GroupAccounts::default() },
                );
                log.add(entry, None);
            }
            log.add_members(1, [(7, vec![name("/gone")])]);
            log.add_members(9, [(8, vec![name("/b")]), (9, vec![name("/a")])]);
            log.add_members(9, [(9, vec![name("/b")])]);
        }
        let file = machine.file(Time::from_nanos(6));
        assert_eq!(file.groups, [name("/a"), name("/b")]);
        assert_eq!(
            file.readings
                .iter()
                .map(|reading| (reading.time_ns, reading.groups[0].group))
                .collect::<Vec<_>>(),
            [(5, 0), (9, 0)]
        );
        assert_eq!(
            file.members
                .iter()
                .map(|member| (member.tid, member.groups.clone()))
                .collect::<Vec<_>>(),
            [(8, vec![1]), (9, vec![1])]
        );
    }

    #[test]
    fn when_there_are_too_many_tasks_the_oldest_are_dropped() {
        let mut log = Log::default();
        for tid in 0..3 * MAX_MEMBERS as u32 {
            log.add_members(u64::from(tid), [(tid, vec![name("/a")])]);
        }
        assert!(
            log.members.len() <= MAX_MEMBERS
                && log.members.contains_key(&(3 * MAX_MEMBERS as u32 - 1))
        );
        assert!(!log.members.contains_key(&0));
    }
}
