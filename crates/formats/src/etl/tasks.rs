//! Threads and processes of a Windows trace: which incarnations there were, and which one an id
//! meant at a time.
//!
//! Start and end events bound a lifetime. What only the rundown at the end (DCEnd) lists existed
//! from the beginning. A thread that no event names is known because it ran. Ids are reused at
//! once, so an end without a start, or a start without an end, begins a new incarnation.

use super::{buffer::u32_at, clock::Clock, clock::utf16_z, hook, kernel, rows::Naming};
use rustc_hash::FxHashMap;
use unhitch_model::{NameId, Process, ProcessId, Strings, Thread, ThreadId, Threads, Time, Value};

/// Threads and processes, and the processes by id.
pub(super) struct Tasks {
    pub threads: Threads,
    pub processes: ProcessIndex,
    /// Number of threads whose process is unknown.
    pub homeless: u64,
}

/// Which incarnation a process id means at a time.
#[derive(Default)]
pub(super) struct ProcessIndex(FxHashMap<u32, Vec<(Time, ProcessId)>>);

impl ProcessIndex {
    /// The incarnation of `pid` at `time`: the last one that had begun by then, else the first.
    #[inline]
    pub(super) fn at(&self, pid: u32, time: Time) -> Option<ProcessId> {
        match self.0.get(&pid)?.as_slice() {
            [(_, only)] => Some(*only),
            many => many
                .get(many.partition_point(|(start, _)| *start <= time).saturating_sub(1))
                .map(|(_, id)| *id),
        }
    }

    fn latest(&self, pid: u32) -> Option<ProcessId> {
        self.0.get(&pid)?.last().map(|(_, id)| *id)
    }
}

struct Builder<'a> {
    threads: Threads,
    strings: &'a mut Strings,
    index: ProcessIndex,
    ended: Vec<bool>,
    pointer_bytes: u8,
}

/// Builds the tables from the naming events, which must be by time, and from the threads that
/// events mention, each with its process ([`NOBODY`](super::event::NOBODY) if no event has it).
pub(super) fn build(
    naming: &[Naming],
    mentioned: &FxHashMap<u32, u32>,
    clock: Clock,
    pointer_bytes: u8,
    threads: Threads,
    strings: &mut Strings,
) -> Tasks {
    let mut builder = Builder {
        threads,
        strings,
        index: ProcessIndex::default(),
        ended: vec![false],
        pointer_bytes,
    };
    builder.index.0.insert(0, vec![(Time::ZERO, ProcessId(0))]);
    // The name that Windows uses. A process with a name of its own is not called by a thread's.
    let idle = builder.strings.intern("Idle");
    if let Some(process) = builder.threads.process_mut(ProcessId(0)) {
        process.name = idle;
    }
    for event in naming {
        let time = clock.time(event.ticks);
        match event.hook {
            hook::PROCESS_START
            | hook::PROCESS_END
            | hook::PROCESS_DC_START
            | hook::PROCESS_DC_END => builder.process(event, time),
            hook::THREAD_START | hook::THREAD_END | hook::THREAD_DC_START | hook::THREAD_DC_END => {
                // A truncated event names no thread.
                let _ = builder.thread(event, time);
            }
            hook::THREAD_SET_NAME => {
                let ids = u32_at(&event.payload, 0).zip(u32_at(&event.payload, 4));
                let name = utf16_z(event.payload.get(8..).unwrap_or_default()).0;
                if let Some((pid, tid)) = ids {
                    let id = builder.alive(tid, pid);
                    builder.name(id, time, &name);
                }
            }
            _ => {}
        }
    }
    builder.finish(mentioned)
}

impl Builder<'_> {
    fn process(&mut self, event: &Naming, time: Time) {
        let layout = kernel::layout(event.hook, event.version, self.pointer_bytes, self.strings);
        let (mut pid, mut parent_pid, mut name, mut command_line) =
            (None, None, String::new(), String::new());
        let strings = &*self.strings;
        layout.read(&event.payload, |field, value| match (strings.get(field.name), &value) {
            ("ProcessID", value) => pid = value.as_u64(),
            ("ParentID", value) => parent_pid = value.as_u64(),
            ("ImageFileName", Value::Text(text)) => name = text.to_string(),
            ("CommandLine", Value::Text(text)) => command_line = text.to_string(),
            _ => {}
        });
        let Some(pid) = pid.and_then(|pid| u32::try_from(pid).ok()) else { return };
        let started = event.hook == hook::PROCESS_START;
        let id = match self
            .index
            .latest(pid)
            .filter(|id| *id == ProcessId(0) || !started && !self.has_ended(*id))
        {
            Some(id) => id,
            None => self.begin(pid, started.then_some(time)),
        };
        if id == ProcessId(0) {
            return;
        }
        let (name, command_line) = (self.strings.intern(&name), self.strings.intern(&command_line));
        let Some(process) = self.threads.process_mut(id) else { return };
        if !name.is_empty() {
            process.name = name;
        }
        if !command_line.is_empty() {
            process.command_line = command_line;
        }
        process.parent_pid =
            parent_pid.and_then(|pid| u32::try_from(pid).ok()).or(process.parent_pid);
        if event.hook == hook::PROCESS_END {
            process.end = Some(time);
        }
    }

    fn thread(&mut self, event: &Naming, time: Time) -> Option<()> {
        let payload = &*event.payload;
        let (pid, tid) = match event.version {
            0 => (u32_at(payload, 4)?, u32_at(payload, 0)?),
            _ => (u32_at(payload, 0)?, u32_at(payload, 4)?),
        };
        if tid == 0 {
            return None;
        }
        let id = match event.hook {
            hook::THREAD_START => {
                self.end(tid, time);
                self.add(tid, pid, Some(time))
            }
            _ => self.alive(tid, pid),
        };
        // Seven addresses and two words, then the name. Events without the name have the same
        // version.
        let named = payload
            .get(16 + 7 * usize::from(self.pointer_bytes)..)
            .filter(|_| event.version >= 3)
            .unwrap_or_default();
        let name = utf16_z(named).0;
        let from = if event.hook == hook::THREAD_DC_END || event.hook == hook::THREAD_END {
            self.threads
                .get(id)
                .names
                .last()
                .map_or(self.threads.get(id).start.unwrap_or(Time::ZERO), |_| time)
        } else {
            time
        };
        self.name(id, from, &name);
        if event.hook == hook::THREAD_END {
            self.end(tid, time);
        }
        Some(())
    }

    /// The live incarnation of a thread. Begins one if there is none.
    fn alive(&mut self, tid: u32, pid: u32) -> ThreadId {
        match self.threads.incarnations(tid).last().copied() {
            Some(id) if self.ended.get(id.index()) == Some(&false) => id,
            // Its start was lost, but it was after the end of the last one.
            Some(before) => {
                let end = self.threads.get(before).end;
                self.add(tid, pid, end)
            }
            None => self.add(tid, pid, None),
        }
    }

    fn end(&mut self, tid: u32, time: Time) {
        let Some(id) = self.threads.incarnations(tid).last().copied() else { return };
        if self.ended.get(id.index()) != Some(&false) {
            return;
        }
        if let Some(ended) = self.ended.get_mut(id.index()) {
            *ended = true;
        }
        let process = self.threads.get(id).process;
        if let Some(thread) = self.threads.get_mut(id) {
            thread.end = Some(time);
        }
        // A process lives as long as its threads.
        if let Some(end) =
            self.threads.process_mut(process).and_then(|process| process.end.as_mut())
        {
            *end = (*end).max(time);
        }
    }

    fn add(&mut self, tid: u32, pid: u32, start: Option<Time>) -> ThreadId {
        let latest = self.index.latest(pid);
        // A thread that starts in an ended process belongs to a new process whose start was lost.
        let process = match latest.filter(|id| start.is_none() || !self.has_ended(*id)) {
            Some(id) => id,
            None => self.begin(pid, start.filter(|_| latest.is_some())),
        };
        let id = self.threads.add(Thread {
            tid,
            process,
            names: Vec::new(),
            start,
            end: None,
            policy: None,
            nice: None,
        });
        self.ended.push(false);
        let has_no_leader = |process: &&mut Process| process.pid != 0 && process.leader.is_idle();
        if let Some(process) = self.threads.process_mut(process).filter(has_no_leader) {
            process.leader = id;
        }
        id
    }

    fn begin(&mut self, pid: u32, start: Option<Time>) -> ProcessId {
        let id = self.threads.add_process(Process { pid, start, ..Process::default() });
        self.index.0.entry(pid).or_default().push((start.unwrap_or(Time::ZERO), id));
        id
    }

    fn has_ended(&self, id: ProcessId) -> bool {
        self.threads.process(id).end.is_some()
    }

    fn name(&mut self, id: ThreadId, time: Time, name: &str) {
        let name = self.strings.intern(name);
        let Some(thread) = self.threads.get_mut(id).filter(|_| !name.is_empty() && !id.is_idle())
        else {
            return;
        };
        if thread.names.last().is_none_or(|(_, last)| *last != name) {
            thread.names.push((time, name));
        }
    }

    fn finish(mut self, mentioned: &FxHashMap<u32, u32>) -> Tasks {
        let mut missing: Vec<(u32, u32)> =
            mentioned.iter().map(|(tid, pid)| (*tid, *pid)).collect();
        missing.retain(|(tid, _)| *tid != 0 && self.threads.incarnations(*tid).is_empty());
        missing.sort_unstable();
        let mut homeless = 0;
        let mut nowhere = None;
        for (tid, pid) in missing {
            if pid != super::event::NOBODY {
                self.add(tid, pid, None);
                continue;
            }
            homeless += 1;
            let process = *nowhere.get_or_insert_with(|| {
                let name = self.strings.intern("(unknown process)");
                self.threads.add_process(Process {
                    pid: Process::UNKNOWN_PID,
                    name,
                    ..Process::default()
                })
            });
            let id = self.threads.add(Thread {
                tid,
                process,
                names: Vec::new(),
                start: None,
                end: None,
                policy: None,
                nice: None,
            });
            if let Some(process) =
                self.threads.process_mut(process).filter(|process| process.leader.is_idle())
            {
                process.leader = id;
            }
        }
        self.name_the_nameless();
        Tasks { threads: self.threads, processes: self.index, homeless }
    }

    /// Names processes without a name by their number, and threads without a name like their
    /// process, as on Linux.
    fn name_the_nameless(&mut self) {
        let processes: Vec<(ProcessId, u32, NameId)> =
            self.threads.processes().map(|(id, process)| (id, process.pid, process.name)).collect();
        for (id, pid, name) in processes.iter().skip(1) {
            if name.is_empty() {
                let name = self.strings.intern(&format!("process {pid}"));
                if let Some(process) = self.threads.process_mut(*id) {
                    process.name = name;
                }
            }
        }
        for index in 1..self.threads.len() {
            let id = ThreadId(index as u32);
            let name = self.threads.process_of(id).name;
            if let Some(thread) = self.threads.get_mut(id).filter(|thread| thread.names.is_empty())
            {
                thread.names.push((Time::ZERO, name));
            }
        }
    }
}
