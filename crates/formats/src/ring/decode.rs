//! Decodes the rings to rows.
//!
//! A record belongs to the thread that is on the CPU, which the block's header names and every
//! switch changes. A wait's stack was written when its thread came back, perhaps on another CPU: it
//! goes to the switch at which the thread had left.

use super::layout::{
    self, BLOCK_BYTES, BLOCK_HEADER_BYTES, Records, RingPart, kind, u32_at, u64_at,
};
use super::stacks::{Chain, Definition, Stacks};
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
    /// Wait stacks, by thread: when it left, and the chain.
    waits: FxHashMap<u32, Vec<(u64, u32)>>,
    /// Stacks that woke a thread, by thread: when, the chain, and if that was in a soft interrupt
    /// that the waker caused.
    wakers: FxHashMap<u32, Vec<(u64, u32, bool)>>,
    /// Switches and wake-ups at the place of the last stack, in the rows.
    same_place: (Vec<usize>, Vec<usize>),
    /// Waits and wake-ups whose stacks were over the budget.
    over_budget: u64,
    /// Time, thread, its priority from then on.
    priorities: Vec<(u64, u32, i16)>,
    damaged_blocks: u64,
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
        let mut place = Place { cpu: ring.cpu, current: 0, base_ns: 0, waking: None };
        for (index, block) in ring.numbered() {
            if block.len() < BLOCK_HEADER_BYTES {
                self.damaged_blocks += 1;
                continue;
            }
            place.base_ns = u64_at(block, 8);
            place.current = u32_at(block, 16);
            place.waking = None;
            self.cover(ring.cpu, place.base_ns);
            self.block(&mut place, block, index);
        }
    }

    fn block(&mut self, place: &mut Place, block: &'a [u8], index: u64) {
        let mut records = Records::new(block);
        for record in &mut records {
            let time = place.base_ns.saturating_add(record.delta_ns());
            match record.of_type() {
                kind::SWITCH => self.switch(place, time, record.payload()),
                kind::WAKING => self.waking(place, time, record.payload()),
                _ => {
                    let words = BLOCK_BYTES as u64 / 8;
                    let position = index * words + record.offset as u64 / 8;
                    self.long(place, time, record.payload(), position as u32, record.bytes);
                }
            }
            self.cover(place.cpu, time);
        }
        self.damaged_blocks += u64::from(records.damaged);
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
        if payload & layout::SWITCH_SAME_PLACE != 0 {
            self.same_place.0.push(self.out.rows.switches.len());
        }
        self.out.rows.switches.push(Row { time, stack: 0, cpu: place.cpu, of });
        place.current = next;
    }

    fn waking(&mut self, place: &mut Place, time: u64, payload: u64) {
        *self.out.counts.entry("wake-up").or_default() += 1;
        let wakee = payload as u32 & 0x3f_ffff;
        let flags = match payload >> 22 & 3 {
            0 => WakeFlags::default(),
            1 => WakeFlags::default().with(WakeFlags::HARDIRQ),
            _ => {
                self.out.births.push((time, wakee));
                WakeFlags::default().with(WakeFlags::NEW)
            }
        };
        let of = Waking { waker: place.current, wakee, target_cpu: place.cpu, flags };
        if payload & layout::WAKING_SAME_PLACE != 0 {
            self.same_place.1.push(self.out.rows.wakings.len());
        }
        place.waking = Some(self.out.rows.wakings.len());
        self.out.rows.wakings.push(Row { time, stack: 0, cpu: place.cpu, of });
    }

    fn long(
        &mut self,
        place: &mut Place,
        time: u64,
        payload: u64,
        position: u32,
        record: &'a [u8],
    ) {
        let flags = payload >> 15;
        match payload & 31 {
            kind::STACK => {
                *self.out.counts.entry("stack").or_default() += 1;
                let len = (u32_at(record, 12) as usize).saturating_mul(8);
                let addresses = record.get(16..).unwrap_or_default();
                let addresses = addresses.get(..len).unwrap_or(addresses);
                let definition = Definition { pid: u32_at(record, 8), flags, addresses };
                *self.out.counts.entry(definition.end()).or_default() += 1;
                self.stacks.define(position, definition);
            }
            kind::WAIT => {
                self.over_budget += flags & layout::STACKS_OVER_BUDGET;
                let chain = self.stacks.chain(u32_at(record, 16), u32_at(record, 20));
                if chain != 0 {
                    *self.out.counts.entry("wait stack").or_default() += 1;
                    let left = u64_at(record, 8);
                    self.waits.entry(place.current).or_default().push((left, chain));
                }
            }
            kind::WAKER => {
                self.over_budget += flags & layout::STACKS_OVER_BUDGET;
                let chain = self.stacks.chain(u32_at(record, 8), u32_at(record, 12));
                let row = place.waking.and_then(|waking| self.out.rows.wakings.get_mut(waking));
                if let Some(row) = row.filter(|_| chain != 0) {
                    *self.out.counts.entry("wake-up stack").or_default() += 1;
                    row.stack = chain;
                    let by_thread = flags & layout::BY_THREAD != 0;
                    if by_thread {
                        row.of.flags = WakeFlags::default().with(WakeFlags::SOFTIRQ);
                    }
                    self.wakers.entry(row.of.wakee).or_default().push((row.time, chain, by_thread));
                }
            }
            kind::SAMPLE => {
                *self.out.counts.entry("sample").or_default() += 1;
                let stack = self.stacks.chain(u32_at(record, 8), u32_at(record, 12));
                let of = Sample { tid: place.current };
                self.out.rows.samples.push(Row { time, stack, cpu: place.cpu, of });
            }
            kind::REPAIR => {
                *self.out.counts.entry("switch that was not reported").or_default() += 1;
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
        self.set_stacks();
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
        self.out
    }

    /// Gives each wait its stack, and those without one the last stack of their thread where the
    /// recorder saw that they were at the same place. A stack from before the time that all rings
    /// hold is not taken: a later one may have been overwritten.
    fn set_stacks(&mut self) {
        self.waits.values_mut().for_each(|list| list.sort_unstable());
        self.wakers.values_mut().for_each(|list| list.sort_unstable());
        let held = self.out.covered.iter().filter(|(first, last)| first <= last);
        let held_by_all = held.map(|(first, _)| *first).max().unwrap_or(0);
        for row in &mut self.out.rows.switches {
            let kept = self.waits.get(&row.of.prev);
            let kept = kept.and_then(|list| last_until(list, row.time, |kept| kept.0));
            row.stack = kept.filter(|kept| kept.0 == row.time).map_or(0, |kept| kept.1);
        }
        let mut taken_over = 0;
        for &index in &self.same_place.0 {
            let row = &mut self.out.rows.switches[index];
            let kept = self.waits.get(&row.of.prev);
            let kept = kept.and_then(|list| last_until(list, row.time, |kept| kept.0));
            if let Some(kept) = kept.filter(|kept| row.stack == 0 && kept.0 >= held_by_all) {
                row.stack = kept.1;
                taken_over += 1;
            }
        }
        self.out.counts.insert("wait stack of the same place", taken_over);
        taken_over = 0;
        for &index in &self.same_place.1 {
            let row = &mut self.out.rows.wakings[index];
            let kept = self.wakers.get(&row.of.wakee);
            let kept = kept.and_then(|list| last_until(list, row.time, |kept| kept.0));
            if let Some(kept) = kept.filter(|kept| row.stack == 0 && kept.0 >= held_by_all) {
                row.stack = kept.1;
                if kept.2 {
                    row.of.flags = WakeFlags::default().with(WakeFlags::SOFTIRQ);
                }
                taken_over += 1;
            }
        }
        self.out.counts.insert("wake-up stack of the same place", taken_over);
        self.out.counts.insert("over the budget for stacks", self.over_budget);
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

/// The last one of `sorted` up to a time.
fn last_until<T>(sorted: &[T], time: u64, time_of: impl Fn(&T) -> u64) -> Option<&T> {
    let next = sorted.partition_point(|one| time_of(one) <= time);
    sorted.get(next.checked_sub(1)?)
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
