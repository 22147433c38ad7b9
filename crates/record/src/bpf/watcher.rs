//! Watches: the kernel's part compares the waits of some threads with thresholds, and tells of each
//! that is longer (`bpf/watch.h`). The recorder's own programs do it; where performance events
//! record, programs that do nothing else.

use super::parts::{another_handle, map, program};
use super::refused::reason_of;
use crate::sys::SharedArray;
use aya::maps::{Array, Map, MapData, RingBuf};
use aya::programs::{BtfTracePoint, Iter};
use aya::{Btf, Ebpf, EbpfLoader};
use std::fmt::Display;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The programs that only watch.
static PROGRAMS: &[u8] = aya::include_bytes_aligned!("../../bpf/watch.bpf.o");
/// What of them is attached to which tracepoint.
const TRACEPOINTS: [(&str, &str); 2] =
    [("on_watched_switch", "sched_switch"), ("on_watched_exec", "sched_process_exec")];
/// Lists what goes on.
const LISTER: &str = "on_each_watched_thread";
/// Maximum number of watches, as in `watch.h`.
pub(crate) const MAX_WATCHES: usize = 16;

/// Flags of a watch: what it is about.
pub(crate) mod about {
    pub(crate) const LOOPS: u32 = 0x01;
    pub(crate) const ALL_THREADS: u32 = 0x02;
    pub(crate) const IDLE_WAITS: u32 = 0x04;
    pub(crate) const THREAD: u32 = 0x10;
    pub(crate) const PROCESS: u32 = 0x20;
    pub(crate) const PID: u32 = 0x40;
    pub(crate) const GROUP: u32 = 0x80;
    pub(crate) const USER: u32 = 0x100;
    pub(crate) const ANYONE: u32 = 0x200;
}

/// `struct watch`: threshold in ns, control group, user and process, flags, name, and two numbers of
/// the programs' own.
pub(crate) type WatchWords = [u64; 8];

/// `struct watched`, with which the map `shared` begins: the shortest thresholds of waits and of event
/// loops, the number of watches, and which set of them it is.
const WATCHED_BYTES: usize = 24;

/// Something that was as long as a watch asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen {
    /// The number of the watch.
    pub(crate) watch: usize,
    pub(crate) tid: u32,
    pub(crate) pid: u32,
    /// Since when and until when, by `CLOCK_MONOTONIC` in ns: until now, if it goes on.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// How often this watch has seen something since it last told of it.
    pub(crate) held: u64,
    /// Of which set of watches it is.
    pub(crate) set: u32,
}

/// `struct hit`: its length.
const SEEN_BYTES: usize = 40;

impl Seen {
    fn read(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let long = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        Some(Self {
            watch: number(0)? as usize,
            tid: number(4)?,
            pid: number(8)?,
            set: number(12)?,
            from: long(16)?,
            to: long(24)?,
            held: long(32)?,
        })
    }
}

/// Loads what lists what goes on, and watches nothing yet.
pub(super) fn prepare(programs: &mut Ebpf, btf: &Btf) -> Result<(), String> {
    let lister: &mut Iter = program(programs, LISTER).map_err(failed)?;
    lister.load("task", btf).map_err(failed)?;
    Maps::of(programs)?.watch(&[], 0)
}

/// The maps of the programs that watches are about.
struct Maps {
    watches: Array<MapData, WatchWords>,
    shared: SharedArray,
    hits: RingBuf<MapData>,
}

impl Maps {
    fn of(programs: &Ebpf) -> Result<Self, String> {
        let handle = |name: &str| another_handle(programs, name).map_err(failed);
        Ok(Self {
            watches: Map::Array(handle("watches")?).try_into().map_err(failed)?,
            shared: map(programs, "shared", WATCHED_BYTES).map_err(failed)?,
            hits: Map::RingBuf(handle("hits")?).try_into().map_err(failed)?,
        })
    }

    fn watch(&mut self, watches: &[WatchWords], set: u32) -> Result<(), String> {
        for (number, words) in (0..).zip(watches) {
            self.watches.set(number, words, 0).map_err(failed)?;
        }
        let shortest = |loops: u32| {
            let of_kind = watches.iter().filter(|words| words[3] as u32 & about::LOOPS == loops);
            of_kind.map(|words| words[0]).min().unwrap_or(u64::MAX)
        };
        self.shared.set(0, shortest(0));
        self.shared.set(8, shortest(about::LOOPS));
        self.shared.set(16, watches.len() as u64 | u64::from(set) << 32);
        Ok(())
    }
}

/// The watches at work; dropping it ends them. There is one at a time.
pub(crate) struct Watcher {
    programs: Programs,
    maps: Maps,
    /// What is told of other sets of watches is not for this one.
    set: u32,
}

enum Programs {
    /// They live as long as the recorder.
    Recorder(Weak<Mutex<Ebpf>>),
    /// They are attached as long as this lives.
    Own(Box<Ebpf>),
}

impl Watcher {
    /// Watches by the programs of a recorder, which were [`prepare`]d.
    pub(super) fn of_recorder(
        programs: &Arc<Mutex<Ebpf>>,
        watches: &[WatchWords],
    ) -> Result<Self, String> {
        let maps = Maps::of(&lock(programs))?;
        Self::start(Programs::Recorder(Arc::downgrade(programs)), maps, watches)
    }

    /// Watches by programs that do nothing else.
    pub(crate) fn alone(watches: &[WatchWords]) -> Result<Self, String> {
        let btf = Btf::from_sys_fs().map_err(failed)?;
        let mut programs = EbpfLoader::new().btf(Some(&btf)).load(PROGRAMS).map_err(failed)?;
        prepare(&mut programs, &btf)?;
        for (name, tracepoint) in TRACEPOINTS {
            let hook: &mut BtfTracePoint = program(&mut programs, name).map_err(failed)?;
            hook.load(tracepoint, &btf).map_err(failed)?;
            hook.attach().map_err(failed)?;
        }
        let maps = Maps::of(&programs)?;
        Self::start(Programs::Own(Box::new(programs)), maps, watches)
    }

    fn start(programs: Programs, mut maps: Maps, watches: &[WatchWords]) -> Result<Self, String> {
        static SETS: AtomicU32 = AtomicU32::new(1);
        let set = SETS.fetch_add(1, Ordering::Relaxed);
        maps.watch(watches, set)?;
        Ok(Self { programs, maps, set })
    }

    /// What has ended, next.
    pub(crate) fn next(&mut self) -> Option<Seen> {
        while let Some(record) = self.maps.hits.next() {
            let seen = Seen::read(&record).filter(|seen| seen.set == self.set);
            if seen.is_some() {
                return seen;
            }
        }
        None
    }

    /// What goes on.
    pub(crate) fn unended(&mut self) -> Result<Vec<Seen>, String> {
        let list = match &mut self.programs {
            Programs::Own(programs) => list(programs),
            Programs::Recorder(programs) => match programs.upgrade() {
                Some(programs) => list(&mut lock(&programs)),
                None => return Ok(Vec::new()),
            },
        }?;
        Ok(list.chunks_exact(SEEN_BYTES).filter_map(Seen::read).collect())
    }
}

impl AsFd for Watcher {
    /// Readable when something has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.maps.hits.as_fd()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // If it fails, they tell nobody, until there is no room for more.
        let _ = self.maps.watch(&[], 0);
    }
}

fn list(programs: &mut Ebpf) -> Result<Vec<u8>, String> {
    let lister: &mut Iter = program(programs, LISTER).map_err(failed)?;
    let link = lister.attach().map_err(failed)?;
    let link = lister.take_link(link).map_err(failed)?;
    let mut list = Vec::new();
    link.into_file().map_err(failed)?.read_to_end(&mut list).map_err(failed)?;
    Ok(list)
}

fn lock(programs: &Mutex<Ebpf>) -> MutexGuard<'_, Ebpf> {
    programs.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(error: impl Display) -> String {
    format!("BPF cannot watch waits here: {}", reason_of(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_is_cut_is_none() {
        let bytes: Vec<u8> = (0..SEEN_BYTES as u8).collect();
        assert!(Seen::read(&bytes).is_some_and(|seen| seen.tid == 0x0706_0504));
        assert!((0..SEEN_BYTES).all(|len| Seen::read(&bytes[..len]).is_none()));
    }
}
