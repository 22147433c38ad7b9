//! The side-band log: processes, threads, names and mappings, kept for as long as the rings may
//! refer to them.
//!
//! Records are those of `enum perf_event_type` in `include/uapi/linux/perf_event.h` (COMM, FORK,
//! EXIT, MMAP, MMAP2, KSYMBOL, LOST), kept as the kernel wrote them. *Why not keep all of them:* a
//! recorder runs for weeks, and a machine that builds software starts a thousand processes per
//! second. *Why not read `/proc` at the time of a save:* the culprit may have exited by then.

mod process;
mod record;
mod sources;

pub(crate) use record::Record;
pub(crate) use sources::Sideband;

use crate::naming::MappedFile;
use crate::procfs::{AddressSpace, LiveProcess};
use process::Process;
use record::{RecordKind, rank};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use unhitch_formats::perf_data::record::{Mmap2, SampleId, comm, fork, kind, mmap2};
use unhitch_model::{Time, units::plural};

/// Maximum number of records that belong to no process, such as kernel symbols.
const MAX_MACHINE_RECORDS: usize = 16_384;

/// Everything known about processes that the rings may still refer to.
#[derive(Default)]
pub(crate) struct SidebandLog {
    /// Processes by pid, oldest incarnation first.
    processes: FxHashMap<u32, Vec<Process>>,
    /// Records that belong to no process: kernel symbols and modules.
    machine: Vec<Record>,
    bytes: usize,
    lost: u64,
    dropped: u64,
    /// A copy of each record that was added and not yet taken, if the recording is written while it
    /// goes on.
    unwritten: Option<Vec<u8>>,
}

impl SidebandLog {
    /// From now on, keeps a copy of each record until it is taken.
    pub(crate) fn keep_unwritten(&mut self) {
        self.unwritten = Some(Vec::new());
    }

    /// The records that were added since the last call.
    pub(crate) fn take_unwritten(&mut self) -> Vec<u8> {
        self.unwritten.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Adds records that were drained together from all rings, in any order.
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
            if let Some(unwritten) = &mut self.unwritten {
                unwritten.extend_from_slice(&record.bytes);
            }
            self.insert(pid, record);
        }
    }

    fn insert(&mut self, pid: u32, record: Record) {
        self.bytes += record.memory();
        if record.kind == RecordKind::Machine {
            if self.machine.len() < MAX_MACHINE_RECORDS {
                self.machine.push(record);
            } else {
                self.dropped += 1;
            }
            return;
        }
        let incarnations = self.processes.entry(pid).or_default();
        let is_birth = match record.kind {
            RecordKind::Fork { parent_pid } => record.tid == pid && parent_pid != pid,
            _ => false,
        };
        // This is a new process with a known pid. The known process has exited, even if we did not
        // see that, unless all its records are later: those arrived out of order, from another
        // CPU's ring.
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

    /// Adds what `/proc` knows about a process and the log does not: thread names and mappings.
    /// They count from the start of the process if the log has seen it, else from `Time::ZERO`.
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
        let records = || process.iter().flat_map(|process| &process.records);
        let tids_of = |is: fn(&RecordKind) -> bool| -> FxHashSet<u32> {
            records().filter(|record| is(&record.kind)).map(|record| record.tid).collect()
        };
        let named = tids_of(|kind| matches!(kind, RecordKind::Comm { .. }));
        let born = tids_of(|kind| matches!(kind, RecordKind::Fork { .. }));
        let mapped: FxHashSet<(u64, u64)> = process.map_or_else(FxHashSet::default, |process| {
            process
                .maps()
                .filter_map(|record| {
                    if let RecordKind::Map { start_avma, len } = record.kind {
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
                // This records the parent; perf expects it before the name.
                fork(&mut bytes, pid, live.parent_pid, pid, live.parent_pid, &id);
            }
            if thread.tid != pid && !born.contains(&thread.tid) {
                fork(&mut bytes, pid, pid, thread.tid, pid, &id);
            }
            comm(&mut bytes, pid, thread.tid, &thread.name, false, &id);
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
                file: map.file(),
                kernel: false,
            };
            mmap2(&mut bytes, &map, &SampleId { pid, tid: pid, time, ..SampleId::default() });
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

    /// Notes what a process that is complete says now in the place of its command line.
    pub(crate) fn retitle(&mut self, pid: u32, title: String) {
        let latest = self.processes.get_mut(&pid).and_then(|incarnations| incarnations.last_mut());
        if let Some(process) = latest.filter(|_| !title.is_empty()) {
            process.command_line = title;
        }
    }

    /// True if nothing but thread names is needed from `/proc` for this live process.
    pub(crate) fn is_complete(&self, live: &LiveProcess) -> bool {
        let process = self.processes.get(&live.pid).and_then(|incarnations| incarnations.last());
        process.is_some_and(|process| process.exited.is_none() && process.proc_read)
    }

    /// Marks all processes as exited that are not in `living`: their exit was not seen.
    pub(crate) fn mark_exited(&mut self, living: &FxHashSet<u32>, now: Time) {
        for (pid, incarnations) in &mut self.processes {
            if let Some(last) = incarnations.last_mut().filter(|_| !living.contains(pid)) {
                last.exited.get_or_insert(now);
            }
        }
    }

    /// Drops what no event after `oldest` can refer to.
    pub(crate) fn compact(&mut self, oldest: Time) {
        self.inherit_mappings(oldest);
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

    /// Copies mappings from parents that are about to be dropped to their children that never
    /// called exec, because such a child runs the code that its parent had mapped.
    fn inherit_mappings(&mut self, oldest: Time) {
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

    /// All records, sorted by time.
    pub(crate) fn records(&self) -> Vec<Record> {
        let processes = self.processes.values().flatten().flat_map(|process| &process.records);
        let mut records: Vec<Record> = processes.chain(&self.machine).cloned().collect();
        // Compare the bytes last, so that records with the same time always come in the same order.
        records.sort_by(|a, b| {
            (a.time, rank(a), a.tid, &a.bytes).cmp(&(b.time, rank(b), b.tid, &b.bytes))
        });
        records
    }

    /// The files that processes have mapped, also those that exited recently.
    pub(crate) fn mappings(&self) -> impl Iterator<Item = MappedFile> {
        let all = self.processes.iter().flat_map(|(&pid, incarnations)| {
            incarnations.iter().map(move |process| (pid, process))
        });
        all.flat_map(|(pid, process)| {
            process.maps().filter_map(move |record| {
                let RecordKind::Map { start_avma, len } = record.kind else { return None };
                let path = record.path().filter(|path| path.starts_with(b"/"))?;
                let path = PathBuf::from(OsStr::from_bytes(path));
                let (time, file, is_live) = (record.time, record.file(), process.exited.is_none());
                Some(MappedFile { pid, start_avma, len, path, time, file, is_live })
            })
        })
    }

    /// The known command lines, by pid, of processes that are alive or exited recently.
    pub(crate) fn command_lines(&self) -> Vec<(u32, String)> {
        let mut lines: Vec<(u32, String)> = Vec::new();
        for (&pid, incarnations) in &self.processes {
            let known = incarnations.iter().rev().find(|process| !process.command_line.is_empty());
            lines.extend(known.map(|process| (pid, process.command_line.clone())));
        }
        lines.sort_unstable();
        lines
    }

    /// Memory used by the log, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.bytes
    }

    /// Number of processes in the log.
    pub(crate) fn processes(&self) -> usize {
        self.processes.values().map(Vec::len).sum()
    }

    /// Number of records that the kernel could not deliver.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// What is missing in the log, as warnings for the user.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let lost = (self.lost > 0).then(|| {
            format!(
                "the kernel could not deliver {} of processes and mappings: names of processes \
                 that have exited may be missing",
                plural(self.lost, "record")
            )
        });
        let dropped = (self.dropped > 0).then(|| {
            format!(
                "the recorder dropped {} to save memory: stack frames in dropped mappings may \
                 have no names",
                plural(self.dropped, "old mapping")
            )
        });
        lost.into_iter().chain(dropped).collect()
    }
}

#[cfg(test)]
mod tests;
