//! Decodes the rings to rows.
//!
//! A record belongs to the thread that is on the CPU, which the block's header names and every
//! switch changes. A wait's stack was written when its thread came back, perhaps on another CPU: it
//! goes to the switch at which the thread had left.

use super::layout::{self, BLOCK_BYTES, BLOCK_HEADER_BYTES, RingPart, kind, u32_at, u64_at};
use super::stacks::{Chain, Stacks};
use crate::perf_data::rows::{Row, Rows, Sample, Switch, Waking};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use unhitch_model::{TaskState, WakeFlags, Warnings, units};

/// The priority of a thread of which none was recorded: that of niceness 0.
const USUAL_PRIO: i16 = 120;

/// What the rings hold.
#[derive(Default)]
pub(crate) struct Decoded {
    /// Sorted by time within each CPU. Stacks are numbers of `chains`, from 1.
    pub(crate) rows: Rows,
    pub(crate) chains: Vec<Chain>,
    /// First and last time by CPU; an empty window where the CPU has none.
    pub(crate) covered: Vec<(u64, u64)>,
    /// Number of records by kind.
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// Threads that died: when, and which.
    pub(crate) exits: Vec<(u64, u32)>,
    /// Threads that were woken for the first time: when, and which.
    pub(crate) births: Vec<(u64, u32)>,
}

/// Decodes `rings.bin`. Damage goes to `warnings`.
pub(crate) fn decode(bytes: &[u8], warnings: &mut Warnings) -> Decoded {
    let rings = match layout::read(bytes) {
        Ok(rings) => rings,
        Err(why) => {
            warnings.add(format!("the rings in the container cannot be read ({why})"));
            return Decoded::default();
        }
    };
    let mut decoder = Decoder::default();
    for ring in &rings {
        decoder.ring(ring);
    }
    decoder.finish(warnings)
}

#[derive(Default)]
struct Decoder<'a> {
    out: Decoded,
    stacks: Stacks<'a>,
    /// Wait stacks, by thread and the time at which it left.
    waits: FxHashMap<(u32, u64), u32>,
    /// Time, thread, its priority from then on.
    priorities: Vec<(u64, u32, i16)>,
    damaged_blocks: u64,
    repairs: u64,
}

/// Where a ring's decoder is.
struct Place {
    cpu: u16,
    current: u32,
    base_ns: u64,
    /// The last wake-up of this CPU, in the rows.
    waking: Option<usize>,
}

impl<'a> Decoder<'a> {
    fn ring(&mut self, ring: &RingPart<'a>) {
        self.stacks.begin_ring();
        let last = ring.end / BLOCK_BYTES as u64;
        let blocks = ring.blocks.chunks_exact(BLOCK_BYTES);
        let first = (last + 1).saturating_sub(blocks.len() as u64);
        let mut place = Place { cpu: ring.cpu, current: 0, base_ns: 0, waking: None };
        for (index, block) in (first..).zip(blocks) {
            // The first block has number 1.
            if u64_at(block, 0) != index + 1 || u32_at(block, 20) != u32::from(ring.cpu) {
                self.damaged_blocks += 1;
                continue;
            }
            place.base_ns = u64_at(block, 8);
            place.current = u32_at(block, 16);
            place.waking = None;
            let used = match index == last {
                true => (ring.end % BLOCK_BYTES as u64) as usize,
                false => BLOCK_BYTES,
            };
            self.cover(ring.cpu, place.base_ns);
            self.block(&mut place, block.get(..used).unwrap_or_default(), index);
        }
    }

    fn block(&mut self, place: &mut Place, block: &'a [u8], index: u64) {
        let mut offset = BLOCK_HEADER_BYTES;
        while let Some(record) = block.get(offset..).filter(|record| record.len() >= 8) {
            let word = u64_at(record, 0);
            let time = place.base_ns.saturating_add(word & 0xffff_ffff);
            let (of_type, payload) = (word >> 32 & 7, word >> 35);
            let words = if of_type == kind::LONG { payload >> 5 & 0x3ff } else { 1 };
            let Some(record) = record.get(..words as usize * 8).filter(|_| words > 0) else {
                self.damaged_blocks += 1;
                return;
            };
            match of_type {
                kind::SWITCH => self.switch(place, time, payload),
                kind::WAKING => self.waking(place, time, payload),
                kind::LONG => {
                    let position = index * (BLOCK_BYTES as u64 / 8) + offset as u64 / 8;
                    self.long(place, time, payload & 31, position as u32, record);
                }
                0 => return,
                _ => {
                    self.damaged_blocks += 1;
                    return;
                }
            }
            self.cover(place.cpu, time);
            offset += record.len();
        }
    }

    fn switch(&mut self, place: &mut Place, time: u64, payload: u64) {
        *self.out.counts.entry("switch").or_default() += 1;
        let (next, state) = (payload as u32 & 0x3f_ffff, state(payload >> 22 & 15));
        let of = Switch {
            prev: place.current,
            next,
            prev_prio: USUAL_PRIO,
            next_prio: USUAL_PRIO,
            prev_state: state,
        };
        if state == TaskState::Dead {
            self.out.exits.push((time, place.current));
        }
        self.out.rows.switches.push(Row { time, stack: 0, cpu: place.cpu, of });
        place.current = next;
    }

    fn waking(&mut self, place: &mut Place, time: u64, payload: u64) {
        *self.out.counts.entry("wake-up").or_default() += 1;
        let wakee = payload as u32 & 0x3f_ffff;
        let flags = match payload >> 22 & 3 {
            0 => WakeFlags::default(),
            1 => WakeFlags::default().with(WakeFlags::SOFTIRQ),
            2 => WakeFlags::default().with(WakeFlags::HARDIRQ),
            _ => {
                self.out.births.push((time, wakee));
                WakeFlags::default().with(WakeFlags::NEW)
            }
        };
        let of = Waking { waker: place.current, wakee, target_cpu: place.cpu, flags };
        place.waking = Some(self.out.rows.wakings.len());
        self.out.rows.wakings.push(Row { time, stack: 0, cpu: place.cpu, of });
    }

    fn long(
        &mut self,
        place: &mut Place,
        time: u64,
        of_kind: u64,
        position: u32,
        record: &'a [u8],
    ) {
        match of_kind {
            kind::STACK => {
                *self.out.counts.entry("stack").or_default() += 1;
                let len = (u32_at(record, 12) as usize).saturating_mul(8);
                let addresses = record.get(16..).unwrap_or_default();
                let addresses = addresses.get(..len).unwrap_or(addresses);
                self.stacks.define(position, u32_at(record, 8), addresses);
            }
            kind::WAIT => {
                *self.out.counts.entry("wait stack").or_default() += 1;
                let chain = self.stacks.chain(u32_at(record, 16), u32_at(record, 20));
                self.waits.insert((place.current, u64_at(record, 8)), chain);
            }
            kind::WAKER => {
                *self.out.counts.entry("wake-up stack").or_default() += 1;
                let chain = self.stacks.chain(u32_at(record, 8), u32_at(record, 12));
                let row = place.waking.and_then(|waking| self.out.rows.wakings.get_mut(waking));
                if let Some(row) = row {
                    row.stack = chain;
                }
            }
            kind::SAMPLE => {
                *self.out.counts.entry("sample").or_default() += 1;
                let stack = self.stacks.chain(u32_at(record, 8), u32_at(record, 12));
                let of = Sample { tid: place.current };
                self.out.rows.samples.push(Row { time, stack, cpu: place.cpu, of });
            }
            kind::REPAIR => {
                self.repairs += 1;
                place.current = u32_at(record, 8);
            }
            kind::PRIORITY => {
                let prio = i16::try_from(u32_at(record, 12) as i32).unwrap_or(USUAL_PRIO);
                self.priorities.push((time, u32_at(record, 8), prio));
            }
            // Of a later version.
            _ => {}
        }
    }

    fn cover(&mut self, cpu: u16, time: u64) {
        let cpu = usize::from(cpu);
        if self.out.covered.len() <= cpu {
            self.out.covered.resize(cpu + 1, (u64::MAX, 0));
        }
        let (first, last) = &mut self.out.covered[cpu];
        *first = time.min(*first);
        *last = time.max(*last);
    }

    fn finish(mut self, warnings: &mut Warnings) -> Decoded {
        for row in &mut self.out.rows.switches {
            row.stack = self.waits.get(&(row.of.prev, row.time)).copied().unwrap_or(0);
        }
        self.set_priorities();
        self.out.chains = self.stacks.chains;
        if self.damaged_blocks > 0 {
            warnings.add(format!(
                "the rings have {}: what follows the damage is left out",
                units::plural(self.damaged_blocks, "damaged block")
            ));
        }
        if self.stacks.missing > 0 {
            warnings.add(format!(
                "{} are missing: the ring had overwritten them",
                units::plural(self.stacks.missing, "stack")
            ));
        }
        if self.repairs > 0 {
            warnings.add(format!(
                "the kernel did not report {}: who was on the CPU afterwards is known, when it \
                 came is not",
                units::plural(self.repairs, "context switch")
            ));
        }
        self.out
    }

    fn set_priorities(&mut self) {
        self.priorities.sort_unstable();
        let mut of_thread: FxHashMap<u32, Vec<(u64, i16)>> = FxHashMap::default();
        for (time, tid, prio) in self.priorities.drain(..) {
            of_thread.entry(tid).or_default().push((time, prio));
        }
        let at = |tid: u32, time: u64| {
            let known = of_thread.get(&tid)?;
            let next = known.partition_point(|(from, _)| *from <= time);
            known.get(next.saturating_sub(1)).map(|(_, prio)| *prio)
        };
        for row in &mut self.out.rows.switches {
            row.of.prev_prio = at(row.of.prev, row.time).unwrap_or(USUAL_PRIO);
            row.of.next_prio = at(row.of.next, row.time).unwrap_or(USUAL_PRIO);
        }
    }
}

/// `enum state` of `ring.h`.
fn state(number: u64) -> TaskState {
    match number {
        0 => TaskState::Runnable,
        1 => TaskState::Preempted,
        3 => TaskState::DiskSleep,
        4 => TaskState::Idle,
        5 => TaskState::Stopped,
        6 => TaskState::Traced,
        7 => TaskState::Parked,
        8 => TaskState::Dead,
        _ => TaskState::Sleeping,
    }
}
