//! The recorder's part that runs in the kernel (BPF): loads it, and copies its rings.
//!
//! `bpf/recorder.bpf.c` writes one ring per CPU; `bpf/ring.h` has their layout. The rings are maps
//! that this process has mapped, so that a copy needs no system call.
//!
//! *Why a copy needs no pause*: as for the rings of perf events (see [`ring`](crate::ring)), what
//! the kernel overwrites meanwhile is the oldest part, which is known after the copy and left out.

use crate::error::Error;
use crate::options::Options;
use crate::sys::{self, SharedArray};
use aya::maps::Map;
use aya::programs::perf_event::{PerfEventConfig, PerfEventScope, SamplePolicy, SoftwareEvent};
use aya::programs::{BtfTracePoint, PerfEvent};
use aya::{Btf, Ebpf, EbpfLoader};
use std::fmt::Display;
use std::io;
use std::os::fd::AsFd;
use unhitch_formats::ring::{self, BLOCK_BYTES, RingPart};
use unhitch_model::{CpuSpan, Time, Window};

/// The compiled programs.
static PROGRAMS: &[u8] = aya::include_bytes_aligned!("../bpf/recorder.bpf.o");
/// The programs and the tracepoints that they are attached to.
const TRACEPOINTS: [(&str, &str); 4] = [
    ("on_switch", "sched_switch"),
    ("on_exit_of_schedule", "sched_exit_tp"),
    ("on_waking", "sched_waking"),
    ("on_first_wake_up", "sched_wakeup_new"),
];
/// `struct cpu_ring` of `ring.h`: its length, and the offset of `written`.
const CPU_RING_BYTES: usize = 120;
const WRITTEN_AT: usize = 8;
/// Entries of the table of known stacks for each CPU, as in `ring.h`.
const KNOWN_STACKS_PER_CPU: u32 = 4096;
/// Minimum number of blocks of a ring.
const MIN_BLOCKS: usize = 8;

/// The running programs and their rings. Dropping it ends the recording.
pub(crate) struct Engine {
    /// Keeps the programs attached.
    _programs: Ebpf,
    blocks: SharedArray,
    rings: SharedArray,
    cpus: Vec<u16>,
    blocks_per_cpu: usize,
    started: Time,
}

/// Copies of all rings.
pub(crate) struct RingsCopy {
    pub(crate) spans: Vec<CpuSpan>,
    /// True if nothing has been overwritten since recording started.
    pub(crate) from_start: bool,
    /// The content of `rings.bin`.
    pub(crate) bytes: Vec<u8>,
}

impl Engine {
    /// Loads the programs and attaches them.
    pub(crate) fn start(options: &Options, cpus: &[u16]) -> Result<Self, Error> {
        let highest = cpus.iter().copied().max().unwrap_or(0);
        let rings = u32::from(highest) + 1;
        let blocks_per_cpu = (options.ring_bytes_per_cpu / BLOCK_BYTES)
            .clamp(MIN_BLOCKS, 1 << 15)
            .next_power_of_two();
        let btf = Btf::from_sys_fs().map_err(failed("read the kernel's BTF"))?;
        let mut programs = EbpfLoader::new()
            .btf(Some(&btf))
            .override_global("blocks_per_cpu", &(blocks_per_cpu as u32), true)
            .override_global("with_user_stacks", &u32::from(options.user_stacks), true)
            .map_max_entries("blocks", rings * blocks_per_cpu as u32)
            .map_max_entries("cpus", rings)
            .map_max_entries("dictionary", rings * KNOWN_STACKS_PER_CPU)
            .load(PROGRAMS)
            .map_err(failed("load the recorder's programs"))?;
        let blocks = map(&programs, "blocks", rings as usize * blocks_per_cpu * BLOCK_BYTES)?;
        let rings = map(&programs, "cpus", rings as usize * CPU_RING_BYTES)?;
        for (name, tracepoint) in TRACEPOINTS {
            let program: &mut BtfTracePoint = program(&mut programs, name)?;
            program.load(tracepoint, &btf).map_err(failed("load a program"))?;
            program.attach().map_err(failed("attach a program"))?;
        }
        if options.sample_hz > 0 {
            let sampler: &mut PerfEvent = program(&mut programs, "on_sample")?;
            sampler.load().map_err(failed("load a program"))?;
            for &cpu in cpus {
                let clock = PerfEventConfig::Software(SoftwareEvent::CpuClock);
                let scope = PerfEventScope::AllProcessesOneCpu { cpu: u32::from(cpu) };
                let rate = SamplePolicy::Frequency(u64::from(options.sample_hz));
                sampler.attach(clock, scope, rate, false).map_err(failed("sample a CPU"))?;
            }
        }
        let started = sys::monotonic_now();
        let cpus = cpus.to_vec();
        Ok(Self { _programs: programs, blocks, rings, cpus, blocks_per_cpu, started })
    }

    /// Copies what the rings hold.
    pub(crate) fn copy(&self) -> io::Result<RingsCopy> {
        let taken = sys::monotonic_now();
        let ends: Vec<u64> = self.cpus.iter().map(|&cpu| self.written(cpu)).collect();
        let mut parts = Vec::with_capacity(self.cpus.len());
        for (&cpu, &end) in self.cpus.iter().zip(&ends) {
            parts.push(self.blocks_before(cpu, end));
        }
        let mut copy = RingsCopy { spans: Vec::new(), from_start: true, bytes: Vec::new() };
        let mut rings = Vec::with_capacity(parts.len());
        for ((&cpu, &end), blocks) in self.cpus.iter().zip(&ends).zip(&mut parts) {
            // The block that is being written, and the one after it, may have been overwritten.
            let last = end / BLOCK_BYTES as u64;
            let now = self.written(cpu) / BLOCK_BYTES as u64;
            let held = (self.blocks_per_cpu as u64).saturating_sub(now - last + 2).max(1);
            let len = (held as usize * BLOCK_BYTES).min(blocks.len());
            blocks.drain(..blocks.len() - len);
            let is_whole = (last + 1) * BLOCK_BYTES as u64 == len as u64;
            copy.from_start &= is_whole;
            let oldest = ring::started_ns(blocks).map_or(taken, Time::from_nanos);
            let start = if is_whole { self.started } else { oldest };
            copy.spans.push(CpuSpan { cpu, window: Window::new(start.min(taken), taken) });
            rings.push(RingPart { cpu, end, blocks });
        }
        ring::write(&mut copy.bytes, &rings)?;
        Ok(copy)
    }

    /// Bytes of each CPU's ring.
    pub(crate) fn ring_bytes(&self) -> usize {
        self.blocks_per_cpu * BLOCK_BYTES
    }

    /// Bytes that were written to the CPU's ring since recording started.
    fn written(&self, cpu: u16) -> u64 {
        self.rings.load(usize::from(cpu) * CPU_RING_BYTES + WRITTEN_AT)
    }

    /// The blocks up to the one that the position `end` is in, oldest first.
    fn blocks_before(&self, cpu: u16, end: u64) -> Vec<u8> {
        let last = end / BLOCK_BYTES as u64;
        let count = (last + 1).min(self.blocks_per_cpu as u64);
        let mut copy = vec![0; count as usize * BLOCK_BYTES];
        for (number, block) in (last + 1 - count..).zip(copy.chunks_exact_mut(BLOCK_BYTES)) {
            let slot = number as usize & (self.blocks_per_cpu - 1);
            let index = usize::from(cpu) * self.blocks_per_cpu + slot;
            self.blocks.copy(index * BLOCK_BYTES, block);
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
