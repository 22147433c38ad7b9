//! [`SideBand`]: the records of threads, mappings and losses, in the order of time.

use super::super::record::{self, FileId, Mmap2, SampleId};
use super::describe::SIDE_BAND_ID;
use super::{order::Kind, records::name};
use unhitch_model::{Mapping, ModuleKind, Thread, ThreadId, Time, Trace};

/// `PROT_READ | PROT_EXEC` and `MAP_PRIVATE`.
const PROT_CODE: u32 = 5;
const MAP_PRIVATE: u32 = 2;

/// Order of records within one nanosecond: a thread exists before it has a name, and an address
/// space begins before something is mapped into it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Fork,
    Name,
    Map,
    Lost,
    Exit,
}

struct Entry {
    time: Time,
    rank: Rank,
    /// Where its record ends in the bytes.
    end: usize,
}

/// Encoded records, of which the next one can be taken.
pub(super) struct SideBand {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// By time: the number of each entry.
    order: Vec<u32>,
    next: usize,
}

impl SideBand {
    /// The records before `end`.
    pub(super) fn new(trace: &Trace, end: Time) -> Self {
        let mut collector = Collector { trace, bytes: Vec::new(), entries: Vec::new() };
        collector.kernel();
        for (id, thread) in trace.threads.iter().filter(|(id, _)| !id.is_idle()) {
            collector.thread(id, thread);
        }
        collector.address_spaces();
        collector.losses();
        let Collector { bytes, entries, .. } = collector;
        let mut order: Vec<u32> = (0..entries.len() as u32).collect();
        order.retain(|&number| entries[number as usize].time <= end);
        order.sort_by_key(|&number| {
            let Entry { time, rank, .. } = entries[number as usize];
            (time, rank)
        });
        Self { bytes, entries, order, next: 0 }
    }

    /// When the next record is due.
    pub(super) fn peek(&self) -> Option<(Time, Kind)> {
        let Entry { time, rank, .. } = self.entries[*self.order.get(self.next)? as usize];
        Some((time, if rank == Rank::Exit { Kind::Exit } else { Kind::SideBand }))
    }

    /// Appends the next record to `out`.
    pub(super) fn take(&mut self, out: &mut Vec<u8>) {
        let Some(&number) = self.order.get(self.next) else { return };
        self.next += 1;
        let number = number as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.entries[before].end);
        out.extend_from_slice(&self.bytes[start..self.entries[number].end]);
    }
}

struct Collector<'t> {
    trace: &'t Trace,
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

impl Collector<'_> {
    fn add(
        &mut self,
        time: Time,
        rank: Rank,
        (pid, tid): (u32, u32),
        encode: impl FnOnce(&mut Vec<u8>, &SampleId),
    ) {
        let id = SampleId { pid, tid, time, cpu: 0, id: SIDE_BAND_ID };
        encode(&mut self.bytes, &id);
        self.entries.push(Entry { time, rank, end: self.bytes.len() });
    }

    /// Birth, names and exit of a thread.
    fn thread(&mut self, id: ThreadId, thread: &Thread) {
        let trace = self.trace;
        let process = trace.threads.process_of(id);
        let (pid, tid) = (process.pid, thread.tid);
        let is_leader = process.leader == id;
        // The process that created it: its own, unless it is a process's first thread.
        let parent = if is_leader { process.parent_pid } else { Some(pid) };
        let begun = thread.start.unwrap_or(Time::ZERO);
        let first_name = name(trace, id, begun);
        // A thread that existed before needs no birth. That of a process tells its parent. perf
        // gives it its parent's name, if it has none of its own.
        let is_born = thread.start.is_some() || (is_leader && !first_name.is_empty());
        if let Some(parent) = parent.filter(|_| is_born) {
            self.add(begun, Rank::Fork, (parent, parent), |out, id| {
                record::fork(out, pid, parent, tid, parent, id);
            });
        }
        if !first_name.is_empty() {
            self.name(begun, pid, tid, first_name, false);
        }
        for (time, name) in thread.names.iter().skip(1) {
            let by_exec = is_leader && self.execs_at(pid, *time);
            self.name(*time, pid, tid, trace.name(*name), by_exec);
        }
        if let Some(end) = thread.end {
            let parent = parent.unwrap_or(0);
            self.add(end, Rank::Exit, (pid, tid), |out, id| {
                record::exit(out, pid, parent, tid, parent, id);
            });
        }
    }

    fn name(&mut self, time: Time, pid: u32, tid: u32, name: &str, by_exec: bool) {
        self.add(time, Rank::Name, (pid, tid), |out, id| {
            record::comm(out, pid, tid, name.as_bytes(), by_exec, id);
        });
    }

    fn execs_at(&self, pid: u32, time: Time) -> bool {
        let spaces = self.trace.address_spaces.of(pid);
        let first = spaces.partition_point(|space| space.from < time);
        spaces[first..].iter().take_while(|space| space.from == time).any(|space| space.by_exec)
    }

    /// Execs that kept the name, and the mappings.
    fn address_spaces(&mut self) {
        let trace = self.trace;
        for (pid, spaces) in trace.address_spaces.iter() {
            for space in spaces {
                if space.by_exec {
                    self.exec(pid, space.from);
                }
                for mapping in space.mappings() {
                    self.mapping(space.counts_from(mapping), pid, mapping);
                }
            }
        }
    }

    fn exec(&mut self, pid: u32, time: Time) {
        let trace = self.trace;
        let Some(id) = trace.threads.at(pid, time) else { return };
        let is_renamed = trace.threads.get(id).names.iter().skip(1).any(|(from, _)| *from == time);
        if !is_renamed {
            self.name(time, pid, pid, name(trace, id, time), true);
        }
    }

    fn kernel(&mut self) {
        let trace = self.trace;
        for mapping in &trace.address_spaces.kernel {
            self.mapping(mapping.from, u32::MAX, mapping);
        }
    }

    fn mapping(&mut self, time: Time, pid: u32, mapping: &Mapping) {
        let trace = self.trace;
        let Some(module) = trace.modules.get(mapping.module) else { return };
        let (kernel, path) = (module.kind == ModuleKind::Kernel, trace.name(mapping.path));
        let map = Mmap2 {
            pid,
            tid: if kernel { 0 } else { pid },
            start_avma: mapping.start_avma,
            len: mapping.end_avma - mapping.start_avma,
            file_offset: mapping.module_offset,
            prot: PROT_CODE,
            flags: MAP_PRIVATE,
            path: path.as_bytes(),
            build_id: Some(trace.modules.build_id(mapping.module)),
            file: FileId::default(),
            kernel,
        };
        // The features have the kernel's build id.
        let encode = if kernel { record::mmap } else { record::mmap2 };
        self.add(time, Rank::Map, (pid, map.tid), |out, id| encode(out, &map, id));
    }

    fn losses(&mut self) {
        for loss in &self.trace.losses {
            let cpu = u32::from(loss.cpu);
            self.add(loss.window.end, Rank::Lost, (0, 0), |out, id| {
                // perf adds the numbers up: one that is not known counts.
                record::lost(out, loss.events.max(1), &SampleId { cpu, ..*id });
            });
        }
    }
}
