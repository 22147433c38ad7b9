//! Threads and processes: which incarnations there were, and when each lived.
//!
//! FORK, COMM and EXIT records are the main source. Tracepoints of the same events confirm them or
//! replace them. What context switches and samples say about a thread fills the gaps, because perf
//! may have lost a record or never written it.

use super::side_band::{SideBand, Timed};
use crate::cursor::until_nul;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use unhitch_model::{Process, ProcessId, Strings, Thread, ThreadId, Threads, Time};

/// An event in a thread's life, from a tracepoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Life {
    /// `parent` created it.
    Born {
        parent: u32,
    },
    /// Its first wake-up.
    FirstWake,
    Gone,
    Renamed([u8; 16]),
}

/// What samples say about threads, each change once. The lists are in no particular order.
#[derive(Default)]
pub(crate) struct Hints {
    /// Time, thread, its name then.
    pub names: Vec<(u64, u32, [u8; 16])>,
    /// Time, thread, its process; `u32::MAX` once the thread has left it.
    pub owners: Vec<(u64, u32, u32)>,
    /// Time, thread, what happened to it.
    pub lives: Vec<(u64, u32, Life)>,
}

/// What has reported a thread's birth. Each source reports a birth once, so a second report from
/// the same source is another birth.
const BY_RECORD: u8 = 1;
const BY_TRACEPOINT: u8 = 2;
const BY_WAKE_UP: u8 = 4;
/// A record named the thread, so hints are not needed.
const NAMED: u8 = 8;

struct Builder<'a> {
    threads: Threads,
    strings: &'a mut Strings,
    /// The latest incarnation of each process.
    processes: FxHashMap<u32, ProcessId>,
    /// By thread: which of the flags above hold.
    flags: Vec<u8>,
    /// By thread id: the processes that samples show it in, by time.
    owners: FxHashMap<u32, Vec<(u64, u32)>>,
    /// By thread id: when samples first show it.
    first_seen: FxHashMap<u32, u64>,
}

/// Builds the table of threads. `side_band` must be sorted by time; each thread's names come out by
/// time.
pub(crate) fn build(
    threads: Threads,
    strings: &mut Strings,
    side_band: &[Timed<'_>],
    mut hints: Hints,
) -> Threads {
    hints.names.sort_unstable();
    hints.owners.sort_unstable();
    hints.lives.sort_by_key(|(time, tid, _)| (*time, *tid));
    let flags = vec![NAMED; threads.len()];
    let mut builder = Builder {
        threads,
        strings,
        processes: FxHashMap::from_iter([(0, ProcessId(0))]),
        flags,
        owners: FxHashMap::default(),
        first_seen: FxHashMap::default(),
    };
    for &(time, tid, pid) in &hints.owners {
        if pid != u32::MAX {
            builder.owners.entry(tid).or_default().push((time, pid));
        }
    }
    for (time, tid) in hints
        .owners
        .iter()
        .map(|hint| (hint.0, hint.1))
        .chain(hints.names.iter().map(|hint| (hint.0, hint.1)))
    {
        let first = builder.first_seen.entry(tid).or_insert(time);
        *first = time.min(*first);
    }

    let mut lives = hints.lives.iter().peekable();
    for Timed { time, record, .. } in side_band {
        // At the same instant the record goes first, because it holds more.
        while let Some((at, tid, life)) = lives.next_if(|(at, ..)| *at < time.nanos()) {
            builder.live(Time::from_nanos(*at), *tid, *life);
        }
        builder.record(*time, record);
    }
    for (at, tid, life) in lives {
        builder.live(Time::from_nanos(*at), *tid, *life);
    }

    for &(_, tid, _) in &hints.owners {
        builder.existing(tid);
    }
    let mut hinted = BTreeSet::new();
    for &(time, tid, name) in &hints.names {
        hinted.extend(builder.name_by_hint(Time::from_nanos(time), tid, &name));
    }
    for id in hinted {
        if let Some(thread) = builder.threads.get_mut(id) {
            thread.names.sort_by_key(|(time, _)| *time);
            thread.names.dedup_by_key(|(_, name)| *name);
        }
    }
    builder.threads
}

impl Builder<'_> {
    fn record(&mut self, time: Time, record: &SideBand<'_>) {
        match *record {
            // perf describes the threads that exist already as forked at time zero.
            SideBand::Fork { pid, ppid, tid, .. } if time == Time::ZERO => {
                let id = self.known(tid, Some(pid));
                self.created(id, (pid, ppid));
            }
            SideBand::Fork { pid, ppid, tid, ptid } => {
                if let Some(id) = self.born(time, tid, Some(pid), ptid, BY_RECORD) {
                    self.created(id, (pid, ppid));
                }
            }
            SideBand::Exit { tid } => self.gone(time, tid),
            SideBand::Comm { pid, tid, name, .. } => {
                let id = match self.latest(tid) {
                    // An exited thread gets no name, so this is a new one whose birth was not
                    // recorded.
                    Some(id) if self.threads.get(id).end.is_some_and(|end| end < time) => {
                        self.begin(time, tid, Some(pid))
                    }
                    _ => self.known(tid, Some(pid)),
                };
                self.name(id, time, name);
                self.flag(id, NAMED);
            }
            SideBand::Mmap(_) | SideBand::Lost { .. } => {}
        }
    }

    fn live(&mut self, time: Time, tid: u32, life: Life) {
        match life {
            Life::Born { parent } => _ = self.born(time, tid, None, parent, BY_TRACEPOINT),
            Life::FirstWake => _ = self.born(time, tid, None, 0, BY_WAKE_UP),
            Life::Gone => self.gone(time, tid),
            Life::Renamed(name) => {
                let id = self.existing(tid);
                self.name(id, time, until_nul(&name));
            }
        }
    }

    /// Notes that process `ppid` created process `pid`, if `id` is its leader.
    fn created(&mut self, id: ThreadId, (pid, ppid): (u32, u32)) {
        let process = self.threads.get(id).process;
        let is_its_own =
            |process: &&mut Process| process.leader == id && process.pid == pid && ppid != pid;
        if let Some(process) = self.threads.process_mut(process).filter(is_its_own) {
            process.parent_pid = Some(ppid);
        }
    }

    /// A thread's birth, as `by` reports it. Returns the thread; none for the idle thread.
    fn born(
        &mut self,
        time: Time,
        tid: u32,
        pid: Option<u32>,
        ptid: u32,
        by: u8,
    ) -> Option<ThreadId> {
        if tid == 0 {
            return None;
        }
        // Either another source reported this birth, or a snapshot named the thread, which did
        // nothing before.
        let unseen = self.first_seen.get(&tid).is_none_or(|first| *first >= time.nanos());
        let known = self.latest(tid).filter(|id| {
            let thread = self.threads.get(*id);
            thread.end.is_none()
                && self.flags[id.index()] & by == 0
                && (thread.start.is_some() || unseen)
        });
        let id = known.unwrap_or_else(|| self.begin(time, tid, pid));
        let is_first_report = self
            .threads
            .get_mut(id)
            .is_some_and(|thread| thread.start.replace(thread.start.unwrap_or(time)).is_none());
        let inherits = known.is_none() || is_first_report;
        self.flag(id, by);
        if let Some(parent) =
            self.latest(ptid).filter(|parent| inherits && *parent != ThreadId::IDLE)
        {
            let name = self.threads.name_at(parent, time);
            if let Some(thread) = self.threads.get_mut(id).filter(|_| !name.is_empty()) {
                thread.names.push((time, name));
            }
        }
        Some(id)
    }

    fn gone(&mut self, time: Time, tid: u32) {
        let id = self.existing(tid);
        if let Some(thread) =
            self.threads.get_mut(id).filter(|thread| thread.end.is_none() && tid != 0)
        {
            thread.end = Some(time);
        }
    }

    /// A new incarnation of `tid`, from `start`.
    fn begin(&mut self, start: Time, tid: u32, pid: Option<u32>) -> ThreadId {
        let seen_before = self.first_seen.get(&tid).is_some_and(|first| *first < start.nanos());
        if self.latest(tid).is_none() && seen_before {
            self.known(tid, None);
        }
        let pid = pid.unwrap_or_else(|| self.owner(tid, start));
        if pid == tid {
            self.add_process(pid, Some(start))
        } else {
            self.add(tid, pid, Some(start))
        }
    }

    /// The latest incarnation of `tid`; if there is none, a new one that existed from the
    /// beginning.
    fn known(&mut self, tid: u32, pid: Option<u32>) -> ThreadId {
        if let Some(id) = self.latest(tid) {
            return id;
        }
        let pid = pid.unwrap_or_else(|| self.owner(tid, Time::ZERO));
        if pid == tid { self.add_process(pid, None) } else { self.add(tid, pid, None) }
    }

    fn existing(&mut self, tid: u32) -> ThreadId {
        self.known(tid, None)
    }

    /// The process that samples show for `tid` from `start` on; else its own.
    fn owner(&self, tid: u32, start: Time) -> u32 {
        let owners = self.owners.get(&tid).map_or(&[][..], Vec::as_slice);
        let first = owners.partition_point(|(time, _)| *time < start.nanos());
        owners.get(first).or(owners.last()).map_or(tid, |(_, pid)| *pid)
    }

    fn add(&mut self, tid: u32, pid: u32, start: Option<Time>) -> ThreadId {
        let process = match self.processes.get(&pid) {
            Some(&process) => process,
            None => {
                let leader = self.add_process(pid, None);
                self.threads.get(leader).process
            }
        };
        self.push(Thread {
            tid,
            process,
            names: Vec::new(),
            start,
            end: None,
            policy: None,
            nice: None,
        })
    }

    /// Adds a process with its leader, which is returned.
    fn add_process(&mut self, pid: u32, start: Option<Time>) -> ThreadId {
        let process = self.threads.add_process(Process { pid, ..Process::default() });
        self.processes.insert(pid, process);
        let leader = self.push(Thread {
            tid: pid,
            process,
            names: Vec::new(),
            start,
            end: None,
            policy: None,
            nice: None,
        });
        if let Some(process) = self.threads.process_mut(process) {
            process.leader = leader;
        }
        leader
    }

    fn push(&mut self, thread: Thread) -> ThreadId {
        self.flags.push(0);
        self.threads.add(thread)
    }

    fn latest(&self, tid: u32) -> Option<ThreadId> {
        self.threads.incarnations(tid).last().copied()
    }

    fn flag(&mut self, id: ThreadId, flag: u8) {
        self.flags[id.index()] |= flag;
    }

    fn name(&mut self, id: ThreadId, time: Time, name: &[u8]) {
        let name = self.strings.intern(&String::from_utf8_lossy(name));
        let renamed = |thread: &&mut Thread| {
            thread.tid != 0 && thread.names.last().is_none_or(|(_, last)| *last != name)
        };
        if let Some(thread) = self.threads.get_mut(id).filter(renamed) {
            match thread.names.last_mut() {
                // What it inherited at its birth.
                Some(last) if last.0 == time => last.1 = name,
                _ => thread.names.push((time, name)),
            }
        }
    }

    /// Adds a name behind the others. Returns the thread, if that needs it.
    fn name_by_hint(&mut self, time: Time, tid: u32, name: &[u8; 16]) -> Option<ThreadId> {
        self.existing(tid);
        let id = self.threads.at(tid, time)?;
        let text = until_nul(name);
        if self.flags[id.index()] & NAMED != 0 || text.is_empty() {
            return None;
        }
        let name = self.strings.intern(&String::from_utf8_lossy(text));
        let thread = self.threads.get_mut(id).filter(|thread| thread.tid != 0)?;
        thread.names.push((time, name));
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed(time: u64, record: SideBand<'static>) -> Timed<'static> {
        Timed { time: Time::from_nanos(time), cpu: None, record }
    }

    fn parent_of(pid: u32, side_band: &[Timed<'_>], lives: Vec<(u64, u32, Life)>) -> Option<u32> {
        let mut strings = Strings::default();
        let threads = Threads::new(strings.intern("idle"));
        let hints = Hints { lives, ..Hints::default() };
        let threads = build(threads, &mut strings, side_band, hints);
        let [id] = *threads.incarnations(pid) else { panic!("one process of one thread") };
        threads.process_of(id).parent_pid
    }

    #[test]
    fn a_process_that_is_known_before_its_fork_record_has_its_parent_from_it() {
        let fork = SideBand::Fork { pid: 40, ppid: 30, tid: 40, ptid: 31 };
        let name = SideBand::Comm { pid: 40, tid: 40, name: b"child", exec: false };
        for at in [0, 5] {
            let named = [timed(0, name), timed(at, fork)];
            assert_eq!(parent_of(40, &named, Vec::new()), Some(30), "forked at {at}");
        }
        for life in [Life::Born { parent: 31 }, Life::FirstWake] {
            assert_eq!(parent_of(40, &[timed(5, fork)], vec![(4, 40, life)]), Some(30), "{life:?}");
        }
        // A thread of the process says nothing of who created it.
        let thread = SideBand::Fork { pid: 40, ppid: 40, tid: 41, ptid: 40 };
        assert_eq!(parent_of(40, &[timed(0, name), timed(5, thread)], Vec::new()), None);
    }
}
