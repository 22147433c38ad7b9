//! Walks one segment of a ring: a run of blocks that no other segment is needed for.
//!
//! A record belongs to the thread that is on the CPU, which the block's header names and every
//! switch changes. Stacks are defined once, perhaps in another segment: they are named by their
//! positions until all segments have been walked ([`super::stacks`]).

use super::facts;
use super::layout::{self, BLOCK_BYTES, Fragment, RingPiece, kind};
use super::layout::{u32_at, u64_at};
use super::stacks::{Definition, References};
use crate::perf_data::rows::{KeptWait, KeptWake, Row, Rows, Sample, Switch, Waking};
use crate::scope::Scope;
use std::collections::BTreeMap;
use unhitch_model::{TaskState, WakeFlags, linux::USUAL_PRIO};

/// Length of a segment, unless the ring ends: enough work for one core at a time.
const SEGMENT_BYTES: u64 = 4 << 20;

/// Fragments of one ring that follow each other without a gap; the first one begins its block.
pub(super) struct Run<'a> {
    fragments: Vec<Fragment<'a>>,
    /// What follows without a gap, in another run.
    next: Option<Fragment<'a>>,
    /// Bytes of the ring that are missing before it.
    pub(super) missing_bytes: u64,
}

impl Run<'_> {
    pub(super) fn cpu(&self) -> u16 {
        self.fragments.first().map_or(0, |first| first.cpu)
    }

    pub(super) fn len(&self) -> u64 {
        self.fragments.iter().map(|fragment| fragment.bytes.len() as u64).sum()
    }
}

/// Cuts rings to runs, in the order of CPU and position. Those that were `streamed` were written
/// from their beginning on.
pub(super) fn runs(mut pieces: Vec<RingPiece<'_>>, streamed: bool) -> Vec<Run<'_>> {
    pieces.sort_by_key(|piece| (piece.cpu, piece.start));
    let (mut runs, mut end, mut len) = (Vec::<Run<'_>>::new(), None, 0);
    for fragment in pieces.iter().flat_map(RingPiece::fragments) {
        let block = BLOCK_BYTES as u64;
        let start = fragment.number.saturating_mul(block).saturating_add(fragment.offset as u64);
        let follows = end == Some((fragment.cpu, start));
        match runs.last_mut() {
            Some(run) if follows && (len < SEGMENT_BYTES || fragment.offset > 0) => {
                run.fragments.push(fragment);
            }
            last => {
                len = 0;
                let missing_bytes = match end {
                    Some((cpu, end)) if cpu == fragment.cpu => start.saturating_sub(end),
                    _ if streamed => start,
                    _ => 0,
                };
                if let Some(run) = last.filter(|_| follows) {
                    run.next = Some(fragment);
                }
                runs.push(Run { fragments: vec![fragment], next: None, missing_bytes });
            }
        }
        len += fragment.bytes.len() as u64;
        end = Some((fragment.cpu, start.saturating_add(fragment.bytes.len() as u64)));
    }
    runs
}

/// A stack that was taken for a wait or a wake-up.
pub(super) struct Taken {
    pub(super) tid: u32,
    pub(super) time: u64,
    /// When it was taken.
    pub(super) at: u64,
    /// A number of the segment's references.
    pub(super) stack: u32,
    /// Where the thread waited; 0 if that is not remembered.
    pub(super) place: u8,
    /// In a soft interrupt that the waker caused.
    pub(super) by_thread: bool,
}

/// The priority of a thread from a time on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Priority {
    pub(super) time: u64,
    pub(super) prio: i16,
    pub(super) before: i16,
}

/// What one run holds. Stacks of its rows are numbers of its `references`, from 1.
#[derive(Default)]
pub(super) struct Segment<'a> {
    pub(super) cpu: u16,
    pub(super) rows: Rows,
    pub(super) references: References,
    /// By position in the ring, in words; sorted.
    pub(super) definitions: Vec<(u64, Definition<'a>)>,
    pub(super) waits: Vec<Taken>,
    pub(super) wakers: Vec<Taken>,
    /// Waits and wake-ups at places of such stacks: their rows and the numbers of the places.
    pub(super) wait_places: Vec<(usize, u8)>,
    pub(super) waker_places: Vec<(usize, u8)>,
    /// Thread, and its priority.
    pub(super) priorities: Vec<(u32, Priority)>,
    /// Threads that died, and that were woken for the first time.
    pub(super) exits: Vec<(u64, u32)>,
    pub(super) births: Vec<(u64, u32)>,
    /// Number of records by kind; of those that define stacks, by how these end.
    pub(super) counts: BTreeMap<&'static str, u64>,
    pub(super) stack_counts: BTreeMap<&'static str, u64>,
    /// Waits whose stacks were over the budget.
    pub(super) over_budget: u64,
    pub(super) damaged_blocks: u64,
    /// First and last time; `None` without a block.
    pub(super) covered: Option<(u64, u64)>,
    /// The thread on the CPU, and since when its block counts.
    current: u32,
    base_ns: u64,
    /// The last wake-up and the last kept wait, in the rows.
    waking: Option<usize>,
    wait: Option<usize>,
}

impl<'a> Segment<'a> {
    pub(super) fn of(run: &Run<'a>, scope: Scope) -> Self {
        let mut segment = Self { cpu: run.cpu(), ..Self::default() };
        let mut is_readable = false;
        for fragment in &run.fragments {
            if fragment.offset == 0 {
                is_readable = fragment.has_own_header();
                segment.damaged_blocks += u64::from(!is_readable);
                if is_readable {
                    segment.base_ns = u64_at(fragment.bytes, 8);
                    segment.current = u32_at(fragment.bytes, 16);
                    segment.cover(segment.base_ns);
                }
            }
            if is_readable {
                is_readable = segment.fragment(fragment);
            }
        }
        // What belongs to the last wake-up, or to the last wait, may be in the next block.
        if let Some(next) = run.next.filter(Fragment::has_own_header) {
            let is_of_next = |word: u64| word >> 32 & 7 == kind::WAKING;
            let own = next.records().take_while(|record| !is_of_next(record.word));
            for record in own.filter(|record| record.is_long(kind::WAKER)) {
                segment.waker(record.payload() >> 15, next.position(&record), record.bytes);
            }
            let of_wait = next.records().take_while(|record| !record.is_long(kind::WAIT));
            for record in of_wait.filter(|record| record.is_long(kind::DESCRIPTOR)) {
                segment.descriptor(record.bytes);
            }
        }
        // Counted at once: there are too many to look each one's kind up.
        let many =
            [("switch", segment.rows.switches.len()), ("wake-up", segment.rows.wakings.len())];
        let many = many.into_iter().filter(|(_, count)| *count > 0);
        segment.counts.extend(many.map(|(kind, count)| (kind, count as u64)));
        if scope == Scope::Stacks {
            segment.drop_events();
        }
        segment
    }

    /// Keeps only what stacks need.
    fn drop_events(&mut self) {
        (self.rows.switches, self.rows.wakings) = (Vec::new(), Vec::new());
        self.rows.kept_wakes = Vec::new();
        (self.wait_places, self.waker_places) = (Vec::new(), Vec::new());
    }

    /// True if what follows in the block can be read, too.
    fn fragment(&mut self, fragment: &Fragment<'a>) -> bool {
        let mut records = fragment.records();
        for record in &mut records {
            let time = self.base_ns.saturating_add(record.delta_ns());
            match record.of_type() {
                kind::SWITCH => self.switch(time, record.payload()),
                kind::WAKING => self.waking(time, record.payload()),
                _ => {
                    let position = fragment.position(&record);
                    self.long(time, record.payload(), position, record.bytes);
                }
            }
            self.cover(time);
        }
        self.damaged_blocks += u64::from(records.damaged);
        !records.damaged
    }

    fn switch(&mut self, time: u64, payload: u64) {
        let (next, state) = (payload as u32 & 0x3f_ffff, state(payload >> 22 & 15));
        let of = Switch {
            prev: self.current,
            next,
            prev_prio: USUAL_PRIO,
            next_prio: USUAL_PRIO,
            prev_state: state,
        };
        if state == TaskState::Dead {
            self.exits.push((time, self.current));
        }
        let number = (payload >> layout::SWITCH_PLACE_SHIFT & 7) as u8;
        if number != 0 {
            self.wait_places.push((self.rows.switches.len(), number));
        }
        self.rows.switches.push(Row { time, stack: 0, cpu: self.cpu, of });
        self.current = next;
    }

    fn waking(&mut self, time: u64, payload: u64) {
        let wakee = payload as u32 & 0x3f_ffff;
        let flags = match payload >> 22 & 3 {
            0 => WakeFlags::default(),
            1 => WakeFlags::default().with(WakeFlags::HARDIRQ),
            _ => {
                self.births.push((time, wakee));
                WakeFlags::default().with(WakeFlags::NEW)
            }
        };
        let of = Waking { waker: self.current, wakee, target_cpu: self.cpu, flags };
        let number = (payload >> layout::WAKING_PLACE_SHIFT & 7) as u8;
        if number != 0 {
            self.waker_places.push((self.rows.wakings.len(), number));
        }
        self.waking = Some(self.rows.wakings.len());
        self.rows.wakings.push(Row { time, stack: 0, cpu: self.cpu, of });
    }

    fn long(&mut self, time: u64, payload: u64, position: u64, record: &'a [u8]) {
        let flags = payload >> 15;
        match payload & 31 {
            kind::STACK => {
                let definition = Definition::of(record, flags);
                *self.stack_counts.entry(definition.end()).or_default() += 1;
                self.definitions.push((position, definition));
            }
            kind::WAIT => self.wait(time, flags, position, record),
            kind::WAKER => self.waker(flags, position, record),
            kind::SAMPLE => {
                *self.counts.entry("sample").or_default() += 1;
                let stack = self.references.number(position, u32_at(record, 8), u32_at(record, 12));
                let of = Sample { tid: self.current };
                self.rows.samples.push(Row { time, stack, cpu: self.cpu, of });
            }
            kind::REPAIR => {
                *self.counts.entry("switch that was not reported").or_default() += 1;
                self.current = u32_at(record, 8);
            }
            kind::PRIORITY => {
                *self.counts.entry("priority").or_default() += 1;
                let prio = i16::try_from(u32_at(record, 12) as i32).unwrap_or(USUAL_PRIO);
                let before = flags.checked_sub(1).map_or(prio, |before| before as i16 - 1);
                self.priorities.push((u32_at(record, 8), Priority { time, prio, before }));
            }
            kind::DESCRIPTOR => self.descriptor(record),
            kind::FACT => {
                let stack =
                    self.references.number(position, u32_at(record, 12), u32_at(record, 16));
                let of = facts::read(flags, record);
                *self.counts.entry(facts::name(of.number)).or_default() += 1;
                self.rows.facts.push(Row { time, stack, cpu: self.cpu, of });
            }
            // Of a later version.
            _ => {}
        }
    }

    fn wait(&mut self, time: u64, flags: u64, position: u64, record: &[u8]) {
        *self.counts.entry("wait").or_default() += 1;
        self.over_budget += flags & layout::STACKS_OVER_BUDGET;
        let of = KeptWait {
            tid: self.current,
            syscall: u32_at(record, 24) as i32,
            owner: u32_at(record, 28),
            is_owner_at_return: flags & layout::OWNER_AT_RETURN != 0,
            is_over_budget: flags & layout::STACKS_OVER_BUDGET != 0,
            arguments: [u64_at(record, 32), u64_at(record, 40)],
            kernel_lock: u64_at(record, 48),
            descriptor: None,
        };
        let left = u64_at(record, 8);
        self.wait = Some(self.rows.kept_waits.len());
        self.rows.kept_waits.push(Row { time: left, stack: 0, cpu: self.cpu, of });
        let stack = self.references.number(position, u32_at(record, 16), u32_at(record, 20));
        self.waits.extend(taken(self.current, [left, time], stack, flags));
    }

    /// What the last wait was about.
    fn descriptor(&mut self, record: &[u8]) {
        let wait = self.wait.and_then(|wait| self.rows.kept_waits.get_mut(wait));
        if let Some(wait) = wait.filter(|wait| wait.of.tid == self.current) {
            wait.of.descriptor = Some(Box::new(facts::descriptor(&record[8..])));
        }
    }

    fn waker(&mut self, flags: u64, position: u64, record: &[u8]) {
        let stack = self.references.number(position, u32_at(record, 8), u32_at(record, 12));
        let row = self.waking.and_then(|waking| self.rows.wakings.get_mut(waking));
        let Some(row) = row else { return };
        let futex = u64_at(record, 16);
        if futex != 0 {
            let of = KeptWake { wakee: row.of.wakee, futex };
            self.rows.kept_wakes.push(Row { time: row.time, stack: 0, cpu: self.cpu, of });
        }
        if let Some(taken) = taken(row.of.wakee, [row.time; 2], stack, flags) {
            row.stack = stack;
            if taken.by_thread {
                row.of.flags = WakeFlags::default().with(WakeFlags::SOFTIRQ);
            }
            self.wakers.push(taken);
        }
    }

    /// Replaces the numbers of its references by others.
    pub(super) fn number_stacks(&mut self, numbers: &[u32]) {
        let number = |stack: &mut u32| *stack = numbers.get(*stack as usize).map_or(0, |n| *n);
        self.rows.wakings.iter_mut().for_each(|row| number(&mut row.stack));
        self.rows.samples.iter_mut().for_each(|row| number(&mut row.stack));
        self.rows.facts.iter_mut().for_each(|row| number(&mut row.stack));
        let taken = self.waits.iter_mut().chain(&mut self.wakers);
        taken.for_each(|taken| number(&mut taken.stack));
    }

    fn cover(&mut self, time: u64) {
        let (first, last) = self.covered.unwrap_or((time, time));
        self.covered = Some((first.min(time), last.max(time)));
    }
}

/// `None` without a stack.
fn taken(tid: u32, [time, at]: [u64; 2], stack: u32, flags: u64) -> Option<Taken> {
    let place = (flags >> layout::FLAGS_PLACE_SHIFT & 7) as u8;
    let by_thread = flags & layout::BY_THREAD != 0;
    (stack != 0).then_some(Taken { tid, time, at, stack, place, by_thread })
}

/// `enum state` of `ring.h`.
pub(super) fn state(number: u64) -> TaskState {
    match number {
        0 => TaskState::Runnable,
        1 => TaskState::Preempted,
        3 => TaskState::DiskSleep,
        4 => TaskState::Idle,
        5 => TaskState::Stopped,
        6 => TaskState::Traced,
        7 => TaskState::Parked,
        8 => TaskState::Dead,
        9 => TaskState::Throttled,
        _ => TaskState::Sleeping,
    }
}
