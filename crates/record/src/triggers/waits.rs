//! Waits of watched threads: `bpf/watch.bpf.c` compares them with the thresholds in the kernel, and
//! writes a record for each that is longer. Waits that do not end are listed by it, when asked.

use super::group;
use super::hit::{Hit, Reporter};
use super::what::{Target, Watched};
use crate::bpf::program;
use crate::sys;
use crate::terminal::Terminal;
use aya::maps::{Array, MapData, RingBuf};
use aya::programs::{BtfTracePoint, Iter};
use aya::{Btf, Ebpf, EbpfLoader};
use rustc_hash::FxHashSet;
use std::fmt::Display;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use unhitch_model::{Time, units};

/// The compiled program.
static PROGRAM: &[u8] = aya::include_bytes_aligned!("../../bpf/watch.bpf.o");
/// Maximum number of watches, as in `watch.bpf.c`.
pub(crate) const MAX_WATCHES: usize = 16;
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
/// What is attached to which tracepoint.
const TRACEPOINTS: [(&str, &str); 2] =
    [("on_watched_switch", "sched_switch"), ("on_watched_exec", "sched_process_exec")];
/// Lists what goes on.
const LISTER: &str = "on_each_thread";
/// `struct hit`: its length.
const RECORD_BYTES: usize = 40;

/// `struct watch`: threshold, control group, user and process, flags, name, and two numbers of the
/// program's own.
type WatchWords = [u64; 8];

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
    fn threshold_ns(&self) -> u64 {
        u64::try_from(self.watched.threshold.as_nanos()).unwrap_or(u64::MAX)
    }

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
        let ids = u64::from(user) | u64::from(pid) << 32;
        Ok([self.threshold_ns(), group, ids, u64::from(flags), half(0), half(8), 0, 0])
    }
}

/// A name as the kernel has it: cut to 15 bytes.
fn name_bytes(text: &str) -> [u8; 16] {
    let mut name = [0; 16];
    let len = text.len().min(15);
    name[..len].copy_from_slice(&text.as_bytes()[..len]);
    name
}

/// The programs at work.
struct Watching {
    watches: Vec<Watch>,
    /// Keeps the programs attached.
    programs: Ebpf,
    hits: RingBuf<MapData>,
    /// What was reported already: by which watch, a thread, and since when.
    reported: FxHashSet<(usize, u32, u64)>,
}

impl Watching {
    fn start(watches: Vec<Watch>) -> Result<Self, String> {
        let btf = Btf::from_sys_fs().map_err(failed)?;
        let shortest = |loops: bool| {
            let of_kind = watches.iter().filter(|watch| watch.loops == loops);
            of_kind.map(Watch::threshold_ns).min().unwrap_or(u64::MAX)
        };
        let mut programs = EbpfLoader::new()
            .btf(Some(&btf))
            .override_global("watch_count", &(watches.len() as u32), true)
            .override_global("shortest_wait_ns", &shortest(false), true)
            .override_global("shortest_away_ns", &shortest(true), true)
            .load(PROGRAM)
            .map_err(failed)?;
        let mut map = |name: &str| programs.take_map(name).ok_or_else(|| failed(name));
        let (table, hits) = (map("watches")?, map("hits")?);
        let mut table: Array<MapData, WatchWords> = Array::try_from(table).map_err(failed)?;
        for (number, watch) in watches.iter().enumerate() {
            table.set(number as u32, watch.words()?, 0).map_err(failed)?;
        }
        let hits = RingBuf::try_from(hits).map_err(failed)?;
        let lister: &mut Iter = program(&mut programs, LISTER).map_err(failed)?;
        lister.load("task", &btf).map_err(failed)?;
        for (name, tracepoint) in TRACEPOINTS {
            let hook: &mut BtfTracePoint = program(&mut programs, name).map_err(failed)?;
            hook.load(tracepoint, &btf).map_err(failed)?;
            hook.attach().map_err(failed)?;
        }
        Ok(Self { watches, programs, hits, reported: FxHashSet::default() })
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
                    && watch.is_about(&record)
                {
                    reporter.report(watch.hit(&record, false));
                }
            }
            self.report_unended(reporter);
        }
    }

    /// Reports waits that go on and are long enough already. If they cannot be listed now, they are
    /// the next time, or once they have ended.
    fn report_unended(&mut self, reporter: &Reporter) {
        if self.reported.len() > MAX_REPORTED {
            self.reported.clear();
        }
        let list = self.unended().unwrap_or_default();
        for record in list.chunks_exact(RECORD_BYTES).filter_map(Record::read) {
            let Some(watch) = self.watches.get(record.watch) else { continue };
            if !watch.is_about(&record) {
                continue;
            }
            if self.reported.insert((record.watch, record.tid, record.from)) {
                reporter.report(watch.hit(&record, true));
            }
        }
    }

    /// The records of waits that go on.
    fn unended(&mut self) -> Result<Vec<u8>, String> {
        let lister: &mut Iter = program(&mut self.programs, LISTER).map_err(failed)?;
        let link = lister.attach().map_err(failed)?;
        let link = lister.take_link(link).map_err(failed)?;
        let mut list = Vec::new();
        link.into_file().map_err(failed)?.read_to_end(&mut list).map_err(failed)?;
        Ok(list)
    }
}

fn failed(error: impl Display) -> String {
    format!("BPF cannot watch waits here: {}", error.to_string().replace('\n', " "))
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
    /// False for shells, unless they are meant: their loop stays away for as long as what was typed into
    /// them runs.
    fn is_about(&self, record: &Record) -> bool {
        let is_meant = !matches!(self.watched.target, Target::User(_) | Target::Anyone);
        let is_shell = || Terminal::of(record.pid).is_some_and(|one| one.is_led_by(record.pid));
        !self.loops || is_meant || !is_shell()
    }

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
    fn a_record_that_is_cut_is_none() {
        let bytes: Vec<u8> = (0..RECORD_BYTES as u8).collect();
        assert!(Record::read(&bytes).is_some_and(|record| record.tid == 0x0706_0504));
        assert!((0..RECORD_BYTES).all(|len| Record::read(&bytes[..len]).is_none()));
    }
}
