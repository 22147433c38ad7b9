//! The rules by which the recorder's part in the kernel unwinds user stacks.
//!
//! A thread of its own fills three maps (`bpf/unwind.h`): the processes, their executable mappings,
//! and the rules of the mapped files. The kernel's part asks for a process when it takes a stack of
//! it for the first time or meets code that it does not know. Until the answer is there, it follows
//! frame pointers, and the stack says so. Those that live when the thread looks, once a second, are
//! read unasked: the first long wait of a process may be the one that matters. So most that end soon
//! and never wait long cost nothing.
//!
//! *Why another process reads the files*: any user can write them ([`naming`](crate::naming)).

mod files;
mod pool;
mod sweeps;
mod walk;

pub(crate) use walk::{StackEnd, Walker};

use crate::error::Error;
use crate::java::{self, JAVA_WORDS, Java};
use crate::memory::{Memory, Words};
use crate::naming::RuleReader;
use crate::procfs::{self, ExecutableMap};
use crate::python::{PYTHON_WORDS, Python};
use crate::runtimes::{Functions, Runtimes};
use crate::sys::SharedArray;
use aya::maps::{HashMap, MapData, RingBuf};
use files::{
    FileId, FileRules, FileState, MAX_MAPPINGS_PER_PROCESS, base_avma, keep_rarest, may_be,
    state_of,
};
use pool::{Extent, Pool};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use sweeps::Sweeps;
use unhitch_formats::scripts::ScriptFunction;
use unhitch_symbols::UnwindRules;
use unhitch_symbols::java::JavaRuntime;
use unhitch_symbols::python::PythonRuntime;

/// Length of `struct mapping` in bytes.
pub(crate) const MAPPING_BYTES: usize = 32;
/// Number of mappings of all processes.
pub(crate) const MAPPINGS: u32 = 1 << 16;
/// Number of rules of all files, 8 bytes each: on a small machine, and on one with so much memory in
/// KiB. A machine with a browser and Node has 1.5 million, one that compiles Rust 4 million.
const FEW_ROWS: u32 = 4 << 20;
const MANY_ROWS: u32 = 8 << 20;
const MUCH_MEMORY_KIB: u64 = 12 << 20;
/// Number of files above which those that no process has mapped are forgotten.
const MAX_FILES: usize = 4096;
/// A file has no rules if none are found so many times.
const MAX_READINGS: u8 = 3;
/// How long what the kernel's part may still be reading is kept.
const GRACE: Duration = Duration::from_millis(200);
/// A process that meets unknown code is not read again for this long; for twice as long after each
/// time that nothing has changed, up to the maximum.
const MIN_REREAD_INTERVAL: Duration = Duration::from_millis(100);
const MAX_REREAD_INTERVAL: Duration = Duration::from_secs(5);
/// How long the start of a recording waits for the tables of the processes that exist.
const START_TIMEOUT: Duration = Duration::from_secs(1);
/// `enum hint_kind` of `unwind.h`.
const PROCESS_UNKNOWN: u32 = 1;
const PROCESS_GONE: u32 = 2;
const CODE_OBJECT: u32 = 4;
const JAVA_METHOD: u32 = 5;

/// Number of rules for which there is room on this machine.
pub(crate) fn rows() -> u32 {
    static ROWS: OnceLock<u32> = OnceLock::new();
    *ROWS.get_or_init(|| if procfs::memory_kib() >= MUCH_MEMORY_KIB { MANY_ROWS } else { FEW_ROWS })
}

/// The maps that the kernel's part searches.
pub(crate) struct Maps {
    pub(crate) processes: HashMap<MapData, u32, [u32; 3]>,
    pub(crate) pythons: HashMap<MapData, u32, [u64; PYTHON_WORDS]>,
    pub(crate) javas: HashMap<MapData, u32, [u64; JAVA_WORDS]>,
    pub(crate) mappings: SharedArray,
    pub(crate) rows: SharedArray,
    pub(crate) hints: RingBuf<MapData>,
}

/// The thread that fills the maps; dropping it ends it.
pub(crate) struct Unwinding {
    wake: UnixStream,
    requests: Sender<Request>,
    stopped: Arc<AtomicBool>,
    without_room: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

/// Processes whose mappings are wanted now, and whom to tell that they are read.
type Request = (Vec<u32>, Sender<()>);

impl Unwinding {
    /// Starts with the processes that exist, and returns when their tables are there, or after a
    /// second.
    pub(crate) fn start(
        maps: Maps,
        reader: Box<dyn RuleReader>,
        functions: Arc<Functions>,
    ) -> Result<Self, Error> {
        let failed = |action| move |source| Error::System { action, source };
        let (wake, woken) = UnixStream::pair().map_err(failed("create a socket pair"))?;
        let (requests, received) = channel();
        let stopped = Arc::new(AtomicBool::new(false));
        let without_room = Arc::new(AtomicUsize::new(0));
        let tables =
            Tables::new(maps, reader, functions, Arc::clone(&stopped), Arc::clone(&without_room));
        let (ready, begun) = channel();
        let thread = std::thread::Builder::new()
            .name("unhitch-unwind".to_owned())
            .spawn(move || tables.run(&woken, &received, &ready))
            .map_err(failed("start a thread"))?;
        // Later, stacks of the others are whole, too.
        let _ = begun.recv_timeout(START_TIMEOUT);
        Ok(Self { wake, requests, stopped, without_room, thread: Some(thread) })
    }

    /// Reads the mappings of these processes again. Returns true if that is done, false if it takes
    /// longer than `limit`.
    pub(crate) fn read(&self, pids: Vec<u32>, limit: Duration) -> bool {
        let (done, read) = channel();
        let is_sent = self.requests.send((pids, done)).is_ok();
        is_sent && (&self.wake).write_all(&[0]).is_ok() && read.recv_timeout(limit).is_ok()
    }

    /// Number of files and processes for whose tables there was no room.
    pub(crate) fn without_room(&self) -> usize {
        self.without_room.load(Ordering::Relaxed)
    }
}

impl Drop for Unwinding {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        let _ = self.wake.shutdown(std::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Process {
    maps: Vec<ExecutableMap>,
    extent: Extent,
    runtimes: Runtimes,
    /// The file of a virtual machine that it has mapped, and where.
    java_file: Option<(JavaRuntime, u64)>,
    files: Vec<FileId>,
    /// When its mappings may be read again.
    read_after: Instant,
    interval: Duration,
}

/// What the kernel's part asks for and tells.
#[derive(Default)]
struct Hints {
    /// The processes whose mappings are wanted.
    unknown: FxHashSet<u32>,
    /// Code objects by process, each an id and an address.
    codes: FxHashMap<u32, Vec<(u64, u64)>>,
    /// Methods of Java by process.
    methods: FxHashMap<u32, Vec<ScriptFunction>>,
}

/// What is known of a mapped file.
#[derive(Default)]
struct Mapped {
    /// The address of the file's address 0 in the process.
    base_avma: u64,
    /// Where its rules are.
    rows: Extent,
    python: Option<PythonRuntime>,
    java: Option<JavaRuntime>,
}

/// `struct mapping` of `unwind.h`.
struct Mapping {
    code: Range<u64>,
    base_avma: u64,
    rows: Extent,
}

impl Mapping {
    fn for_kernel(&self) -> impl Iterator<Item = u8> {
        let rows = u64::from(self.rows.len) << 32 | u64::from(self.rows.first);
        let words = [self.code.start, self.code.end, self.base_avma, rows];
        words.into_iter().flat_map(u64::to_ne_bytes)
    }
}

/// Puts the heaps of Java's code in place of what is mapped in them: they grow with each method, and all
/// of them is code.
fn add_code_heaps(mappings: &mut Vec<Mapping>, java: Option<&Java>) {
    let heaps: Vec<Range<u64>> = java.map(|java| java.code().collect()).unwrap_or_default();
    mappings.retain(|mapping| !heaps.iter().any(|heap| heap.contains(&mapping.code.start)));
    let heaps = heaps.into_iter().map(|code| Mapping {
        base_avma: code.start,
        code,
        rows: Extent::default(),
    });
    mappings.extend(heaps);
    mappings.sort_unstable_by_key(|mapping| mapping.code.start);
    mappings.truncate(MAX_MAPPINGS_PER_PROCESS);
}

struct Tables {
    maps: Maps,
    reader: Box<dyn RuleReader>,
    functions: Arc<Functions>,
    stopped: Arc<AtomicBool>,
    without_room: Arc<AtomicUsize>,
    processes: FxHashMap<u32, Process>,
    sweeps: Sweeps,
    /// `None`: the file has no rules.
    files: FxHashMap<FileId, Option<FileRules>>,
    /// How often each of other files was read, and no rules were found.
    read_in_vain: FxHashMap<FileId, u8>,
    mappings: Pool,
    rows: Pool,
    /// Another one for each time that a process's mappings are read: remembered stacks belong to one.
    generation: u32,
    /// To be freed from this time on.
    old_mappings: VecDeque<(Instant, Extent)>,
}

impl Tables {
    fn new(
        maps: Maps,
        reader: Box<dyn RuleReader>,
        functions: Arc<Functions>,
        stopped: Arc<AtomicBool>,
        without_room: Arc<AtomicUsize>,
    ) -> Self {
        Self {
            maps,
            reader,
            functions,
            stopped,
            without_room,
            processes: FxHashMap::default(),
            sweeps: Sweeps::new(),
            files: FxHashMap::default(),
            read_in_vain: FxHashMap::default(),
            mappings: Pool::new(MAPPINGS),
            rows: Pool::new(rows()),
            generation: 0,
            old_mappings: VecDeque::new(),
        }
    }

    fn run(mut self, mut wake: &UnixStream, requests: &Receiver<Request>, ready: &Sender<()>) {
        self.read(procfs::numbers("/proc".as_ref()));
        let _ = ready.send(());
        loop {
            let polled = [wake.as_fd(), self.maps.hints.as_fd()];
            let Ok(ready) = crate::sys::poll(&polled, 1000) else { return };
            if self.stopped.load(Ordering::Relaxed) || ready[0].hung_up {
                return;
            }
            // One byte for each request.
            if ready[0].readable && !matches!(wake.read(&mut [0; 64]), Ok(1..)) {
                return;
            }
            while let Ok((pids, done)) = requests.try_recv() {
                self.read(pids);
                let _ = done.send(());
            }
            let hints = self.take_hints();
            self.read(hints.unknown);
            self.read_functions(hints.codes);
            for (pid, methods) in hints.methods {
                self.functions.add(pid, Vec::new(), methods);
            }
            self.free_old();
            if self.sweeps.is_due() {
                self.sweep();
            }
        }
    }

    /// What the kernel's part asks for and tells.
    fn take_hints(&mut self) -> Hints {
        let Hints { mut unknown, mut codes, mut methods } = Hints::default();
        let mut gone = Vec::new();
        while let Some(hint) = self.maps.hints.next() {
            let long = |at: usize| {
                let bytes = hint.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
                bytes.map_or(0, u64::from_ne_bytes)
            };
            let word = |at: usize| (long(at / 8 * 8) >> (at % 8 * 8)) as u32;
            let pid = word(0);
            let now = Instant::now();
            let read_recently = |process: &Process| now < process.read_after;
            match word(4) {
                PROCESS_GONE => gone.push(pid),
                PROCESS_UNKNOWN => {
                    // It may just have executed another program.
                    self.sweeps.forget(pid);
                    unknown.insert(pid);
                }
                JAVA_METHOD => methods.entry(pid).or_default().extend(java::told(&hint)),
                CODE_OBJECT => codes.entry(pid).or_default().push((long(8), long(16))),
                _ if self.processes.get(&pid).is_some_and(read_recently) => {}
                _ => _ = unknown.insert(pid),
            }
        }
        for pid in gone {
            self.forget(pid);
        }
        Hints { unknown, codes, methods }
    }

    /// Reads the functions of code objects, which may soon be gone.
    fn read_functions(&self, codes: FxHashMap<u32, Vec<(u64, u64)>>) {
        let with_python = |(pid, codes)| Some((pid, (self.functions.of(pid).python?, codes)));
        let items: Vec<_> = codes.into_iter().filter_map(with_python).collect();
        if items.is_empty() {
            return;
        }
        let functions = Arc::clone(&self.functions);
        let read = move |pid, (python, codes): &(Python, Vec<(u64, u64)>)| {
            functions.read_codes(pid, python, codes.clone());
        };
        procfs::read_each(items, procfs::PROCESS_TIMEOUT, &self.stopped, read);
    }

    /// Reads the mappings of these processes.
    fn read(&mut self, pids: impl IntoIterator<Item = u32>) {
        let pids: Vec<(u32, ())> = pids.into_iter().map(|pid| (pid, ())).collect();
        if pids.is_empty() {
            return;
        }
        let (spaces, _) =
            procfs::read_each(pids, procfs::PROCESS_TIMEOUT, &self.stopped, |pid, ()| {
                procfs::executable_maps(pid)
            });
        for (pid, maps) in spaces {
            if self.stopped.load(Ordering::Relaxed) {
                return;
            }
            if !maps.is_empty() {
                self.set(pid, maps);
            }
        }
    }

    /// Publishes the mappings of a process.
    fn set(&mut self, pid: u32, mut maps: Vec<ExecutableMap>) {
        maps.retain(|map| map.len > 0 && map.start_avma.checked_add(map.len).is_some());
        if maps.len() > MAX_MAPPINGS_PER_PROCESS {
            keep_rarest(&mut maps);
            let is_new = !self.processes.contains_key(&pid);
            self.without_room.fetch_add(usize::from(is_new), Ordering::Relaxed);
        }
        maps.sort_unstable_by_key(|map| map.start_avma);
        let mut java = None;
        if let Some(known) = self.processes.get_mut(&pid).filter(|known| known.maps == maps) {
            known.interval = (known.interval * 2).min(MAX_REREAD_INTERVAL);
            known.read_after = Instant::now() + known.interval;
            let (extent, runtimes, java_file) = (known.extent, known.runtimes, known.java_file);
            // A virtual machine may not have been ready.
            let unready = java_file.filter(|_| runtimes.java.is_none());
            java = unready.and_then(|file| self.read_java(pid, file));
            if java.is_none() {
                // An exec of the same program has removed them from the kernel's map.
                let place = [extent.first, extent.len, self.generation];
                self.publish(pid, place, runtimes);
                return;
            }
        }
        let (mut files, mut python, mut java_file) = (Vec::new(), None, None);
        let mut mappings = Vec::with_capacity(maps.len());
        for map in &maps {
            let file = self.file_of(pid, map, &mut files);
            let base = file.base_avma;
            python = python.or(file.python.map(|runtime| Python::new(runtime, base)));
            java_file = java_file.or(file.java.map(|runtime| (runtime, base)));
            let code = map.start_avma..map.start_avma + map.len;
            mappings.push(Mapping { code, base_avma: base, rows: file.rows });
        }
        // A page that cannot be read this time does not take its methods' names away.
        let known = self.processes.get(&pid).filter(|known| known.java_file == java_file);
        let before = known.and_then(|known| known.runtimes.java);
        let java = java.or_else(|| self.read_java(pid, java_file?)).or(before);
        add_code_heaps(&mut mappings, java.as_ref());
        let Some(extent) = self.mappings.take(mappings.len() as u32) else {
            self.without_room.fetch_add(1, Ordering::Relaxed);
            self.release(files);
            return;
        };
        let bytes: Vec<u8> = mappings.iter().flat_map(Mapping::for_kernel).collect();
        self.maps.mappings.store(extent.first as usize * MAPPING_BYTES, &bytes);
        self.generation = self.generation.wrapping_add(1);
        let place = [extent.first, extent.len, self.generation];
        let runtimes = Runtimes { python, java };
        self.publish(pid, place, runtimes);
        let interval = MIN_REREAD_INTERVAL;
        let read_after = Instant::now() + interval;
        let process = Process { maps, extent, runtimes, java_file, files, read_after, interval };
        if let Some(old) = self.processes.insert(pid, process) {
            self.old_mappings.push_back((Instant::now() + GRACE, old.extent));
            self.release(old.files);
        }
    }

    /// Reads where the virtual machine of a process has its code; `None` if it is not ready.
    fn read_java(&self, pid: u32, file: (JavaRuntime, u64)) -> Option<Java> {
        let read = |pid, &(runtime, base_avma): &(JavaRuntime, u64)| {
            let memory = Memory::open(pid).ok()?;
            let mut words = Words::new(&memory);
            Java::read(runtime, base_avma, |avma| words.at(avma))
        };
        let items = vec![(pid, file)];
        let (found, _) = procfs::read_each(items, procfs::PROCESS_TIMEOUT, &self.stopped, read);
        found.into_values().next().flatten()
    }

    /// Tells the kernel's part where the mappings of a process are, and what runs in it.
    fn publish(&mut self, pid: u32, place: [u32; 3], runtimes: Runtimes) {
        self.functions.set(pid, runtimes);
        // First, so that a stack that needs the mappings can have its scripts' frames.
        match runtimes.python {
            Some(python) => _ = self.maps.pythons.insert(pid, python.for_kernel(), 0),
            None => _ = self.maps.pythons.remove(&pid),
        }
        match runtimes.java {
            Some(java) => _ = self.maps.javas.insert(pid, java.for_kernel(), 0),
            None => _ = self.maps.javas.remove(&pid),
        }
        let has_no_room = self.maps.processes.insert(pid, place, 0).is_err();
        if has_no_room && !self.processes.contains_key(&pid) {
            self.without_room.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What is known of a mapped file, which is added to `files`.
    fn file_of(&mut self, pid: u32, map: &ExecutableMap, files: &mut Vec<FileId>) -> Mapped {
        let unknown = Mapped { base_avma: map.start_avma, ..Mapped::default() };
        let path = map.path.strip_suffix(b" (deleted)").unwrap_or(&map.path).to_vec();
        let file = FileId { path, device: map.device, inode: map.inode };
        if self
            .files
            .get(&file)
            .is_none_or(|known| known.as_ref().is_some_and(FileRules::is_unused))
        {
            self.read_rules(pid, map, &file);
        }
        let Some(Some(known)) = self.files.get_mut(&file) else { return unknown };
        known.users += 1;
        files.push(file);
        let Some(base_avma) = base_avma(map, &known.rules) else { return unknown };
        Mapped { base_avma, rows: known.rows, python: known.rules.python, java: known.rules.java }
    }

    /// Reads the rules of a file that no process had mapped, unless they are known.
    fn read_rules(&mut self, pid: u32, map: &ExecutableMap, id: &FileId) {
        if self.files.len() >= MAX_FILES {
            self.drop_unused_files();
        }
        let (rules, state) = match map.path.as_slice() {
            // All processes have this one, and its bytes are in our own memory.
            b"[vdso]" => (unhitch_symbols::vdso_unwind_rules(), FileState::default()),
            path if map.inode != 0 => {
                let path = Path::new(OsStr::from_bytes(path));
                let file = self.reader.open(pid, map.start_avma, map.len, path);
                let file = file.filter(|file| may_be(file, map));
                let state = file.as_ref().and_then(state_of).unwrap_or_default();
                match self.files.get(id) {
                    // Not this time: the process has ended, or its disk does not answer.
                    Some(Some(_)) if file.is_none() => return,
                    Some(Some(known)) if known.state == state => return,
                    _ => (file.and_then(|file| self.reader.rules(file, &self.stopped)), state),
                }
            }
            _ => return,
        };
        let rules = rules.filter(|rules| !rules.segments.is_empty());
        if let Some(Some(old)) = self.files.remove(id) {
            self.rows.free(old.rows);
        }
        if rules.is_none() && self.may_have_rules(id) {
            return;
        }
        self.read_in_vain.remove(id);
        let rules = rules.and_then(|rules| self.keep(rules, state));
        self.files.insert(id.clone(), rules);
    }

    /// True if a file in which no rules were found is to be read again when it is mapped the next time:
    /// perhaps it could not be read this time.
    fn may_have_rules(&mut self, id: &FileId) -> bool {
        if self.read_in_vain.len() >= MAX_FILES {
            self.read_in_vain.clear();
        }
        let times = self.read_in_vain.entry(id.clone()).or_default();
        *times += 1;
        *times < MAX_READINGS
    }

    /// Copies the rules to where the kernel's part finds them.
    fn keep(&mut self, mut rules: UnwindRules, state: FileState) -> Option<FileRules> {
        let rows = std::mem::take(&mut rules.rows);
        let extent = self.rows.take(rows.len() as u32).or_else(|| {
            self.drop_unused_files();
            self.rows.take(rows.len() as u32)
        });
        let Some(extent) = extent else {
            self.without_room.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let bytes: Vec<u8> = rows.iter().flat_map(|row| row.to_ne_bytes()).collect();
        self.maps.rows.store(extent.first as usize * 8, &bytes);
        Some(FileRules { rules, rows: extent, users: 0, state })
    }

    /// Reads processes that are new, and forgets those whose end was not reported, which happens when
    /// many end at once.
    fn sweep(&mut self) {
        let living: FxHashSet<u32> = procfs::numbers("/proc".as_ref()).into_iter().collect();
        let unread = self.sweeps.begin(&living);
        self.read(unread);
        let gone: Vec<u32> =
            self.processes.keys().copied().filter(|pid| !living.contains(pid)).collect();
        for pid in gone {
            let _ = self.maps.processes.remove(&pid);
            let _ = self.maps.pythons.remove(&pid);
            let _ = self.maps.javas.remove(&pid);
            self.forget(pid);
        }
    }

    fn forget(&mut self, pid: u32) {
        self.sweeps.forget(pid);
        self.functions.set(pid, Runtimes::default());
        if let Some(process) = self.processes.remove(&pid) {
            self.old_mappings.push_back((Instant::now() + GRACE, process.extent));
            self.release(process.files);
        }
    }

    fn release(&mut self, files: Vec<FileId>) {
        for file in files {
            if let Some(Some(known)) = self.files.get_mut(&file) {
                known.users -= 1;
            }
        }
    }

    /// Makes room: the rules of files that no process has mapped.
    fn drop_unused_files(&mut self) {
        let rows = &mut self.rows;
        self.files.retain(|_, file| match file {
            Some(file) if file.users > 0 => true,
            Some(file) => {
                rows.free(file.rows);
                false
            }
            // To be read again when it is mapped again.
            None => false,
        });
    }

    fn free_old(&mut self) {
        let now = Instant::now();
        while self.old_mappings.front().is_some_and(|(from, _)| *from <= now) {
            if let Some((_, extent)) = self.old_mappings.pop_front() {
                self.mappings.free(extent);
            }
        }
    }
}
