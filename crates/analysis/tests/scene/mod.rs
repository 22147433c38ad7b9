//! Traces written by hand: a few threads, their switches and wake-ups, with named stacks.

#![allow(dead_code)]

use unhitch_model::*;

/// A trace under construction. Times are microseconds; events may be given in any order.
#[derive(Default)]
pub struct Scene {
    pub trace: Trace,
    switches: Vec<(Time, u16, ThreadId, TaskState, ThreadId, StackId)>,
    wakings: Vec<(Time, u16, ThreadId, ThreadId, WakeFlags, StackId)>,
    samples: Vec<(Time, u16, ThreadId, StackId)>,
}

impl Scene {
    /// A thread (its own process when `pid` equals `tid`).
    pub fn thread(&mut self, pid: u32, tid: u32, name: &str) -> ThreadId {
        let name = self.trace.strings.intern(name);
        let known = self.trace.threads.at(pid, Time::MAX).map(|leader| self.trace.threads.get(leader).process);
        let process = known.unwrap_or_else(|| {
            let leader = ThreadId(self.trace.threads.len() as u32);
            self.trace.threads.add_process(Process { pid, leader, parent_pid: None, command_line: NameId::EMPTY })
        });
        self.trace.threads.add(Thread { tid, process, names: vec![(Time::ZERO, name)], start: None, end: None, policy: None, nice: None })
    }

    /// A stack by function names, root first; names in capitals' stead, kernel frames are those after `"|"`.
    pub fn stack(&mut self, names: &[&str]) -> StackId {
        let split = names.iter().position(|name| *name == "|");
        let kernel_len = split.map_or(0, |at| names.len() - at - 1);
        let mut frames: Vec<FrameId> = Vec::new();
        for name in names.iter().rev().filter(|name| **name != "|") {
            let function = self.trace.strings.intern(name);
            let kernel = frames.len() < kernel_len;
            let path = self.trace.strings.intern(if kernel { "[kernel]" } else { "/usr/bin/scene" });
            let kind = if kernel { ModuleKind::Kernel } else { ModuleKind::File };
            let module = self.trace.modules.intern(Module { path, kind, build_id: Vec::new() });
            let frame = self.trace.stacks.intern_frame(Frame { module, offset: u64::from(function.0) });
            self.trace.symbols.set(frame, &[Symbol { function, file: NameId::EMPTY, line: 0 }]);
            frames.push(frame);
        }
        self.trace.stacks.intern(&frames, kernel_len as u16)
    }

    pub fn switch(&mut self, us: u64, cpu: u16, prev: ThreadId, state: TaskState, next: ThreadId, stack: StackId) -> &mut Self {
        self.switches.push((Time::from_nanos(us * 1000), cpu, prev, state, next, stack));
        self
    }

    pub fn wake(&mut self, us: u64, cpu: u16, waker: ThreadId, wakee: ThreadId, flags: WakeFlags, stack: StackId) -> &mut Self {
        self.wakings.push((Time::from_nanos(us * 1000), cpu, waker, wakee, flags, stack));
        self
    }

    pub fn sample(&mut self, us: u64, cpu: u16, thread: ThreadId, stack: StackId) -> &mut Self {
        self.samples.push((Time::from_nanos(us * 1000), cpu, thread, stack));
        self
    }

    /// The finished trace, covering `[0, end)` microseconds on `cpus` CPUs; later events are not recorded.
    pub fn finish(mut self, cpus: u16, end_us: u64) -> Trace {
        let end = Time::from_nanos(end_us * 1000);
        self.switches.retain(|event| event.0 < end);
        self.wakings.retain(|event| event.0 < end);
        self.samples.retain(|event| event.0 < end);
        self.switches.sort_by_key(|event| event.0);
        self.wakings.sort_by_key(|event| event.0);
        self.samples.sort_by_key(|event| event.0);
        let trace = &mut self.trace;
        for (time, cpu, prev, state, next, stack) in self.switches {
            trace.switches.time.push(time);
            trace.switches.cpu.push(cpu);
            trace.switches.prev.push(prev);
            trace.switches.next.push(next);
            trace.switches.prev_state.push(state);
            trace.switches.prev_prio.push(120);
            trace.switches.next_prio.push(120);
            trace.switches.stack.push(stack);
        }
        for (time, cpu, waker, wakee, flags, stack) in self.wakings {
            trace.wakings.time.push(time);
            trace.wakings.cpu.push(cpu);
            trace.wakings.waker.push(waker);
            trace.wakings.wakee.push(wakee);
            trace.wakings.target_cpu.push(cpu);
            trace.wakings.flags.push(flags);
            trace.wakings.stack.push(stack);
        }
        for (time, cpu, thread, stack) in self.samples {
            trace.samples.time.push(time);
            trace.samples.cpu.push(cpu);
            trace.samples.thread.push(thread);
            trace.samples.stack.push(stack);
        }
        let window = Window::new(Time::ZERO, end);
        trace.spans = (0..cpus).map(|cpu| CpuSpan { cpu, window }).collect();
        self.trace
    }
}
