//! Which threads and processes there were, as the events of a foreign trace say it.

use crate::perf_data::side_band::{SideBand, Timed};
use crate::perf_data::tasks::{self, Hints, Life};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use unhitch_model::{Lack, NameId, Process, Strings, Threads, Time};

/// Hints about threads and processes, in any order.
#[derive(Default)]
pub(super) struct Lives {
    hints: Hints,
    /// The last name of a thread that went to the hints.
    named: FxHashMap<u32, [u8; 16]>,
    /// The last process of a thread that went to the hints.
    owned: FxHashMap<u32, u32>,
    /// Threads that were created in the process of another one: when, which, whose.
    siblings: Vec<(u64, u32, u32)>,
    parents: BTreeMap<u32, u32>,
    command_lines: BTreeMap<u32, NameId>,
    /// Names of threads by other means than their events.
    other_names: BTreeMap<u32, NameId>,
}

impl Lives {
    /// A thread has this name, which ends with the first NUL; nothing if it is empty.
    pub fn name(&mut self, time: u64, tid: u32, name: &[u8]) {
        let mut short = [0; 16];
        let text = crate::cursor::until_nul(name);
        let len = text.len().min(short.len());
        short[..len].copy_from_slice(&text[..len]);
        if len > 0 && self.named.get(&tid) != Some(&short) {
            self.named.insert(tid, short);
            self.hints.names.push((time, tid, short));
        }
    }

    /// A thread is in this process.
    pub fn owner(&mut self, time: u64, tid: u32, pid: u32) {
        if self.owned.insert(tid, pid) != Some(pid) {
            self.hints.owners.push((time, tid, pid));
        }
    }

    /// The process that a thread was last said to be in.
    pub fn owner_of(&self, tid: u32) -> Option<u32> {
        self.owned.get(&tid).copied()
    }

    /// `parent` has created `child`.
    pub fn born(&mut self, time: u64, child: u32, parent: u32) {
        self.hints.lives.push((time, child, Life::Born { parent }));
    }

    /// `child` was created in the process of `sibling`.
    pub fn sibling(&mut self, time: u64, child: u32, sibling: u32) {
        self.siblings.push((time, child, sibling));
    }

    /// A thread was woken for the first time.
    pub fn first_wake(&mut self, time: u64, tid: u32) {
        self.hints.lives.push((time, tid, Life::FirstWake));
        self.named.remove(&tid);
    }

    /// A thread has exited.
    pub fn gone(&mut self, time: u64, tid: u32) {
        self.hints.lives.push((time, tid, Life::Gone));
    }

    /// A process, with its parent and its command line as far as they are known.
    pub fn process(&mut self, pid: u32, parent: Option<u32>, command_line: NameId) {
        if let Some(parent) = parent {
            self.parents.insert(pid, parent);
        }
        if !command_line.is_empty() {
            self.command_lines.insert(pid, command_line);
        }
    }

    /// A name that is used only if no event has one.
    pub fn other_name(&mut self, tid: u32, name: NameId) {
        self.other_names.insert(tid, name);
    }

    /// True if such a name is known.
    pub fn has_other_name(&self, tid: u32) -> bool {
        self.other_names.contains_key(&tid)
    }

    /// A thread got this name.
    pub fn renamed(&mut self, time: u64, tid: u32, name: &[u8]) {
        let mut short = [0; 16];
        let len = name.len().min(short.len());
        short[..len].copy_from_slice(&name[..len]);
        self.hints.lives.push((time, tid, Life::Renamed(short)));
    }

    /// All incarnations.
    pub fn build(
        mut self,
        threads: Threads,
        strings: &mut Strings,
        lacks: &mut Vec<Lack>,
    ) -> Threads {
        self.siblings.sort_unstable();
        for (time, child, sibling) in std::mem::take(&mut self.siblings) {
            // A process whose threads nothing names has at least this one.
            let pid = self.owner_of(sibling).unwrap_or(sibling);
            self.owner(time, child, pid);
        }
        let records: Vec<Timed<'_>> = self
            .parents
            .iter()
            .map(|(&pid, &ppid)| Timed {
                time: Time::ZERO,
                cpu: None,
                record: SideBand::Fork { pid, ppid, tid: pid, ptid: ppid },
            })
            .collect();
        let seen = self.hints.names.iter().map(|hint| hint.1);
        if seen
            .chain(self.hints.lives.iter().map(|life| life.1))
            .any(|tid| tid != 0 && !self.owned.contains_key(&tid))
        {
            lacks.push(Lack::Processes);
        }
        // A thread that only woke, or was woken, is one too.
        let mut threads = tasks::build(threads, strings, &records, self.hints);
        let ids: Vec<_> = threads.iter().map(|(id, thread)| (id, thread.tid)).collect();
        for (id, tid) in ids {
            let name = self.other_names.get(&tid);
            if let (Some(name), Some(thread)) = (name, threads.get_mut(id))
                && thread.names.is_empty()
            {
                thread.names.push((Time::ZERO, *name));
            }
        }
        let processes: Vec<_> =
            threads.processes().map(|(id, process)| (id, process.pid)).collect();
        for (id, pid) in processes {
            let known = self.command_lines.get(&pid).copied();
            if let (Some(line), Some(process)) = (known, threads.process_mut(id)) {
                *process = Process { command_line: line, ..process.clone() };
            }
        }
        threads
    }
}
