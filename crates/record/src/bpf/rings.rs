//! The rings of all CPUs in the kernel's memory (`bpf/ring.h`), and the numbers beside them.

use super::parts::map;
use crate::error::Error;
use crate::sys::SharedArray;
use aya::Ebpf;
use unhitch_formats::ring::{self, BLOCK_BYTES};
use unhitch_model::Time;

/// `struct cpu_ring`: its length, and the offsets of some numbers.
const CPU_RING_BYTES: usize = 192;
const WRITTEN_AT: usize = 8;
pub(super) const WAKINGS_AT: usize = 56;
pub(super) const SWITCHES_AT: usize = 64;
pub(super) const CACHED_AT: usize = 112;
pub(super) const DIFFERED_AT: usize = 120;
pub(super) const NOT_RESERVED_AT: usize = 128;

pub(super) struct Rings {
    blocks: SharedArray,
    numbers: SharedArray,
    /// The recorded CPUs.
    pub(super) cpus: Vec<u16>,
    pub(super) blocks_per_cpu: usize,
}

impl Rings {
    /// The rings of programs that have some for so many CPUs.
    pub(super) fn new(
        programs: &Ebpf,
        rings: usize,
        blocks_per_cpu: usize,
        cpus: &[u16],
    ) -> Result<Self, Error> {
        Ok(Self {
            blocks: map(programs, "blocks", rings * blocks_per_cpu * BLOCK_BYTES)?,
            numbers: map(programs, "cpus", rings * CPU_RING_BYTES)?,
            cpus: cpus.to_vec(),
            blocks_per_cpu,
        })
    }

    /// Bytes of each CPU's ring.
    pub(super) fn bytes(&self) -> usize {
        self.blocks_per_cpu * BLOCK_BYTES
    }

    /// A number of the CPU's `struct cpu_ring`.
    fn number(&self, cpu: u16, at: usize) -> u64 {
        self.numbers.load(usize::from(cpu) * CPU_RING_BYTES + at)
    }

    /// A number of `struct cpu_ring`, of all CPUs.
    pub(super) fn sum(&self, at: usize) -> u64 {
        self.cpus.iter().map(|&cpu| self.number(cpu, at)).sum()
    }

    /// How far the CPU's ring is complete, in bytes since recording began.
    pub(super) fn written(&self, cpu: u16) -> u64 {
        self.number(cpu, WRITTEN_AT)
    }

    /// Where a block of the CPU's ring is.
    fn offset(&self, cpu: u16, number: u64) -> usize {
        let slot = number as usize & (self.blocks_per_cpu - 1);
        (usize::from(cpu) * self.blocks_per_cpu + slot) * BLOCK_BYTES
    }

    /// When a block of the CPU's ring was begun.
    pub(super) fn begun(&self, cpu: u16, number: u64) -> Option<Time> {
        let mut header = [0; 24];
        self.blocks.copy(self.offset(cpu, number), &mut header);
        ring::started_ns(&header).map(Time::from_nanos)
    }

    /// The blocks up to the one that the position `end` is in, oldest first.
    pub(super) fn blocks_before(&self, cpu: u16, end: u64) -> Vec<u8> {
        let last = end / BLOCK_BYTES as u64;
        let count = (last + 1).min(self.blocks_per_cpu as u64);
        let mut copy = vec![0; count as usize * BLOCK_BYTES];
        for (number, block) in (last + 1 - count..).zip(copy.chunks_exact_mut(BLOCK_BYTES)) {
            self.blocks.copy(self.offset(cpu, number), block);
        }
        copy
    }

    /// Copies what the CPU's ring holds between two positions to the end of `out`. Returns where the
    /// copy really begins: what was overwritten before it could be copied is missing.
    pub(super) fn copy_between(&self, cpu: u16, from: u64, to: u64, out: &mut Vec<u8>) -> u64 {
        let block = BLOCK_BYTES as u64;
        // The block that is being written, and the one after it, may have been overwritten.
        let intact = || {
            let now = self.written(cpu) / block;
            ((now + 3).saturating_sub(self.blocks_per_cpu as u64) * block).min(to)
        };
        let from = from.max(intact());
        let (begin, mut at) = (out.len(), from);
        while at < to {
            let (number, offset) = (at / block, (at % block) as usize);
            let len = (to - at).min(block - offset as u64) as usize;
            let copied = out.len();
            out.resize(copied + len, 0);
            self.blocks.copy(self.offset(cpu, number) + offset, &mut out[copied..]);
            at += len as u64;
        }
        let start = from.max(intact());
        out.drain(begin..begin + (start - from) as usize);
        start
    }
}
