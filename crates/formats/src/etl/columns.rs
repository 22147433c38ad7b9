//! Turns the rows of all buffers into the trace's columns, and resolves their threads, stacks and
//! times.

use super::{
    clock::Clock,
    event::NOBODY,
    images::Spaces,
    join::{Joined, Target},
    methods::{Methods, WHOLE},
    parts::Parts,
    rows::{Ready, Sample, Switch},
    space_id::SpaceId,
    tasks::ProcessIndex,
};
use crate::thread_index::ThreadIndex;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, binary_heap::PeekMut};
use std::vec;
use unhitch_model::{
    FrameId, ProcessId, Samples, StackId, Switches, TaskState, ThreadId, Threads, Time, Trace,
    WaitReason, WakeFlags, Waking, Wakings, Window,
};

/// Merges the rows of each buffer into one list by time; rows of equal times stay in the order of
/// their buffers. Buffers come by CPU and time, so they form a few long runs, and one pass merges
/// those.
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

/// Rows in order, in several buffers. Each buffer is freed once it is read.
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

/// Which thread was on each CPU, by the switches.
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
    /// [`NOBODY`] for a CPU without switches.
    pub(super) fn before(&mut self, ticks: i64, cpu: u16) -> u32 {
        while let Some(switch) = self.switches.get(self.next).filter(|switch| switch.ticks < ticks)
        {
            self.current.insert(switch.cpu, switch.new_tid);
            self.next += 1;
        }
        self.current.get(&cpu).copied().unwrap_or(NOBODY)
    }
}

/// Converts the file's ticks and thread ids to the trace's.
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

/// A part, its address space, the space's epoch, and whether the part is the innermost one.
type PartKey = (u32, SpaceId, u32, bool);

/// Turns stack parts into the trace's stacks.
pub(super) struct StackIndex<'a> {
    processes: &'a ProcessIndex,
    spaces: &'a Spaces,
    parts: &'a Parts,
    methods: Methods<'a>,
    /// Stacks, each with the window in which its addresses mean the same.
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

    /// The stack of each sample. A sample without one gets a stack of its instruction alone.
    /// `threads` are the trace's.
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

    /// Adds the frames of a part to `frames`. Returns the window in which its addresses mean the
    /// same.
    #[allow(clippy::too_many_arguments, reason = "all of them decide what an address means")]
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
        // All but the innermost are return addresses, which lie behind the call.
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

/// The waker of each wake-up: the thread in the header, else the one on that CPU.
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

/// Moves wait stacks to where the waits begin. ETW records the stack of the thread that comes on,
/// which is where it had waited; the trace has it at the switch with which that wait began.
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

/// The model's state for a thread that left its CPU.
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

/// A Windows priority (0 to 31, larger is more urgent, 16 and up real-time) on the model's scale.
fn priority(windows: i8) -> i16 {
    let windows = i16::from(windows);
    if windows < 16 { 139 - windows } else { 115 - windows }
}

/// The columns of the switches. All stacks are empty.
pub(super) fn switches(rows: &[Switch], settled: &Settled) -> Switches {
    let mut out = Switches::with_capacity(rows.len());
    for row in rows {
        let time = settled.clock.time(row.ticks);
        out.push(unhitch_model::Switch {
            time,
            cpu: row.cpu,
            prev: settled.thread(row.old_tid, time),
            next: settled.thread(row.new_tid, time),
            prev_state: task_state(row),
            prev_reason: Some(WaitReason::new(row.wait_reason, row.wait_mode & 1 == 1)),
            prev_prio: priority(row.old_priority),
            next_prio: priority(row.new_priority),
            stack: StackId::EMPTY,
        });
    }
    out
}

/// The columns of the wake-ups. All stacks are empty.
pub(super) fn wakings(
    rows: &[Ready],
    targets: &[Target],
    joined: &[Joined],
    switches: &[Switch],
    settled: &Settled,
    threads: &Threads,
) -> Wakings {
    let mut out = Wakings::with_capacity(rows.len());
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
        // The first time that a thread is ready whose start was recorded.
        if threads.get(wakee).start.is_some() && ran.insert(wakee) {
            flags = flags.with(WakeFlags::NEW);
        }
        out.push(Waking {
            time,
            cpu: row.cpu,
            waker: settled.thread(by, time),
            wakee,
            target_cpu,
            flags,
            stack: StackId::EMPTY,
        });
    }
    out
}

/// The CPU that each thread was woken for. ReadyThread does not have it, so this is the CPU on
/// which the thread runs next.
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

/// The columns of the samples. All stacks are empty.
pub(super) fn samples(rows: &[Sample], settled: &Settled) -> Samples {
    let mut out = Samples::with_capacity(rows.len());
    for row in rows {
        let time = settled.clock.time(row.ticks);
        out.push(unhitch_model::Sample {
            time,
            cpu: row.cpu,
            thread: settled.thread(row.tid, time),
            stack: StackId::EMPTY,
            in_interrupt: Some(row.in_interrupt),
        });
    }
    out
}
