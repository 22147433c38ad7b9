//! The log of one process.

use super::record::{Record, RecordKind};
use rustc_hash::{FxHashMap, FxHashSet};
use unhitch_model::Time;

/// Maximum number of mappings kept per process: a JIT that keeps mapping code must not fill our
/// memory.
pub(super) const MAX_MAPS_PER_PROCESS: usize = 4096;

/// One incarnation of a process.
#[derive(Default)]
pub(super) struct Process {
    /// Sorted by time.
    pub(super) records: Vec<Record>,
    /// The known live threads.
    live: FxHashSet<u32>,
    leader_exited: bool,
    pub(super) exited: Option<Time>,
    pub(super) command_line: String,
    /// True if mappings and command line were read from `/proc`, and no exec has replaced them
    /// since.
    pub(super) proc_read: bool,
}

impl Process {
    pub(super) fn add(&mut self, pid: u32, record: Record) {
        match record.kind {
            RecordKind::Exit => {
                self.live.remove(&record.tid);
                self.leader_exited |= record.tid == pid;
                if self.leader_exited && self.live.is_empty() {
                    self.exited = Some(record.time);
                }
            }
            RecordKind::Fork { .. } | RecordKind::Comm { .. } => {
                self.live.insert(record.tid);
                self.proc_read &= record.kind != (RecordKind::Comm { exec: true });
            }
            RecordKind::Map { .. } | RecordKind::Machine => {}
        }
        let at = self.records.partition_point(|earlier| earlier.time <= record.time);
        self.records.insert(at, record);
    }

    pub(super) fn maps(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(|record| matches!(record.kind, RecordKind::Map { .. }))
    }

    pub(super) fn last_exec(&self, until: Time) -> Option<Time> {
        let exec = |record: &&Record| {
            record.kind == RecordKind::Comm { exec: true } && record.time <= until
        };
        self.records.iter().rev().find(exec).map(|record| record.time)
    }

    /// When and by which process this process was forked.
    pub(super) fn birth(&self, pid: u32) -> Option<(Time, u32)> {
        self.records.iter().find_map(|record| match record.kind {
            RecordKind::Fork { parent_pid } if record.tid == pid && parent_pid != pid => {
                Some((record.time, parent_pid))
            }
            _ => None,
        })
    }

    /// Drops what no event after `oldest` can refer to. Returns how many mappings were dropped
    /// beyond that.
    pub(super) fn compact(&mut self, pid: u32, oldest: Time) -> u64 {
        let exec = self.last_exec(oldest).unwrap_or_default();
        let mut exited: FxHashMap<u32, Time> = FxHashMap::default();
        let mut named: FxHashMap<u32, Time> = FxHashMap::default();
        let mut mapped: FxHashMap<u64, Time> = FxHashMap::default();
        for record in self.records.iter().filter(|record| record.time < oldest) {
            match record.kind {
                RecordKind::Exit if record.tid != pid => {
                    exited.insert(record.tid, record.time);
                }
                RecordKind::Comm { .. } => {
                    named.insert(record.tid, record.time);
                }
                RecordKind::Map { start_avma, .. } => {
                    mapped.insert(start_avma, record.time);
                }
                _ => {}
            }
        }
        self.records.retain(|record| {
            let dead = exited.get(&record.tid).is_some_and(|&exit| record.time <= exit);
            record.time >= oldest
                || match record.kind {
                    RecordKind::Map { start_avma, .. } => {
                        record.time >= exec && mapped.get(&start_avma) == Some(&record.time)
                    }
                    RecordKind::Comm { .. } => {
                        !dead && named.get(&record.tid) == Some(&record.time)
                    }
                    RecordKind::Fork { .. } | RecordKind::Exit => !dead,
                    RecordKind::Machine => true,
                }
        });
        let excess = self.maps().count().saturating_sub(MAX_MAPS_PER_PROCESS);
        let mut left = excess;
        // First code without a file, which a runtime compiled: of the program and its libraries, each
        // file is mapped once.
        let is_file = |record: &Record| {
            let no_file: [&[u8]; 2] = [b"//anon", b"/memfd:"];
            let is_anonymous = |path: &[u8]| no_file.iter().any(|name| path.starts_with(name));
            record.path().is_some_and(|path| path.starts_with(b"/") && !is_anonymous(path))
        };
        for files_too in [false, true] {
            self.records.retain(|record| {
                let is_map = matches!(record.kind, RecordKind::Map { .. });
                let drop = left > 0 && is_map && (files_too || !is_file(record));
                left -= usize::from(drop);
                !drop
            });
        }
        excess as u64
    }
}
