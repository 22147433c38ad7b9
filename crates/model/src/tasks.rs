//! Threads and processes as incarnations.

use crate::{NameId, ProcessId, ThreadId, Time};
use rustc_hash::FxHashMap;

/// A scheduling policy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Policy {
    /// `SCHED_OTHER`, the default.
    Other,
    /// `SCHED_FIFO`, real-time.
    Fifo,
    /// `SCHED_RR`, real-time.
    RoundRobin,
    /// `SCHED_BATCH`.
    Batch,
    /// `SCHED_IDLE`: runs only if no other thread wants the CPU.
    Idle,
    /// `SCHED_DEADLINE`.
    Deadline,
    /// `SCHED_EXT`, a BPF scheduler.
    Ext,
}

impl Policy {
    /// The kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Other => "SCHED_OTHER",
            Self::Fifo => "SCHED_FIFO",
            Self::RoundRobin => "SCHED_RR",
            Self::Batch => "SCHED_BATCH",
            Self::Idle => "SCHED_IDLE",
            Self::Deadline => "SCHED_DEADLINE",
            Self::Ext => "SCHED_EXT",
        }
    }

    /// From the number in `/proc/PID/stat` and of `sched_getscheduler`.
    pub const fn from_raw(raw: u32) -> Option<Self> {
        Some(match raw {
            0 => Self::Other,
            1 => Self::Fifo,
            2 => Self::RoundRobin,
            3 => Self::Batch,
            5 => Self::Idle,
            6 => Self::Deadline,
            7 => Self::Ext,
            _ => return None,
        })
    }
}

/// One incarnation of a thread.
#[derive(Clone, Debug)]
pub struct Thread {
    /// The kernel's thread id.
    pub tid: u32,
    /// The process it belongs to.
    pub process: ProcessId,
    /// Its names in order, each with the time from which it holds. The first holds from the start.
    pub names: Vec<(Time, NameId)>,
    /// When it was created, if that was seen.
    pub start: Option<Time>,
    /// When it exited, if that was seen.
    pub end: Option<Time>,
    /// Its scheduling policy at the end of the recording, if known.
    pub policy: Option<Policy>,
    /// Its nice value at the end of the recording, if known.
    pub nice: Option<i8>,
}

impl Thread {
    /// The tid of a thread whose tid is unknown.
    pub const UNKNOWN_TID: u32 = u32::MAX;
}

impl Process {
    /// The pid of a process whose pid is unknown.
    pub const UNKNOWN_PID: u32 = u32::MAX;
}

/// One incarnation of a process (a thread group).
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// The kernel's process id (tgid).
    pub pid: u32,
    /// The thread-group leader, whose name is the process's name; on Windows its first thread.
    pub leader: ThreadId,
    /// The name of its image, if processes have names of their own (Windows); else empty.
    pub name: NameId,
    /// When it began, if that was recorded for the process and not only for its leader (Windows).
    pub start: Option<Time>,
    /// When it ended, likewise.
    pub end: Option<Time>,
    /// The pid of the process that created it, if that was seen.
    pub parent_pid: Option<u32>,
    /// Its command line, empty when unknown.
    pub command_line: NameId,
}

/// All threads and processes of a trace. Thread 0 and process 0 are idle.
#[derive(Clone, Debug)]
pub struct Threads {
    threads: Vec<Thread>,
    processes: Vec<Process>,
    by_tid: FxHashMap<u32, Vec<ThreadId>>,
    /// Unknown threads, and which of them belongs to each process.
    unknown: Vec<Thread>,
    unknown_of: FxHashMap<ProcessId, ThreadId>,
    unknown_process: Process,
}

impl Threads {
    /// A table with only the idle thread, called `idle_name`.
    pub fn new(idle_name: NameId) -> Self {
        let unknown_process = Process { pid: Process::UNKNOWN_PID, ..Process::default() };
        let mut threads = Self {
            threads: Vec::new(),
            processes: Vec::new(),
            by_tid: FxHashMap::default(),
            unknown: Vec::new(),
            unknown_of: FxHashMap::default(),
            unknown_process,
        };
        let process = threads.add_process(Process::default());
        threads.add(Thread {
            tid: 0,
            process,
            names: vec![(Time::ZERO, idle_name)],
            start: None,
            end: None,
            policy: None,
            nice: None,
        });
        threads
    }

    /// Adds an incarnation. Incarnations of one tid must be added in the order of their start.
    pub fn add(&mut self, thread: Thread) -> ThreadId {
        let id = ThreadId(u32::try_from(self.threads.len()).unwrap_or(u32::MAX));
        self.by_tid.entry(thread.tid).or_default().push(id);
        self.threads.push(thread);
        id
    }

    /// Adds a process.
    pub fn add_process(&mut self, process: Process) -> ProcessId {
        let id = ProcessId(u32::try_from(self.processes.len()).unwrap_or(u32::MAX));
        self.processes.push(process);
        id
    }

    /// The unknown thread of `process`, for events that only have the process. It is called `name`.
    /// The process may be [`ProcessId::UNKNOWN`], which is then called `name` too.
    pub fn unknown_of(&mut self, process: ProcessId, name: NameId) -> ThreadId {
        if process == ProcessId::UNKNOWN {
            self.unknown_process.name = name;
        }
        *self.unknown_of.entry(process).or_insert_with(|| {
            let id = ThreadId(ThreadId::FIRST_UNKNOWN.0 + self.unknown.len() as u32);
            let names = vec![(Time::ZERO, name)];
            let tid = Thread::UNKNOWN_TID;
            self.unknown.push(Thread {
                tid,
                process,
                names,
                start: None,
                end: None,
                policy: None,
                nice: None,
            });
            id
        })
    }

    /// The thread `id`; the idle thread for an id of another trace.
    pub fn get(&self, id: ThreadId) -> &Thread {
        let unknown = || self.unknown.get((id.0.checked_sub(ThreadId::FIRST_UNKNOWN.0)?) as usize);
        self.threads.get(id.index()).or_else(unknown).unwrap_or(&self.threads[0])
    }

    /// The thread `id`, to complete it while reading.
    pub fn get_mut(&mut self, id: ThreadId) -> Option<&mut Thread> {
        self.threads.get_mut(id.index())
    }

    /// The process `id`; the idle process for an id of another trace.
    pub fn process(&self, id: ProcessId) -> &Process {
        if id == ProcessId::UNKNOWN {
            return &self.unknown_process;
        }
        self.processes.get(id.index()).unwrap_or(&self.processes[0])
    }

    /// The process `id`, to complete it while reading.
    pub fn process_mut(&mut self, id: ProcessId) -> Option<&mut Process> {
        self.processes.get_mut(id.index())
    }

    /// The process of a thread.
    pub fn process_of(&self, id: ThreadId) -> &Process {
        self.process(self.get(id).process)
    }

    /// The incarnation of `tid` alive at `time`: the last one that had started by then, else the
    /// first.
    pub fn at(&self, tid: u32, time: Time) -> Option<ThreadId> {
        let incarnations = self.incarnations(tid);
        let later = incarnations
            .partition_point(|id| self.get(*id).start.is_none_or(|start| start <= time));
        incarnations.get(later.saturating_sub(1)).copied()
    }

    /// All incarnations of `tid`, oldest first.
    pub fn incarnations(&self, tid: u32) -> &[ThreadId] {
        self.by_tid.get(&tid).map_or(&[], Vec::as_slice)
    }

    /// The name that a thread had at `time`.
    pub fn name_at(&self, id: ThreadId, time: Time) -> NameId {
        let names = &self.get(id).names;
        let later = names.partition_point(|(from, _)| *from <= time);
        names.get(later.saturating_sub(1)).map_or(NameId::EMPTY, |(_, name)| *name)
    }

    /// All threads with their ids, the idle thread first.
    pub fn iter(&self) -> impl Iterator<Item = (ThreadId, &Thread)> + Clone {
        self.threads.iter().enumerate().map(|(index, thread)| (ThreadId(index as u32), thread))
    }

    /// All processes with their ids, the idle process first.
    pub fn processes(&self) -> impl Iterator<Item = (ProcessId, &Process)> {
        self.processes.iter().enumerate().map(|(index, process)| (ProcessId(index as u32), process))
    }

    /// How many threads there are, the idle thread included.
    pub fn len(&self) -> usize {
        self.threads.len()
    }

    /// Never true: the idle thread is always there.
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_thread_is_in_no_list() {
        let (idle, unknown) = (NameId(1), NameId(2));
        let mut threads = Threads::new(idle);
        let process = threads.add_process(Process { pid: 40, ..Process::default() });
        let of_process = threads.unknown_of(process, unknown);
        let of_unknown = threads.unknown_of(ProcessId::UNKNOWN, unknown);
        assert_eq!((of_process, threads.len()), (threads.unknown_of(process, unknown), 1));
        assert!(
            of_process != of_unknown
                && of_process.is_unknown()
                && of_unknown.is_unknown()
                && !ThreadId::IDLE.is_unknown()
        );
        assert_eq!(
            (threads.process_of(of_process).pid, threads.get(of_process).tid),
            (40, Thread::UNKNOWN_TID)
        );
        assert_eq!(
            (threads.process_of(of_unknown).pid, threads.process_of(of_unknown).name),
            (Process::UNKNOWN_PID, unknown)
        );
        assert_eq!(threads.name_at(of_process, Time::ZERO), unknown);
        assert_eq!((threads.iter().count(), threads.processes().count()), (1, 2));
    }
}
