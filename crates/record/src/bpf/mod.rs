//! The recorder's part that runs in the kernel (BPF): loads it, and copies its rings.
//!
//! `bpf/recorder.bpf.c` writes one ring per CPU; `bpf/ring.h` has their layout. The rings are maps
//! that this process has mapped, so that a copy needs no system call.
//!
//! *Why a copy needs no pause*: as for the rings of perf events (see [`ring`](crate::ring)), what
//! the kernel overwrites meanwhile is the oldest part, which is known after the copy and left out.

mod shared;
mod sleepers;

pub(crate) use shared::Shared;
pub(crate) use sleepers::{Sleeper, unwind as unwind_sleepers};

use crate::error::Error;
use crate::kernel;
use crate::naming::RuleReader;
use crate::options::{DEFAULT_RING_BYTES, Options};
use crate::sys::{self, SharedArray};
use crate::unwind::{self, MAPPING_BYTES, Maps, Unwinding};
use aya::maps::{HashMap, Map, MapData};
use aya::programs::perf_event::{PerfEventConfig, PerfEventScope, SamplePolicy, SoftwareEvent};
use aya::programs::{BtfTracePoint, Iter, PerfEvent, ProgramError};
use aya::{Btf, Ebpf, EbpfLoader};
use rustc_hash::FxHashMap;
use shared::{TASK_SLOT_BYTES, TASK_SLOTS};
use std::fmt::Display;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use unhitch_formats::ring::{self, BLOCK_BYTES, RingPart};
use unhitch_model::units::plural;
use unhitch_model::{CpuSpan, Time, Window};

/// The compiled programs.
static PROGRAMS: &[u8] = aya::include_bytes_aligned!("../../bpf/recorder.bpf.o");
/// The programs and the tracepoints that they are attached to.
const TRACEPOINTS: [(&str, &str); 8] = [
    ("on_switch", "sched_switch"),
    ("on_exit_of_schedule", "sched_exit_tp"),
    ("on_waking", "sched_waking"),
    ("on_first_wake_up", "sched_wakeup_new"),
    ("on_exec", "sched_process_exec"),
    ("on_free", "sched_process_free"),
    ("on_contention", "contention_begin"),
    ("on_end_of_contention", "contention_end"),
];
/// Tracepoints that some kernels lack (`lock:*` came with 5.19).
const OPTIONAL: [&str; 2] = ["on_contention", "on_end_of_contention"];
/// `struct cpu_ring` of `ring.h`: its length, and the offsets of some numbers.
const CPU_RING_BYTES: usize = 128;
const WRITTEN_AT: usize = 8;
const NOT_RESERVED_AT: usize = 40;
const COUNTERS: [(&str, usize); 2] = [("sched:sched_switch", 48), ("sched:sched_waking", 56)];
/// Entries of the table of known stacks for each CPU, as in `ring.h`.
const KNOWN_STACKS_PER_CPU: u32 = 4096;
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
    programs: Mutex<Ebpf>,
    /// What the user stacks of sleepers are unwound with.
    shared: Arc<Shared>,
    blocks: SharedArray,
    rings: SharedArray,
    cpus: Vec<u16>,
    blocks_per_cpu: usize,
    started: Time,
}

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
    /// True if nothing has been overwritten since recording started.
    pub(crate) from_start: bool,
    /// Each ring's CPU, end, and blocks.
    rings: Vec<(u16, u64, Vec<u8>)>,
    /// The threads that are asleep.
    pub(crate) sleepers: Vec<Sleeper>,
}

impl RingsCopy {
    /// The content of `rings.bin`, and the number of its records.
    pub(crate) fn encode(&self) -> (Vec<u8>, usize) {
        let parts: Vec<RingPart<'_>> = self
            .rings
            .iter()
            .map(|(cpu, end, blocks)| RingPart { cpu: *cpu, end: *end, blocks })
            .collect();
        let records = parts.iter().map(ring::count).sum();
        (ring::encode(&parts, &sleepers::parts(&self.sleepers)), records)
    }
}

impl Engine {
    /// Loads the programs: the kernel checks them, and they are not called yet.
    pub(crate) fn load(options: &Options, cpus: &[u16]) -> Result<Self, Error> {
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
        ];
        let mut programs = EbpfLoader::new()
            .btf(Some(&btf))
            .override_global("blocks_per_cpu", &(blocks_per_cpu as u32), true)
            .override_global("with_user_stacks", &u32::from(options.user_stacks), true)
            .override_global("min_wait_ns", &options.min_wait_ns, true)
            .override_global("budget_ppm", &options.stack_budget_ppm, true)
            .override_global("interrupt_code", &interrupt_code, true)
            .override_global("schedule_code", &schedule_code, true)
            .override_global("tracing_code", &tracing_code.concat()[..], true)
            .override_global("modules_start", &MODULES_START, true)
            .map_max_entries("blocks", rings * blocks_per_cpu as u32)
            .map_max_entries("cpus", rings)
            .map_max_entries("dictionary", rings * KNOWN_STACKS_PER_CPU)
            .map_max_entries("mappings", unwind::MAPPINGS)
            .map_max_entries("rows", unwind::ROWS)
            .load(PROGRAMS)
            .map_err(failed("load the recorder's programs"))?;
        for (name, tracepoint) in TRACEPOINTS {
            let program: &mut BtfTracePoint = program(&mut programs, name)?;
            match program.load(tracepoint, &btf) {
                Err(_) if OPTIONAL.contains(&name) => {}
                loaded => loaded.map_err(failed("load a program"))?,
            }
        }
        let sampler: &mut PerfEvent = program(&mut programs, "on_sample")?;
        sampler.load().map_err(failed("load a program"))?;
        let blocks = map(&programs, "blocks", rings as usize * blocks_per_cpu * BLOCK_BYTES)?;
        let rings = map(&programs, "cpus", rings as usize * CPU_RING_BYTES)?;
        let lister: &mut Iter = program(&mut programs, "on_each_thread")?;
        lister.load("task", &btf).map_err(failed("load a program"))?;
        let shared = Arc::new(Shared {
            mappings: map(&programs, "mappings", unwind::MAPPINGS as usize * MAPPING_BYTES)?,
            rows: map(&programs, "rows", unwind::ROWS as usize * 8)?,
            tasks: map(&programs, "tasks", TASK_SLOTS * TASK_SLOT_BYTES)?,
        });
        let cpus = cpus.to_vec();
        let started = Time::ZERO;
        let programs = Mutex::new(programs);
        Ok(Self { unwinding: None, programs, shared, blocks, rings, cpus, blocks_per_cpu, started })
    }

    /// Begins to record. `reader` reads the unwind tables of the programs that run.
    pub(crate) fn attach(
        &mut self,
        options: &Options,
        reader: Box<dyn RuleReader>,
    ) -> Result<(), Error> {
        if options.user_stacks {
            let maps = maps(&mut self.programs())?;
            self.unwinding = Some(Unwinding::start(maps, reader)?);
        }
        for (name, _) in TRACEPOINTS {
            let mut programs = self.programs();
            let program: &mut BtfTracePoint = program(&mut programs, name)?;
            match program.attach() {
                Err(ProgramError::NotLoaded) if OPTIONAL.contains(&name) => {}
                attached => _ = attached.map_err(failed("attach a program"))?,
            }
        }
        if options.sample_hz > 0 {
            let mut programs = self.programs();
            let sampler: &mut PerfEvent = program(&mut programs, "on_sample")?;
            for &cpu in &self.cpus {
                let clock = PerfEventConfig::Software(SoftwareEvent::CpuClock);
                let scope = PerfEventScope::AllProcessesOneCpu { cpu: u32::from(cpu) };
                let rate = SamplePolicy::Frequency(u64::from(options.sample_hz));
                sampler.attach(clock, scope, rate, false).map_err(failed("sample a CPU"))?;
            }
        }
        self.started = sys::monotonic_now();
        Ok(())
    }

    fn programs(&self) -> MutexGuard<'_, Ebpf> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The threads that are asleep, with their kernel stacks.
    fn sleepers(&self) -> Result<Vec<Sleeper>, Error> {
        let mut programs = self.programs();
        let lister: &mut Iter = program(&mut programs, "on_each_thread")?;
        let link = lister.attach().map_err(failed("list the threads"))?;
        let link = lister.take_link(link).map_err(failed("list the threads"))?;
        let list = link.into_file().map_err(failed("list the threads"))?;
        sleepers::read(list).map_err(failed("list the threads"))
    }

    /// What the user stacks of sleepers are unwound with.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The mappings of processes, by pid: the first of [`Shared`]'s, and their number.
    pub(crate) fn mappings(&self) -> FxHashMap<u32, [u32; 2]> {
        let programs = self.programs();
        let known = programs
            .map("processes")
            .and_then(|map| HashMap::<&MapData, u32, [u32; 2]>::try_from(map).ok());
        known.map(|known| known.iter().flatten().collect()).unwrap_or_default()
    }

    /// The state of every ring.
    pub(crate) fn states(&self) -> Vec<RingState> {
        let state = |&cpu: &u16| {
            let end = self.counter(cpu, WRITTEN_AT);
            let count = (end / BLOCK_BYTES as u64 + 1).min(self.blocks_per_cpu as u64);
            let is_whole = count * BLOCK_BYTES as u64 > end;
            // The oldest block is about to be overwritten.
            let oldest = end / BLOCK_BYTES as u64 + 2 - count;
            let mut header = [0; 24];
            self.blocks.copy(self.offset(cpu, oldest), &mut header);
            let begun = ring::started_ns(&header).map_or(self.started, Time::from_nanos);
            RingState {
                cpu,
                held_from: if is_whole { self.started } else { begun },
                used_bytes: (count as usize * BLOCK_BYTES).min(end as usize),
            }
        };
        self.cpus.iter().map(state).collect()
    }

    /// How often each kind of event has occurred, by name.
    pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
        COUNTERS
            .iter()
            .map(|&(name, at)| (name, self.cpus.iter().map(|&cpu| self.counter(cpu, at)).sum()))
            .collect()
    }

    /// What the user must know of the recording so far.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let sum = |at| self.cpus.iter().map(|&cpu| self.counter(cpu, at)).sum::<u64>();
        let lost = sum(NOT_RESERVED_AT);
        let unwinding = self.unwinding.as_ref().map(Unwinding::status).unwrap_or_default();
        let lost = (lost > 0).then(|| {
            format!("{} were lost because programs interrupted each other", plural(lost, "record"))
        });
        let crowded = (unwinding.too_many > 0).then(|| {
            format!(
                "there was no room for the unwind tables of {}: stacks are cut there",
                plural(unwinding.too_many as u64, "file")
            )
        });
        lost.into_iter().chain(crowded).collect()
    }

    /// Memory of the maps, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let per_cpu = self.ring_bytes() + KNOWN_STACKS_PER_CPU as usize * 16;
        let tables = unwind::MAPPINGS as usize * MAPPING_BYTES + unwind::ROWS as usize * 8;
        self.cpus.len() * per_cpu + tables + TASK_SLOTS * TASK_SLOT_BYTES
    }

    /// Copies what the rings hold.
    pub(crate) fn copy(&self) -> RingsCopy {
        let taken = sys::monotonic_now();
        let ends: Vec<u64> = self.cpus.iter().map(|&cpu| self.counter(cpu, WRITTEN_AT)).collect();
        let mut parts = Vec::with_capacity(self.cpus.len());
        for (&cpu, &end) in self.cpus.iter().zip(&ends) {
            parts.push(self.blocks_before(cpu, end));
        }
        // Without them, waits that have not ended yet have no stacks.
        let sleepers = self.sleepers().unwrap_or_default();
        let mut copy =
            RingsCopy { spans: Vec::new(), from_start: true, rings: Vec::new(), sleepers };
        for ((&cpu, &end), mut blocks) in self.cpus.iter().zip(&ends).zip(parts) {
            // The block that is being written, and the one after it, may have been overwritten.
            let last = end / BLOCK_BYTES as u64;
            let now = self.counter(cpu, WRITTEN_AT) / BLOCK_BYTES as u64;
            let held = (self.blocks_per_cpu as u64).saturating_sub(now - last + 2).max(1);
            let len = (held as usize * BLOCK_BYTES).min(blocks.len());
            blocks.drain(..blocks.len() - len);
            let is_whole = (last + 1) * BLOCK_BYTES as u64 == len as u64;
            copy.from_start &= is_whole;
            let oldest = ring::started_ns(&blocks).map_or(taken, Time::from_nanos);
            let start = if is_whole { self.started } else { oldest };
            copy.spans.push(CpuSpan { cpu, window: Window::new(start.min(taken), taken) });
            copy.rings.push((cpu, end, blocks));
        }
        copy
    }

    /// Bytes of each CPU's ring.
    pub(crate) fn ring_bytes(&self) -> usize {
        self.blocks_per_cpu * BLOCK_BYTES
    }

    /// A number of the CPU's `struct cpu_ring`.
    fn counter(&self, cpu: u16, at: usize) -> u64 {
        self.rings.load(usize::from(cpu) * CPU_RING_BYTES + at)
    }

    /// Where a block of the CPU's ring is.
    fn offset(&self, cpu: u16, number: u64) -> usize {
        let slot = number as usize & (self.blocks_per_cpu - 1);
        (usize::from(cpu) * self.blocks_per_cpu + slot) * BLOCK_BYTES
    }

    /// The blocks up to the one that the position `end` is in, oldest first.
    fn blocks_before(&self, cpu: u16, end: u64) -> Vec<u8> {
        let last = end / BLOCK_BYTES as u64;
        let count = (last + 1).min(self.blocks_per_cpu as u64);
        let mut copy = vec![0; count as usize * BLOCK_BYTES];
        for (number, block) in (last + 1 - count..).zip(copy.chunks_exact_mut(BLOCK_BYTES)) {
            self.blocks.copy(self.offset(cpu, number), block);
        }
        copy
    }
}

fn map(programs: &Ebpf, name: &str, len: usize) -> Result<SharedArray, Error> {
    let fd = match programs.map(name) {
        Some(Map::Array(map)) => map.fd().as_fd(),
        _ => return Err(missing(name)),
    };
    SharedArray::new(fd, len)
        .map_err(|source| Error::System { action: "map the recorder's rings", source })
}

/// The maps by which user stacks are unwound.
fn maps(programs: &mut Ebpf) -> Result<Maps, Error> {
    let action = "use a map of the recorder";
    let mappings = map(programs, "mappings", unwind::MAPPINGS as usize * MAPPING_BYTES)?;
    let rows = map(programs, "rows", unwind::ROWS as usize * 8)?;
    // This side of it stays here, for saves.
    let processes = match programs.map("processes") {
        Some(Map::HashMap(map)) => map.fd().as_fd().try_clone_to_owned().map_err(failed(action))?,
        _ => return Err(missing("processes")),
    };
    let processes = Map::HashMap(MapData::from_fd(processes).map_err(failed(action))?);
    let hints = programs.take_map("hints").ok_or_else(|| missing("hints"))?;
    Ok(Maps {
        processes: processes.try_into().map_err(failed(action))?,
        mappings,
        rows,
        hints: hints.try_into().map_err(failed(action))?,
    })
}

fn program<'a, P>(programs: &'a mut Ebpf, name: &str) -> Result<&'a mut P, Error>
where
    &'a mut P: TryFrom<&'a mut aya::programs::Program>,
{
    programs
        .program_mut(name)
        .and_then(|program| program.try_into().ok())
        .ok_or_else(|| missing(name))
}

fn missing(name: &str) -> Error {
    failed("find a part of the recorder")(name)
}

fn failed<E: Display>(action: &'static str) -> impl Fn(E) -> Error {
    move |error| Error::System { action, source: io::Error::other(error.to_string()) }
}
