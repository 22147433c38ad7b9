//! What one run of blocks holds beside its switches and wake-ups, which are read when all of that is
//! known ([`super::replay`]).
//!
//! Stacks are defined once, perhaps in another segment: they are named by their positions until all
//! segments have been walked ([`super::stacks`]).

use super::facts;
use super::layout::{self, Fragment, kind};
use super::layout::{u32_at, u64_at};
use super::stacks::{Definition, References};
use super::walk::{Run, next_thread};
use crate::perf_data::rows::{KeptWait, KeptWake, Row, Rows, Sample};
use crate::scope::Scope;
use std::collections::BTreeMap;
use unhitch_model::{TaskState, linux::USUAL_PRIO};

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

/// The stack of a wake-up, by the wake-up's number in its run.
#[derive(Clone, Copy)]
pub(super) struct WakerStack {
    pub(super) waking: usize,
    pub(super) stack: u32,
    pub(super) by_thread: bool,
}

/// The rows of one kind, which are not kept here: how many, and whether they are in order of time.
#[derive(Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) count: usize,
    /// First and last time.
    first: u64,
    last: u64,
    is_out_of_order: bool,
}

impl Tally {
    #[inline]
    fn add(&mut self, time: u64) {
        if self.count == 0 {
            self.first = time;
        }
        self.is_out_of_order |= time < self.last;
        (self.count, self.last) = (self.count + 1, time);
    }

    /// True if these rows, and those of a run that follows, are one list in order of time.
    pub(super) fn is_in_order(all: impl Iterator<Item = Self>) -> bool {
        let mut last = 0;
        all.filter(|tally| tally.count > 0).all(|tally| {
            let follows = !tally.is_out_of_order && tally.first >= last;
            last = tally.last;
            follows
        })
    }
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
    pub(super) waker_stacks: Vec<WakerStack>,
    pub(super) switches: Tally,
    pub(super) wakings: Tally,
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
    /// The thread on the CPU.
    current: u32,
    /// When the last wake-up was, and of which thread.
    waking: Option<(u64, u32)>,
    /// The last kept wait, in the rows.
    wait: Option<usize>,
}

impl<'a> Segment<'a> {
    pub(super) fn of(run: &Run<'a>, scope: Scope) -> Self {
        let mut segment = Self { cpu: run.cpu(), ..Self::default() };
        let mut walk = run.walk();
        while let Some(visit) = walk.next_long(|time, current, word| {
            let payload = word >> 35;
            match word >> 32 & 7 {
                kind::SWITCH => segment.switch(time, current, payload),
                _ => segment.waking(time, payload),
            }
        }) {
            segment.current = visit.current;
            let payload = visit.record.payload();
            segment.long(visit.time, payload, visit.position(), visit.record.bytes);
        }
        segment.current = walk.current;
        (segment.covered, segment.damaged_blocks) = (walk.covered, walk.damaged_blocks);
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
        let many = [("switch", segment.switches.count), ("wake-up", segment.wakings.count)];
        let many = many.into_iter().filter(|(_, count)| *count > 0);
        segment.counts.extend(many.map(|(kind, count)| (kind, count as u64)));
        if scope == Scope::Stacks {
            segment.rows.kept_wakes = Vec::new();
        }
        segment
    }

    #[inline]
    fn switch(&mut self, time: u64, current: u32, payload: u64) {
        self.switches.add(time);
        if state(payload >> layout::SWITCH_STATE_SHIFT & 15) == TaskState::Dead {
            self.exits.push((time, current));
        }
    }

    #[inline]
    fn waking(&mut self, time: u64, payload: u64) {
        let wakee = next_thread(payload);
        if payload >> layout::WAKING_CONTEXT_SHIFT & 3 > 1 {
            self.births.push((time, wakee));
        }
        self.wakings.add(time);
        self.waking = Some((time, wakee));
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
        let Some((time, wakee)) = self.waking else { return };
        let futex = u64_at(record, 16);
        if futex != 0 {
            let of = KeptWake { wakee, futex };
            self.rows.kept_wakes.push(Row { time, stack: 0, cpu: self.cpu, of });
        }
        if let Some(taken) = taken(wakee, [time; 2], stack, flags) {
            let (waking, by_thread) = (self.wakings.count - 1, taken.by_thread);
            self.waker_stacks.push(WakerStack { waking, stack, by_thread });
            self.wakers.push(taken);
        }
    }

    /// Leaves out what happened before a time. Waits that began before it may have ended after it.
    pub(super) fn leave_out_before(&mut self, since: u64) {
        self.rows.samples.retain(|row| row.time >= since);
        self.rows.facts.retain(|row| row.time >= since);
    }

    /// Replaces the numbers of its references by others.
    pub(super) fn number_stacks(&mut self, numbers: &[u32]) {
        let number = |stack: &mut u32| *stack = numbers.get(*stack as usize).map_or(0, |n| *n);
        self.waker_stacks.iter_mut().for_each(|of| number(&mut of.stack));
        self.rows.samples.iter_mut().for_each(|row| number(&mut row.stack));
        self.rows.facts.iter_mut().for_each(|row| number(&mut row.stack));
        let taken = self.waits.iter_mut().chain(&mut self.wakers);
        taken.for_each(|taken| number(&mut taken.stack));
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
