//! Decodes the rings to rows.
//!
//! A record belongs to the thread that is on the CPU, which the block's header names and every
//! switch changes. A wait's stack was written when its thread came back, perhaps on another CPU: it
//! goes to the switch at which the thread had left.

use super::layout::{
    self, BLOCK_BYTES, BLOCK_HEADER_BYTES, Records, RingPart, kind, u32_at, u64_at,
};
use super::sleepers::{self, Entry};
use super::stacks::{Chain, Definition, Stacks};
use crate::perf_data::rows::{KeptWait, Row, Rows, Sample, Switch, Waking};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use unhitch_model::{TaskState, WakeFlags, Warnings, units};

/// Numbers of a thread's places; 0 is none of them.
const PLACES: u8 = 7;
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
    let (rings, sleepers) = match layout::read(bytes) {
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
    sleepers::decode(sleepers).for_each(|sleeper| decoder.sleeper(&sleeper));
    decoder.finish(warnings)
}

#[derive(Default)]
struct Decoder<'a> {
    out: Decoded,
    stacks: Stacks<'a>,
    /// Stacks of waits and of wakers.
    waits: KeptStacks,
    wakers: KeptStacks,
    /// Waits and wake-ups at places of such stacks: their rows and the numbers of the places.
    wait_places: Vec<(usize, u8)>,
    waker_places: Vec<(usize, u8)>,
    /// Waits and wake-ups whose stacks were over the budget.
    over_budget: u64,
    /// Time, thread, its priority from then on.
    priorities: Vec<(u64, u32, i16)>,
    damaged_blocks: u64,
}

/// The stacks of waits, or of wakers, by thread and place.
#[derive(Default)]
struct KeptStacks(FxHashMap<(u32, u8), Vec<Kept>>);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Kept {
    time: u64,
    chain: u32,
    /// In a soft interrupt that the waker caused.
    by_thread: bool,
}

impl KeptStacks {
    fn add(&mut self, tid: u32, time: u64, chain: u32, flags: u64) {
        let number = (flags >> layout::FLAGS_PLACE_SHIFT & 7) as u8;
        let kept = Kept { time, chain, by_thread: flags & layout::BY_THREAD != 0 };
        self.0.entry((tid, number)).or_default().push(kept);
    }

    fn sort(&mut self) {
        self.0.values_mut().for_each(|list| list.sort_unstable());
    }

    /// The stack that was taken for this very time.
    fn at(&self, tid: u32, time: u64) -> Option<Kept> {
        let found = |number| {
            let list = self.0.get(&(tid, number))?;
            list.binary_search_by_key(&time, |kept| kept.time).ok().map(|index| list[index])
        };
        (0..=PLACES).find_map(found)
    }

    /// The last stack of a place before `time`. One from before `held_from` does not count: a
    /// later one may have been overwritten.
    fn before(&self, tid: u32, time: u64, number: u8, held_from: u64) -> Option<Kept> {
        let list = self.0.get(&(tid, number))?;
        let next = list.partition_point(|kept| kept.time <= time);
        let kept = list.get(next.checked_sub(1)?)?;
        (kept.time >= held_from).then_some(*kept)
    }
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
        let mut expected = None;
        for (index, block) in ring.numbered() {
            if block.len() < BLOCK_HEADER_BYTES {
                self.damaged_blocks += 1;
                continue;
            }
            place.base_ns = u64_at(block, 8);
            place.current = u32_at(block, 16);
            // What belongs to a wake-up may be in the next block.
            if expected != Some(index) {
                place.waking = None;
            }
            expected = Some(index + 1);
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
        let number = (payload >> layout::SWITCH_PLACE_SHIFT & 7) as u8;
        if number != 0 {
            self.wait_places.push((self.out.rows.switches.len(), number));
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
        let number = (payload >> layout::WAKING_PLACE_SHIFT & 7) as u8;
        if number != 0 {
            self.waker_places.push((self.out.rows.wakings.len(), number));
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
                let of = KeptWait {
                    tid: place.current,
                    syscall: u32_at(record, 24) as i32,
                    owner: u32_at(record, 28),
                    arguments: [u64_at(record, 32), u64_at(record, 40)],
                    kernel_lock: u64_at(record, 48),
                };
                let (left, cpu) = (u64_at(record, 8), place.cpu);
                self.out.rows.kept_waits.push(Row { time: left, stack: 0, cpu, of });
                let chain = self.stacks.chain(u32_at(record, 16), u32_at(record, 20));
                if chain != 0 {
                    *self.out.counts.entry("wait stack").or_default() += 1;
                    self.waits.add(place.current, left, chain, flags);
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
                    self.wakers.add(row.of.wakee, row.time, chain, flags);
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

    /// A wait that had not ended at the save.
    fn sleeper(&mut self, entry: &Entry<'a>) {
        let (tid, syscall, arguments) = (entry.tid, entry.syscall, entry.arguments);
        let kernel_lock = entry.kernel_lock;
        let of = KeptWait { tid, syscall, arguments, owner: entry.owner, kernel_lock };
        self.out.rows.kept_waits.push(Row { time: entry.left_ns, stack: 0, cpu: 0, of });
        let kernel = Definition { pid: 0, flags: 0, addresses: entry.kernel_stack };
        let flags = 1 | entry.user_end << 1;
        let user = Definition { pid: entry.pid, flags, addresses: entry.user_stack };
        let chain = self.stacks.chain_of([kernel, user]);
        if chain != 0 {
            *self.out.counts.entry("wait stack at the save").or_default() += 1;
            self.waits.add(tid, entry.left_ns, chain, 0);
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

    /// Gives each wait its stack. Those without one have that of another wait of their thread, if
    /// the recorder saw that they were at the same place; likewise wake-ups.
    fn set_stacks(&mut self) {
        self.waits.sort();
        self.wakers.sort();
        let held = self.out.covered.iter().filter(|(first, last)| first <= last);
        let held_by_all = held.map(|(first, _)| *first).max().unwrap_or(0);
        for row in &mut self.out.rows.switches {
            row.stack = self.waits.at(row.of.prev, row.time).map_or(0, |kept| kept.chain);
        }
        let mut taken_over = 0;
        for &(index, number) in &self.wait_places {
            let row = &mut self.out.rows.switches[index];
            let kept = self.waits.before(row.of.prev, row.time, number, held_by_all);
            if let Some(kept) = kept.filter(|_| row.stack == 0) {
                row.stack = kept.chain;
                taken_over += 1;
            }
        }
        self.out.counts.insert("wait stack of the same place", taken_over);
        taken_over = 0;
        for &(index, number) in &self.waker_places {
            let row = &mut self.out.rows.wakings[index];
            let kept = self.wakers.before(row.of.wakee, row.time, number, held_by_all);
            if let Some(kept) = kept.filter(|_| row.stack == 0) {
                row.stack = kept.chain;
                if kept.by_thread {
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
