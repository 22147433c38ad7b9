//! The recorder's part that runs in the kernel (BPF): loads it, and copies its rings.
//!
//! `bpf/recorder.bpf.c` writes one ring per CPU; `bpf/ring.h` has their layout. The rings are maps
//! that this process has mapped, so that a copy needs no system call.
//!
//! *Why a copy needs no pause*: as for the rings of perf events (see [`ring`](crate::ring)), what
//! the kernel overwrites meanwhile is the oldest part, which is known after the copy and left out.

mod event_loops;
mod file_locks;
mod hook;
mod parts;
mod pollers;
mod refused;
mod rings;
mod shared;
mod sleepers;
mod watcher;

pub(crate) use event_loops::{Asking, Askings};
pub(crate) use shared::Shared;
pub(crate) use sleepers::{Sleeper, unwind as unwind_sleepers};
pub(crate) use watcher::{MAX_WATCHES, Seen, WatchWords, Watcher, about};

use crate::error::Error;
use crate::kernel;
use crate::naming::RuleReader;
use crate::options::{DEFAULT_RING_BYTES, Options};
use crate::procfs;
use crate::sys;
use crate::unwind::{self, MAPPING_BYTES, Unwinding};
use aya::maps::{HashMap, MapData};
use aya::programs::perf_event::{
    PerfEventConfig, PerfEventLinkId, PerfEventScope, SamplePolicy, SoftwareEvent,
};
use aya::programs::{BtfTracePoint, Iter, PerfEvent, ProgramError};
use aya::{Btf, Ebpf, EbpfLoader};
use hook::Hook;
use parts::{list_threads, map, maps, program};
use refused::failed;
use rings::{CACHED_AT, DIFFERED_AT, NOT_RESERVED_AT, Rings, SWITCHES_AT, WAKINGS_AT};
use rustc_hash::FxHashMap;
use shared::{TASK_SLOT_BYTES, TASK_SLOTS};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use unhitch_formats::ring::{self, BLOCK_BYTES, RingPart, SleeperPart, WaitedFor};
use unhitch_model::units::{self, plural};
use unhitch_model::{CpuSpan, Time, Window};

/// The compiled programs.
static PROGRAMS: &[u8] = aya::include_bytes_aligned!("../../bpf/recorder.bpf.o");
/// The programs and the tracepoints that they are attached to, but those of [`hook`].
const TRACEPOINTS: [(&str, &str); 4] = [
    ("on_waking", "sched_waking"),
    ("on_first_wake_up", "sched_wakeup_new"),
    ("on_exec", "sched_process_exec"),
    ("on_free", "sched_process_free"),
];
/// Those that a kernel may lack: by version (`contention_*` came with 5.19, `block_io_start` with
/// 6.5), or by configuration.
const OPTIONAL: [(&str, &str); 16] = [
    ("on_contention", "contention_begin"),
    ("on_end_of_contention", "contention_end"),
    ("on_signal", "signal_generate"),
    ("on_request", "block_io_start"),
    ("on_request_done", "block_rq_complete"),
    ("on_interrupt", "irq_handler_entry"),
    ("on_end_of_interrupt", "irq_handler_exit"),
    ("on_soft_interrupt", "softirq_entry"),
    ("on_end_of_soft_interrupt", "softirq_exit"),
    ("on_reclaim", "mm_vmscan_direct_reclaim_begin"),
    ("on_end_of_reclaim", "mm_vmscan_direct_reclaim_end"),
    ("on_compaction", "mm_compaction_begin"),
    ("on_end_of_compaction", "mm_compaction_end"),
    ("on_dirtied", "writeback_dirty_folio"),
    ("on_flock", "flock_lock_inode"),
    ("on_posix_lock", "posix_lock_inode"),
];
/// The programs that list threads at a save.
const LISTERS: [&str; 3] = ["on_each_thread", "on_each_poller", "on_each_event_loop"];
/// What of `struct cpu_ring` counts events, by their name.
const COUNTERS: [(&str, usize); 2] =
    [("sched:sched_switch", SWITCHES_AT), ("sched:sched_waking", WAKINGS_AT)];
/// Entries of the table of known stacks for each CPU, as in `ring.h`.
const KNOWN_STACKS_PER_CPU: u32 = 4096;
/// Entries of each of the two caches of stacks for each CPU, and their bytes, as in `cache.h`.
const CACHED_STACKS_PER_CPU: u32 = 512;
const CACHED_STACK_BYTES: usize = 1240 + 264;
/// Where modules and BPF programs begin on x86-64 (Documentation/arch/x86/x86_64/mm.rst).
const MODULES_START: u64 = 0xffff_ffff_c000_0000;
/// A ring has at least this many bytes if nothing else is asked for.
const MIN_DEFAULT_RING_BYTES: usize = 1 << 20;
/// Minimum number of blocks of a ring.
const MIN_BLOCKS: usize = 8;

/// The programs and their rings. Dropping it ends the recording.
pub(crate) struct Engine {
    /// Fills the maps by which user stacks are unwound.
    unwinding: Option<Unwinding>,
    /// Keeps the programs attached.
    programs: Arc<Mutex<Ebpf>>,
    /// The program for `sched_switch`.
    switch_program: &'static str,
    hook: Hook,
    sampling: Sampling,
    /// What the user stacks of sleepers are unwound with.
    shared: Arc<Shared>,
    rings: Rings,
    started: Time,
    /// How many switches the kernel had counted then, and how many had reached the programs.
    switches_at_start: (u64, u64),
    compare_stacks: bool,
    watch_waits: bool,
}

/// The samples of CPUs.
struct Sampling {
    hz: u32,
    /// What samples each CPU.
    cpus: Mutex<FxHashMap<u16, PerfEventLinkId>>,
}

/// A difference between the kernel's count of switches and that of the programs is worth a warning
/// from this share on, one in so many.
const MAX_UNSEEN_SHARE: u64 = 1000;
/// What the two counts may differ by because they are not read at the same instant.
const UNSEEN_NOISE: u64 = 100;

/// The state of one CPU's ring.
pub(crate) struct RingState {
    pub(crate) cpu: u16,
    /// The ring holds everything from here on.
    pub(crate) held_from: Time,
    pub(crate) used_bytes: usize,
}

/// Copies of all rings.
pub(crate) struct RingsCopy {
    pub(crate) spans: Vec<CpuSpan>,
    /// Each ring's CPU, end, and blocks.
    rings: Vec<(u16, u64, Vec<u8>)>,
    /// The CPUs whose rings went round while they were copied.
    pub(crate) overwritten: Vec<u16>,
    /// The threads that are asleep.
    pub(crate) sleepers: Vec<Sleeper>,
    /// What the event loops among them may have asked others for.
    pub(crate) askings: Askings,
    /// What waits that were written already are about.
    written: WaitedFor,
}

impl RingsCopy {
    /// The threads that are asleep, as a trace has them.
    pub(crate) fn sleeper_parts(&self) -> Vec<SleeperPart> {
        sleepers::parts(&self.sleepers)
    }

    /// The content of `rings.bin`, and the number of its records.
    pub(crate) fn encode(&self) -> (Vec<u8>, usize) {
        let parts = self.parts();
        let records = parts.iter().map(|part| ring::count(&part.piece())).sum();
        (ring::encode(&parts, &self.sleeper_parts()), records)
    }

    /// What threads waited for.
    pub(crate) fn waited_for(&self) -> WaitedFor {
        let mut all = self.written.clone();
        self.parts().iter().for_each(|part| all.add_piece(&part.piece()));
        self.sleepers.iter().for_each(|sleeper| all.add_sleeper(sleeper.part()));
        all
    }

    fn parts(&self) -> Vec<RingPart<'_>> {
        let rings = self.rings.iter();
        rings.map(|(cpu, end, blocks)| RingPart { cpu: *cpu, end: *end, blocks }).collect()
    }
}

impl Engine {
    /// Loads the programs: the kernel checks them, and they are not called yet.
    pub(crate) fn load(options: &Options, cpus: &[u16]) -> Result<Self, Error> {
        refused::check()?;
        Self::load_with(PROGRAMS, &Hook::ALL, options, cpus).map_err(refused::by_version)
    }

    fn load_with(
        object: &[u8],
        hooks: &[Hook],
        options: &Options,
        cpus: &[u16],
    ) -> Result<Self, Error> {
        let highest = cpus.iter().copied().max().unwrap_or(0);
        let rings = u32::from(highest) + 1;
        let wanted = options.ring_bytes_per_cpu.unwrap_or_else(|| {
            (DEFAULT_RING_BYTES / cpus.len().max(1)).max(MIN_DEFAULT_RING_BYTES)
        });
        let blocks_per_cpu = (wanted / BLOCK_BYTES).clamp(MIN_BLOCKS, 1 << 15).next_power_of_two();
        let btf = Btf::from_sys_fs().map_err(failed("read the kernel's BTF"))?;
        let symbols = kernel::Symbols::read();
        let code = |range: Range<u64>| [range.start, range.end];
        let starting = |prefix: &str| code(symbols.of(|name| name.starts_with(prefix)));
        let interrupt_code = code(
            symbols.of(|name| name == "asm_common_interrupt" || name.starts_with("asm_sysvec_")),
        );
        let schedule_code = code(symbols.of(|name| name == "schedule"));
        let tracing_code = [
            starting("bpf_trace_run"),
            starting("__traceiter_sched_exit_tp"),
            starting("__traceiter_sched_waking"),
            starting("__traceiter_sched_wakeup_new"),
            starting("__traceiter_signal_generate"),
            code(symbols.of(hook::finishes_switch)),
        ];
        let mut programs = EbpfLoader::new()
            .btf(Some(&btf))
            .override_global("blocks_per_cpu", &(blocks_per_cpu as u32), true)
            .override_global("with_user_stacks", &u32::from(options.user_stacks), true)
            .override_global("min_wait_ns", &options.min_wait_ns, true)
            .override_global("budget_ppm", &options.stack_budget_ppm, true)
            .override_global("with_watches", &u32::from(options.watch_waits), true)
            .override_global("compare_stacks", &u32::from(options.compare_stacks), true)
            .override_global("interrupt_code", &interrupt_code, true)
            .override_global("schedule_code", &schedule_code, true)
            .override_global("tracing_code", &tracing_code.concat()[..], true)
            .override_global("modules_start", &MODULES_START, true)
            .map_max_entries("blocks", rings * blocks_per_cpu as u32)
            .map_max_entries("cpus", rings)
            .map_max_entries("dictionary", rings * KNOWN_STACKS_PER_CPU)
            .map_max_entries("user_cache", rings * CACHED_STACKS_PER_CPU)
            .map_max_entries("kernel_cache", rings * CACHED_STACKS_PER_CPU)
            .map_max_entries("mappings", unwind::MAPPINGS)
            .map_max_entries("rows", unwind::rows())
            .load(object)
            .map_err(failed("load the recorder's programs"))?;
        let switch_program = hook::load_switch_program(&mut programs, &btf)?;
        let hook = Hook::load(hooks, &mut programs, &btf, &symbols)?;
        load_others(&mut programs, &btf, options)?;
        let rings = Rings::new(&programs, rings as usize, blocks_per_cpu, cpus)?;
        let shared = Arc::new(Shared {
            mappings: map(&programs, "mappings", unwind::MAPPINGS as usize * MAPPING_BYTES)?,
            rows: map(&programs, "rows", unwind::rows() as usize * 8)?,
            tasks: map(&programs, "tasks", TASK_SLOTS * TASK_SLOT_BYTES)?,
            functions: Arc::default(),
        });
        let programs = Arc::new(Mutex::new(programs));
        Ok(Self {
            unwinding: None,
            programs,
            switch_program,
            hook,
            sampling: Sampling { hz: options.sample_hz, cpus: Mutex::default() },
            shared,
            rings,
            started: Time::ZERO,
            switches_at_start: (0, 0),
            compare_stacks: options.compare_stacks,
            watch_waits: options.watch_waits,
        })
    }

    /// Begins to record. `reader` reads the unwind tables of the programs that run.
    pub(crate) fn attach(
        &mut self,
        options: &Options,
        reader: Box<dyn RuleReader>,
    ) -> Result<(), Error> {
        if options.user_stacks {
            let maps = maps(&mut self.programs())?;
            self.unwinding =
                Some(Unwinding::start(maps, reader, Arc::clone(&self.shared.functions))?);
        }
        {
            let mut programs = self.programs();
            let names = TRACEPOINTS.iter().chain(&OPTIONAL).map(|(name, _)| *name);
            for name in std::iter::once(self.switch_program).chain(names) {
                let program: &mut BtfTracePoint = program(&mut programs, name)?;
                match program.attach() {
                    Err(ProgramError::NotLoaded)
                        if OPTIONAL.iter().any(|(optional, _)| *optional == name) => {}
                    attached => _ = attached.map_err(failed("attach a program"))?,
                }
            }
            self.hook.attach(&mut programs)?;
        }
        self.cpus().iter().try_for_each(|&cpu| self.sample(cpu))?;
        self.started = sys::monotonic_now();
        self.switches_at_start = self.switches().unwrap_or_default();
        Ok(())
    }

    /// Samples a CPU, if samples are to be recorded; also one that was offline, which had ended that.
    pub(crate) fn sample(&self, cpu: u16) -> Result<(), Error> {
        if self.sampling.hz == 0 {
            return Ok(());
        }
        let mut programs = self.programs();
        let sampler: &mut PerfEvent = program(&mut programs, "on_sample")?;
        let clock = PerfEventConfig::Software(SoftwareEvent::CpuClock);
        let scope = PerfEventScope::AllProcessesOneCpu { cpu: u32::from(cpu) };
        let rate = SamplePolicy::Frequency(u64::from(self.sampling.hz));
        let link = sampler.attach(clock, scope, rate, false).map_err(failed("sample a CPU"))?;
        let mut samplers = self.sampling.cpus.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dead) = samplers.insert(cpu, link) {
            // It is closed in any case.
            let _ = sampler.detach(dead);
        }
        Ok(())
    }

    fn programs(&self) -> MutexGuard<'_, Ebpf> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The threads that are asleep, with their kernel stacks.
    fn sleepers(&self) -> Result<Vec<Sleeper>, Error> {
        let mut programs = self.programs();
        let list = list_threads(&mut programs, "on_each_thread")?;
        let mut sleepers = sleepers::read(list).map_err(failed("list the threads"))?;
        // Without these two, the holders of file locks and what polls are about are not known, and
        // nothing else is missing.
        let _ = file_locks::add_owners(&mut sleepers);
        let _ = pollers::add_descriptors(&mut programs, &mut sleepers);
        Ok(sleepers)
    }

    /// The threads that are asleep, and the connections of their event loops; none where the kernel
    /// does not list them.
    fn asleep_now(&self) -> (Vec<Sleeper>, Askings) {
        let sleepers = self.sleepers().unwrap_or_default();
        (sleepers, event_loops::connections(&mut self.programs()).unwrap_or_default())
    }

    /// Begins to watch waits; an error if it was not loaded to do so.
    pub(crate) fn watch(&self, watches: &[WatchWords]) -> Result<Watcher, String> {
        if !self.watch_waits {
            return Err("the recorder was loaded without watches".to_owned());
        }
        Watcher::of_recorder(&self.programs, watches)
    }

    /// What the user stacks of sleepers are unwound with.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Reads the mappings of these processes again. Returns false if that takes longer than `limit`.
    pub(crate) fn read_mappings(&self, pids: Vec<u32>, limit: Duration) -> bool {
        self.unwinding.as_ref().is_some_and(|unwinding| unwinding.read(pids, limit))
    }

    /// The mappings of processes, by pid: the first of [`Shared`]'s, and their number.
    pub(crate) fn mappings(&self) -> FxHashMap<u32, [u32; 2]> {
        let programs = self.programs();
        let known = programs
            .map("processes")
            .and_then(|map| HashMap::<&MapData, u32, [u32; 3]>::try_from(map).ok());
        let place = |(pid, [first, count, _]): (u32, [u32; 3])| (pid, [first, count]);
        known.map(|known| known.iter().flatten().map(place).collect()).unwrap_or_default()
    }

    /// The state of every ring.
    pub(crate) fn states(&self) -> Vec<RingState> {
        let state = |&cpu: &u16| {
            let end = self.written(cpu);
            let count = (end / BLOCK_BYTES as u64 + 1).min(self.rings.blocks_per_cpu as u64);
            let is_whole = count * BLOCK_BYTES as u64 > end;
            // The oldest block is about to be overwritten.
            let oldest = end / BLOCK_BYTES as u64 + 2 - count;
            let begun = self.rings.begun(cpu, oldest).filter(|_| !is_whole);
            RingState {
                cpu,
                held_from: begun.unwrap_or(self.started),
                used_bytes: (count as usize * BLOCK_BYTES).min(end as usize),
            }
        };
        self.cpus().iter().map(state).collect()
    }

    /// What calls the recorder when a thread is back on a CPU.
    pub(crate) fn hook(&self) -> Hook {
        self.hook
    }

    /// How often each kind of event has occurred, by name.
    pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
        COUNTERS.iter().map(|&(name, at)| (name, self.rings.sum(at))).collect()
    }

    /// How many switches the kernel has counted, and how many have reached the programs.
    fn switches(&self) -> Option<(u64, u64)> {
        Some((procfs::context_switches()?, self.rings.sum(SWITCHES_AT)))
    }

    /// What the kernel counted and the programs did not see, if that is more than noise.
    fn unseen(&self) -> Option<String> {
        let ((counted, seen), (counted_before, seen_before)) =
            (self.switches()?, self.switches_at_start);
        let counted = counted.saturating_sub(counted_before);
        let unseen = counted.checked_sub(seen.saturating_sub(seen_before))?;
        (unseen > UNSEEN_NOISE && unseen > counted / MAX_UNSEEN_SHARE).then(|| {
            format!(
                "the kernel counted {} context switches while it was recorded, of which {} ({}) reached no BPF \
                 program",
                units::count(counted),
                units::count(unseen),
                units::percent(unseen, counted)
            )
        })
    }

    /// Records that have no place in a ring.
    pub(crate) fn lost(&self) -> u64 {
        self.rings.sum(NOT_RESERVED_AT)
    }

    /// What the user must know of the recording so far.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let lost = self.lost();
        let without_room = self.unwinding.as_ref().map_or(0, Unwinding::without_room);
        let lost = (lost > 0).then(|| {
            format!("{} were lost because programs interrupted each other", plural(lost, "record"))
        });
        let crowded = (without_room > 0).then(|| {
            let count = plural(without_room as u64, "program");
            format!("there was no room for the unwind tables of {count}: stacks are cut there")
        });
        let compared = self.compare_stacks.then(|| {
            format!(
                "compared {} of the cache with stacks that were unwound: {} differed",
                plural(self.rings.sum(CACHED_AT), "stack"),
                units::count(self.rings.sum(DIFFERED_AT))
            )
        });
        let all = self.hook.warning().into_iter().chain(lost).chain(crowded);
        all.chain(self.unseen()).chain(compared).collect()
    }

    /// Memory of the maps, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let per_cpu = self.ring_bytes()
            + KNOWN_STACKS_PER_CPU as usize * 16
            + CACHED_STACKS_PER_CPU as usize * CACHED_STACK_BYTES;
        let tables = unwind::MAPPINGS as usize * MAPPING_BYTES + unwind::rows() as usize * 8;
        self.cpus().len() * per_cpu + tables + TASK_SLOTS * TASK_SLOT_BYTES
    }

    /// Copies what the rings hold.
    pub(crate) fn copy(&self) -> RingsCopy {
        let taken = sys::monotonic_now();
        let cpus = self.cpus();
        let ends: Vec<u64> = cpus.iter().map(|&cpu| self.written(cpu)).collect();
        let ended = || cpus.iter().copied().zip(ends.iter().copied());
        let parts: Vec<_> = ended().map(|(cpu, end)| self.rings.blocks_before(cpu, end)).collect();
        // Without them, waits that have not ended yet have no stacks.
        let (sleepers, askings) = self.asleep_now();
        let mut copy = RingsCopy {
            spans: Vec::new(),
            rings: Vec::new(),
            overwritten: Vec::new(),
            sleepers,
            askings,
            written: WaitedFor::default(),
        };
        for ((cpu, end), mut blocks) in ended().zip(parts) {
            // The block that is being written, and the one after it, may have been overwritten.
            let last = end / BLOCK_BYTES as u64;
            let begun = (self.written(cpu) / BLOCK_BYTES as u64).saturating_sub(last) + 2;
            let held = (self.rings.blocks_per_cpu as u64).saturating_sub(begun);
            if held == 0 {
                copy.overwritten.push(cpu);
            }
            let len = (held as usize * BLOCK_BYTES).min(blocks.len());
            blocks.drain(..blocks.len() - len);
            let is_whole = (last + 1) * BLOCK_BYTES as u64 == len as u64;
            let oldest = ring::started_ns(&blocks).map_or(taken, Time::from_nanos);
            let start = if is_whole { self.started } else { oldest };
            copy.spans.push(CpuSpan { cpu, window: Window::new(start.min(taken), taken) });
            copy.rings.push((cpu, end, blocks));
        }
        copy
    }

    /// The threads that are asleep, for a recording whose rings were written already: up to the end
    /// of these spans. `written`: what the waits in those rings are about.
    pub(crate) fn asleep(&self, spans: &[CpuSpan], written: &WaitedFor) -> RingsCopy {
        let (sleepers, askings) = self.asleep_now();
        let (rings, overwritten, written) = (Vec::new(), Vec::new(), written.clone());
        RingsCopy { spans: spans.to_vec(), rings, overwritten, sleepers, askings, written }
    }

    /// The recorded CPUs.
    pub(crate) fn cpus(&self) -> &[u16] {
        &self.rings.cpus
    }

    /// When recording began.
    pub(crate) fn started(&self) -> Time {
        self.started
    }

    /// How far the CPU's ring is complete, in bytes since recording began.
    pub(crate) fn written(&self, cpu: u16) -> u64 {
        self.rings.written(cpu)
    }

    /// Copies what the CPU's ring holds between two positions to the end of `out`. Returns where the
    /// copy really begins: what was overwritten before it could be copied is missing.
    pub(crate) fn copy_between(&self, cpu: u16, from: u64, to: u64, out: &mut Vec<u8>) -> u64 {
        self.rings.copy_between(cpu, from, to, out)
    }

    /// Bytes of each CPU's ring.
    pub(crate) fn ring_bytes(&self) -> usize {
        self.rings.bytes()
    }
}

/// Loads the programs that have the same form on every kernel.
fn load_others(programs: &mut Ebpf, btf: &Btf, options: &Options) -> Result<(), Error> {
    for (name, tracepoint) in TRACEPOINTS {
        let program: &mut BtfTracePoint = program(programs, name)?;
        program.load(tracepoint, btf).map_err(failed("load a program"))?;
    }
    for (name, tracepoint) in OPTIONAL {
        let program: &mut BtfTracePoint = program(programs, name)?;
        // One that is not loaded is not attached, either.
        let _ = program.load(tracepoint, btf);
    }
    let sampler: &mut PerfEvent = program(programs, "on_sample")?;
    sampler.load().map_err(failed("load a program"))?;
    for name in LISTERS {
        let lister: &mut Iter = program(programs, name)?;
        lister.load("task", btf).map_err(failed("load a program"))?;
    }
    if options.watch_waits {
        watcher::prepare(programs, btf)
            .map_err(|reason| refused::failed_with("load a program", reason))?;
    }
    Ok(())
}

/// Engines with a fault.
#[cfg(test)]
mod faulty {
    use super::*;
    use object::{Object, ObjectSection};

    impl Engine {
        /// With programs that the verifier refuses: the first instruction of one is `r0 = r5`, and
        /// there is nothing in r5.
        pub(crate) fn load_refused(options: &Options, cpus: &[u16]) -> Result<Self, Error> {
            let mut broken = PROGRAMS.to_vec();
            let section = object::File::parse(PROGRAMS)
                .unwrap()
                .section_by_name("tp_btf/sched_waking")
                .unwrap()
                .file_range()
                .unwrap();
            let reads_r5 = [0xbf, 0x50, 0, 0, 0, 0, 0, 0];
            broken[section.0 as usize..][..reads_r5.len()].copy_from_slice(&reads_r5);
            Self::load_with(&broken, &Hook::ALL, options, cpus)
        }

        /// With a program that was not loaded.
        pub(crate) fn that_cannot_attach(mut self) -> Self {
            self.switch_program = "on_no_switch";
            self
        }
    }
}
