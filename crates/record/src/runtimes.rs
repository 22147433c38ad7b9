//! [`Functions`]: what interprets or compiles code in each process, and the functions that were seen.

use crate::java::{self, Java, MethodPlace};
use crate::python::{self, Python};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use unhitch_formats::scripts::{ScriptFile, ScriptFunction, ScriptProcess};

/// Maximum number of bytes of all functions, about. *Why so many*: a large program has ten thousand
/// functions, of some hundred bytes.
const MAX_BYTES: usize = 16 << 20;
/// Of one process, so that one does not push out all others.
const MAX_BYTES_PER_PROCESS: usize = 4 << 20;

/// What runs in a process beside native code.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Runtimes {
    pub(crate) python: Option<Python>,
    pub(crate) java: Option<Java>,
}

/// The functions of all processes. Shared by the thread that reads mappings and by saves.
#[derive(Default)]
pub(crate) struct Functions(Mutex<State>);

#[derive(Default)]
struct State {
    running: FxHashMap<u32, Runtimes>,
    /// By pid; also of processes that have ended.
    seen: FxHashMap<u32, Seen>,
    bytes: usize,
    /// Counts the processes, to tell which was seen first.
    count: u64,
}

struct Seen {
    order: u64,
    loops: Vec<[u64; 2]>,
    functions: BTreeMap<u64, ScriptFunction>,
    bytes: usize,
}

impl Functions {
    /// Notes what runs in a process; nothing if it has ended.
    pub(crate) fn set(&self, pid: u32, runtimes: Runtimes) {
        let mut state = self.lock();
        match runtimes == Runtimes::default() {
            false => _ = state.running.insert(pid, runtimes),
            true => _ = state.running.remove(&pid),
        }
    }

    /// What runs in a process.
    pub(crate) fn of(&self, pid: u32) -> Runtimes {
        self.lock().running.get(&pid).copied().unwrap_or_default()
    }

    /// Reads the functions of Python's code objects that are not known yet, each an id and an address.
    pub(crate) fn read_codes(&self, pid: u32, python: &Python, mut codes: Vec<(u64, u64)>) {
        self.retain_unknown(pid, &mut codes);
        if !codes.is_empty() {
            self.add(pid, python.loops(), python::read(pid, python, &codes));
        }
    }

    /// Reads the names of Java's methods that are not known yet.
    pub(crate) fn read_methods(&self, pid: u32, java: &Java, mut methods: Vec<(u64, MethodPlace)>) {
        self.retain_unknown(pid, &mut methods);
        if !methods.is_empty() {
            self.add(pid, Vec::new(), java::read(pid, java, &methods));
        }
    }

    /// Leaves out the code whose functions are known, by its id.
    fn retain_unknown<T: Ord>(&self, pid: u32, codes: &mut Vec<(u64, T)>) {
        codes.sort_unstable();
        codes.dedup();
        let state = self.lock();
        let Some(seen) = state.seen.get(&pid) else { return };
        let has_room = seen.bytes < MAX_BYTES_PER_PROCESS;
        codes.retain(|(id, _)| has_room && !seen.functions.contains_key(id));
    }

    /// Adds functions of a process whose interpreter's loops are at `loops`.
    pub(crate) fn add(&self, pid: u32, loops: Vec<[u64; 2]>, functions: Vec<ScriptFunction>) {
        let mut state = self.lock();
        state.count += 1;
        let order = state.count;
        let seen = state.seen.entry(pid).or_insert_with(|| Seen {
            order,
            loops: Vec::new(),
            functions: BTreeMap::new(),
            bytes: 0,
        });
        // Another program may run in the process since an exec.
        seen.loops
            .extend(loops.into_iter().filter(|one| !seen.loops.contains(one)).collect::<Vec<_>>());
        seen.loops.truncate(16);
        let before = seen.bytes;
        for function in functions {
            // The kernel's part may tell of one again.
            if seen.functions.contains_key(&function.id) {
                continue;
            }
            let bytes = 96 + function.name.len() + function.file.len() + function.lines.len() * 8;
            if seen.bytes < MAX_BYTES_PER_PROCESS {
                seen.bytes += bytes;
                seen.functions.insert(function.id, function);
            }
        }
        state.bytes += state.seen.get(&pid).map_or(0, |seen| seen.bytes) - before;
        state.make_room(pid);
    }

    /// What a trace has of them.
    pub(crate) fn file(&self) -> ScriptFile {
        let state = self.lock();
        let process = |(pid, seen): (&u32, &Seen)| ScriptProcess {
            pid: *pid,
            loops: seen.loops.clone(),
            functions: seen.functions.values().cloned().collect(),
        };
        let mut processes: Vec<ScriptProcess> = state.seen.iter().map(process).collect();
        processes.sort_unstable_by_key(|process| process.pid);
        ScriptFile { version: 1, processes }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // What a panic leaves is whole: functions are added one by one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Forgets the processes that were seen first, those that have ended before others.
    fn make_room(&mut self, but: u32) {
        while self.bytes > MAX_BYTES {
            let others = self.seen.iter().filter(|(pid, _)| **pid != but);
            let key = |(pid, seen): &(&u32, &Seen)| (self.running.contains_key(pid), seen.order);
            let Some(oldest) = others.min_by_key(key).map(|(pid, _)| *pid) else { return };
            self.bytes -= self.seen.remove(&oldest).map_or(0, |seen| seen.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_of_old_processes_make_room() {
        let seen = Functions::default();
        let running = Runtimes { python: Some(python::tests::python()), java: None };
        let function = |id| ScriptFunction { id, name: "x".repeat(1 << 20), ..Default::default() };
        for pid in 1..=7 {
            seen.set(pid, if pid == 1 { running } else { Runtimes::default() });
            seen.add(pid, Vec::new(), (1..=9).map(function).collect());
        }
        let pids: Vec<u32> = seen.file().processes.iter().map(|process| process.pid).collect();
        // Each may have four of its nine functions. The first process still runs.
        assert_eq!(pids, [1, 6, 7]);
        let wanted = |pid| {
            let mut codes = vec![(9, 1), (2, 5), (2, 5)];
            seen.retain_unknown(pid, &mut codes);
            codes
        };
        seen.add(8, Vec::new(), vec![ScriptFunction { id: 2, ..Default::default() }]);
        assert_eq!((wanted(7), wanted(8), wanted(9)), (vec![], vec![(9, 1)], vec![(2, 5), (9, 1)]));
    }

    #[test]
    fn a_function_that_is_told_again_takes_no_room() {
        let seen = Functions::default();
        let function = |id| ScriptFunction { id, name: "x".repeat(1 << 20), ..Default::default() };
        for _ in 0..20 {
            seen.add(1, Vec::new(), vec![function(1)]);
        }
        seen.add(1, Vec::new(), vec![function(2)]);
        let ids: Vec<u64> =
            seen.file().processes[0].functions.iter().map(|function| function.id).collect();
        assert_eq!(ids, [1, 2]);
    }
}
