//! The side-band log: which processes, threads, names and mappings there were, for as long as the
//! rings may speak of them.
//!
//! Records as `enum perf_event_type` of `include/uapi/linux/perf_event.h` defines them (COMM, FORK,
//! EXIT, MMAP, MMAP2, KSYMBOL, LOST), kept as the kernel wrote them. Why not simply all of them: a
//! recorder stays on for weeks, and a machine that builds software starts a thousand processes a
//! second. Why not at save time from `/proc`: who made the hang may be dead by then.

use crate::procfs::{AddressSpace, LiveProcess};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use unhitch_formats::perf_data::record::{self, Mmap2, SampleId, kind, misc};
use unhitch_model::Time;

/// Mappings kept of one process: a JIT that maps code anew all the time must not fill our memory.
const MAPS_MAX: usize = 4096;
/// Kernel symbols and the like.
const MACHINE_MAX: usize = 16_384;
/// The trailer of every record: TID, TIME, CPU, IDENTIFIER.
const TRAILER_LEN: usize = 32;

/// One record, as it goes into the file.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) time: Time,
    pub(crate) bytes: Box<[u8]>,
    tid: u32,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Fork { parent_pid: u32 },
    Exit,
    Comm { exec: bool },
    Map { start_avma: u64, len: u64 },
    Machine,
}

/// One incarnation of a process.
#[derive(Default)]
struct Process {
    /// In order of time.
    records: Vec<Record>,
    /// Its threads, as far as they are known.
    live: FxHashSet<u32>,
    leader_exited: bool,
    exited: Option<Time>,
    command_line: String,
    /// True when `/proc` told its mappings and command line, and nothing has replaced them since.
    proc_read: bool,
}

/// Everything known of processes that the rings may still speak of.
#[derive(Default)]
pub(crate) struct SidebandLog {
    /// By pid, oldest incarnation first.
    processes: FxHashMap<u32, Vec<Process>>,
    /// Of no process: kernel symbols, kernel modules.
    machine: Vec<Record>,
    bytes: usize,
    lost: u64,
    dropped: u64,
}

impl Record {
    /// Classifies one record; nothing for kinds that are of no use, and for damage.
    fn parse(bytes: &[u8]) -> Option<(u32, Self)> {
        let u32_at = |offset: usize| {
            Some(u32::from_le_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?))
        };
        let u64_at = |offset: usize| {
            Some(u64::from_le_bytes(bytes.get(offset..offset + 8)?.try_into().ok()?))
        };
        let misc = u32_at(4)? as u16;
        let time = Time::from_nanos(u64_at(bytes.len().checked_sub(TRAILER_LEN - 8)?)?);
        let (pid, tid, what) = match u32_at(0)? {
            kind::COMM => {
                (u32_at(8)?, u32_at(12)?, What::Comm { exec: misc & misc::COMM_EXEC != 0 })
            }
            kind::FORK => (u32_at(8)?, u32_at(16)?, What::Fork { parent_pid: u32_at(12)? }),
            kind::EXIT => (u32_at(8)?, u32_at(16)?, What::Exit),
            kind::MMAP | kind::MMAP2 if u32_at(8)? != u32::MAX => {
                (u32_at(8)?, u32_at(12)?, What::Map { start_avma: u64_at(16)?, len: u64_at(24)? })
            }
            kind::MMAP | kind::MMAP2 | KSYMBOL => (u32::MAX, 0, What::Machine),
            _ => return None,
        };
        Some((pid, Self { time, bytes: bytes.into(), tid, what }))
    }

    /// The same mapping, of the process `pid` from `time` on.
    fn inherited(&self, pid: u32, time: Time) -> Self {
        let mut bytes = self.bytes.clone();
        let trailer = bytes.len() - TRAILER_LEN;
        for at in [8, 12, trailer, trailer + 4] {
            bytes[at..at + 4].copy_from_slice(&pid.to_le_bytes());
        }
        bytes[trailer + 8..trailer + 16].copy_from_slice(&time.nanos().to_le_bytes());
        Self { time, bytes, tid: pid, what: self.what }
    }

    fn memory(&self) -> usize {
        size_of::<Self>() + self.bytes.len()
    }

    /// The path of a mapping.
    fn path(&self) -> Option<&[u8]> {
        const MMAP_PATH_AT: usize = 40;
        const MMAP2_PATH_AT: usize = 72;
        let at = match u32::from_le_bytes(*self.bytes.first_chunk::<4>()?) {
            kind::MMAP => MMAP_PATH_AT,
            kind::MMAP2 => MMAP2_PATH_AT,
            _ => return None,
        };
        self.bytes.get(at..)?.split(|&byte| byte == 0).next()
    }
}

const KSYMBOL: u32 = 17;

impl Process {
    fn add(&mut self, pid: u32, record: Record) {
        match record.what {
            What::Exit => {
                self.live.remove(&record.tid);
                self.leader_exited |= record.tid == pid;
                if self.leader_exited && self.live.is_empty() {
                    self.exited = Some(record.time);
                }
            }
            What::Fork { .. } | What::Comm { .. } => {
                self.live.insert(record.tid);
                self.proc_read &= record.what != (What::Comm { exec: true });
            }
            What::Map { .. } | What::Machine => {}
        }
        let at = self.records.partition_point(|earlier| earlier.time <= record.time);
        self.records.insert(at, record);
    }

    fn maps(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(|record| matches!(record.what, What::Map { .. }))
    }

    fn last_exec(&self, until: Time) -> Option<Time> {
        let exec =
            |record: &&Record| record.what == What::Comm { exec: true } && record.time <= until;
        self.records.iter().rev().find(exec).map(|record| record.time)
    }

    /// When, and of whom, this process was forked.
    fn birth(&self, pid: u32) -> Option<(Time, u32)> {
        self.records.iter().find_map(|record| match record.what {
            What::Fork { parent_pid } if record.tid == pid && parent_pid != pid => {
                Some((record.time, parent_pid))
            }
            _ => None,
        })
    }

    /// Forgets what no event after `oldest` can refer to. Gives the number of mappings that had to
    /// go beyond that.
    fn compact(&mut self, pid: u32, oldest: Time) -> u64 {
        let exec = self.last_exec(oldest).unwrap_or_default();
        let mut exited: FxHashMap<u32, Time> = FxHashMap::default();
        let mut named: FxHashMap<u32, Time> = FxHashMap::default();
        let mut mapped: FxHashMap<u64, Time> = FxHashMap::default();
        for record in self.records.iter().filter(|record| record.time < oldest) {
            match record.what {
                What::Exit if record.tid != pid => drop(exited.insert(record.tid, record.time)),
                What::Comm { .. } => drop(named.insert(record.tid, record.time)),
                What::Map { start_avma, .. } => drop(mapped.insert(start_avma, record.time)),
                _ => {}
            }
        }
        self.records.retain(|record| {
            let dead = exited.get(&record.tid).is_some_and(|&exit| record.time <= exit);
            record.time >= oldest
                || match record.what {
                    What::Map { start_avma, .. } => {
                        record.time >= exec && mapped.get(&start_avma) == Some(&record.time)
                    }
                    What::Comm { .. } => !dead && named.get(&record.tid) == Some(&record.time),
                    What::Fork { .. } | What::Exit => !dead,
                    What::Machine => true,
                }
        });
        let excess = self.maps().count().saturating_sub(MAPS_MAX);
        let mut left = excess;
        self.records.retain(|record| {
            let drop = left > 0 && matches!(record.what, What::Map { .. });
            left -= usize::from(drop);
            !drop
        });
        excess as u64
    }
}

impl SidebandLog {
    /// Adds records that were drained together from all rings, in whichever order they come.
    pub(crate) fn add(&mut self, drained: &[u8]) {
        let mut records = Vec::new();
        for bytes in crate::ring::records(drained) {
            match bytes.first_chunk::<4>().map(|kind| u32::from_le_bytes(*kind)) {
                Some(kind::LOST) => {
                    self.lost += bytes
                        .get(16..24)
                        .and_then(|lost| lost.try_into().ok())
                        .map_or(1, u64::from_le_bytes)
                }
                _ => records.extend(Record::parse(bytes)),
            }
        }
        records.sort_by_key(|(_, record)| record.time);
        for (pid, record) in records {
            self.insert(pid, record);
        }
    }

    fn insert(&mut self, pid: u32, record: Record) {
        self.bytes += record.memory();
        if record.what == What::Machine {
            if self.machine.len() < MACHINE_MAX {
                self.machine.push(record);
            } else {
                self.dropped += 1;
            }
            return;
        }
        let incarnations = self.processes.entry(pid).or_default();
        let is_birth = matches!(record.what, What::Fork { parent_pid } if record.tid == pid && parent_pid != pid);
        // A new process of a known pid: the known one has ended, even if that was not seen, unless
        // all we know of it is later, out of order from another CPU's ring.
        let reborn = is_birth
            && incarnations.last().is_some_and(|last| {
                last.records.first().is_some_and(|first| first.time <= record.time)
            });
        if let Some(last) = incarnations.last_mut().filter(|_| reborn) {
            last.exited.get_or_insert(record.time);
        }
        if reborn || incarnations.is_empty() {
            incarnations.push(Process::default());
        }
        if let Some(process) = incarnations.last_mut() {
            process.add(pid, record);
        }
    }

    /// Adds what `/proc` knows of a process and the log does not: its threads' names and its
    /// mappings, from `Time::ZERO` on, or, where the log has seen it begin, from there on.
    pub(crate) fn complete(&mut self, live: &LiveProcess, space: Option<&AddressSpace>) {
        let pid = live.pid;
        let process = self
            .processes
            .get(&pid)
            .and_then(|incarnations| incarnations.last())
            .filter(|process| process.exited.is_none());
        let time = process
            .and_then(|process| {
                process.last_exec(Time::MAX).or(process.birth(pid).map(|(time, _)| time))
            })
            .unwrap_or_default();
        let named: FxHashSet<u32> = process.map_or_else(FxHashSet::default, |process| {
            process
                .records
                .iter()
                .filter(|record| matches!(record.what, What::Comm { .. } | What::Fork { .. }))
                .map(|record| record.tid)
                .collect()
        });
        let mapped: FxHashSet<(u64, u64)> = process.map_or_else(FxHashSet::default, |process| {
            process
                .maps()
                .filter_map(|record| {
                    if let What::Map { start_avma, len } = record.what {
                        Some((start_avma, len))
                    } else {
                        None
                    }
                })
                .collect()
        });
        let mut bytes = Vec::new();
        for thread in live.threads.iter().filter(|thread| !named.contains(&thread.tid)) {
            let id = SampleId { pid, tid: thread.tid, time, ..SampleId::default() };
            if process.is_none() && thread.tid == pid {
                // Tells the parent; perf wants it before the name.
                record::fork(&mut bytes, pid, live.parent_pid, pid, live.parent_pid, &id);
            }
            if thread.tid != pid {
                record::fork(&mut bytes, pid, pid, thread.tid, pid, &id);
            }
            record::comm(&mut bytes, pid, thread.tid, &thread.name, false, &id);
        }
        for map in space
            .iter()
            .flat_map(|space| &space.maps)
            .filter(|map| !mapped.contains(&(map.start_avma, map.len)))
        {
            let map = Mmap2 {
                pid,
                tid: pid,
                start_avma: map.start_avma,
                len: map.len,
                file_offset: map.file_offset,
                prot: (libc::PROT_READ | libc::PROT_EXEC) as u32,
                flags: libc::MAP_PRIVATE as u32,
                path: &map.path,
                build_id: None,
                kernel: false,
            };
            record::mmap2(
                &mut bytes,
                &map,
                &SampleId { pid, tid: pid, time, ..SampleId::default() },
            );
        }
        self.add(&bytes);
        if let Some(space) = space
            && let Some(process) =
                self.processes.get_mut(&pid).and_then(|incarnations| incarnations.last_mut())
        {
            process.command_line.clone_from(&space.command_line);
            process.proc_read = true;
        }
    }

    /// True when a living process needs nothing more from `/proc` than its threads' names.
    pub(crate) fn is_complete(&self, live: &LiveProcess) -> bool {
        let process = self.processes.get(&live.pid).and_then(|incarnations| incarnations.last());
        process.is_some_and(|process| process.exited.is_none() && process.proc_read)
    }

    /// Marks processes as exited whose end was not seen: those not among the living.
    pub(crate) fn bury(&mut self, living: &FxHashSet<u32>, now: Time) {
        for (pid, incarnations) in &mut self.processes {
            if let Some(last) = incarnations.last_mut().filter(|_| !living.contains(pid)) {
                last.exited.get_or_insert(now);
            }
        }
    }

    /// Forgets what no event after `oldest` can refer to.
    pub(crate) fn compact(&mut self, oldest: Time) {
        self.bequeath(oldest);
        for (&pid, incarnations) in &mut self.processes {
            incarnations.retain(|process| process.exited.is_none_or(|exited| exited >= oldest));
            for process in incarnations {
                self.dropped += process.compact(pid, oldest);
            }
        }
        self.processes.retain(|_, incarnations| !incarnations.is_empty());
        let processes = self.processes.values().flatten().flat_map(|process| &process.records);
        self.bytes = processes.chain(&self.machine).map(Record::memory).sum();
    }

    /// A child that never called exec runs the code that its parent had mapped: before a dead
    /// parent is forgotten, its mappings pass to such children.
    fn bequeath(&mut self, oldest: Time) {
        let mut inheritances: Vec<(u32, usize, Vec<Record>)> = Vec::new();
        for (&pid, incarnations) in &self.processes {
            for (index, child) in incarnations
                .iter()
                .enumerate()
                .filter(|(_, child)| child.exited.is_none_or(|exited| exited >= oldest))
            {
                let Some((born, parent_pid)) = child.birth(pid) else { continue };
                if child.last_exec(oldest).is_some() {
                    continue;
                }
                let parents = self.processes.get(&parent_pid).map_or(&[][..], Vec::as_slice);
                let dead = |parent: &&Process| {
                    parent.exited.is_some_and(|exited| born <= exited && exited < oldest)
                };
                let Some(parent) = parents.iter().find(dead) else { continue };
                let maps = parent
                    .maps()
                    .filter(|map| map.time <= born)
                    .map(|map| map.inherited(pid, born));
                inheritances.push((pid, index, maps.collect()));
            }
        }
        for (pid, index, maps) in inheritances {
            if let Some(child) =
                self.processes.get_mut(&pid).and_then(|incarnations| incarnations.get_mut(index))
            {
                maps.into_iter().for_each(|map| child.add(pid, map));
            }
        }
    }

    /// All records in order of time.
    pub(crate) fn records(&self) -> Vec<Record> {
        let processes = self.processes.values().flatten().flat_map(|process| &process.records);
        let mut records: Vec<Record> = processes.chain(&self.machine).cloned().collect();
        // The bytes last: records of one time must come in the same order from the same log.
        records.sort_by(|a, b| {
            (a.time, rank(a), a.tid, &a.bytes).cmp(&(b.time, rank(b), b.tid, &b.bytes))
        });
        records
    }

    /// The files that living processes have mapped: pid, address, length, path.
    pub(crate) fn mappings(&self) -> impl Iterator<Item = (u32, u64, u64, PathBuf)> {
        let living = self
            .processes
            .iter()
            .filter_map(|(&pid, incarnations)| Some((pid, incarnations.last()?)));
        living.filter(|(_, process)| process.exited.is_none()).flat_map(|(pid, process)| {
            process.maps().filter_map(move |record| {
                let What::Map { start_avma, len } = record.what else { return None };
                let path = record.path().filter(|path| path.starts_with(b"/"))?;
                Some((pid, start_avma, len, PathBuf::from(OsStr::from_bytes(path))))
            })
        })
    }

    /// The command lines that are known, by pid, of processes that still live or did so lately.
    pub(crate) fn command_lines(&self) -> Vec<(u32, String)> {
        let mut lines: Vec<(u32, String)> = Vec::new();
        for (&pid, incarnations) in &self.processes {
            let known = incarnations.iter().rev().find(|process| !process.command_line.is_empty());
            lines.extend(known.map(|process| (pid, process.command_line.clone())));
        }
        lines.sort_unstable();
        lines
    }

    /// Memory that the log takes, bytes.
    pub(crate) fn memory(&self) -> usize {
        self.bytes
    }

    /// How many processes it knows.
    pub(crate) fn processes(&self) -> usize {
        self.processes.values().map(Vec::len).sum()
    }

    /// Records that the kernel could not deliver.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// What is missing in it, for the user.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let lost = (self.lost > 0)
            .then(|| format!("{} records of processes and mappings were lost: names of processes that ended may be missing", self.lost));
        let dropped = (self.dropped > 0)
            .then(|| format!("{} old mappings were dropped to keep the recorder small: their frames may be unnamed", self.dropped));
        lost.into_iter().chain(dropped).collect()
    }
}

/// A process begins before it is named, is named before it maps.
fn rank(record: &Record) -> u8 {
    match record.what {
        What::Machine => 0,
        What::Fork { .. } => 1,
        What::Comm { .. } => 2,
        What::Map { .. } => 3,
        What::Exit => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procfs::{ExecutableMap, LiveThread};

    fn id(pid: u32, tid: u32, time: u64) -> SampleId {
        SampleId { pid, tid, time: Time::from_nanos(time), cpu: 0, id: 1 }
    }

    #[derive(Default)]
    struct Script(Vec<u8>);

    impl Script {
        fn fork(mut self, pid: u32, ppid: u32, tid: u32, time: u64) -> Self {
            record::fork(&mut self.0, pid, ppid, tid, ppid, &id(ppid, ppid, time));
            self
        }
        fn comm(mut self, pid: u32, tid: u32, name: &str, exec: bool, time: u64) -> Self {
            record::comm(&mut self.0, pid, tid, name.as_bytes(), exec, &id(pid, tid, time));
            self
        }
        fn exit(mut self, pid: u32, tid: u32, time: u64) -> Self {
            record::exit(&mut self.0, pid, 1, tid, 1, &id(pid, tid, time));
            self
        }
        fn map(mut self, pid: u32, start_avma: u64, path: &str, time: u64) -> Self {
            let map = Mmap2 {
                pid,
                tid: pid,
                start_avma,
                len: 0x1000,
                path: path.as_bytes(),
                ..Mmap2::default()
            };
            record::mmap2(&mut self.0, &map, &id(pid, pid, time));
            self
        }
        fn log(self) -> SidebandLog {
            let mut log = SidebandLog::default();
            log.add(&self.0);
            log
        }
    }

    fn summary(log: &SidebandLog) -> Vec<(u64, u32, u8)> {
        log.records().iter().map(|record| (record.time.nanos(), record.tid, rank(record))).collect()
    }

    #[test]
    fn a_process_that_exited_before_the_window_is_forgotten() {
        let script = Script::default()
            .fork(7, 1, 7, 10)
            .comm(7, 7, "old", true, 11)
            .map(7, 0x1000, "/bin/old", 12)
            .exit(7, 7, 20);
        let mut log = script.fork(8, 1, 8, 30).comm(8, 8, "new", true, 31).exit(8, 8, 60).log();
        log.compact(Time::from_nanos(50));
        assert_eq!(summary(&log), [(30, 8, 1), (31, 8, 2), (60, 8, 4)]);
        log.compact(Time::from_nanos(61));
        assert_eq!((summary(&log), log.memory()), (vec![], 0));
    }

    #[test]
    fn of_a_long_life_the_last_state_is_kept() {
        let mut script = Script::default()
            .fork(7, 1, 7, 10)
            .map(7, 0x9000, "/bin/sh", 11)
            .comm(7, 7, "app", true, 12);
        for time in 20..40 {
            script = script.comm(7, 7, "renamed", false, time).map(7, 0x5000, "/lib/plugin", time);
            script =
                script.fork(7, 7, 100, time).comm(7, 100, "worker", false, time).exit(7, 100, time);
        }
        let mut log = script.log();
        log.compact(Time::from_nanos(39));
        let kept = summary(&log);
        assert_eq!(
            kept,
            [
                (10, 7, 1),
                (38, 7, 2),
                (38, 7, 3),
                (39, 100, 1),
                (39, 7, 2),
                (39, 100, 2),
                (39, 7, 3),
                (39, 100, 4)
            ]
        );
        log.compact(Time::from_nanos(50));
        assert_eq!(summary(&log), [(10, 7, 1), (39, 7, 2), (39, 7, 3)]);
    }

    #[test]
    fn a_reused_pid_is_another_process() {
        let mut log = Script::default()
            .fork(7, 1, 7, 10)
            .comm(7, 7, "first", true, 11)
            .fork(7, 1, 7, 30)
            .comm(7, 7, "second", true, 31)
            .log();
        assert_eq!(log.processes(), 2);
        log.compact(Time::from_nanos(40));
        assert_eq!(summary(&log), [(30, 7, 1), (31, 7, 2)]);
    }

    #[test]
    fn records_of_two_rings_come_in_any_order() {
        let mut log = SidebandLog::default();
        log.add(&Script::default().exit(7, 7, 20).0);
        log.add(&Script::default().fork(7, 1, 7, 10).comm(7, 7, "late", true, 11).0);
        assert_eq!((log.processes(), summary(&log).len()), (1, 3));
    }

    #[test]
    fn a_daemon_inherits_the_mappings_of_its_dead_parent() {
        let script =
            Script::default().comm(5, 5, "daemon", true, 1).map(5, 0x4000, "/sbin/daemon", 2);
        let mut log = script.fork(6, 5, 6, 10).exit(5, 5, 12).log();
        log.compact(Time::from_nanos(20));
        let maps: Vec<Record> =
            log.records().into_iter().filter(|record| rank(record) == 3).collect();
        assert_eq!(
            maps.iter().map(|map| (map.time.nanos(), map.tid)).collect::<Vec<_>>(),
            [(10, 6)]
        );
        assert_eq!(maps[0].bytes[8..12], 6u32.to_le_bytes());
        assert!(maps[0].bytes.windows(12).any(|window| window == b"/sbin/daemon"));
    }

    #[test]
    fn a_jit_cannot_fill_the_memory() {
        let mut script = Script::default().comm(5, 5, "jit", true, 1);
        for index in 0..5000 {
            script = script.map(5, index << 12, "//anon", 10 + index);
        }
        let mut log = script.log();
        log.compact(Time::ZERO);
        assert_eq!((summary(&log).len(), log.dropped), (1 + MAPS_MAX, 5000 - MAPS_MAX as u64));
    }

    #[test]
    fn proc_adds_only_what_is_not_known() {
        let thread = |tid| LiveThread {
            tid,
            name: b"x".to_vec(),
            state: b'S',
            policy: 0,
            nice: 0,
            start_ticks: 0,
        };
        let live = LiveProcess { pid: 7, parent_pid: 1, threads: vec![thread(7), thread(9)] };
        let map = |start_avma| ExecutableMap {
            start_avma,
            len: 0x1000,
            file_offset: 0,
            path: b"/bin/app".to_vec(),
        };
        let space = AddressSpace {
            maps: vec![map(0x1000), map(0x2000)],
            command_line: "app -x".to_owned(),
        };
        let mut log = Script::default()
            .fork(7, 1, 7, 10)
            .comm(7, 7, "app", true, 11)
            .map(7, 0x1000, "/bin/app", 12)
            .log();
        log.complete(&live, Some(&space));
        assert_eq!(
            summary(&log),
            [(10, 7, 1), (11, 9, 1), (11, 7, 2), (11, 9, 2), (11, 7, 3), (12, 7, 3)]
        );
        assert_eq!(log.command_lines(), [(7, "app -x".to_owned())]);
        assert!(log.is_complete(&live));
        log.complete(&live, Some(&space));
        assert_eq!(summary(&log).len(), 6);
        log.bury(&FxHashSet::default(), Time::from_nanos(99));
        assert!(!log.is_complete(&live));
    }

    #[test]
    fn garbage_is_no_record() {
        let mut log = SidebandLog::default();
        let mut bytes = Script::default().fork(7, 1, 7, 10).map(7, 1, "/x", 11).0;
        for index in 0..bytes.len() {
            bytes[index] ^= 0xff;
            log.add(&bytes);
            bytes[index] ^= 0xff;
            log.add(&bytes[..index]);
        }
        log.compact(Time::MAX);
    }
}
