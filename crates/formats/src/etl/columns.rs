//! Rows of all buffers to the trace's columns, with threads, stacks and times settled.

use super::{
    clock::Clock,
    event::NOBODY,
    images::{SpaceId, Spaces},
    join::{Joined, Target},
    methods::{Methods, WHOLE},
    parts::Parts,
    rows::{Ready, Sample, Switch},
    tasks::ProcessIndex,
};
use crate::perf_data::tasks::ThreadIndex;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, binary_heap::PeekMut};
use std::vec;
use unhitch_model::{
    FrameId, ProcessId, Samples, StackId, Switches, TaskState, ThreadId, Threads, Time, Trace,
    WaitReason, WakeFlags, Wakings, Window,
};

/// The rows of one kind, by time, from those of each buffer; of equal times in the order of the
/// buffers. Buffers come by CPU and time, so they are a few long runs, of which one pass makes one.
pub(super) fn by_time<T: Copy>(buffers: Vec<Vec<T>>, ticks: impl Fn(&T) -> i64) -> Vec<T> {
    let mut all = Vec::with_capacity(buffers.iter().map(Vec::len).sum());
    let mut runs: Vec<Vec<Vec<T>>> = Vec::new();
    let mut end = i64::MAX;
    for mut rows in buffers {
        if !rows.is_sorted_by_key(&ticks) {
            rows.sort_by_key(&ticks);
        }
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { continue };
        let goes_on = end <= ticks(first);
        end = ticks(last);
        match runs.last_mut().filter(|_| goes_on) {
            Some(run) => run.push(rows),
            None => runs.push(vec![rows]),
        }
    }
    let mut runs: Vec<Run<T>> = runs.into_iter().map(Run::new).collect();
    let heads = runs
        .iter()
        .enumerate()
        .filter_map(|(number, run)| Some(Reverse((ticks(run.head()?), number))));
    let mut heads: BinaryHeap<_> = heads.collect();
    while let Some(mut head) = heads.peek_mut() {
        let Some(run) = runs.get_mut(head.0.1) else { break };
        all.extend(run.head());
        run.advance();
        match run.head() {
            Some(row) => head.0.0 = ticks(row),
            None => drop(PeekMut::pop(head)),
        }
    }
    all
}

/// Rows in order, in several buffers, each of which is given back once it is read.
struct Run<T> {
    buffer: Vec<T>,
    at: usize,
    later: vec::IntoIter<Vec<T>>,
}

impl<T> Run<T> {
    /// No buffer may be empty.
    fn new(buffers: Vec<Vec<T>>) -> Self {
        let mut later = buffers.into_iter();
        Self { buffer: later.next().unwrap_or_default(), at: 0, later }
    }

    #[inline]
    fn head(&self) -> Option<&T> {
        self.buffer.get(self.at)
    }

    #[inline]
    fn advance(&mut self) {
        self.at += 1;
        if self.at >= self.buffer.len() {
            (self.buffer, self.at) = (self.later.next().unwrap_or_default(), 0);
        }
    }
}

/// Who was on each CPU, as the switches tell.
pub(super) struct Running<'a> {
    switches: &'a [Switch],
    next: usize,
    current: FxHashMap<u16, u32>,
}

impl<'a> Running<'a> {
    pub(super) fn new(switches: &'a [Switch]) -> Self {
        let mut current = FxHashMap::default();
        for switch in switches {
            current.entry(switch.cpu).or_insert(switch.old_tid);
        }
        Self { switches, next: 0, current }
    }

    /// The thread on `cpu` just before `ticks`, which must not decrease from call to call;
    /// [`NOBODY`] where no switch tells.
    pub(super) fn before(&mut self, ticks: i64, cpu: u16) -> u32 {
        while let Some(switch) = self.switches.get(self.next).filter(|switch| switch.ticks < ticks)
        {
            self.current.insert(switch.cpu, switch.new_tid);
            self.next += 1;
        }
        self.current.get(&cpu).copied().unwrap_or(NOBODY)
    }
}

/// What turns the file's numbers into the trace's.
pub(super) struct Settled {
    pub clock: Clock,
    threads: ThreadIndex,
}

impl Settled {
    pub(super) fn new(clock: Clock, threads: &Threads) -> Self {
        Self { clock, threads: ThreadIndex::new(threads) }
    }

    #[inline]
    pub(super) fn thread(&self, tid: u32, time: Time) -> ThreadId {
        if tid == 0 || tid == NOBODY { ThreadId::IDLE } else { self.threads.at(tid, time) }
    }
}

/// A part, its space and how often that had changed, and whether it is the innermost one.
type PartKey = (u32, SpaceId, u32, bool);

/// What turns parts of stacks into the trace's stacks.
pub(super) struct StackIndex<'a> {
    processes: &'a ProcessIndex,
    spaces: &'a Spaces,
    parts: &'a Parts,
    methods: Methods<'a>,
    /// Stacks, and how long their addresses mean the same.
    known: FxHashMap<(Joined, [u32; 2], SpaceId), (StackId, Window)>,
    frames: FxHashMap<PartKey, (Box<[FrameId]>, Window)>,
}

impl<'a> StackIndex<'a> {
    pub(super) fn new(
        processes: &'a ProcessIndex,
        spaces: &'a Spaces,
        parts: &'a Parts,
        methods: Methods<'a>,
    ) -> Self {
        Self {
            processes,
            spaces,
            parts,
            methods,
            known: FxHashMap::default(),
            frames: FxHashMap::default(),
        }
    }

    /// The stack of an event.
    pub(super) fn stack(&mut self, joined: Joined, time: Time, trace: &mut Trace) -> StackId {
        if joined.kernel == 0 && joined.user == 0 {
            return StackId::EMPTY;
        }
        let process = self.processes.at(joined.pid, time).unwrap_or(ProcessId(0));
        let space = SpaceId::of(process);
        let epochs = [
            if joined.kernel == 0 { 0 } else { self.spaces.epoch(SpaceId::KERNEL, time) },
            if joined.user == 0 { 0 } else { self.spaces.epoch(space, time) },
        ];
        let key = (Joined { tid: 0, ..joined }, epochs, space);
        if let Some(&(stack, _)) = self.known.get(&key).filter(|(_, window)| window.contains(time))
        {
            return stack;
        }
        let mut frames = Vec::new();
        self.part(joined.kernel, SpaceId::KERNEL, joined.pid, epochs[0], time, &mut frames, trace);
        let kernel_len = u16::try_from(frames.len()).unwrap_or(u16::MAX);
        let window = self.part(joined.user, space, joined.pid, epochs[1], time, &mut frames, trace);
        let stack = trace.stacks.intern(&frames, kernel_len);
        self.known.insert(key, (stack, window));
        stack
    }

    /// The stack of each sample; of those without one, a stack of the one instruction. `threads`
    /// are the trace's.
    pub(super) fn samples(
        &mut self,
        rows: &[Sample],
        joined: &[Joined],
        settled: &Settled,
        threads: &Threads,
        trace: &mut Trace,
    ) -> Vec<StackId> {
        let stack = |(row, joined): (&Sample, &Joined)| {
            let time = settled.clock.time(row.ticks);
            match self.stack(*joined, time, trace) {
                StackId::EMPTY => {
                    let pid = threads.process_of(settled.thread(row.tid, time)).pid;
                    let process = self.processes.at(pid, time).unwrap_or(ProcessId(0));
                    let space = SpaceId::of(process);
                    let (method, _) = self.methods.at(space, row.instruction, time, trace);
                    let frame = self.spaces.frame(space, pid, row.instruction, time, method, trace);
                    trace.stacks.intern(&[frame], u16::from(self.spaces.is_kernel(row.instruction)))
                }
                stack => stack,
            }
        };
        rows.iter().zip(joined).map(stack).collect()
    }

    /// Adds the frames of a part to `frames`; returns how long its addresses mean the same.
    #[allow(clippy::too_many_arguments, reason = "all of it decides what an address means")]
    fn part(
        &mut self,
        part: u32,
        space: SpaceId,
        pid: u32,
        epoch: u32,
        time: Time,
        frames: &mut Vec<FrameId>,
        trace: &mut Trace,
    ) -> Window {
        let innermost = frames.is_empty();
        let key = (part, space, epoch, innermost);
        if let Some((known, window)) =
            self.frames.get(&key).filter(|(_, window)| window.contains(time))
        {
            frames.extend_from_slice(known);
            return *window;
        }
        let mut window = WHOLE;
        // All but the innermost are return addresses: the call is before them.
        let call = |index: usize, avma: u64| {
            if innermost && index == 0 { avma } else { avma.wrapping_sub(1) }
        };
        let mut resolved = Vec::new();
        for (index, avma) in self.parts.words(part).iter().enumerate() {
            let avma = call(index, *avma);
            if self.spaces.is_never_code(avma) {
                resolved.push(trace.cut_frame());
                break;
            }
            let (method, life) = self.methods.at(space, avma, time, trace);
            window = window.intersect(life);
            resolved.push(self.spaces.frame(space, pid, avma, time, method, trace));
        }
        let resolved: Box<[FrameId]> = resolved.into();
        frames.extend_from_slice(&resolved);
        self.frames.insert(key, (resolved, window));
        window
    }
}

pub(super) fn targets_of_switches(switches: &[Switch]) -> Vec<Target> {
    switches.iter().map(|row| Target { ticks: row.ticks, tid: row.new_tid, cpu: row.cpu }).collect()
}

/// Whose doing each wake-up was: the thread in the header, else the one on that CPU.
pub(super) fn targets_of_readies(readies: &[Ready], switches: &[Switch]) -> Vec<Target> {
    let mut running = Running::new(switches);
    let by = |row: &Ready, running: &mut Running<'_>| match row.by_tid {
        NOBODY => running.before(row.ticks, row.cpu),
        tid => tid,
    };
    readies
        .iter()
        .map(|row| Target { ticks: row.ticks, tid: by(row, &mut running), cpu: row.cpu })
        .collect()
}

pub(super) fn targets_of_samples(samples: &[Sample]) -> Vec<Target> {
    samples.iter().map(|row| Target { ticks: row.ticks, tid: row.tid, cpu: row.cpu }).collect()
}

/// ETW tells the stack of the thread that comes on: where it had waited. The trace has it at the
/// switch with which that wait began.
pub(super) fn wait_stacks(switches: &[Switch], joined: &[Joined]) -> Vec<Joined> {
    let mut waits = vec![Joined::default(); switches.len()];
    let mut left: FxHashMap<u32, usize> = FxHashMap::default();
    for (index, (switch, stack)) in switches.iter().zip(joined).enumerate() {
        if let Some(wait) = left.remove(&switch.new_tid).and_then(|before| waits.get_mut(before)) {
            *wait = *stack;
        }
        if switch.old_tid != 0 && switch.state != state::TERMINATED {
            left.insert(switch.old_tid, index);
        }
    }
    waits
}

/// `KTHREAD_STATE`.
mod state {
    pub const INITIALIZED: u8 = 0;
    pub const READY: u8 = 1;
    pub const RUNNING: u8 = 2;
    pub const STANDBY: u8 = 3;
    pub const TERMINATED: u8 = 4;
    pub const DEFERRED_READY: u8 = 7;
    pub const WAITING_FOR_SWAP_IN: u8 = 9;
}

/// The model's state for a thread that left its CPU in this one, for this reason.
fn task_state(switch: &Switch) -> TaskState {
    /// `KWAIT_REASON`: PageIn, WrPageIn, WrPhysicalFault.
    const PAGING: [u8; 3] = [2, 9, 39];
    const SUSPENDED: [u8; 2] = [5, 12];
    match switch.state {
        _ if switch.old_tid == 0 => TaskState::Runnable,
        state::INITIALIZED
        | state::READY
        | state::RUNNING
        | state::STANDBY
        | state::DEFERRED_READY => TaskState::Runnable,
        state::TERMINATED => TaskState::Dead,
        state::WAITING_FOR_SWAP_IN => TaskState::DiskSleep,
        _ if PAGING.contains(&switch.wait_reason) => TaskState::DiskSleep,
        _ if SUSPENDED.contains(&switch.wait_reason) => TaskState::Stopped,
        _ => TaskState::Sleeping,
    }
}

/// 0 to 31, more is more urgent, 16 and up real-time; as the model has it.
fn priority(windows: i8) -> i16 {
    let windows = i16::from(windows);
    if windows < 16 { 139 - windows } else { 115 - windows }
}

/// The columns of the switches but for their stacks.
pub(super) fn switches(rows: &[Switch], settled: &Settled) -> Switches {
    let len = rows.len();
    let mut out = Switches {
        time: Vec::with_capacity(len),
        cpu: Vec::with_capacity(len),
        prev: Vec::with_capacity(len),
        next: Vec::with_capacity(len),
        prev_state: Vec::with_capacity(len),
        prev_reason: Vec::with_capacity(len),
        prev_prio: Vec::with_capacity(len),
        next_prio: Vec::with_capacity(len),
        stack: Vec::new(),
    };
    for row in rows {
        let time = settled.clock.time(row.ticks);
        out.time.push(time);
        out.cpu.push(row.cpu);
        out.prev.push(settled.thread(row.old_tid, time));
        out.next.push(settled.thread(row.new_tid, time));
        out.prev_state.push(task_state(row));
        out.prev_reason.push(WaitReason::new(row.wait_reason, row.wait_mode & 1 == 1));
        out.prev_prio.push(priority(row.old_priority));
        out.next_prio.push(priority(row.new_priority));
    }
    out
}

/// The same of the wake-ups.
pub(super) fn wakings(
    rows: &[Ready],
    targets: &[Target],
    joined: &[Joined],
    switches: &[Switch],
    settled: &Settled,
    threads: &Threads,
) -> Wakings {
    let mut out = Wakings::default();
    let target_cpus = target_cpus(rows, switches);
    let mut ran: FxHashSet<ThreadId> = FxHashSet::default();
    let mut switches = switches.iter().peekable();
    for (((row, target), stack), target_cpu) in
        rows.iter().zip(targets).zip(joined).zip(target_cpus)
    {
        let time = settled.clock.time(row.ticks);
        while let Some(switch) = switches.next_if(|switch| switch.ticks < row.ticks) {
            ran.insert(settled.thread(switch.new_tid, settled.clock.time(switch.ticks)));
        }
        let by = if target.tid == NOBODY && *stack != Joined::default() {
            stack.tid
        } else {
            target.tid
        };
        let wakee = settled.thread(row.tid, time);
        let mut flags = WakeFlags::default();
        if row.in_dpc {
            flags = flags.with(WakeFlags::HARDIRQ);
        }
        // The first time that a thread is ready which was seen to start.
        if threads.get(wakee).start.is_some() && ran.insert(wakee) {
            flags = flags.with(WakeFlags::NEW);
        }
        out.time.push(time);
        out.cpu.push(row.cpu);
        out.waker.push(settled.thread(by, time));
        out.wakee.push(wakee);
        out.target_cpu.push(target_cpu);
        out.flags.push(flags);
    }
    out
}

/// ReadyThread does not say for which CPU: the one on which the thread came next.
fn target_cpus(rows: &[Ready], switches: &[Switch]) -> Vec<u16> {
    let mut next: FxHashMap<u32, u16> = FxHashMap::default();
    let mut switches = switches.iter().rev().peekable();
    let mut cpus: Vec<u16> = rows
        .iter()
        .rev()
        .map(|row| {
            while let Some(switch) = switches.next_if(|switch| switch.ticks >= row.ticks) {
                next.insert(switch.new_tid, switch.cpu);
            }
            next.get(&row.tid).copied().unwrap_or(row.cpu)
        })
        .collect();
    cpus.reverse();
    cpus
}

/// The same of the samples.
pub(super) fn samples(rows: &[Sample], settled: &Settled) -> Samples {
    let mut out = Samples::default();
    for row in rows {
        let time = settled.clock.time(row.ticks);
        out.time.push(time);
        out.cpu.push(row.cpu);
        out.thread.push(settled.thread(row.tid, time));
        out.in_interrupt.push(row.in_interrupt);
    }
    out
}
