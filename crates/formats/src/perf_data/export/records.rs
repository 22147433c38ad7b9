//! Turns the rows of a trace into SAMPLE records.

use super::super::{
    record::{self, MAX_FRAMES, Sample, SampleId},
    tracepoints::{self, CONTENTION_BEGIN, CONTENTION_END, SWITCH, Task, Tracepoint},
};
use super::describe::{CLOCK_ID, CLOCK_SAMPLE, TRACEPOINT_SAMPLE};
use super::selection::{Exported, Selection};
use crate::code_addresses::{Chain, CodeAddresses};
use rustc_hash::FxHashMap;
use unhitch_model::linux::USUAL_PRIO;
use unhitch_model::{ContentionKind, StackId, ThreadId, Time, Trace};

/// Encodes rows. The caller writes and clears the buffer.
pub(super) struct Records<'t> {
    trace: &'t Trace,
    addresses: CodeAddresses<'t>,
    /// The idle thread's name on each CPU, as the kernel has it.
    idle_names: Vec<String>,
    /// By thread: the CPU that it came on last, as long as it is there.
    cpu_of: FxHashMap<ThreadId, u16>,
    raw: Vec<u8>,
    out: Vec<u8>,
    pub(super) exported: Exported,
}

/// Which event a record belongs to, where, when, and with which stack.
#[derive(Clone, Copy)]
struct Head {
    time: Time,
    cpu: u16,
    current: ThreadId,
    stack: StackId,
}

impl<'t> Records<'t> {
    pub(super) fn new(trace: &'t Trace) -> Self {
        Self {
            trace,
            addresses: CodeAddresses::new(trace),
            idle_names: Vec::new(),
            cpu_of: FxHashMap::default(),
            raw: Vec::new(),
            out: Vec::new(),
            exported: Exported::default(),
        }
    }

    /// What was encoded since it was last cleared.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    pub(super) fn switch(&mut self, row: usize, selection: &Selection) {
        let of = &self.trace.switches;
        let (time, cpu) = (of.time[row], of.cpu[row]);
        let (prev, next) = (of.prev[row], of.next[row]);
        self.cpu_of.remove(&prev);
        self.cpu_of.insert(next, cpu);
        if !selection.has(&[prev, next]) {
            return;
        }
        self.name_idle(cpu);
        let mut tasks = [(prev, of.prev_prio[row]), (next, of.next_prio[row])]
            .map(|(thread, prio)| self.task(thread, time, prio));
        for task in tasks.iter_mut().filter(|task| task.tid == 0) {
            task.comm = self.idle_names[usize::from(cpu)].as_bytes();
        }
        tracepoints::switch(&mut self.raw, &tasks[0], of.prev_state[row], &tasks[1]);
        self.tracepoint(SWITCH, Head { time, cpu, current: prev, stack: of.stack[row] });
        self.exported.switches += 1;
    }

    pub(super) fn waking(&mut self, row: usize, selection: &Selection) {
        let of = &self.trace.wakings;
        let (time, cpu) = (of.time[row], of.cpu[row]);
        let (waker, wakee, context) = (of.waker[row], of.wakee[row], of.flags[row]);
        if !selection.has(&[waker, wakee]) {
            return;
        }
        let task = self.task(wakee, time, USUAL_PRIO);
        let waker_tid = self.trace.threads.get(waker).tid;
        tracepoints::waking(&mut self.raw, waker_tid, context, &task, of.target_cpu[row]);
        let head = Head { time, cpu, current: waker, stack: of.stack[row] };
        self.tracepoint(tracepoints::waking_tracepoint(context), head);
        self.exported.wakings += 1;
    }

    pub(super) fn contention(&mut self, row: usize, selection: &Selection) {
        let of = &self.trace.contentions;
        let (time, current) = (of.time[row], of.thread[row]);
        if !selection.has(&[current]) {
            return;
        }
        let Some(&cpu) = self.cpu_of.get(&current) else {
            self.exported.contentions_left_out += 1;
            return;
        };
        let tracepoint = match of.kind[row] {
            ContentionKind::Begin => CONTENTION_BEGIN,
            ContentionKind::End => CONTENTION_END,
        };
        let tid = self.trace.threads.get(current).tid;
        let (lock, detail) = (of.lock_avma[row], of.flags[row]);
        tracepoints::contention(&mut self.raw, &tracepoint, tid, lock, detail);
        self.tracepoint(tracepoint, Head { time, cpu, current, stack: of.stack[row] });
        self.exported.contentions += 1;
    }

    pub(super) fn sample(&mut self, row: usize, selection: &Selection) {
        let of = &self.trace.samples;
        let (time, cpu, current) = (of.time[row], of.cpu[row], of.thread[row]);
        if !selection.has(&[current]) {
            return;
        }
        self.raw.clear();
        let head = Head { time, cpu, current, stack: of.stack[row] };
        self.record(CLOCK_SAMPLE, CLOCK_ID, self.trace.meta.sample_period_ns, head);
        self.exported.samples += 1;
    }

    fn name_idle(&mut self, cpu: u16) {
        let known = self.idle_names.len();
        self.idle_names.extend((known..=usize::from(cpu)).map(|cpu| format!("swapper/{cpu}")));
    }

    fn task(&self, thread: ThreadId, time: Time, prio: i16) -> Task<'t> {
        let trace = self.trace;
        let tid = trace.threads.get(thread).tid;
        Task { comm: name(trace, thread, time).as_bytes(), tid, prio: i32::from(prio) }
    }

    fn tracepoint(&mut self, of: Tracepoint, head: Head) {
        self.record(TRACEPOINT_SAMPLE, u64::from(of.id), 1, head);
    }

    fn record(&mut self, sample_type: u64, id: u64, period: u64, head: Head) {
        let Head { time, cpu, current, stack } = head;
        let tid = self.trace.threads.get(current).tid;
        let pid = self.trace.threads.process_of(current).pid;
        let chain = self.addresses.chain(pid, time, stack);
        let Chain { kernel, user, left_out } = chain;
        self.exported.frames_left_out += left_out;
        self.exported.stacks_cut += u64::from(kernel.len() + user.len() > MAX_FRAMES);
        let kernel_frames = &kernel[..kernel.len().min(MAX_FRAMES)];
        let sample = Sample {
            id: SampleId { pid, tid, time, cpu: u32::from(cpu), id },
            ip: chain.leaf(),
            period,
            kernel_frames,
            user_frames: &user[..user.len().min(MAX_FRAMES - kernel_frames.len())],
            raw: &self.raw,
        };
        record::sample(&mut self.out, sample_type, &sample);
    }
}

/// The name that perf is to show for a thread. Windows names processes, and few threads.
pub(super) fn name(trace: &Trace, thread: ThreadId, time: Time) -> &str {
    match trace.thread_name(thread, time) {
        "" => trace.name(trace.threads.process_of(thread).name),
        name => name,
    }
}
