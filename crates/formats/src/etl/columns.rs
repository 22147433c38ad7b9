//! Rows of all buffers to the trace's columns, with threads, stacks and times settled.

use super::{
    clock::Clock,
    event::NOBODY,
    images::{SpaceId, Spaces},
    join::{Joined, Target},
    parts::Parts,
    rows::{Chunk, Ready, Sample, Switch},
    tasks::ProcessIndex,
};
use crate::perf_data::tasks::ThreadIndex;
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use unhitch_model::{
    FrameId, ProcessId, Samples, StackId, Switches, TaskState, ThreadId, Threads, Time, Trace, WaitReason, WakeFlags, Wakings,
};

/// The rows of one kind of all buffers, by time. Buffers come by CPU and time, so that they are a few long runs, which a merging sort
/// likes.
pub(super) fn by_time<T: Copy + Send>(
    chunks: &mut [Chunk],
    rows: impl Fn(&mut Chunk) -> &mut Vec<T>,
    ticks: impl Fn(&T) -> i64 + Sync,
) -> Vec<T> {
    let mut all = Vec::with_capacity(chunks.iter_mut().map(|chunk| rows(chunk).len()).sum());
    for chunk in chunks {
        all.append(rows(chunk));
        *rows(chunk) = Vec::new();
    }
    all.par_sort_by_key(ticks);
    all
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

    /// The thread on `cpu` just before `ticks`, which must not decrease from call to call; [`NOBODY`] where no switch tells.
    pub(super) fn before(&mut self, ticks: i64, cpu: u16) -> u32 {
        while let Some(switch) = self.switches.get(self.next).filter(|switch| switch.ticks < ticks) {
            self.current.insert(switch.cpu, switch.new_tid);
            self.next += 1;
        }
        self.current.get(&cpu).copied().unwrap_or(NOBODY)
    }
}

/// What turns the file's numbers into the trace's.
pub(super) struct Settled<'a> {
    pub clock: Clock,
    pub threads: ThreadIndex,
    pub processes: &'a ProcessIndex,
    pub spaces: &'a Spaces,
    pub parts: &'a Parts,
    known: FxHashMap<(Joined, [u32; 2], SpaceId), StackId>,
    frames: FxHashMap<(u32, SpaceId, u32, bool), Box<[FrameId]>>,
}

impl<'a> Settled<'a> {
    pub(super) fn new(clock: Clock, threads: &Threads, processes: &'a ProcessIndex, spaces: &'a Spaces, parts: &'a Parts) -> Self {
        let (known, frames) = (FxHashMap::default(), FxHashMap::default());
        Self { clock, threads: ThreadIndex::new(threads), processes, spaces, parts, known, frames }
    }

    #[inline]
    pub(super) fn thread(&self, tid: u32, time: Time) -> ThreadId {
        if tid == 0 || tid == NOBODY { ThreadId::IDLE } else { self.threads.at(tid, time) }
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
        if let Some(&stack) = self.known.get(&key) {
            return stack;
        }
        let mut frames = Vec::new();
        self.part(joined.kernel, SpaceId::KERNEL, joined.pid, epochs[0], time, &mut frames, trace);
        let kernel_len = u16::try_from(frames.len()).unwrap_or(u16::MAX);
        self.part(joined.user, space, joined.pid, epochs[1], time, &mut frames, trace);
        let stack = trace.stacks.intern(&frames, kernel_len);
        self.known.insert(key, stack);
        stack
    }

    #[allow(clippy::too_many_arguments, reason = "all of it decides what an address means")]
    fn part(&mut self, part: u32, space: SpaceId, pid: u32, epoch: u32, time: Time, frames: &mut Vec<FrameId>, trace: &mut Trace) {
        let innermost = frames.is_empty();
        let resolved = self.frames.entry((part, space, epoch, innermost)).or_insert_with(|| {
            let words = self.parts.words(part).iter().enumerate();
            // All but the innermost are return addresses: the call is before them.
            let call = |index: usize, avma: u64| if innermost && index == 0 { avma } else { avma.wrapping_sub(1) };
            words.map(|(index, avma)| self.spaces.frame(space, pid, call(index, *avma), time, trace)).collect()
        });
        frames.extend_from_slice(resolved);
    }

    /// A stack of one instruction.
    fn instruction(&mut self, avma: u64, pid: u32, time: Time, trace: &mut Trace) -> StackId {
        let process = self.processes.at(pid, time).unwrap_or(ProcessId(0));
        let frame = self.spaces.frame(SpaceId::of(process), pid, avma, time, trace);
        trace.stacks.intern(&[frame], u16::from(self.spaces.is_kernel(avma)))
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
    readies.iter().map(|row| Target { ticks: row.ticks, tid: by(row, &mut running), cpu: row.cpu }).collect()
}

pub(super) fn targets_of_samples(samples: &[Sample]) -> Vec<Target> {
    samples.iter().map(|row| Target { ticks: row.ticks, tid: row.tid, cpu: row.cpu }).collect()
}

/// ETW tells the stack of the thread that comes on: where it had waited. The trace has it at the switch with which that wait began.
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
        state::INITIALIZED | state::READY | state::RUNNING | state::STANDBY | state::DEFERRED_READY => TaskState::Runnable,
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

pub(super) fn switches(rows: &[Switch], waits: &[Joined], settled: &mut Settled<'_>, trace: &mut Trace) -> Switches {
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
        stack: Vec::with_capacity(len),
    };
    for (row, wait) in rows.iter().zip(waits) {
        let time = settled.clock.time(row.ticks);
        out.time.push(time);
        out.cpu.push(row.cpu);
        out.prev.push(settled.thread(row.old_tid, time));
        out.next.push(settled.thread(row.new_tid, time));
        out.prev_state.push(task_state(row));
        out.prev_reason.push(WaitReason::new(row.wait_reason, row.wait_mode & 1 == 1));
        out.prev_prio.push(priority(row.old_priority));
        out.next_prio.push(priority(row.new_priority));
        out.stack.push(settled.stack(*wait, time, trace));
    }
    out
}

pub(super) fn wakings(
    rows: &[Ready],
    targets: &[Target],
    joined: &[Joined],
    switches: &[Switch],
    settled: &mut Settled<'_>,
    trace: &mut Trace,
) -> Wakings {
    let mut out = Wakings::default();
    let target_cpus = target_cpus(rows, switches);
    let mut ran: FxHashSet<ThreadId> = FxHashSet::default();
    let mut switches = switches.iter().peekable();
    for (((row, target), stack), target_cpu) in rows.iter().zip(targets).zip(joined).zip(target_cpus) {
        let time = settled.clock.time(row.ticks);
        while let Some(switch) = switches.next_if(|switch| switch.ticks < row.ticks) {
            ran.insert(settled.thread(switch.new_tid, settled.clock.time(switch.ticks)));
        }
        let by = if target.tid == NOBODY && *stack != Joined::default() { stack.tid } else { target.tid };
        let wakee = settled.thread(row.tid, time);
        let mut flags = WakeFlags::default();
        if row.in_dpc {
            flags = flags.with(WakeFlags::HARDIRQ);
        }
        // The first time that a thread is ready which was seen to start.
        if trace.threads.get(wakee).start.is_some() && ran.insert(wakee) {
            flags = flags.with(WakeFlags::NEW);
        }
        out.time.push(time);
        out.cpu.push(row.cpu);
        out.waker.push(settled.thread(by, time));
        out.wakee.push(wakee);
        out.target_cpu.push(target_cpu);
        out.flags.push(flags);
        out.stack.push(settled.stack(*stack, time, trace));
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

pub(super) fn samples(rows: &[Sample], joined: &[Joined], settled: &mut Settled<'_>, trace: &mut Trace) -> Samples {
    let mut out = Samples::default();
    for (row, stack) in rows.iter().zip(joined) {
        let time = settled.clock.time(row.ticks);
        let thread = settled.thread(row.tid, time);
        out.time.push(time);
        out.cpu.push(row.cpu);
        out.thread.push(thread);
        out.in_interrupt.push(row.in_interrupt);
        let stack = match settled.stack(*stack, time, trace) {
            StackId::EMPTY => {
                let pid = trace.threads.process_of(thread).pid;
                settled.instruction(row.instruction, pid, time, trace)
            }
            stack => stack,
        };
        out.stack.push(stack);
    }
    out
}
