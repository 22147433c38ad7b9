//! Waits of watched threads: `bpf/watch.bpf.c` compares them with the thresholds in the kernel, and
//! writes a record for each that is longer. A wait that does not end is found here: its thread is in
//! a map of the programs.

use super::group;
use super::hit::{Hit, Reporter};
use super::what::{Target, Watched};
use crate::sys;
use aya::maps::{Array, HashMap, MapData, RingBuf};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf, EbpfLoader};
use rustc_hash::FxHashSet;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use unhitch_model::{Time, units};

/// The compiled program.
static PROGRAM: &[u8] = aya::include_bytes_aligned!("../../bpf/watch.bpf.o");
/// Maximum number of watches, as in `watch.bpf.c`.
const MAX_WATCHES: usize = 16;
/// How often waits that go on are looked for, at most and at least.
const LOOK: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));
/// Maximum number of waits that were reported and have not ended.
const MAX_REPORTED: usize = 4096;

const LOOPS: u32 = 0x01;
const ALL_THREADS: u32 = 0x02;
const IDLE_WAITS: u32 = 0x04;
const BY_THREAD: u32 = 0x10;
const BY_PROCESS: u32 = 0x20;
const BY_PID: u32 = 0x40;
const BY_GROUP: u32 = 0x80;
const BY_USER: u32 = 0x100;
const BY_NOTHING: u32 = 0x200;
const WAITS_FOR_EVENTS: u32 = 1;
const IDLE: u32 = 2;

/// `struct watch`: threshold, control group, user and process, flags, name, and two numbers of the
/// program's own.
type WatchWords = [u64; 8];
/// `struct thread`: left, back, watches and flags, process and system call.
type ThreadWords = [u64; 4];

/// Watches for waits; `None` without anything to watch. Each has the number of its trigger, and
/// whether it is about event loops.
pub(super) fn source(
    watched: &[(usize, bool, &Watched)],
    ended: UnixStream,
    reporter: Reporter,
) -> Result<Option<Box<dyn FnOnce() + Send>>, String> {
    if watched.is_empty() {
        return Ok(None);
    }
    if watched.len() > MAX_WATCHES {
        return Err(format!("at most {MAX_WATCHES} triggers can watch threads"));
    }
    let watches = watched.iter().map(|(trigger, loops, watched)| Watch {
        trigger: *trigger,
        loops: *loops,
        watched: (*watched).clone(),
    });
    let mut watching = Watching::start(watches.collect())?;
    Ok(Some(Box::new(move || watching.run(&ended, &reporter))))
}

struct Watch {
    trigger: usize,
    loops: bool,
    watched: Watched,
}

impl Watch {
    fn words(&self) -> Result<WatchWords, String> {
        let (mut group, mut user, mut pid, mut name) = (0, 0, 0, [0; 16]);
        let mut flags = match &self.watched.target {
            Target::Thread(text) => {
                name = name_bytes(text);
                BY_THREAD
            }
            Target::Process(text) => {
                name = name_bytes(text);
                BY_PROCESS
            }
            Target::Pid(number) => {
                pid = *number;
                BY_PID
            }
            Target::ControlGroup(path) => {
                group = group::number(path)?;
                BY_GROUP
            }
            Target::User(uid) => {
                user = *uid;
                BY_USER
            }
            Target::Anyone => BY_NOTHING,
        };
        for (flag, is_set) in [
            (LOOPS, self.loops),
            (ALL_THREADS, self.watched.all_threads),
            (IDLE_WAITS, self.watched.idle_waits),
        ] {
            flags |= if is_set { flag } else { 0 };
        }
        let half = |from: usize| {
            name[from..from + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
        };
        let threshold = u64::try_from(self.watched.threshold.as_nanos()).unwrap_or(u64::MAX);
        let ids = u64::from(user) | u64::from(pid) << 32;
        Ok([threshold, group, ids, u64::from(flags), half(0), half(8), 0, 0])
    }
}

/// A name as the kernel has it: cut to 15 bytes.
fn name_bytes(text: &str) -> [u8; 16] {
    let mut name = [0; 16];
    let len = text.len().min(15);
    name[..len].copy_from_slice(&text.as_bytes()[..len]);
    name
}

/// The program at work.
struct Watching {
    watches: Vec<Watch>,
    /// Keeps the program attached.
    _program: Ebpf,
    hits: RingBuf<MapData>,
    threads: HashMap<MapData, u32, ThreadWords>,
    /// What was reported already: by which watch, a thread, and since when.
    reported: FxHashSet<(usize, u32, u64)>,
}

impl Watching {
    fn start(watches: Vec<Watch>) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| {
            format!("BPF cannot watch waits here: {}", error.to_string().replace('\n', " "))
        };
        let btf = Btf::from_sys_fs().map_err(|error| failed(&error))?;
        let mut program = EbpfLoader::new()
            .btf(Some(&btf))
            .override_global("watch_count", &(watches.len() as u32), true)
            .load(PROGRAM)
            .map_err(|error| failed(&error))?;
        let mut map = |name: &str| program.take_map(name).ok_or_else(|| failed(&name));
        let (table, hits, threads) = (map("watches")?, map("hits")?, map("threads")?);
        let mut table: Array<MapData, WatchWords> =
            Array::try_from(table).map_err(|error| failed(&error))?;
        for (number, watch) in watches.iter().enumerate() {
            table.set(number as u32, watch.words()?, 0).map_err(|error| failed(&error))?;
        }
        let hits = RingBuf::try_from(hits).map_err(|error| failed(&error))?;
        let threads = HashMap::try_from(threads).map_err(|error| failed(&error))?;
        let hook = program.program_mut("on_watched_switch").ok_or_else(|| failed(&"no program"))?;
        let hook: &mut BtfTracePoint = hook.try_into().map_err(|error| failed(&error))?;
        hook.load("sched_switch", &btf).map_err(|error| failed(&error))?;
        hook.attach().map_err(|error| failed(&error))?;
        let reported = FxHashSet::default();
        Ok(Self { watches, _program: program, hits, threads, reported })
    }

    fn run(&mut self, ended: &UnixStream, reporter: &Reporter) {
        let shortest = self.watches.iter().map(|watch| watch.watched.threshold).min();
        let look = (shortest.unwrap_or_default() / 2).clamp(LOOK.0, LOOK.1);
        let look = i32::try_from(look.as_millis()).unwrap_or(i32::MAX);
        loop {
            let Ok(ready) = sys::poll(&[ended.as_fd(), self.hits.as_fd()], look) else { return };
            if ready.first().is_none_or(|ended| ended.readable || ended.hung_up) {
                return;
            }
            while let Some(record) = self.hits.next() {
                let Some(record) = Record::read(&record) else { continue };
                // It was reported while it went on.
                if !self.reported.remove(&(record.watch, record.tid, record.from))
                    && let Some(watch) = self.watches.get(record.watch)
                {
                    reporter.report(watch.hit(&record, false));
                }
            }
            self.report_unended(reporter);
        }
    }

    /// Reports waits that go on and are long enough already.
    fn report_unended(&mut self, reporter: &Reporter) {
        let now = sys::monotonic_now().nanos();
        if self.reported.len() > MAX_REPORTED {
            self.reported.clear();
        }
        for (tid, words) in self.threads.iter().flatten() {
            for (number, watch) in self.watches.iter().enumerate() {
                let Some(record) = unended(number, watch, tid, &words, now) else { continue };
                // One that was killed may still be in the map.
                if !Path::new(&format!("/proc/{}/task/{tid}", record.pid)).exists() {
                    continue;
                }
                if self.reported.insert((number, tid, record.from)) {
                    reporter.report(watch.hit(&record, true));
                }
            }
        }
    }
}

/// What a thread is in the middle of, if that is long enough.
fn unended(
    number: usize,
    watch: &Watch,
    tid: u32,
    words: &ThreadWords,
    now: u64,
) -> Option<Record> {
    let [left, back, of, process] = *words;
    let (mask, flags) = (of as u32, (of >> 32) as u32);
    if mask >> number & 1 == 0 {
        return None;
    }
    let from = match watch.loops {
        // In its wait for events, it is where it should be.
        true if flags & WAITS_FOR_EVENTS != 0 && left != 0 => return None,
        true => back,
        false if flags & IDLE != 0 && !watch.watched.idle_waits => return None,
        false => left,
    };
    let long = u64::try_from(watch.watched.threshold.as_nanos()).unwrap_or(u64::MAX);
    let record = Record { watch: number, tid, pid: process as u32, from, to: now, held: 0 };
    (from != 0 && now.saturating_sub(from) >= long).then_some(record)
}

/// `struct hit`.
struct Record {
    watch: usize,
    tid: u32,
    pid: u32,
    from: u64,
    to: u64,
    held: u64,
}

impl Record {
    fn read(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let long = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        Some(Self {
            watch: number(0)? as usize,
            tid: number(4)?,
            pid: number(8)?,
            from: long(16)?,
            to: long(24)?,
            held: long(32)?,
        })
    }
}

impl Watch {
    fn hit(&self, record: &Record, goes_on: bool) -> Hit {
        let who = who(record.pid, record.tid);
        let time = units::duration(record.to.saturating_sub(record.from));
        let text = match (self.loops, goes_on) {
            (false, false) => format!("{who} waited {time}"),
            (false, true) => format!("{who} has been waiting for {time}"),
            (true, false) => format!("the event loop of {who} stayed away for {time}"),
            (true, true) => format!("the event loop of {who} has been away for {time}"),
        };
        Hit {
            trigger: self.trigger,
            text,
            pid: Some(record.pid),
            tid: Some(record.tid),
            seen: Some((Time::from_nanos(record.from), Time::from_nanos(record.to))),
            unreported: record.held,
        }
    }
}

/// `render (tid 12) of editor (pid 10)`, as they are called now.
fn who(pid: u32, tid: u32) -> String {
    let name = |path: String| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let process = name(format!("/proc/{pid}/comm"));
    if pid == tid {
        return format!("{process} (pid {pid})");
    }
    let thread = name(format!("/proc/{pid}/task/{tid}/comm"));
    format!("{thread} (tid {tid}) of {process} (pid {pid})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(loops: bool, target: Target) -> Watch {
        let watched = Watched {
            threshold: Duration::from_millis(200),
            target,
            all_threads: false,
            idle_waits: false,
        };
        Watch { trigger: 3, loops, watched }
    }

    #[test]
    fn a_watch_is_what_the_program_reads() {
        let words =
            watch(true, Target::Process("a name of many bytes".to_owned())).words().unwrap();
        assert_eq!((words[0], words[3]), (200_000_000, u64::from(LOOPS | BY_PROCESS)));
        let name: Vec<u8> = words[4..6].iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(&name, b"a name of many \0");
        let words = watch(false, Target::Pid(7)).words().unwrap();
        assert_eq!((words[2], words[3]), (7 << 32, u64::from(BY_PID)));
        assert!(watch(false, Target::ControlGroup("no/such".to_owned())).words().is_err());
    }

    #[test]
    fn a_wait_that_goes_on_counts_once_it_is_long_enough() {
        let (wait, stall) = (watch(false, Target::Anyone), watch(true, Target::Anyone));
        let flags = |flags: u32| 1 | u64::from(flags) << 32;
        let long = |watch: &Watch, words: ThreadWords| {
            unended(0, watch, 9, &words, 1_000_000_000).map(|record| record.from)
        };
        let (left, back) = (700_000_000, 600_000_000);
        assert_eq!(long(&wait, [left, back, flags(0), 8]), Some(left));
        assert_eq!(long(&wait, [left + 150_000_000, back, flags(0), 8]), None);
        assert_eq!(long(&wait, [left, back, flags(IDLE), 8]), None);
        assert_eq!(long(&wait, [0, back, flags(0), 8]), None);
        assert_eq!(long(&wait, [left, back, 2, 8]), None, "another watch's");
        assert_eq!(long(&stall, [left, back, flags(0), 8]), Some(back));
        assert_eq!(long(&stall, [0, back, flags(WAITS_FOR_EVENTS | IDLE), 8]), Some(back));
        assert_eq!(long(&stall, [left, back, flags(WAITS_FOR_EVENTS | IDLE), 8]), None);
        assert_eq!(long(&stall, [left, 0, flags(0), 8]), None, "it never waited for events");
    }

    #[test]
    fn a_record_that_is_cut_is_none() {
        let bytes: Vec<u8> = (0..40).collect();
        assert!(Record::read(&bytes).is_some_and(|record| record.tid == 0x0706_0504));
        assert!((0..40).all(|len| Record::read(&bytes[..len]).is_none()));
    }
}
